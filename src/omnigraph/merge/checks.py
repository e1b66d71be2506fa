"""Checks the merged graph against the rules of the schema, as for any write; every violation is a conflict.

Each branch by itself satisfies the rules of its schema. If both have the same schema, two rows can break a rule together only if one
comes from the incoming branch and the other was changed by the current branch. An edge can lose its node only if one branch adds the
edge and the other removes the node. A node can have too many or too few edges only if both branches changed the node or its edges.
`SharedSchemaRows` supplies only those rows; `MergedRows` looks everything up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.changes.stored_rows import TypeRows, chunk_rows, rows_at
from omnigraph.errors import InputError
from omnigraph.history.values import TableState
from omnigraph.language.catalog import EdgeType, EntityType, Property
from omnigraph.language.projection import arrow_schema
from omnigraph.language.schema.merging import SchemaConflict
from omnigraph.merge.conflicts import MergeConflict
from omnigraph.merge.schemas import Bases, MergedSchema, type_rows
from omnigraph.merge.type_merge import TypeMerge
from omnigraph.rules.cardinality import CardinalityCheck
from omnigraph.rules.check import Check, Need
from omnigraph.rules.endpoints import DanglingCheck, EndpointCheck
from omnigraph.rules.keys import KeyCheck
from omnigraph.rules.planning import Change, plan_checks
from omnigraph.rules.values import UniqueCheck, ValueCheck, exactness
from omnigraph.snapshot import View
from omnigraph.tables.addresses import ROW_ADDRESS, RowSet
from omnigraph.tables.lost_rows import fragments_by_files
from omnigraph.tables.staging import Staged, TrimmedFragment, adopted, stored_rows
from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table
from omnigraph.values.arrow import are_among
from omnigraph.values.types import is_rounded
from omnigraph.write.inlining import Delta, NewRows, bounds
from omnigraph.write.rekeying import RekeyedTable, rekey, rekeyed_edges

MergeOf = Callable[[EntityType], TypeMerge]

ROWS_AT_ONCE = 262_144
"""How many rows are read at once, of the columns that a rule needs."""


def violations(
    moved: Iterable[EntityType],
    current: View,
    current_moved: frozenset[int],
    merge_of: MergeOf,
    *,
    same_schema: bool,
) -> list[MergeConflict]:
    """Every rule that the merged graph breaks. `moved`: the types that the incoming branch changed; `current_moved`: the ids of the
    types that the current branch changed."""
    catalog = current.catalog
    conflicts: set[MergeConflict] = set()
    for check in plan_checks(catalog, {entity.table_key: Change(replaces=True, deletes=True) for entity in moved}):
        rows = (
            SharedSchemaRows(check, current, merge_of, current_moved)
            if same_schema
            else MergedRows(check, current, merge_of)
        )
        for violation in check.find(rows, complete=True) if rows.can_break() else ():
            error = check.error(violation)
            assert isinstance(error, InputError), "ids are settled by the row rule"
            conflicts.add(MergeConflict.of_violation(catalog.tables[check.table], error))
    return sorted(conflicts, key=lambda conflict: conflict.order)


def rounded(own: View, moved: Iterable[EntityType], merge_of: MergeOf) -> list[MergeConflict]:
    """Numbers from one branch that the merged schema cannot represent exactly. `own`: the head of the branch under its own schema;
    `moved`: the types that it changed; `merge_of`: the merge that puts its rows on the other branch."""
    conflicts: list[MergeConflict] = []
    for entity in moved:
        stored = type_rows(own, entity.id)
        if stored is None:
            continue
        for before, after in rounded_properties(stored.entity, entity):
            merge = merge_of(entity)
            check = exactness(replace(entity, properties={after.name: replace(after, type=before.type)}), after.name)
            for addresses in (*merge.puts.pieces(ROWS_AT_ONCE), *merge.combined_from.pieces(ROWS_AT_ONCE)):
                rows = columns_at(stored, addresses, stored.entity, ["id", before.name])
                for violation in check.find(_KnownRows(rows.rename_columns(["id", after.name])), complete=True):
                    conflicts.append(MergeConflict.of_violation(entity, check.error(violation)))
    return conflicts


def rounded_properties(before: EntityType, after: EntityType) -> list[tuple[Property, Property]]:
    known = {property.id: property for property in before.properties.values()}
    pairs = [(known[property.id], property) for property in after.properties.values() if property.id in known]
    return [(old, new) for old, new in pairs if is_rounded(old.type, new.type)]


@dataclass(frozen=True)
class _KnownRows:
    """Rows in memory, for a check that needs no others."""

    rows: pa.Table

    def all(self, need: Need) -> pa.Table:
        return self.rows.select(list(need.columns))

    def matching(self, need: Need, values: pa.Array) -> pa.Table:
        raise AssertionError("a value is checked by itself")


@dataclass(frozen=True)
class MergedRows:
    """The rows that one check of a merge needs: incoming rows, and rows of the current branch."""

    check: Check
    current: View
    merge_of: MergeOf

    def can_break(self) -> bool:
        """Ids are decided by the three-way rule; an edge can lose its node only if nodes were removed."""
        if isinstance(self.check, DanglingCheck):
            return len(self.merge(f"node:{self.check.node}").gone) > 0
        return not isinstance(self.check, KeyCheck)

    def merge(self, table: str) -> TypeMerge:
        return self.merge_of(self.current.entity(table))

    def all(self, need: Need) -> pa.Table:
        return self._all(need, None)

    def _all(self, need: Need, met: pa.Array | None) -> pa.Table:
        """The rows that are added or removed; with `met`, only those that have one of these values."""
        merge = self.merge(need.table)
        if need.state != "lost":
            return put_rows(merge, need.columns, need.by, met)
        if need.columns == ("id",):
            return rows_in(merge.current, merge.gone, ["id"]).sort_by("id")
        return rows_in(merge.current, merge.removes, need.columns, need.by, met)

    def matching(self, need: Need, values: pa.Array) -> pa.Table:
        merge = self.merge(need.table)
        if need.state == "new":
            return put_rows(merge, need.columns)
        if need.by == ("id",):
            return pa.table({"id": self._present(need.table, values)})
        staying = _without(self._holders(need, values), merge.removes)
        if need.state == "staying":
            return staying
        new = put_rows(merge, need.columns)
        return pa.concat_tables([new, staying.select(new.schema.names).cast(new.schema)])

    def _present(self, table: str, ids: pa.Array) -> pa.Array:
        """Those of the given nodes that exist in the merged graph."""
        merge = self.merge(table)
        known = lookup(merge.current, "id", ids.to_pylist(), [])
        present = _without(known, merge.gone).column("id").combine_chunks()
        put = put_rows(merge, ["id"], ("id",), ids).column("id").combine_chunks()
        return ids.filter(pc.is_in(ids, pa.concat_arrays([present.cast(pa.utf8()), put.cast(pa.utf8())])))

    def _holders(self, need: Need, values: pa.Array) -> pa.Table:
        """Rows of the current branch with one of these values, and their addresses."""
        return lookup(self.merge(need.table).current, need.by[0], values.to_pylist(), need.columns)


@dataclass(frozen=True)
class SharedSchemaRows(MergedRows):
    """Only the rows that both sides affect."""

    current_moved: frozenset[int]

    def can_break(self) -> bool:
        match self.check:
            case ValueCheck(entity):
                return entity.id in self.current_moved and self.merge(entity.table_key).combined.num_rows > 0
            case UniqueCheck(entity):
                return entity.id in self.current_moved
            case EndpointCheck(_, _, node):
                return len(self._lost(f"node:{node}")) > 0
            case DanglingCheck(edge):
                return edge.id in self.current_moved and super().can_break()
            case CardinalityCheck(edge):
                source = self.current.catalog.nodes[edge.source]
                return edge.id in self.current_moved or (edge.min_out > 0 and source.id in self.current_moved)
        return super().can_break()

    def all(self, need: Need) -> pa.Table:
        if isinstance(self.check, ValueCheck):
            return self.merge(need.table).combined.select(list(need.columns))
        return self._all(need, self._met(need))

    def _met(self, need: Need) -> pa.Array | None:
        """The values that an incoming row must have to clash with a row of the current branch; None means any."""
        match self.check:
            case UniqueCheck(entity, fields):
                combined = self.merge(need.table).combined.column(fields[0]).combine_chunks()
                changed = self._changed_rows(entity, fields).column(fields[0]).combine_chunks()
                return pa.concat_arrays([changed.cast(combined.type), combined])
            case CardinalityCheck(edge):
                return self._touched_sources(edge)
        return None

    def _present(self, table: str, ids: pa.Array) -> pa.Array:
        return ids.filter(pc.invert(pc.is_in(ids, self._lost(table))))

    def _holders(self, need: Need, values: pa.Array) -> pa.Table:
        is_pair = isinstance(self.check, UniqueCheck) and len(self.check.fields) > 1
        if isinstance(self.check, CardinalityCheck) or (is_pair and self.merge(need.table).combined.num_rows):
            # All edges of a source count; a row with values of both sides can clash with a row that neither side changed.
            return super()._holders(need, values)
        return self._changed_rows(self.current.entity(need.table), need.columns)

    def _changed_rows(self, entity: EntityType, names: Sequence[str]) -> pa.Table:
        """Rows that the current branch inserted or updated, with their addresses."""
        merge = self.merge(entity.table_key)
        return rows_in(merge.current, merge.changed, ["id", *names, ROW_ADDRESS])

    def _lost(self, table: str) -> pa.Array:
        """Nodes that either side removed."""
        merge = self.merge(table)
        return _texts(rows_in(merge.reference, merge.lost, ["id"]), rows_in(merge.current, merge.gone, ["id"]))

    def _touched_sources(self, edge: EdgeType) -> pa.Array:
        """Sources whose edges the current branch changed; if there is a minimum, also sources that it changed themselves."""
        touched = self._touched(edge, "src")
        if not edge.min_out:
            return _texts(*touched)
        return _texts(*touched, *self._touched(self.current.catalog.nodes[edge.source], "id"))

    def _touched(self, entity: EntityType, name: str) -> tuple[pa.Table, pa.Table]:
        """A column of the rows that the current branch changed, after and before the change."""
        merge = self.merge(entity.table_key)
        return rows_in(merge.current, merge.changed, [name]), rows_in(merge.reference, merge.changed_before, [name])


# ---------------------------------------------------------------- rows


def put_rows(merge: TypeMerge, names: Sequence[str], by: Sequence[str] = (), met: pa.Array | None = None) -> pa.Table:
    """The rows that a merge puts, with their id and these columns; with `met`, only those with one of these values in column `by`."""
    rows = rows_in(merge.incoming, merge.puts, ["id", *names], by, met)
    combined = merge.combined.select(rows.schema.names)
    if met is not None:
        combined = combined.filter(are_among(combined.column(by[0]), met))
    return pa.concat_tables([rows.cast(combined.schema), combined])


def rows_in(
    stored: TypeRows, rows: RowSet, names: Sequence[str], by: Sequence[str] = (), met: pa.Array | None = None
) -> pa.Table:
    """The named columns of the rows of a set; with `met`, only of those with one of these values in column `by`. Rows are read in
    bounded pieces, and only the result is held."""
    wanted = list(dict.fromkeys(names))
    pieces = [columns_at(stored, np.zeros(0, np.uint64), stored.entity, wanted)]
    for addresses in rows.pieces(ROWS_AT_ONCE):
        piece = columns_at(stored, addresses, stored.entity, wanted)
        pieces.append(piece if met is None else piece.filter(are_among(piece.column(by[0]), met)))
    return pa.concat_tables(pieces)


def _texts(*tables: pa.Table) -> pa.Array:
    """The values of text columns, as one array."""
    chunks = [chunk.cast(pa.utf8()) for table in tables for chunk in table.column(0).chunks]
    return pa.concat_arrays([pa.array([], pa.utf8()), *chunks])


def columns_at(
    stored: TypeRows, addresses: np.ndarray[tuple[int], np.dtype[np.uint64]], entity: EntityType, names: Sequence[str]
) -> pa.Table:
    """The named columns of rows, by address."""
    wanted = list(dict.fromkeys(names))
    if stored.table is None:
        return _nothing(entity, wanted)
    return rows_at(stored.table, addresses, [name for name in wanted if name != ROW_ADDRESS]).select(wanted)


def lookup(stored: TypeRows, column: str, values: Sequence[object], names: Sequence[str]) -> pa.Table:
    """Rows with these values in a column: their ids, the named columns and their addresses."""
    wanted = list(dict.fromkeys(["id", *names]))
    if stored.table is None:
        return _nothing(stored.entity, [*wanted, ROW_ADDRESS])
    return stored.table.lookup(column, values, wanted, with_address=True)


def _nothing(entity: EntityType, names: Sequence[str]) -> pa.Table:
    return arrow_schema(entity).append(pa.field(ROW_ADDRESS, pa.uint64())).empty_table().select(names)


def _without(rows: pa.Table, gone: RowSet) -> pa.Table:
    """The rows that are not in the set, without their addresses."""
    left = rows.filter(pa.array(~gone.contains(rows.column(ROW_ADDRESS).to_numpy())))
    return left.drop_columns([ROW_ADDRESS])


# Edges of snapshots from before their type got its key: for a merge they have the ids that follow from it.
#
# So the same edge has the same id in the base and on both branches, and is merged like any other row. A snapshot that lacks the
# key is written again under the merged schema; that happens once, in the first merge across the declaration.

MAX_SHOWN = 5
"""Edges that a conflict names."""


class MergedKeys:
    """The snapshots of one merge, with the ids of the merged schema."""

    def __init__(self, schema: MergedSchema, bases: Bases) -> None:
        self._schema = schema
        self._bases = bases
        self._tables: dict[tuple[int, object], RekeyedTable | None] = {}
        """By type and stored rows: branches that have not changed a type share it."""

    @property
    def staged(self) -> list[Staged]:
        """The versions that were written."""
        return [table.staged for table in self._tables.values() if table is not None]

    def view(self, before: View, after: View) -> View:
        """A snapshot under the merged schema (`after`), with the ids of keys that its own schema (`before`) does not have."""
        tables: dict[str, TableState] = {}
        for edge in rekeyed_edges(before.catalog, after.catalog):
            table = self._rekeyed(after, edge)
            if table is not None:
                tables[edge.table_key] = table.state
        if not tables:
            return after
        return after.repository.view(replace(after.snapshot, tables={**after.snapshot.tables, **tables}))

    def _rekeyed(self, view: View, edge: EdgeType) -> RekeyedTable | None:
        state = view.state(edge.table_key)
        place = edge.id, state and state.content
        if place not in self._tables:
            self._tables[place] = rekey(view, edge)
        return self._tables[place]

    def conflicts(self, heads: Mapping[str, View]) -> tuple[SchemaConflict, ...]:
        """Why the edges of a branch, by its name, cannot get the ids of the merged schema."""
        conflicts = [conflict for name, view in heads.items() for conflict in self._conflicts(name, view)]
        for edge in self._schema.catalog.edges.values():
            is_new = any(edge in rekeyed_edges(view.catalog, self._schema.catalog) for view in self._bases.views)
            if is_new and not self._bases.agree_on(edge.id):
                message = (
                    f"merges of the branches crossed before {edge.name} got its key: remove the key, merge, "
                    "and declare it again"
                )
                conflicts.append(SchemaConflict("divergent_change", edge.table_key, message))
        return tuple(conflicts)

    def _conflicts(self, name: str, view: View) -> Iterator[SchemaConflict]:
        for edge in rekeyed_edges(view.catalog, self._schema.catalog):
            before = view.catalog.by_id[edge.id]
            state = view.state(before.table_key)
            table = self._tables.get((edge.id, state and state.content))
            if table is not None and table.duplicates:
                shown = ", ".join(f"'{id}'" for id in table.duplicates[:MAX_SHOWN])
                message = (
                    f"'{name}' has edges of {edge.name} with the same key, which the other branch declared: {shown}"
                )
                yield SchemaConflict("divergent_change", edge.table_key, message)
            if any(rounded_properties(before, edge)):
                message = f"the other branch gave {edge.name} a key and a wider number; '{name}' has neither"
                yield SchemaConflict("divergent_change", edge.table_key, message)


# Applies a merge to the current branch's table. Few rows are inline in its commit, as those of any write. Otherwise new fragments of the
# incoming branch are adopted without copying data.
#
# Rows that cannot be adopted (a few rows of a fragment, rows of another table, combined rows) are written as new rows.

ADOPT_FRACTION = 2
"""A fragment is adopted if at least one row in this many is needed; its other rows are deleted at once."""


def few_rows(merge: TypeMerge, current: View) -> Delta | None:
    """What the merge does to its table as the change of a small write; None if it does nothing, or too much for one."""
    if merge.is_empty or len(merge.puts) + merge.combined.num_rows + len(merge.gone) > bounds().rows:
        return None
    schema = current.schema(merge.entity.table_key)
    rows = put_rows(merge, schema.names).select(schema.names)
    gone = rows_in(merge.current, merge.gone, ["id"]).column("id").to_pylist()
    new = NewRows.of_table(pa.Table.from_arrays(rows.cast(schema).columns, schema=schema))
    return Delta(merge.entity, new, "merge", removed=dict.fromkeys(gone))


def superseded(merge: TypeMerge) -> dict[str, int]:
    """The addresses of the current rows that the merge replaces or removes, by id."""
    rows = rows_in(merge.current, merge.removes, ["id", ROW_ADDRESS])
    return dict(zip(rows.column("id").to_pylist(), rows.column(ROW_ADDRESS).to_pylist(), strict=True))


def stage_merge(tables: Tables, current: Table, merge: TypeMerge) -> list[Staged]:
    """Stage the merge; the last version returned is the merged table. All of them must be made durable."""
    whole = _adoptable(current, merge)
    rows = _written_rows(merge, whole)
    fragments = () if merge.incoming.table is None else adopted(merge.incoming.table, sorted(whole))
    trimmed = [tables.delete_rows(current, fragment, offsets) for fragment, offsets in merge.removes.by_fragment()]
    first = tables.stage(current, rows=rows, fragments=fragments, trimmed=trimmed, fold=False)
    if not whole:
        return [first]
    merged = tables.open(first.path, first.version, layout=current.layout)
    unwanted = list(_unwanted(tables, merged, merge, whole))
    return [first, tables.stage(merged, trimmed=unwanted, fold=False)] if unwanted else [first]


def _adoptable(current: Table, merge: TypeMerge) -> frozenset[int]:
    """Incoming fragments to adopt."""
    incoming = merge.incoming.table
    if incoming is None or incoming.path != current.path:
        return frozenset()
    known = {fragment.files for fragment in current.fragments}
    whole = stored_rows(incoming)
    new = {fragment.id for fragment in incoming.fragments if fragment.files not in known and fragment.id in whole}
    return frozenset(
        fragment
        for fragment, offsets in merge.puts.by_fragment()
        if fragment in new and len(offsets) * ADOPT_FRACTION >= whole[fragment]
    )


def _unwanted(tables: Tables, table: Table, merge: TypeMerge, adopted_ids: frozenset[int]) -> Iterator[TrimmedFragment]:
    """Delete the rows of adopted fragments that are not needed (an adopted fragment has no deletions yet)."""
    by_files = fragments_by_files(table)
    files = {} if merge.incoming.table is None else {held.id: held.files for held in merge.incoming.table.fragments}
    for fragment, offsets in merge.puts.by_fragment():
        if fragment in adopted_ids and len(offsets) < (twin := by_files[files[fragment]]).rows:
            rest = np.setdiff1d(np.arange(twin.rows, dtype=np.uint32), offsets, assume_unique=True)
            yield tables.delete_rows(table, twin.id, rest)


def _written_rows(merge: TypeMerge, adopted_ids: frozenset[int]) -> pa.RecordBatchReader | None:
    """The rows to write, in bounded pieces; None if there are none."""
    left = merge.puts.without_fragments(adopted_ids)
    if not len(left) and not merge.combined.num_rows:
        return None
    schema = arrow_schema(merge.entity)

    def batches() -> Iterator[Any]:
        for addresses in left.pieces(chunk_rows(merge.incoming.table)):
            assert merge.incoming.table is not None
            rows = rows_at(merge.incoming.table, addresses, None)
            yield from rows.select(schema.names).cast(schema).to_batches()
        yield from merge.combined.cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())
