"""The differences between two snapshots, entity by entity. The cost depends on what changed: tables at the same version are not
opened, fragments that both versions share are not read, and rows that were only rewritten are dropped.

The order is fixed: nodes, then edges; then by type id; then by entity id; insert before update before delete.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.changes.entity_changes import EVERYTHING, KINDS, OPS, ChangeFilter, EntityChange, TypeChanges, type_id_of
from omnigraph.changes.stored_rows import MIN_CHUNK_ROWS, CarriedChange, TypeRows, chunk_rows, typed_rows_at
from omnigraph.changes.table_diff import DELETE, INSERT, SAME, UPDATE, changes_in_order
from omnigraph.history.values import TableState
from omnigraph.language.catalog import Catalog, EntityType
from omnigraph.language.projection import TypePair, kind_of, type_pairs, wider_entity
from omnigraph.snapshot import View
from omnigraph.tasks.runner import IN_PROCESS, ExchangingWorkers
from omnigraph.values.arrow import entity_values

ROWS_PER_STEP = 8_192


@dataclass(frozen=True)
class ChangePosition:
    """The position of a change in the order. A very long id is stored as its prefix and a digest."""

    kind: str
    type_id: str
    id: str
    digest: str | None = None

    @property
    def type_order(self) -> tuple[int, str]:
        return (KINDS.index(self.kind), self.type_id)

    def first_after(self, ids: Sequence[str]) -> int | None:
        """The index of the first of these sorted ids that comes after this position; None if the position is behind all of them, or is
        that of a very long id that is not among them."""
        if self.digest is None:
            place = bisect_right(ids, self.id)
            return place if place < len(ids) else None
        for index in range(bisect_left(ids, self.id), len(ids)):
            if id_digest(ids[index]) == self.digest:
                return index + 1
        return None


def id_digest(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()


def diff(
    before: View,
    after: View,
    *,
    only: ChangeFilter = EVERYTHING,
    resume: ChangePosition | None = None,
    workers: ExchangingWorkers = IN_PROCESS,
) -> Iterator[EntityChange]:
    """The changes from one snapshot to the other, after the position `resume` if given.

    Under different schemas, properties with the same identity are compared, whatever their names, and shown under the names of the
    later schema; a property that only one schema has is not a change, but values that come back with a property that was dropped are.
    Entities of a type that was dropped count as deleted.
    """
    for earlier, later in changed_types(before, after, only, resume):
        tables = _wanted_rows(earlier, later, only, workers)
        if resume is not None and type_order(later.entity) == resume.type_order:
            tables = _after(resume, tables)
        for rows in tables:
            for step in in_steps(earlier, later, rows):
                yield from entity_changes(earlier, later, step)


def changed_types(
    before: View, after: View, only: ChangeFilter, resume: ChangePosition | None = None
) -> Iterator[tuple[TypeRows, TypeRows]]:
    """The requested types that may have changed, in order, with their rows on both sides."""
    pairs = sorted(type_pairs(before.catalog, after.catalog), key=lambda pair: type_order(pair.entity))
    for pair in pairs:
        order = type_order(pair.entity)
        if not only.wants_type(pair.entity) or (resume is not None and order < resume.type_order):
            continue
        sides = _sides(before, after, pair)
        if sides is not None:
            yield sides


def type_order(entity: EntityType) -> tuple[int, str]:
    return (KINDS.index(kind_of(entity)), type_id_of(entity))


def same_state(a: TableState | None, b: TableState | None) -> bool:
    """Whether two snapshots have the same rows in a table, judging by metadata. An absent table counts as empty."""
    if a is None or b is None:
        return (a.rows if a else 0) == (b.rows if b else 0) == 0
    return a.content == b.content


def rows_in(view: View, entity: EntityType) -> TypeRows:
    return TypeRows(entity, view.table(entity.table_key))


def _sides(before: View, after: View, pair: TypePair) -> tuple[TypeRows, TypeRows] | None:
    """The type's rows on both sides; None if nothing can have changed."""
    old = None if pair.before is None else before.state(pair.before.table_key)
    new = None if pair.after is None else after.state(pair.after.table_key)
    comes_back = _comes_back(before.catalog, pair)
    if same_state(old, new) and not (comes_back and new is not None):
        return None
    if pair.after is None:
        assert pair.before is not None, "a pair has at least one side"
        return rows_in(before, pair.before), TypeRows(pair.before, None)
    carried = None if old is None or new is None else _carried(before, after, old, new)
    earlier = TypeRows(pair.after, None) if pair.before is None else rows_in(before, pair.before)
    return earlier, replace(rows_in(after, pair.after), carried=carried, shares_nothing=comes_back)


def _comes_back(before: Catalog, pair: TypePair) -> bool:
    """Whether the later state has a property that was dropped before the earlier one, with the values that are still stored."""
    if pair.before is None or pair.after is None:
        return False
    had = {property.id for property in pair.before.properties.values()}
    added = {property.id for property in pair.after.properties.values()} - had
    return any(id < before.next_id or id in before.retired for id in added)


def _carried(before: View, after: View, old: TableState, new: TableState) -> CarriedChange | None:
    """The change that the commit holds inline, if that is its whole change to the table: only mutations make such states."""
    commit = after.snapshot.commit
    if not new.inline or commit.kind != "mutation" or commit.parents != (before.snapshot.commit.ref,):
        return None
    change = new.inline[-1]
    return CarriedChange(change, old.rows + len(change.rows) - new.rows)


def change_counts(
    before: View, after: View, *, only: ChangeFilter = EVERYTHING, workers: ExchangingWorkers = IN_PROCESS
) -> list[TypeChanges]:
    """How many entities of each changed type changed: nodes, then edges, by name."""
    type_changes = []
    for earlier, later in changed_types(before, after, only):
        counts: Counter[int] = Counter()
        for rows in _wanted_rows(earlier, later, only, workers):
            counted = pc.value_counts(rows.column("op").combine_chunks())
            counts.update({int(entry["values"]): int(entry["counts"]) for entry in counted.to_pylist()})
        if counts:
            numbers = (counts[op] for op in (INSERT, UPDATE, DELETE))
            type_changes.append(TypeChanges(kind_of(later.entity), later.entity.name, *numbers))
    return sorted(type_changes, key=lambda changes: (KINDS.index(changes.kind), changes.type_name))


def count_changes(before: View, after: View, only: ChangeFilter = EVERYTHING) -> int:
    """The number of changes between two snapshots. Reads ids, and compares rows that were rewritten."""
    types = changed_types(before, after, only)
    return sum(rows.num_rows for earlier, later in types for rows in _wanted_rows(earlier, later, only, IN_PROCESS))


def _after(resume: ChangePosition, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The rows after a position, of tables whose ids ascend from one table to the next."""
    for rows in tables:
        if (place := resume.first_after(rows.column("id").to_pylist())) is not None:
            yield rows.slice(place)
            yield from tables


def _wanted_rows(
    before: TypeRows, after: TypeRows, only: ChangeFilter, workers: ExchangingWorkers
) -> Iterator[pa.Table]:
    """The changed rows of a type that the filter selects, in order."""
    for rows in map(really_changed, changes_in_order(before, after, workers)):
        if only.ops is not None:
            wanted = [number for number, op in enumerate(OPS) if op in only.ops]
            rows = rows.filter(pc.is_in(rows.column("op"), pa.array(wanted, pa.int8())))
        if only.ids is not None:
            rows = rows.filter(pc.is_in(rows.column("id"), pa.array(sorted(only.ids), pa.utf8())))
        yield rows


def really_changed(rows: pa.Table) -> pa.Table:
    """The rows without those that were only rewritten."""
    return rows.filter(pc.not_equal(rows.column("op"), SAME))


def in_steps(before: TypeRows, after: TypeRows, rows: pa.Table) -> Iterator[pa.Table]:
    """Changed rows in pieces whose content fits in memory."""
    step = (
        rows.num_rows if rows.num_rows <= MIN_CHUNK_ROWS else min(ROWS_PER_STEP, chunk_rows(before.table, after.table))
    )
    for start in range(0, rows.num_rows, max(step, 1)):
        yield rows.slice(start, step)


def entity_changes(before: TypeRows, after: TypeRows, rows: pa.Table) -> Iterator[EntityChange]:
    """The changes for rows of `changed_rows`, with the entities before and after."""
    entity = after.entity
    # A value that does not fit the later, narrower type is shown as it was.
    old = iter(entity_values(typed_rows_at(before, rows.column("before"), wider_entity(before.entity, entity))))
    new = iter(entity_values(typed_rows_at(after, rows.column("after"), entity)))
    kind = kind_of(entity)
    type_id = type_id_of(entity)
    for id, op in zip(rows.column("id").to_pylist(), rows.column("op").to_pylist(), strict=True):
        yield EntityChange(
            kind=kind,
            type_name=entity.name,
            type_id=type_id,
            id=id,
            op=OPS[op],
            before=None if op == INSERT else next(old),
            after=None if op == DELETE else next(new),
        )
