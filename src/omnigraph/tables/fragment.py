"""Fragments of a table, and addresses of rows in them."""

from __future__ import annotations

from dataclasses import dataclass

ROW_ADDRESS = "_rowaddr"
ROW_ID = "_rowid"
OFFSET_BITS = 32
"""A row address is a fragment's id, followed by this many bits of offset."""


@dataclass(frozen=True)
class Fragment:
    """A run of rows of a table. Two versions that share a fragment (equal `content`) share its rows exactly."""

    id: int
    files: tuple[str, ...]
    deletions: str
    rows: int
    bytes: int

    @property
    def content(self) -> tuple[tuple[str, ...], str]:
        return (self.files, self.deletions)


def fragment_of_address(address: int) -> int:
    """The fragment of a row address."""
    return address >> OFFSET_BITS


def offset_of_address(address: int) -> int:
    return address & ((1 << OFFSET_BITS) - 1)
