"""Expansions in SQL: which pairs (s, d) an edge table connects within hop bounds.

Set semantics: breadth first from each source; a node is reached at its smallest distance only, and a source counts as
reached at distance 0. A stored self-loop is the one way back: it reaches its own node at distance 1.
"""

from __future__ import annotations

from sqlglot import exp

from omnigraph.language.query.plan import Expansion
from omnigraph.read.sql.shapes import EDGE, SOURCE, TARGET, HopInput
from omnigraph.relational.sql import column, named, table


def define(hop: HopInput, sources: exp.Query | None) -> list[tuple[str, exp.Query]]:
    """The queries that make the hop's relation, in order. `sources` selects the keys worth starting from."""
    expansion = hop.expansion
    if expansion.edge_variable is not None:
        return [(hop.name, _edges(hop))]
    if expansion.max_hops == 1:
        return [(hop.name, _steps(hop))]
    return _levels(hop, expansion, sources)


def _ways(hop: HopInput) -> list[tuple[str, str]]:
    ways = {"out": [("src", "dst")], "in": [("dst", "src")], "both": [("src", "dst"), ("dst", "src")]}
    return ways[hop.expansion.direction]


def _edges(hop: HopInput) -> exp.Query:
    """One row per edge; a self-loop followed either way is still one edge."""
    queries: list[exp.Query] = []
    for index, (near, far) in enumerate(_ways(hop)):
        columns: list[exp.Expression] = [
            named(column(near), SOURCE),
            named(column(far), TARGET),
            named(column("id"), EDGE),
        ]
        columns += [column(stored.alias) for stored in hop.columns]
        query = exp.select(*columns).from_(table(hop.edges))
        if index:
            query = query.where(exp.NEQ(this=column("src"), expression=column("dst")))
        queries.append(query)
    return queries[0] if len(queries) == 1 else exp.union(*queries, distinct=False)


def _steps(hop: HopInput) -> exp.Query:
    """Each connected pair once."""
    queries: list[exp.Query] = [
        exp.select(named(column(near), SOURCE), named(column(far), TARGET)).from_(table(hop.edges)).distinct()
        for near, far in _ways(hop)
    ]
    return queries[0] if len(queries) == 1 else exp.union(*queries, distinct=True)


def is_level(name: str) -> bool:
    """Is it one of `define`'s relations that hold what is reached at one distance (or a single step)?"""
    return name.rpartition("_")[2].startswith(("level", "step"))


def _levels(hop: HopInput, expansion: Expansion, sources: exp.Query | None) -> list[tuple[str, exp.Query]]:
    step, levels, seen = f"{hop.name}_step", f"{hop.name}_level", f"{hop.name}_seen"
    first = exp.select(column(SOURCE), column(TARGET)).from_(table(step))
    if sources is not None:
        first = first.where(exp.In(this=column(SOURCE), query=exp.Subquery(this=sources)))
    definitions: list[tuple[str, exp.Query]] = [(step, _steps(hop)), (f"{levels}1", first)]
    reached = f"{levels}1"
    for distance in range(2, expansion.max_hops + 1):
        definitions.append((f"{levels}{distance}", _next_level(f"{levels}{distance - 1}", step, reached)))
        if distance < expansion.max_hops:
            pairs = [_pairs(reached), _pairs(f"{levels}{distance}")]
            reached = f"{seen}{distance}"
            definitions.append((reached, exp.union(*pairs, distinct=False)))
    wanted = [_pairs(f"{levels}{distance}") for distance in range(expansion.min_hops, expansion.max_hops + 1)]
    whole: exp.Query = wanted[0] if len(wanted) == 1 else exp.union(*wanted, distinct=False)
    return [*definitions, (hop.name, whole)]


def _pairs(name: str) -> exp.Select:
    return exp.select(column(SOURCE), column(TARGET)).from_(table(name))


def _next_level(level: str, step: str, reached: str) -> exp.Query:
    before = (
        exp.select(exp.Literal.number(1))
        .from_(table(reached, "r"))
        .where(
            exp.EQ(this=column(SOURCE, "r"), expression=column(SOURCE, "l")),
            exp.EQ(this=column(TARGET, "r"), expression=column(TARGET, "h")),
        )
    )
    return (
        exp.select(column(SOURCE, "l"), column(TARGET, "h"))
        .distinct()
        .from_(table(level, "l"))
        .join(table(step, "h"), on=exp.EQ(this=column(TARGET, "l"), expression=column(SOURCE, "h")))
        .where(
            exp.NEQ(this=column(SOURCE, "l"), expression=column(TARGET, "h")),
            exp.Not(this=exp.Exists(this=before)),
        )
    )
