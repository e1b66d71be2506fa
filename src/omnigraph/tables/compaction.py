"""Compaction: many parts, or parts with many deletions, written again as few large ones. The rows stay as they are.

The same change as a fold, in the large: old parts removed, new ones added, indexes built for the new ones. Each group of
parts can be written anywhere; one detached version then takes them all in.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.tables.staging import ROWS_PER_PART, Staged, replace_parts, write_parts
from omnigraph.tables.table import Table

DELETED_SHARE_MOST = 0.1
"""A part that has lost more of its rows than this is written again."""

Group = tuple[int, ...]


def plan_rewrite(base: Table) -> list[Group]:
    """Groups of part ids worth rewriting, each into one part; [] when the table is in good shape."""
    groups: list[Group] = []
    group: list[int] = []
    rows = 0
    worn = {part.id for part in base.parts if part.deletions and _lost(base, part.id) > DELETED_SHARE_MOST}
    for part in base.parts:
        if part.rows >= ROWS_PER_PART // 2 and part.id not in worn:
            continue
        if group and rows + part.rows > ROWS_PER_PART:
            groups.append(tuple(group))
            group, rows = [], 0
        group.append(part.id)
        rows += part.rows
    groups.append(tuple(group))
    return [one for one in groups if len(one) > 1 or set(one) & worn]


def rewrite(base: Table, group: Group) -> tuple[str, ...]:
    """Write one group's rows anew, as a stream; nothing is visible yet."""
    return write_parts(base, base.scan(parts=group))


def stage_rewrite(base: Table, groups: Sequence[Group], written: Sequence[str]) -> tuple[Table, Staged]:
    """One detached version in which the parts `written` stand for the groups."""
    table, staged = replace_parts(base, [part for group in groups for part in group], written)
    assert table.rows == base.rows, "compaction keeps every row"
    return table, staged


def _lost(base: Table, part: int) -> float:
    fragment = base.dataset.get_fragment(part)
    return float(fragment.num_deletions / max(fragment.physical_rows, 1))
