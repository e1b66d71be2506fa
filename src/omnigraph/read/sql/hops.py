"""Expansions in SQL: which pairs (s, d) an edge table connects within hop bounds.

Set semantics: breadth first from each source; a node is reached at its smallest distance only, and a source counts as reached at
distance 0. The only way back is a stored self-loop: it reaches its own node at distance 1.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.language.query.plan import UNBOUNDED, Expansion
from omnigraph.read.sql.shapes import EDGE, SOURCE, TARGET, HopInput
from omnigraph.relational.functions import neutral
from omnigraph.relational.sql import column, named, table
from omnigraph.relational.trees import exp


def define(hop: HopInput, sources: exp.Query | None) -> list[tuple[str, exp.Query]]:
    """The queries that define the hop's relation, in order. `sources` selects the keys worth starting from."""
    expansion = hop.expansion
    if expansion.edge_variable is not None:
        return [(hop.name, _edges(hop))]
    if expansion.path is not None:
        return _paths(hop, sources)
    if expansion.max_hops == 1:
        return [(hop.name, _steps(hop))]
    if expansion.max_hops == UNBOUNDED:
        return _closure(hop, expansion, sources)
    return _levels(hop, expansion, sources)


def _ways(hop: HopInput) -> list[tuple[str, str]]:
    ways = {"out": [("src", "dst")], "in": [("dst", "src")], "both": [("src", "dst"), ("dst", "src")]}
    return ways[hop.expansion.direction]


def _edges(hop: HopInput) -> exp.Query:
    """One row per edge; a self-loop followed in both directions is still one edge."""
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
    """Whether a relation of `define` holds what is reached at one distance, or by a single step."""
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


def _closure(hop: HopInput, expansion: Expansion, sources: exp.Query | None) -> list[tuple[str, exp.Query]]:
    """Everything that can be reached, except at distances below the minimum."""
    near = _levels(hop, replace(expansion, min_hops=1, max_hops=max(expansion.min_hops - 1, 1)), sources)[:-1]
    step, reached = f"{hop.name}_step", f"{hop.name}_all"
    onwards = (
        exp.select(column(SOURCE, "l"), column(TARGET, "h"))
        .from_(table(reached, "l"))
        .join(table(step, "h"), on=exp.EQ(this=column(TARGET, "l"), expression=column(SOURCE, "h")))
        .where(exp.NEQ(this=column(SOURCE, "l"), expression=column(TARGET, "h")))
    )
    whole = exp.select(column(SOURCE, "a"), column(TARGET, "a")).from_(table(reached, "a"))
    if expansion.min_hops > 1:
        whole = whole.where(exp.NEQ(this=column(SOURCE, "a"), expression=column(TARGET, "a")))
        for distance in range(1, expansion.min_hops):
            whole = whole.where(exp.Not(this=exp.Exists(this=_same_pair(f"{hop.name}_level{distance}", "a", "a"))))
    recursive = exp.union(_pairs(f"{hop.name}_level1"), onwards, distinct=True)
    return [*near, (reached, recursive), (hop.name, whole)]


def is_recursive(hop: HopInput) -> bool:
    return hop.expansion.max_hops == UNBOUNDED


def next_level(hop: HopInput, distance: int, reached: str) -> tuple[str, exp.Query]:
    """What is first reached at this distance, given the relation of the previous distance."""
    level = f"{hop.name}_level"
    return f"{level}{distance}", _next_level(f"{level}{distance - 1}", f"{hop.name}_step", reached)


# ---------------------------------------------------------------- paths

NODES, EDGES, LENGTH, COST = "pn", "pe", "pl", "pc"
"""Columns of an `x` relation with the values of its path."""
PATH_COLUMNS = {"nodes": NODES, "edges": EDGES, "length": LENGTH, "cost": COST}


def _paths(hop: HopInput, sources: exp.Query | None) -> list[tuple[str, exp.Query]]:
    """The best path to each node, hop by hop. Without weights a pair is done when it is first reached; with weights every number
    of hops is tried, and the best path overall is taken."""
    expansion, path = hop.expansion, hop.expansion.path
    assert path is not None
    step, level = f"{hop.name}_step", f"{hop.name}_level"
    start = [column(SOURCE), column(TARGET)]
    first = exp.select(
        *start,
        named(exp.Array(expressions=[end.copy() for end in start]), NODES),
        named(exp.Array(expressions=[column(EDGE)]), EDGES),
        named(column("w"), COST),
    ).from_(table(step))
    if sources is not None:
        first = first.where(exp.In(this=column(SOURCE), query=exp.Subquery(this=sources)))
    definitions: list[tuple[str, exp.Query]] = [(step, _weighted_steps(hop)), (f"{level}1", _best(first))]
    reached = f"{level}1"
    for distance in range(2, expansion.max_hops + 1):
        longer = _longer(f"{level}{distance - 1}", step)
        if path.weight is None:
            longer = longer.where(exp.Not(this=exp.Exists(this=_same_pair(reached, "l", "h"))))
        definitions.append((f"{level}{distance}", _best(longer)))
        if path.weight is None and distance < expansion.max_hops:
            pairs = [_pairs(reached), _pairs(f"{level}{distance}")]
            reached = f"{hop.name}_seen{distance}"
            definitions.append((reached, exp.union(*pairs, distinct=False)))
    paths = [_path_rows(f"{level}{distance}") for distance in range(expansion.min_hops, expansion.max_hops + 1)]
    every: exp.Query = paths[0] if len(paths) == 1 else exp.union(*paths, distinct=False)
    chosen = every if path.weight is None else _best(every, with_length=True)
    length = neutral("size", column(EDGES, "q"))
    shown = [column(name, "q") for name in (SOURCE, TARGET, NODES, EDGES, COST)]
    return [*definitions, (hop.name, exp.select(*shown, named(length, LENGTH)).from_(chosen.subquery("q")))]


def _weighted_steps(hop: HopInput) -> exp.Query:
    assert hop.expansion.path is not None
    weight = exp.cast(column(hop.columns[0].alias) if hop.columns else exp.Literal.number(1), "DOUBLE")
    queries: list[exp.Query] = []
    for near, far in _ways(hop):
        columns = [
            named(column(near), SOURCE),
            named(column(far), TARGET),
            named(column("id"), EDGE),
            named(weight.copy(), "w"),
        ]
        query = (
            exp.select(*columns).from_(table(hop.edges)).where(exp.NEQ(this=column("src"), expression=column("dst")))
        )
        queries.append(query.where(exp.GTE(this=weight.copy(), expression=exp.Literal.number(0))))
    return queries[0] if len(queries) == 1 else exp.union(*queries, distinct=False)


def _path_rows(name: str) -> exp.Select:
    return exp.select(*map(column, (SOURCE, TARGET, NODES, EDGES, COST))).from_(table(name))


def _longer(level: str, step: str) -> exp.Select:
    return (
        exp.select(
            column(SOURCE, "l"),
            column(TARGET, "h"),
            named(neutral("append", column(NODES, "l"), column(TARGET, "h")), NODES),
            named(neutral("append", column(EDGES, "l"), column(EDGE, "h")), EDGES),
            named(exp.Add(this=column(COST, "l"), expression=column("w", "h")), COST),
        )
        .from_(table(level, "l"))
        .join(table(step, "h"), on=exp.EQ(this=column(TARGET, "l"), expression=column(SOURCE, "h")))
        .where(exp.NEQ(this=column(SOURCE, "l"), expression=column(TARGET, "h")))
    )


def _best(candidates: exp.Query, *, with_length: bool = False) -> exp.Query:
    """The best path of each pair."""
    keys: list[exp.Expression] = [column(COST, "c")]
    keys += [neutral("size", column(EDGES, "c"))] if with_length else []
    keys += [column(NODES, "c"), column(EDGES, "c")]
    order = exp.Order(expressions=[exp.Ordered(this=key, desc=False, nulls_first=True) for key in keys])
    partition: list[exp.Expression] = [column(SOURCE, "c"), column(TARGET, "c")]
    rank = exp.Window(this=exp.RowNumber(), partition_by=partition, order=order)
    names = (SOURCE, TARGET, NODES, EDGES, COST)
    ranked = exp.select(*(column(name, "c") for name in names), named(rank, "n")).from_(candidates.subquery("c"))
    best = exp.EQ(this=column("n", "r"), expression=exp.Literal.number(1))
    return exp.select(*(column(name, "r") for name in names)).from_(ranked.subquery("r")).where(best)


# ---------------------------------------------------------------- levels


def _same_pair(relation: str, source: str, target: str) -> exp.Select:
    return (
        exp.select(exp.Literal.number(1))
        .from_(table(relation, "r"))
        .where(
            exp.EQ(this=column(SOURCE, "r"), expression=column(SOURCE, source)),
            exp.EQ(this=column(TARGET, "r"), expression=column(TARGET, target)),
        )
    )


def _pairs(name: str) -> exp.Select:
    return exp.select(column(SOURCE), column(TARGET)).from_(table(name))


def _next_level(level: str, step: str, reached: str) -> exp.Query:
    before = _same_pair(reached, "l", "h")
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
