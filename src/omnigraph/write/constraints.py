"""Checking deltas against a view, with the shared rules. Cost follows the rows written: the branch is asked by key only.

Order, everywhere: values, keys and uniqueness, endpoints (both directions), cardinality. The first violation is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from omnigraph.errors import EndpointMissing, KeyConflict
from omnigraph.language.catalog import Constraint, EdgeType, EntityType, NodeType
from omnigraph.relational import duck, rules
from omnigraph.tables.table import ROW_ADDRESS
from omnigraph.views import View
from omnigraph.write.delta import Delta

if TYPE_CHECKING:
    import pyarrow as pa

Deltas = Mapping[str, Delta]
Addresses = dict[str, dict[str, int]]
"""Per table key: id -> address of the committed row it supersedes."""


def check_deltas(view: View, deltas: Deltas, *, values: bool = True) -> Addresses:
    """Raise the first violation; else the committed rows that the deltas supersede.

    On a rebase the rows themselves are as they were: `values=False` skips the checks that look at one row alone.
    """
    if values:
        for delta in deltas.values():
            _check(delta.entity, rules.value_violations(delta.entity, "new"), {"new": delta.rows})
    addresses = superseded_addresses(view, deltas)
    for delta in deltas.values():
        _check_unique(view, delta)
    checker = _Endpoints(view, deltas)
    for delta in deltas.values():
        if isinstance(delta.entity, EdgeType):
            checker.check_edges(delta.entity, delta)
        else:
            checker.check_inbound(delta.entity, delta)
    for delta in deltas.values():
        if isinstance(delta.entity, EdgeType):
            _check_cardinality(view, delta.entity, delta, deltas)
    return addresses


def _check(entity: EntityType, query: exp.Query | None, relations: Mapping[str, pa.Table]) -> None:
    """Run a rule; raise for its first violation in the order of the rows' ids."""
    if query is None or not relations["new"].num_rows:
        return
    found = duck.run(query, relations).to_pylist()
    if found:
        raise rules.violation_error(entity, min(found, key=lambda row: (str(row["id"]), row["property"])))


# ---------------------------------------------------------------- keys and uniqueness


def superseded_addresses(view: View, deltas: Deltas) -> Addresses:
    """Where the committed rows are that the deltas replace or remove."""
    return {key: _superseded(view, delta) for key, delta in deltas.items()}


def _superseded(view: View, delta: Delta) -> dict[str, int]:
    """Look up the ids that may be on the branch; a strict insert of one that is there is a conflict."""
    if delta.rows.num_rows > len(set(delta.ids)):
        _check(delta.entity, rules.duplicate_ids("new"), {"new": delta.rows})
    table = view.table(delta.key)
    wanted = [id for id in delta.superseded if id not in delta.fresh]
    if table is None or delta.clear or not wanted:
        return {}
    found = table.lookup("id", wanted, ["id"], with_address=True)
    addresses = dict(zip(found.column("id").to_pylist(), found.column(ROW_ADDRESS).to_pylist(), strict=True))
    for taken in sorted(delta.strict & addresses.keys()):
        raise KeyConflict(delta.entity.name, taken)
    return addresses


def _check_unique(view: View, delta: Delta) -> None:
    for constraint in rules.unique_constraints(delta.entity):
        rows = _with_values(delta.rows, constraint)
        if not rows.num_rows:
            continue
        _check(delta.entity, rules.unique_in_batch(constraint, "new"), {"new": rows})
        existing = _holders(view, delta, constraint, rows)
        if existing is not None and existing.num_rows:
            _check(delta.entity, rules.unique_against(constraint, "new", "old"), {"new": rows, "old": existing})


def _with_values(rows: pa.Table, constraint: Constraint) -> pa.Table:
    """Rows that have every member: a null exempts a row."""
    import pyarrow.compute as pc

    chosen = rows.select(list(dict.fromkeys(["id", *constraint.fields])))
    for name in constraint.fields:
        chosen = chosen.filter(pc.is_valid(chosen.column(name)))
    return chosen


def _holders(view: View, delta: Delta, constraint: Constraint, rows: pa.Table) -> pa.Table | None:
    """Committed rows that hold one of the new values and stay."""
    table = view.table(delta.key)
    if table is None or delta.clear:
        return None
    first = constraint.fields[0]
    found = table.lookup(first, rows.column(first).to_pylist(), list(dict.fromkeys(["id", *constraint.fields])))
    return _without_ids(found, delta.superseded)


def _without_ids(rows: pa.Table, ids: Iterable[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    gone = pa.array(list(ids), pa.string())
    return rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=gone)))


# ---------------------------------------------------------------- endpoints


class _Endpoints:
    """Both directions: a new edge needs its nodes, and a removed node may leave no edge behind."""

    def __init__(self, view: View, deltas: Deltas) -> None:
        self.view = view
        self.deltas = deltas
        self._present: dict[str, set[str]] = {}

    def check_edges(self, edge: EdgeType, delta: Delta) -> None:
        if not delta.rows.num_rows:
            return
        import pyarrow as pa

        wanted: dict[str, set[str]] = {}
        ends: tuple[tuple[Literal["src", "dst"], str], ...] = (("src", edge.source), ("dst", edge.target))
        for end, node_type in ends:
            wanted.setdefault(node_type, set()).update(delta.rows.column(end).to_pylist())
        present = {node_type: self._existing(node_type, ids) for node_type, ids in wanted.items()}
        for end, node_type in ends:
            nodes = pa.table({"id": pa.array(sorted(present[node_type]), pa.string())})
            _check(edge, rules.missing_endpoints(end, "new", "nodes"), {"new": delta.rows, "nodes": nodes})

    def _existing(self, node_type: str, ids: set[str]) -> set[str]:
        """Which of these nodes exist after the write."""
        key = f"node:{node_type}"
        delta = self.deltas.get(key)
        present = ids & set(delta.ids) if delta else set()
        if delta and delta.clear:
            return present
        rest = ids - present - (set(delta.removed) if delta else set())
        table = self.view.table(key)
        if rest and table is not None:
            present |= set(table.lookup("id", sorted(rest), ["id"]).column("id").to_pylist())
        return present

    def check_inbound(self, node: NodeType, delta: Delta) -> None:
        """Every edge that stays must not point at a node that goes."""
        gone = self._gone(delta)
        if not gone:
            return
        for edge in self.view.catalog.edges_of(node.name):
            edge_delta = self.deltas.get(edge.table_key)
            table = self.view.table(edge.table_key)
            if table is None or (edge_delta and edge_delta.clear):
                continue
            for end, node_type in (("src", edge.source), ("dst", edge.target)):
                if node_type != node.name:
                    continue
                left = table.lookup(end, sorted(gone), ["id", end])
                left = _without_ids(left, edge_delta.superseded if edge_delta else ())
                for row in left.slice(0, 1).to_pylist():
                    raise EndpointMissing(
                        f"{end} '{row[end]}' not found in {node.name}: edge {edge.name} '{row['id']}' still points to it",
                        type_name=edge.name,
                        property=end,
                        entity_id=row["id"],
                        value=row[end],
                        hint=f"delete the edges of {node.name} '{row[end]}' in the same write",
                    )

    def _gone(self, delta: Delta) -> set[str]:
        if not delta.clear:
            return set(delta.removed) - set(delta.ids)
        table = self.view.table(delta.key)
        before = set() if table is None else set(table.read(["id"]).column("id").to_pylist())
        return before - set(delta.ids)


# ---------------------------------------------------------------- cardinality


def _check_cardinality(view: View, edge: EdgeType, delta: Delta, deltas: Deltas) -> None:
    """Sources that gained or lost edges here, and still exist."""
    query = rules.cardinality(edge, "new", "edges")
    if query is None:
        return
    import pyarrow as pa

    node_delta = deltas.get(f"node:{edge.source}")
    gone = set(node_delta.removed) - set(node_delta.ids) if node_delta else set()
    touched = {*delta.rows.column("src").to_pylist(), *(src for src in delta.removed.values() if src)} - gone
    edges = [delta.rows.select(["id", "src"])]
    table = view.table(delta.key)
    if table is not None and not delta.clear and touched:
        edges.append(_without_ids(table.lookup("src", sorted(touched), ["id", "src"]), delta.superseded))
    sources = pa.table({"src": pa.array(sorted(touched), pa.string())})
    _check(edge, query, {"new": sources, "edges": pa.concat_tables(edges, promote_options="default")})


def affected_reads(view: View, deltas: Sequence[Delta]) -> tuple[str, ...]:
    """The tables a write relies on beside those it changes: ends of its new edges, edges of its removed nodes."""
    reads: set[str] = set()
    for delta in deltas:
        if isinstance(delta.entity, EdgeType):
            if delta.rows.num_rows:
                reads |= {f"node:{delta.entity.source}", f"node:{delta.entity.target}"}
        elif delta.removed or delta.clear:
            reads |= {edge.table_key for edge in view.catalog.edges_of(delta.entity.name)}
    return tuple(sorted(reads))
