"""Which small fragments a write folds into one.

A one-row commit adds a one-row fragment. Fragments have levels by their rows (powers of FOLD_WIDTH); the write that finds
FOLD_WIDTH fragments on a level folds them into one fragment of a higher level, which may fill that level in turn. So a table has
at most FOLD_WIDTH fragments per level, their number grows with the logarithm of the number of commits, and each row is rewritten
once per level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omnigraph.tables.fragment import Fragment

FOLD_WIDTH = 8
MAX_FOLD_ROWS = 128 * 1024
MAX_FOLD_BYTES = 64 * 1024 * 1024
"""Fragments at or beyond these limits are left to compaction."""


def level_of(rows: int) -> int:
    level = 0
    while rows >= FOLD_WIDTH:
        rows //= FOLD_WIDTH
        level += 1
    return level


def fragments_to_fold(fragments: Sequence[Fragment], busy: Iterable[int] = ()) -> tuple[Fragment, ...]:
    """The fragments to fold now, in table order; () for most writes. `busy` fragments are being changed by the write itself."""
    occupied = set(busy)
    levels: dict[int, list[Fragment]] = {}
    for fragment in fragments:
        small = fragment.rows < MAX_FOLD_ROWS and fragment.bytes < MAX_FOLD_BYTES
        if fragment.id not in occupied and small:
            levels.setdefault(level_of(fragment.rows), []).append(fragment)
    chosen: list[Fragment] = []
    carried_rows = carried_bytes = 0
    for level in sorted(levels):
        members = levels[level]
        fills = len(members) + (1 if chosen and level_of(carried_rows) == level else 0) >= FOLD_WIDTH
        if not fills:
            if chosen:
                break
            continue
        rows = carried_rows + sum(fragment.rows for fragment in members)
        size = carried_bytes + sum(fragment.bytes for fragment in members)
        if rows > MAX_FOLD_ROWS * FOLD_WIDTH or size > MAX_FOLD_BYTES * FOLD_WIDTH:
            break
        chosen.extend(members)
        carried_rows, carried_bytes = rows, size
    ids = {fragment.id for fragment in chosen}
    return tuple(fragment for fragment in fragments if fragment.id in ids)
