"""Compaction: many fragments, or fragments with many deletions, written again as few large ones. The rows stay as they are.

The same change as a fold, in the large: old fragments removed, new ones added, indexes built for the new ones. Each group of
fragments can be written anywhere; one detached version then takes them all in.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.tables.staging import ROWS_PER_FRAGMENT, Staged, replace_fragments, write_fragments
from omnigraph.tables.table import Table

MAX_DELETED_SHARE = 0.1
"""A fragment that has lost more of its rows than this is written again."""

Group = tuple[int, ...]


def plan_rewrite(base: Table) -> list[Group]:
    """Groups of fragment ids worth rewriting, each into one fragment; [] when the table is in good shape."""
    groups: list[Group] = []
    group: list[int] = []
    rows = 0
    worn = {
        fragment.id
        for fragment in base.fragments
        if fragment.deletions and _lost(base, fragment.id) > MAX_DELETED_SHARE
    }
    for fragment in base.fragments:
        if fragment.rows >= ROWS_PER_FRAGMENT // 2 and fragment.id not in worn:
            continue
        if group and rows + fragment.rows > ROWS_PER_FRAGMENT:
            groups.append(tuple(group))
            group, rows = [], 0
        group.append(fragment.id)
        rows += fragment.rows
    groups.append(tuple(group))
    return [group for group in groups if len(group) > 1 or set(group) & worn]


def rewrite(base: Table, group: Group) -> tuple[str, ...]:
    """Write one group's rows anew, as a stream; nothing is visible yet."""
    return write_fragments(base, base.scan(fragments=group))


def stage_rewrite(base: Table, groups: Sequence[Group], written: Sequence[str]) -> tuple[Table, Staged]:
    """One detached version in which the fragments `written` stand for the groups."""
    table, staged = replace_fragments(base, [fragment for group in groups for fragment in group], written)
    assert table.rows == base.rows, "compaction keeps every row"
    return table, staged


def _lost(base: Table, fragment_id: int) -> float:
    fragment = base.dataset.get_fragment(fragment_id)
    return float(fragment.num_deletions / max(fragment.physical_rows, 1))
