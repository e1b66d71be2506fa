"""The colours of node types, the same in every picture and in the studio. People who do not see all colours can tell them apart."""

from __future__ import annotations

from collections.abc import Iterable

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d46", "#999933")


def type_colours(names: Iterable[str]) -> dict[str, str]:
    """The colour of each type, in the order of the schema: the one that its name hashes to or, if an earlier type has that, the
    next free one. A type that is added at the end changes no colour."""
    colours: dict[str, str] = {}
    taken: set[int] = set()
    for name in names:
        if len(taken) == len(PALETTE):
            taken.clear()
        slot = _hash(name) % len(PALETTE)
        while slot in taken:
            slot = (slot + 1) % len(PALETTE)
        taken.add(slot)
        colours[name] = PALETTE[slot]
    return colours


def _hash(text: str) -> int:
    """FNV-1a, 32 bits: short enough to be the same in the page, which is written in another language."""
    value = 0x811C9DC5
    for byte in text.encode("utf-8"):
        value = (value ^ byte) * 0x01000193 % 2**32
    return value
