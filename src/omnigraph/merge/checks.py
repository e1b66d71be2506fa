"""The merged whole under the rules of the schema: the same rules as for any write, every violation a conflict.

Each side by itself keeps the rules. So two rows can only break one together when one comes from the guest and the other
was changed by the host; an edge can only lose its node when one side brings the edge and the other removed the node; and
a node can only have too many or too few edges when both sides touched them. `Narrow` looks at those rows only. When the
guest was written under another schema nothing of that holds, and `Wide` looks everything up in the host's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from omnigraph.changes.changed import DELETE, Stored, rows_at, typed_rows_at
from omnigraph.changes.projection import has_columns_of
from omnigraph.language.catalog import Constraint, EdgeType, EntityType, NodeType
from omnigraph.merge.bases import stored_type
from omnigraph.merge.conflicts import MergeConflict
from omnigraph.merge.entities import TypeMerge
from omnigraph.merge.sides import Side
from omnigraph.relational import duck, rules
from omnigraph.write.compiled import End, compiled_rules

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MergeOf = Callable[[EntityType], TypeMerge]


class Narrow:
    """What the host has beside the guest's rows, as far as it can matter when both obey the same schema."""

    checks_all_values = False

    def __init__(self, host: Side, host_moved: frozenset[int], merge_of: MergeOf) -> None:
        self.host = host
        self.host_moved = host_moved
        self.merge_of = merge_of

    def can_meet(self, entity: EntityType) -> bool:
        """Whether host rows of this type can break a rule together with new ones."""
        return entity.id in self.host_moved

    def wanted(self, entity: EntityType, names: Sequence[str]) -> dict[str, pa.Array] | None:
        """Values of the first of these columns that the host's changed rows have: only they can clash."""
        rows = self.changed_rows(entity, names)
        return {names[0]: rows.column(names[0]).combine_chunks()}

    def holders(self, entity: EntityType, names: Sequence[str], _values: pa.Array) -> pa.Table:
        return self.changed_rows(entity, names)

    def changed_rows(self, entity: EntityType, names: Sequence[str]) -> pa.Table:
        """Rows that the host inserted or updated."""
        changes = self.host.changes(entity.id)
        rows = stored_type(self.host.view, entity.id)
        assert rows is not None
        return columns_at(rows, changes.column("after").drop_null().to_numpy(), entity, ["id", *names])

    def may_orphan(self, node: NodeType) -> bool:
        """Whether a node that a new edge needs can be missing."""
        return bool(self._lost(node))

    def missing(self, node: NodeType, ids: pa.Array) -> pa.Array:
        """Of these nodes, those that the merged whole lacks."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return ids.filter(pc.is_in(ids, pa.array(sorted(self._lost(node)), pa.utf8())))

    def _lost(self, node: NodeType) -> set[str]:
        """Nodes that one of the sides removed."""
        import pyarrow.compute as pc

        merge = self.merge_of(node)
        changes = self.host.changes(node.id)
        deleted = changes.filter(pc.equal(changes.column("op"), DELETE)).column("id").to_pylist()
        return (set(deleted) - merge.restored) | merge.gone

    def edges_at(self, edge: EdgeType, end: End, nodes: frozenset[str]) -> pa.Table:
        """Edges of the host that point at nodes the guest removed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.changed_rows(edge, ["src", "dst"])
        return rows.filter(pc.is_in(rows.column(end), pa.array(sorted(nodes), pa.utf8())))

    def counted(self, edge: EdgeType, touched: set[str]) -> set[str]:
        """Of the sources whose edges the guest touched, those that must be counted: the host touched them too."""
        import pyarrow.compute as pc

        changes = self.host.changes(edge.id)
        mine = set(self.changed_rows(edge, ["src"]).column("src").to_pylist())
        for index, view in enumerate(self.host.bases.views):
            rows = stored_type(view, edge.id)
            before = changes.filter(pc.equal(changes.column("base"), index)).column("before").drop_null()
            if rows is not None and rows.table is not None and len(before):
                mine |= set(rows_at(rows.table, before.to_numpy(), ["src"]).column("src").to_pylist())
        return touched & mine


class Wide(Narrow):
    """The same questions answered by lookups in the host's whole tables."""

    checks_all_values = True

    def can_meet(self, _entity: EntityType) -> bool:
        return True

    def wanted(self, _entity: EntityType, _names: Sequence[str]) -> dict[str, pa.Array] | None:
        return None

    def holders(self, entity: EntityType, names: Sequence[str], values: pa.Array) -> pa.Table:
        return lookup(self.host, entity, names[0], values.to_pylist(), names)

    def may_orphan(self, _node: NodeType) -> bool:
        return True

    def missing(self, node: NodeType, ids: pa.Array) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        merge = self.merge_of(node)
        present = set(lookup(self.host, node, "id", ids.to_pylist(), []).column("id").to_pylist()) - merge.gone
        present |= set(put_rows(merge, ["id"]).column("id").to_pylist())
        return ids.filter(pc.invert(pc.is_in(ids, pa.array(sorted(present), pa.utf8()))))

    def edges_at(self, edge: EdgeType, end: End, nodes: frozenset[str]) -> pa.Table:
        return lookup(self.host, edge, end, sorted(nodes), ["src", "dst"])

    def counted(self, _edge: EdgeType, touched: set[str]) -> set[str]:
        return touched


def violations(moved: Iterable[EntityType], around: Narrow, merge_of: MergeOf) -> list[MergeConflict]:
    """Every rule that the merged whole breaks; `moved` are the types the guest changed."""
    catalog = around.host.view.catalog
    found: list[MergeConflict] = []
    for entity in moved:
        found += _values(entity, around, merge_of)
        if around.can_meet(entity):
            found += _unique(entity, around, merge_of)
        if isinstance(entity, EdgeType):
            found += _orphans(entity, around, merge_of)
            if around.can_meet(entity):
                found += _cardinality(entity, around, merge_of)
        else:
            for edge in catalog.edges_of(entity.name):
                found += _left_behind(entity, edge, around, merge_of)
    return sorted(set(found), key=lambda conflict: conflict.order)


# ---------------------------------------------------------------- the rules


def _run(entity: EntityType, text: str | None, relations: dict[str, pa.Table]) -> Iterator[MergeConflict]:
    if text is not None and relations["new"].num_rows:
        for row in duck.run_text(text, relations).to_pylist():
            yield MergeConflict.of_violation(entity, rules.violation_error(entity, row))


def _values(entity: EntityType, around: Narrow, merge_of: MergeOf) -> Iterator[MergeConflict]:
    text = compiled_rules(entity).values
    if text is None:
        return
    if around.checks_all_values:
        yield from _run(entity, text, {"new": put_rows(merge_of(entity), None)})
    elif around.can_meet(entity):
        yield from _run(entity, text, {"new": merge_of(entity).combined})


def _unique(entity: EntityType, around: Narrow, merge_of: MergeOf) -> Iterator[MergeConflict]:
    for unique in compiled_rules(entity).unique:
        names = list(unique.constraint.fields)
        merge = merge_of(entity)
        new = _having(put_rows(merge, names, only=around.wanted(entity, names)), unique.constraint)
        if not new.num_rows:
            continue
        yield from _run(entity, unique.in_batch, {"new": new})
        old = around.holders(entity, names, new.column(names[0]).combine_chunks())
        if merge.combined.num_rows and len(names) > 1:
            # A row with values of both sides can meet a row that neither side changed.
            old = lookup(around.host, entity, names[0], new.column(names[0]).to_pylist(), names)
        relations = {"new": new, "old": _without(old, merge.superseded)}
        yield from _run(entity, unique.against, relations)


def _orphans(edge: EdgeType, around: Narrow, merge_of: MergeOf) -> Iterator[MergeConflict]:
    """New edges whose node is not there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    catalog = around.host.view.catalog
    ends: tuple[tuple[End, str], ...] = (("src", edge.source), ("dst", edge.target))
    for end, node_name in ends:
        node = catalog.nodes[node_name]
        if around.may_orphan(node):
            rows = put_rows(merge_of(edge), ["src", "dst"])
            used = pc.unique(rows.column(end))
            missing = around.missing(node, used)
            broken = rows.filter(pc.is_in(rows.column(end), missing))
            present = pa.table({"id": used.filter(pc.invert(pc.is_in(used, missing)))})
            yield from _run(edge, compiled_rules(edge).endpoints[end], {"new": broken, "nodes": present})


def _left_behind(node: NodeType, edge: EdgeType, around: Narrow, merge_of: MergeOf) -> Iterator[MergeConflict]:
    """Edges of the host that point at a node the guest removed."""
    import pyarrow as pa

    if not around.can_meet(edge):
        return
    gone = merge_of(node).gone
    ends: tuple[tuple[End, str], ...] = (("src", edge.source), ("dst", edge.target))
    for end, node_name in ends:
        rows = around.edges_at(edge, end, gone) if gone and node_name == node.name else None
        if rows is not None and rows.num_rows:
            left = _without(rows, merge_of(edge).superseded)
            nobody = pa.table({"id": pa.array([], pa.utf8())})
            yield from _run(edge, compiled_rules(edge).endpoints[end], {"new": left, "nodes": nobody})


def _cardinality(edge: EdgeType, around: Narrow, merge_of: MergeOf) -> Iterator[MergeConflict]:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = compiled_rules(edge).cardinality
    if text is None:
        return
    merge = merge_of(edge)
    new = put_rows(merge, ["src"])
    removed = [] if merge.host.table is None else rows_at(merge.host.table, merge.removes, ["src"]).column("src")
    touched = {*new.column("src").to_pylist(), *(each.as_py() for each in removed)}
    counted = pa.array(sorted(around.counted(edge, touched)), pa.utf8())
    # A node that is gone has no count; its edges are orphans, if there are any.
    lost = around.missing(around.host.view.catalog.nodes[edge.source], counted)
    sources = counted.filter(pc.invert(pc.is_in(counted, lost)))
    if len(sources):
        old = _without(lookup(around.host, edge, "src", sources.to_pylist(), ["src"]), merge.superseded)
        edges = pa.concat_tables([new, old.select(new.schema.names).cast(new.schema)])
        yield from _run(edge, text, {"new": pa.table({"src": sources}), "edges": edges})


# ---------------------------------------------------------------- rows


def put_rows(merge: TypeMerge, names: Sequence[str] | None, *, only: dict[str, pa.Array] | None = None) -> pa.Table:
    """The rows a merge puts, with their id and these columns (None: all); with `only`, those that have such a value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = columns_at(merge.guest, merge.puts, merge.entity, None if names is None else ["id", *names])
    combined = merge.combined.select(rows.schema.names)
    for name, values in (only or {}).items():
        values = pa.concat_arrays([values, combined.column(name).combine_chunks()])
        rows = rows.filter(pc.is_in(rows.column(name), values))
    return pa.concat_tables([rows.cast(combined.schema), combined])


def columns_at(
    stored: Stored,
    addresses: np.ndarray[tuple[int], np.dtype[np.uint64]],
    entity: EntityType,
    names: Sequence[str] | None,
) -> pa.Table:
    """Rows by address as rows of `entity`; only the named columns are read when they are stored as they are wanted."""
    import pyarrow as pa

    wanted = None if names is None else list(dict.fromkeys(names))
    if wanted is None or stored.table is None or not has_columns_of(stored.entity, entity):
        rows = typed_rows_at(stored, pa.chunked_array([pa.array(addresses, pa.uint64())]), entity)
        return rows if wanted is None else rows.select(wanted)
    return rows_at(stored.table, addresses, wanted).select(wanted)


def lookup(side: Side, entity: EntityType, column: str, values: Sequence[object], names: Sequence[str]) -> pa.Table:
    """Rows of a side with these values in a column: id and the named columns."""
    stored = stored_type(side.view, entity.id)
    wanted = list(dict.fromkeys(["id", *names]))
    if stored is None or stored.table is None:
        from omnigraph.language.arrow import arrow_schema

        return arrow_schema(entity).empty_table().select(wanted)
    return stored.table.lookup(column, values, wanted)


def _having(rows: pa.Table, constraint: Constraint) -> pa.Table:
    """A null exempts a row from uniqueness."""
    import pyarrow.compute as pc

    for name in constraint.fields:
        rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


def _without(rows: pa.Table, ids: Iterable[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.invert(pc.is_in(rows.column("id"), pa.array(list(ids), pa.utf8()))))
