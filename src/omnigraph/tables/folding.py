"""Which small parts a write folds into one.

A one-row commit adds a one-row part. Parts are levelled by rows (powers of FOLD_WIDTH); a level that has reached
FOLD_WIDTH parts is folded into one part of a higher level by the write that finds it so, and may fill that level in
turn. So a table has at most FOLD_WIDTH parts a level, their number grows with the logarithm of the number of commits,
and each row is rewritten once a level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omnigraph.tables.table import Part

FOLD_WIDTH = 8
FOLD_ROWS_MOST = 128 * 1024
FOLD_BYTES_MOST = 64 * 1024 * 1024
"""Parts at or beyond these are left to compaction on Spark."""


def level_of(rows: int) -> int:
    level = 0
    while rows >= FOLD_WIDTH:
        rows //= FOLD_WIDTH
        level += 1
    return level


def parts_to_fold(parts: Sequence[Part], busy: Iterable[int] = ()) -> tuple[Part, ...]:
    """The parts to fold now, in table order; () for most writes. `busy` parts are changed by the write itself."""
    occupied = set(busy)
    levels: dict[int, list[Part]] = {}
    for part in parts:
        small = part.rows < FOLD_ROWS_MOST and part.bytes < FOLD_BYTES_MOST
        if part.id not in occupied and small:
            levels.setdefault(level_of(part.rows), []).append(part)
    chosen: list[Part] = []
    carried_rows = carried_bytes = 0
    for level in sorted(levels):
        members = levels[level]
        fills = len(members) + (1 if chosen and level_of(carried_rows) == level else 0) >= FOLD_WIDTH
        if not fills:
            if chosen:
                break
            continue
        rows = carried_rows + sum(part.rows for part in members)
        size = carried_bytes + sum(part.bytes for part in members)
        if rows > FOLD_ROWS_MOST * FOLD_WIDTH or size > FOLD_BYTES_MOST * FOLD_WIDTH:
            break
        chosen.extend(members)
        carried_rows, carried_bytes = rows, size
    ids = {part.id for part in chosen}
    return tuple(part for part in parts if part.id in ids)
