"""Merges the schemas of two branches, before any rows: all snapshots are then read under the merged schema.

No rows are rewritten. The merged schema knows the columns in which either branch stores a property, so a table version that was
written under any of the schemas can be read under the merged one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.changes.diff import same_state
from omnigraph.changes.stored_rows import TypeRows, chunk_rows, typed_rows_at
from omnigraph.changes.table_diff import DELETE, INSERT, SAME, ComparedPair, aligned, changed_rows, equal_values
from omnigraph.errors import HistoryGap
from omnigraph.history.revisions import snapshot_in
from omnigraph.history.values import Commit, Entry, TableState
from omnigraph.language.catalog import Catalog, EdgeType, EntityType
from omnigraph.language.projection import wider_entity
from omnigraph.language.schema.merging import SchemaConflict, Side, Strategy, merge_schemas
from omnigraph.language.schema.stable_ids import ids_of
from omnigraph.snapshot import Repository, View
from omnigraph.tables.lost_rows import rows_with, without_addresses
from omnigraph.tables.staging import Staged
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import IN_PROCESS, ExchangingWorkers
from omnigraph.values.inline_rows import NO_INLINE

# The commits where two branches diverged (several if merges crossed), and the differences between snapshots.


@dataclass(frozen=True)
class Bases:
    """The best common ancestors of two heads, newest first."""

    heads: tuple[Entry, Entry]
    commits: tuple[Commit, ...]
    views: tuple[View, ...]

    def agree_on(self, type_id: int) -> bool:
        """Whether all bases have the same rows of a type, judging by metadata."""
        first = state_of(self.views[0], type_id)
        return all(same_state(first, state_of(view, type_id)) for view in self.views[1:])

    def moved(self, view: View) -> frozenset[int]:
        """The types whose rows in a snapshot differ from those of at least one base."""
        return frozenset(
            type_id
            for type_id in view.catalog.by_id
            if not all(same_state(state_of(view, type_id), state_of(base, type_id)) for base in self.views)
        )


def find_bases(repository: Repository, a: Entry, b: Entry) -> Bases:
    """The bases of a merge of `a` into `b`. HistoryGap if one was removed: cleanup keeps them now, and did not always."""
    try:
        bases = repository.history.lineage.merge_bases(a, b)
        views = tuple(repository.view(snapshot_in(entry, commit.ref)) for commit, entry in bases)
    except HistoryGap as gap:
        raise HistoryGap(
            f"cleanup has removed the commit at which '{a.branch}' and '{b.branch}' parted, so it is not known which of them changed what",
            branch=gap.branch,
            watermark=gap.watermark,
            commit_id=gap.commit_id,
            hint=f"bring the content over: 'branch create NEW --from {b.branch}', 'branch reset NEW {a.branch}'; 'diff {b.branch} NEW' shows "
            f"every difference: undo on NEW what {b.branch} should keep, and 'branch merge NEW --into {b.branch}'",
        ) from gap
    return Bases((a, b), tuple(commit for commit, _ in bases), views)


class Differences:
    """The differences between versions of a type's table. Each pair is compared once, even if a merge is attempted several times."""

    def __init__(self, workers: ExchangingWorkers = IN_PROCESS) -> None:
        self.workers = workers
        self._rows: dict[tuple[int, Table | None, Table | None], pa.Table] = {}

    def of(self, pair: ComparedPair) -> pa.Table:
        """Columns id, op, before and after (addresses), including rows that were only rewritten."""
        type_id, before, after = pair.after.entity.id, pair.before.table, pair.after.table
        rows = self._rows.get((type_id, before, after))
        if rows is None:
            back = self._rows.get((type_id, after, before))
            rows = changed_rows(pair.before, pair.after, self.workers) if back is None else _reversed(back)
            self._rows[type_id, before, after] = rows
        return rows


def _reversed(rows: pa.Table) -> pa.Table:
    """The changes in the opposite direction."""
    op = rows.column("op")
    back = pc.if_else(pc.equal(op, INSERT), DELETE, pc.if_else(pc.equal(op, DELETE), INSERT, op)).cast(pa.int8())
    columns = [rows.column("id"), back, rows.column("after"), rows.column("before")]
    return pa.table(dict(zip(("id", "op", "before", "after"), columns, strict=True)))


def state_of(view: View, type_id: int) -> TableState | None:
    entity = view.catalog.by_id.get(type_id)
    return None if entity is None else view.state(entity.table_key)


def type_rows(view: View, type_id: int) -> TypeRows | None:
    """A type's rows in a snapshot; None if its schema does not have the type."""
    entity = view.catalog.by_id.get(type_id)
    return None if entity is None else TypeRows(entity, view.table(entity.table_key))


# Brings back the values of properties that a side of a merge dropped and the merged schema declares.
#
# Dropping a property changes no row, so its values are those of the state that still declares it. Most rows still have them, in
# columns that are read again under the merged schema; rows that were rewritten since the drop are given theirs here.


@dataclass(frozen=True)
class SideView:
    """A state under the merged schema, and the schema that it had."""

    view: View
    catalog: Catalog


def with_dropped_values(side: SideView, others: Sequence[SideView], bases: Sequence[Catalog]) -> View:
    """The state with the values that its rows had before their properties were dropped, taken from the first of the other states
    that declares them. A property that no base knows was added after the branches parted: the other branch's values never were
    this side's. What is rewritten is staged and durable."""
    view, tables, staged = side.view, dict(side.view.snapshot.tables), list[Staged]()
    for key, entity in view.catalog.tables.items():
        for donor, names in _donors(side, others, bases, entity):
            table, values = view.table(key), donor.table(key)
            version = None if table is None or values is None else _restored(view, table, values, names)
            if version is not None:
                state = tables[key]
                tables[key] = TableState(
                    version.path, version.version, state.generation, version.rows, version.digest, NO_INLINE
                )
                staged.append(version)
                view = view.repository.view(replace(view.snapshot, tables=tables))
    view.repository.tables.sync(staged)
    return view


def _donors(
    side: SideView, others: Sequence[SideView], bases: Sequence[Catalog], entity: EntityType
) -> list[tuple[View, list[str]]]:
    """The states that still declare properties of a type that the side dropped, with the names of these properties."""
    own = side.catalog.by_id.get(entity.id)
    if own is None:
        return []
    ids = {property.id for property in own.properties.values()}
    missing = {name: property.id for name, property in entity.properties.items() if property.id not in ids}
    # Any other property is one that the side never had.
    dropped = {
        name: id
        for name, id in missing.items()
        if _has_known(side.catalog, id) and any(_has_known(base, id) for base in bases)
    }
    donors = []
    for other in others:
        declared = other.catalog.by_id.get(entity.id)
        known = set() if declared is None else {property.id for property in declared.properties.values()}
        if names := [name for name, id in dropped.items() if id in known]:
            donors.append((other.view, names))
            dropped = {name: id for name, id in dropped.items() if name not in names}
    return donors


def _has_known(catalog: Catalog, id: int) -> bool:
    """Whether an id is, or once was, declared by a schema or one before it."""
    return id in catalog.retired or id < catalog.next_id or id in ids_of(catalog)


def _restored(view: View, table: Table, donor: Table, names: Sequence[str]) -> Staged | None:
    """A version in which the rows without columns for these properties have the values of the donor's rows; None if all rows
    have columns, or none of the others had a value."""
    assert table.layout is not None, "the table of a type has a layout"
    columns = [{stored for stored, _ in table.layout.by_name[name].stored} for name in names]
    rewritten = [
        fragment.id
        for fragment in table.fragments
        if any(stored.isdisjoint(table.held_columns[fragment.id]) for stored in columns)
    ]
    if not rewritten:
        return None
    rows = rows_with(table, donor.read(["id", *names]), rewritten)
    if not rows.num_rows:
        return None
    restored, addresses = without_addresses(rows)
    return view.repository.tables.stage(table, rows=restored, remove=addresses, fold=False)


@dataclass(frozen=True)
class MergedSchema:
    """The merged schema's hash and catalog, which may not be stored yet; or the conflicts."""

    hash: str
    catalog: Catalog
    conflicts: tuple[SchemaConflict, ...] = ()

    def view(self, view: View, base: View | None = None) -> View:
        """A snapshot read under this schema. A type that the snapshot dropped and the merge keeps has the rows of `base`."""
        if view.snapshot.schema == self.hash:
            return view
        tables = {}
        for entity in self.catalog.tables.values():
            holder = view if base is None or entity.id in view.catalog.by_id else base
            state = state_of(holder, entity.id)
            if state is not None:
                tables[entity.table_key] = state
        return view.repository.view(replace(view.snapshot, schema=self.hash, tables=tables))

    def has_rules_beyond(self, catalog: Catalog) -> bool:
        """Whether rows that satisfy the rules of another schema may break one of these."""
        known = catalog.by_id
        return any(
            _rules(self.catalog, entity) != _rules(catalog, known[entity.id])
            for entity in self.catalog.tables.values()
            if entity.id in known
        )


def merged_schema(bases: Bases, ours: View, theirs: View, strategy: Strategy, differences: Differences) -> MergedSchema:
    if ours.snapshot.schema == theirs.snapshot.schema:
        return MergedSchema(ours.snapshot.schema, ours.catalog)
    values = _NewValues(bases, {"ours": ours, "theirs": theirs}, differences)
    merge = merge_schemas(
        [view.catalog for view in bases.views],
        ours.catalog,
        theirs.catalog,
        strategy=strategy,
        has_new_values=values.has,
    )
    if merge.catalog is None:
        return MergedSchema(ours.snapshot.schema, ours.catalog, merge.conflicts)
    for side in (ours, theirs):
        if merge.catalog is side.catalog:
            return MergedSchema(side.snapshot.schema, side.catalog)
    return MergedSchema(ours.repository.cache_catalog(merge.catalog), merge.catalog)


@dataclass(frozen=True)
class _NewValues:
    """What the branches wrote since they diverged, each under its own schema."""

    bases: Bases
    sides: dict[Side, View]
    differences: Differences

    def has(self, side: Side, type_id: int, property_id: int | None) -> bool:
        """Whether a branch inserted entities of a type, or changed them, with a value of a property."""
        return any(
            self._is_written(base, self.sides[side], type_id, property_id)
            for base in self.bases.views
            if type_id in base.catalog.by_id
        )

    def _is_written(self, base: View, view: View, type_id: int, property_id: int | None) -> bool:
        before, after = type_rows(base, type_id), type_rows(view, type_id)
        assert before is not None, "both have the type"
        assert after is not None, "both have the type"
        rows = self.differences.of(ComparedPair(before, after))
        rows = rows.filter(pc.invert(pc.is_in(rows.column("op"), pa.array([DELETE, SAME], pa.int8()))))
        if property_id is None:
            return bool(rows.num_rows)
        (name,) = (property.name for property in after.entity.properties.values() if property.id == property_id)
        entity = wider_entity(before.entity, after.entity)
        step = chunk_rows(before.table, after.table)
        for start in range(0, rows.num_rows, step):
            chunk = rows.slice(start, step)
            old = typed_rows_at(before, chunk.column("before"), entity)
            new = typed_rows_at(after, chunk.column("after"), entity)
            if _has_other_values(chunk, old, new, name):
                return True
        return False


def _has_other_values(changes: pa.Table, old: pa.Table, new: pa.Table, name: str) -> bool:
    """Whether a value changed, or a new entity has a value."""
    inserted = changes.filter(pc.equal(changes.column("op"), INSERT)).column("id").combine_chunks()
    if aligned(new, inserted).column(name).null_count < len(inserted):
        return True
    kept = changes.filter(pc.not_equal(changes.column("op"), INSERT)).column("id").combine_chunks()
    return not equal_values(aligned(old, kept).column(name), aligned(new, kept).column(name)).all()


def _rules(catalog: Catalog, entity: EntityType) -> tuple[object, ...]:
    """The rules for a row of a type, independent of names. They include which properties are floats: a number must stay exact."""
    ids = {name: str(property.id) for name, property in entity.properties.items()}
    types = {property.id: property.type for property in entity.properties.values()}
    values = {(id, type.nullable, type.enum) for id, type in types.items() if type.enum or not type.nullable}
    constraints = {
        (
            constraint.kind,
            frozenset(ids.get(name, name) for name in constraint.fields),
            constraint.minimum,
            constraint.maximum,
            constraint.pattern,
        )
        for constraint in entity.constraints
        if constraint.kind != "index"
    }
    floats = {id for id, type in types.items() if type.scalar.is_float}
    if not isinstance(entity, EdgeType):
        return values, constraints, floats
    return (
        values,
        constraints,
        floats,
        entity.min_out,
        entity.max_out,
        tuple(node.id for _, _, node in catalog.ends(entity)),
    )
