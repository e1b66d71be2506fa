"""Checking deltas against a view, with the shared rules. Cost follows the rows written: the branch is asked by key only.

Order, everywhere: values, keys and uniqueness, endpoints (both directions), cardinality. The first violation is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.errors import EndpointMissing, KeyConflict
from omnigraph.language.catalog import EdgeType, EntityType, NodeType
from omnigraph.relational import duck, rules
from omnigraph.tables.table import ROW_ADDRESS
from omnigraph.views import View
from omnigraph.write.compiled import End, UniqueRule, compiled_rules
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
            _check_values(delta)
    superseded = {key: _superseded(view, delta) for key, delta in deltas.items()}
    for delta in deltas.values():
        _check_unique(view, delta)
    nodes = _Nodes(view, deltas)
    for delta in deltas.values():
        if isinstance(delta.entity, EdgeType):
            _check_ends(nodes, delta.entity, delta)
        else:
            _check_inbound(view, deltas, delta.entity, delta)
    for key, delta in deltas.items():
        if isinstance(delta.entity, EdgeType):
            _check_cardinality(view, nodes, delta.entity, delta, superseded[key])
    return {key: _addresses(rows) for key, rows in superseded.items()}


def _run(entity: EntityType, text: str, relations: Mapping[str, pa.Table]) -> None:
    """Run a rule; raise for its first violation in the order of the rows' ids."""
    found = duck.run_text(text, relations).to_pylist()
    if found:
        raise rules.violation_error(entity, min(found, key=lambda row: (str(row["id"]), row["property"])))


def _check_values(delta: Delta) -> None:
    compiled = compiled_rules(delta.entity)
    if compiled.values is not None and delta.rows.num_rows and compiled.may_break_values(delta.rows):
        _run(delta.entity, compiled.values, {"new": delta.rows})


# ---------------------------------------------------------------- keys and uniqueness


def superseded_addresses(view: View, deltas: Deltas) -> Addresses:
    """Where the committed rows are that the deltas replace or remove."""
    return {key: _addresses(_superseded(view, delta)) for key, delta in deltas.items()}


def _addresses(rows: pa.Table | None) -> dict[str, int]:
    if rows is None:
        return {}
    return dict(zip(rows.column("id").to_pylist(), rows.column(ROW_ADDRESS).to_pylist(), strict=True))


def _superseded(view: View, delta: Delta) -> pa.Table | None:
    """The committed rows (keys and addresses) that the delta replaces or removes. A strict insert of one is a conflict."""
    if delta.rows.num_rows > len(set(delta.ids)):
        _run(delta.entity, compiled_rules(delta.entity).duplicate_ids, {"new": delta.rows})
    table = view.table(delta.key)
    wanted = [id for id in delta.superseded if id not in delta.fresh]
    if table is None or delta.clear or not wanted:
        return None
    columns = ["id", "src"] if isinstance(delta.entity, EdgeType) else ["id"]
    found = table.lookup("id", sorted(wanted), columns, with_address=True)
    if delta.strict:
        for taken in sorted(delta.strict.intersection(found.column("id").to_pylist())):
            raise KeyConflict(delta.entity.name, taken)
    return found


def _check_unique(view: View, delta: Delta) -> None:
    for rule in compiled_rules(delta.entity).unique if delta.rows.num_rows else ():
        rows = _with_values(delta.rows, rule)
        if not rows.num_rows:
            continue
        if rows.num_rows > 1:
            _run(delta.entity, rule.in_batch, {"new": rows})
        existing = _holders(view, delta, rule, rows)
        if existing is not None and existing.num_rows:
            _run(delta.entity, rule.against, {"new": rows, "old": existing})


def _with_values(rows: pa.Table, rule: UniqueRule) -> pa.Table:
    """Rows that have every member: a null exempts a row."""
    import pyarrow.compute as pc

    chosen = rows.select(list(rule.columns))
    for name in rule.constraint.fields:
        if chosen.column(name).null_count:
            chosen = chosen.filter(pc.is_valid(chosen.column(name)))
    return chosen


def _holders(view: View, delta: Delta, rule: UniqueRule, rows: pa.Table) -> pa.Table | None:
    """Committed rows that hold one of the new values and stay."""
    table = view.table(delta.key)
    if table is None or delta.clear:
        return None
    first = rule.constraint.fields[0]
    found = table.lookup(first, rows.column(first).to_pylist(), rule.columns)
    return _without_ids(found, delta.superseded)


def _without_ids(rows: pa.Table, ids: Iterable[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not rows.num_rows:
        return rows
    gone = pa.array(list(ids), pa.string())
    return rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=gone)))


# ---------------------------------------------------------------- endpoints


class _Nodes:
    """Which nodes exist after the write."""

    def __init__(self, view: View, deltas: Deltas) -> None:
        self.view = view
        self.deltas = deltas

    def existing(self, node_type: str, ids: set[str]) -> set[str]:
        """Those of `ids` that will exist."""
        key = f"node:{node_type}"
        delta = self.deltas.get(key)
        present = ids.intersection(delta.ids) if delta else set[str]()
        if delta and delta.clear:
            return present
        rest = ids - present
        if delta:
            rest -= delta.removed.keys()
        table = self.view.table(key)
        if rest and table is not None:
            present |= set(table.lookup("id", sorted(rest), ["id"]).column("id").to_pylist())
        return present


def _check_ends(nodes: _Nodes, edge: EdgeType, delta: Delta) -> None:
    """A new edge needs its nodes."""
    if not delta.rows.num_rows:
        return
    import pyarrow as pa

    ends: tuple[tuple[End, str], ...] = (("src", edge.source), ("dst", edge.target))
    wanted: dict[str, set[str]] = {}
    for end, node_type in ends:
        wanted.setdefault(node_type, set()).update(delta.rows.column(end).to_pylist())
    present = {node_type: nodes.existing(node_type, ids) for node_type, ids in wanted.items()}
    for end, node_type in ends:
        if present[node_type] < wanted[node_type]:
            known = pa.table({"id": pa.array(sorted(present[node_type]), pa.string())})
            _run(edge, compiled_rules(edge).endpoints[end], {"new": delta.rows, "nodes": known})


def _check_inbound(view: View, deltas: Deltas, node: NodeType, delta: Delta) -> None:
    """Every edge that stays must not point at a node that goes."""
    gone = _gone(view, delta)
    for edge in view.catalog.edges_of(node.name) if gone else ():
        edge_delta = deltas.get(edge.table_key)
        table = view.table(edge.table_key)
        if table is None or (edge_delta and edge_delta.clear):
            continue
        for end, node_type in (("src", edge.source), ("dst", edge.target)):
            if node_type != node.name:
                continue
            left = table.lookup(end, gone, ["id", end])
            left = _without_ids(left, edge_delta.superseded if edge_delta else ())
            for row in sorted(left.to_pylist(), key=lambda row: str(row["id"]))[:1]:
                raise EndpointMissing(
                    f"{end} '{row[end]}' not found in {node.name}: edge {edge.name} '{row['id']}' still points to it",
                    type_name=edge.name,
                    property=end,
                    entity_id=row["id"],
                    value=row[end],
                    hint=f"delete the edges of {node.name} '{row[end]}' in the same write",
                )


def _gone(view: View, delta: Delta) -> list[str]:
    """Nodes that exist before the write and not after it."""
    if not delta.clear:
        return sorted(delta.removed.keys() - set(delta.ids))
    table = view.table(delta.key)
    before = set() if table is None else set(table.read(["id"]).column("id").to_pylist())
    return sorted(before.difference(delta.ids))


# ---------------------------------------------------------------- cardinality


def _check_cardinality(view: View, nodes: _Nodes, edge: EdgeType, delta: Delta, superseded: pa.Table | None) -> None:
    """Sources that gained edges here, or lost some and still exist."""
    text = compiled_rules(edge).cardinality
    if text is None:
        return
    import pyarrow as pa

    touched = set(delta.rows.column("src").to_pylist())
    if edge.min_out:
        touched |= nodes.existing(edge.source, _losing(view, delta, superseded) - touched)
    edges = [delta.rows.select(["id", "src"])]
    table = view.table(delta.key)
    if table is not None and not delta.clear and touched:
        edges.append(_without_ids(table.lookup("src", sorted(touched), ["id", "src"]), delta.superseded))
    if not touched or not compiled_rules(edge).may_break_cardinality(sum(fragment.num_rows for fragment in edges)):
        return
    sources = pa.table({"src": pa.array(sorted(touched), pa.string())})
    _run(edge, text, {"new": sources, "edges": pa.concat_tables(edges, promote_options="permissive")})


def _losing(view: View, delta: Delta, superseded: pa.Table | None) -> set[str]:
    """Sources of the committed edges that the write replaces or removes."""
    if superseded is not None:
        return set(superseded.column("src").to_pylist())
    table = view.table(delta.key)
    if table is None or not delta.clear:
        return set()
    return set(table.read(["src"]).column("src").to_pylist())


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
