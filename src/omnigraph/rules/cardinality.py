"""@card: how many edges of a type a source has, at least and at most.

Counted for every source that gains an edge. If there is a minimum, also for every source that loses one and stays, and for every
source that is itself created or changed: a node and its edges belong in one write.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import CardinalityViolation, InputError
from omnigraph.language.catalog import EdgeType
from omnigraph.relational.sql import column, exp, table
from omnigraph.rules.check import Check, Need, Query, Record, Risk, RowSource, Violation, absent, same, violation

QUERIES_KEPT = 1_024


@dataclass(frozen=True)
class CardinalityCheck(Check):
    """Edges of the type are added (`gains`) or removed (`loses`), or nodes at their source are written (`sources`)."""

    edge: EdgeType
    gains: bool = False
    loses: bool = False
    sources: bool = False
    rank = 5

    @property
    def table(self) -> str:
        return self.edge.table_key

    @property
    def needs_more_rows(self) -> bool:
        return self.edge.min_out > 0

    @property
    def own(self) -> tuple[Need, ...]:
        return (*self._written, *((self._lost, self._nodes) if self.loses else ()))

    @property
    def others(self) -> tuple[Need, ...]:
        return (Need("result", self.table, ("src",), ("src",), self._risk),)

    @property
    def details(self) -> tuple[Need, ...]:
        return () if self.loses else (self._nodes,)

    @property
    def _written(self) -> tuple[Need, ...]:
        edges, nodes = Need("new", self.table, ("src",), ("src",)), Need("new", self._node_table, ("id",), ("id",))
        return (*((edges,) if self.gains else ()), *((nodes,) if self.sources else ()))

    @property
    def _lost(self) -> Need:
        return Need("lost", self.table, ("src",), ("src",))

    @property
    def _nodes(self) -> Need:
        return Need("result", self._node_table, ("id",), ("id",))

    @property
    def _risk(self) -> Risk:
        if self.edge.max_out is None:
            return "fewer"
        return "either" if self.edge.min_out else "more"

    @property
    def _node_table(self) -> str:
        return f"node:{self.edge.source}"

    def find(self, rows: RowSource, *, complete: bool = False) -> list[Violation]:
        sources = self._counted(rows, complete)
        if not len(sources):
            return []
        edges = rows.matching(self.others[0], sources).select(["src"])
        if not self.edge.min_out and edges.num_rows <= (self.edge.max_out or 0):
            return []
        query = _out_of_bounds(self.edge.min_out, self.edge.max_out)
        return query.run({"sources": pa.table({"src": sources}), "edges": edges}, complete=complete)

    def _counted(self, rows: RowSource, complete: bool) -> pa.Array:
        """The sources to count. A missing node needs no edges. A new edge of a missing node is an error of another check, which
        has ended the checks by now unless `complete`."""
        written = [rows.all(need).column(need.columns[0]) for need in self._written]
        sources = pa.chunked_array([chunk for sources in written for chunk in sources.chunks], pa.string()).unique()
        if complete:
            sources = self._existing(sources, rows)
        if not self.loses:
            return sources
        losing = rows.all(self._lost).column("src").unique()
        return pa.concat_arrays([sources, self._existing(absent(losing, pa.chunked_array([sources])), rows)])

    def _existing(self, sources: pa.Array, rows: RowSource) -> pa.Array:
        if not len(sources):
            return sources
        nodes = rows.matching(self._nodes, sources).column("id")
        return sources.filter(pc.is_in(sources, value_set=nodes.combine_chunks()))

    def error(self, violation: Violation, *, file: str | None = None, line: int | None = None) -> InputError:
        source = f"{self.edge.source} '{violation.id}'"
        hint = None
        bound = f"max {self.edge.max_out}"
        if self._has_too_few(violation):
            bound = f"min {self.edge.min_out}"
            hint = f"write the {self.edge.name} edges of {source} in the same write, or delete the node"
        return CardinalityViolation(
            f"@card violation on edge {self.edge.name}: source '{violation.id}' has {violation.shown()} edges ({bound})",
            type_name=self.edge.name,
            property="src",
            entity_id=violation.id,
            value=violation.shown(),
            file=file,
            line=line,
            hint=hint,
        )

    def excess(self, violation: Violation) -> int | None:
        is_above = self.edge.max_out is not None and not self._has_too_few(violation)
        return int(violation.shown()) - (self.edge.max_out or 0) if is_above else None

    def _has_too_few(self, violation: Violation) -> bool:
        return int(violation.shown()) < self.edge.min_out

    def records(self, violation: Violation) -> tuple[Record, ...]:
        edge, node = (self.table, "src", violation.id), (self._node_table, "id", violation.id)
        return (node, edge) if self._has_too_few(violation) else (edge,)


@lru_cache(maxsize=QUERIES_KEPT)
def _out_of_bounds(minimum: int, maximum: int | None) -> Query:
    count = exp.Count(this=column("src", "e"))
    broken: list[exp.Expr] = []
    if minimum:
        broken.append(exp.LT(this=count.copy(), expression=exp.Literal.number(minimum)))
    if maximum is not None:
        broken.append(exp.GT(this=count.copy(), expression=exp.Literal.number(maximum)))
    selection = violation("cardinality", "src", column("src", "s"), exp.cast(count, "TEXT"))
    edges_of_source = selection.from_(table("sources", "s")).join(
        table("edges", "e"), on=same("src", "s", "src", "e"), join_type="left"
    )
    return Query(edges_of_source.group_by(column("src", "s")).having(exp.or_(*broken)))
