"""Expansions in SQL: which pairs (s, d) an edge table connects within hop bounds.

Set semantics: breadth first from each source; a node is reached at its smallest distance only, and a source counts as reached at
distance 0. If that is below the minimum, the only way back is a stored self-loop: it reaches its own node at distance 1.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.expressions.sql import literal
from omnigraph.language.query.plan import UNBOUNDED, Expansion, Path
from omnigraph.read.sql.shapes import EDGE, KEY, SOURCE, TARGET, TYPE, HopInput
from omnigraph.relational.sql import column, exp, named, neutral, table
from omnigraph.values.types import PropertyType, Scalar


def define(hop: HopInput, sources: exp.Query | None) -> list[tuple[str, exp.Query]]:
    """The queries that define the hop's relation, in order. `sources` selects the keys worth starting from."""
    expansion = hop.expansion
    if expansion.edge_variable is not None:
        return [(hop.name, _edges(hop))]
    if expansion.min_hops == 0:
        assert sources is not None, "a walk that may have no hop starts from an input"
        return [*define(beyond_start(hop), sources), (hop.name, _with_start(hop, sources))]
    if expansion.path is not None:
        return _paths(hop, sources)
    if expansion.max_hops == 1 and expansion.walk is None:
        return [(hop.name, _steps(hop))]
    if expansion.max_hops == UNBOUNDED:
        return _closure(hop, expansion, sources)
    return _levels(hop, expansion, sources)


def beyond_start(hop: HopInput) -> HopInput:
    """The same walk with at least one hop."""
    if hop.expansion.min_hops > 0:
        return hop
    return replace(hop, name=f"{hop.name}_far", expansion=replace(hop.expansion, min_hops=1))


def _with_start(hop: HopInput, sources: exp.Query) -> exp.Query:
    """What is reached by one hop or more, and each source, which no hop reaches."""
    start = sources.subquery("q")
    near: list[exp.Expression] = [named(column(KEY, "q"), SOURCE), named(column(KEY, "q"), TARGET)]
    far: list[exp.Expression] = [column(SOURCE), column(TARGET)]
    if hop.expansion.path is not None:
        nothing = literal((), PropertyType(Scalar.STRING, is_list=True))
        near += [named(exp.Array(expressions=[column(KEY, "q")]), NODES), named(nothing, EDGES)]
        near += [named(exp.cast(exp.Literal.number(0), "DOUBLE"), COST), named(exp.Literal.number(0), LENGTH)]
        far += [column(name) for name in (NODES, EDGES, COST, LENGTH)]
    elsewhere = exp.NEQ(this=column(SOURCE), expression=column(TARGET))
    reached = exp.select(*far).from_(table(beyond_start(hop).name)).where(elsewhere)
    return exp.union(exp.select(*near).from_(start), reached, distinct=False)


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
            *_edge_itself(hop),
        ]
        query = exp.select(*columns).from_(table(hop.edges))
        if index:
            query = query.where(exp.NEQ(this=column("src"), expression=column("dst")))
        queries.append(query)
    return queries[0] if len(queries) == 1 else exp.union(*queries, distinct=False)


def _steps(hop: HopInput) -> exp.Query:
    """Each connected pair once; or each edge, with its columns, if conditions along the walk speak of them."""
    queries: list[exp.Query] = []
    for near, far in _ways(hop):
        columns = [named(column(near), SOURCE), named(column(far), TARGET)]
        if hop.along is not None and hop.along.between:
            columns += _edge_itself(hop)
        query = exp.select(*columns).from_(table(hop.edges)).distinct()
        queries.append(query.where(*_each(hop), copy=False))
    return queries[0] if len(queries) == 1 else exp.union(*queries, distinct=True)


def is_level(name: str) -> bool:
    """Whether a relation of `define` holds what is reached at one distance, or by a single step."""
    return name.rpartition("_")[2].startswith(("level", "step"))


def _each(hop: HopInput) -> list[exp.Expression]:
    return [] if hop.along is None else [condition.copy() for condition in hop.along.per_hop]


def _state(hop: HopInput) -> list[str]:
    """The columns of a level: the ends, and the last edge if it decides how a walk goes on."""
    if hop.along is None or not hop.along.by_edge:
        return [SOURCE, TARGET]
    return [SOURCE, TARGET, *hop.identity, *(stored.alias for stored in hop.columns)]


def _edge_itself(hop: HopInput) -> list[exp.Expression]:
    """The columns of an `x` relation that hold an edge, from its `e` relation."""
    rest = [*hop.identity[1:], *(stored.alias for stored in hop.columns)]
    return [named(column("id"), EDGE), *map(column, rest)]


def _onwards(hop: HopInput, level: str, step: str, *values: exp.Expression) -> exp.Select:
    """One hop further from a level, where the conditions along the walk hold."""
    state = [column(SOURCE, "l"), *(column(name, "h") for name in _state(hop)[1:])]
    query = (
        exp.select(*state, *values)
        .from_(table(level, "l"))
        .join(table(step, "h"), on=exp.EQ(this=column(TARGET, "l"), expression=column(SOURCE, "h")))
    )
    if hop.along is not None and hop.along.node is not None:
        on = exp.EQ(this=hop.along.node_key.copy(), expression=column(SOURCE, "h"))
        query = query.join(table(hop.along.node, "v"), on=on)
    if hop.along is not None:
        query = query.where(*(condition.copy() for condition in hop.along.between), copy=False)
    if len(state) > 2:
        return query
    return query.where(exp.NEQ(this=column(SOURCE, "l"), expression=column(TARGET, "h")), copy=False)


def _levels(hop: HopInput, expansion: Expansion, sources: exp.Query | None) -> list[tuple[str, exp.Query]]:
    step, levels, seen = f"{hop.name}_step", f"{hop.name}_level", f"{hop.name}_seen"
    first = exp.select(*map(column, _state(hop))).distinct().from_(table(step))
    if sources is not None:
        first = first.where(exp.In(this=column(SOURCE), query=exp.Subquery(this=sources)))
    definitions: list[tuple[str, exp.Query]] = [(step, _steps(hop)), (f"{levels}1", first)]
    reached = f"{levels}1"
    for distance in range(2, expansion.max_hops + 1):
        definitions.append((f"{levels}{distance}", _next_level(hop, f"{levels}{distance - 1}", step, reached)))
        if distance < expansion.max_hops:
            rows = [_rows(hop, reached), _rows(hop, f"{levels}{distance}")]
            reached = f"{seen}{distance}"
            definitions.append((reached, exp.union(*rows, distinct=False)))
    by_edge = len(_state(hop)) > 2
    low = 1 if by_edge else expansion.min_hops
    wanted = [
        _pairs(f"{levels}{distance}", distance if by_edge else None) for distance in range(low, expansion.max_hops + 1)
    ]
    whole: exp.Query = wanted[0] if len(wanted) == 1 else exp.union(*wanted, distinct=False)
    return [*definitions, (hop.name, _nearest_pairs(whole, expansion.min_hops) if by_edge else whole)]


def _nearest_pairs(pairs: exp.Query, min_hops: int) -> exp.Query:
    """Each pair at its smallest distance, if that is within the bounds; a source only by an edge to itself."""
    ends: list[exp.Expression] = [column(SOURCE, "q"), column(TARGET, "q")]
    distance = exp.Min(this=column("n", "q"))
    is_start = exp.EQ(this=ends[0].copy(), expression=ends[1].copy())
    returns = exp.and_(is_start, exp.GT(this=distance, expression=exp.Literal.number(1)))
    return (
        exp.select(*ends)
        .from_(pairs.subquery("q"))
        .group_by(*(end.copy() for end in ends))
        .having(
            exp.GTE(this=distance.copy(), expression=exp.Literal.number(min_hops)), exp.Not(this=exp.paren(returns))
        )
    )


def _closure(hop: HopInput, expansion: Expansion, sources: exp.Query | None) -> list[tuple[str, exp.Query]]:
    """Everything that can be reached, except at distances below the minimum."""
    near = _levels(hop, replace(expansion, min_hops=1, max_hops=max(expansion.min_hops - 1, 1)), sources)[:-1]
    step, reached = f"{hop.name}_step", f"{hop.name}_all"
    recursive = exp.union(_rows(hop, f"{hop.name}_level1"), _onwards(hop, reached, step), distinct=True)
    return [*near, (reached, recursive), (hop.name, closed(hop))]


def closed(hop: HopInput) -> exp.Query:
    """The pairs of all that was reached, without those at distances below the minimum."""
    ends = [column(SOURCE, "a"), column(TARGET, "a")]
    whole = exp.select(*ends).distinct().from_(table(f"{hop.name}_all", "a"))
    elsewhere: exp.Expression = exp.NEQ(this=ends[0].copy(), expression=ends[1].copy())
    if hop.expansion.min_hops > 1:
        whole = whole.where(elsewhere)
        for distance in range(1, hop.expansion.min_hops):
            whole = whole.where(exp.Not(this=exp.Exists(this=_same_pair(f"{hop.name}_level{distance}", "a", "a"))))
    elif len(_state(hop)) > 2:
        loops = exp.Exists(this=_same_pair(f"{hop.name}_level1", "a", "a"))
        whole = whole.where(exp.or_(elsewhere, loops))
    return whole


def is_recursive(hop: HopInput) -> bool:
    return hop.expansion.max_hops == UNBOUNDED


def next_level(hop: HopInput, distance: int, reached: str) -> tuple[str, exp.Query]:
    """What is first reached at this distance, given the relation of the previous distance."""
    level = f"{hop.name}_level"
    return f"{level}{distance}", _next_level(hop, f"{level}{distance - 1}", f"{hop.name}_step", reached)


# ---------------------------------------------------------------- paths

NODES, EDGES, LENGTH, COST = "pn", "pe", "pl", "pc"
"""Columns of an `x` relation with the values of its path."""
PATH_COLUMNS = {"nodes": NODES, "edges": EDGES, "length": LENGTH, "cost": COST}


def _paths(hop: HopInput, sources: exp.Query | None) -> list[tuple[str, exp.Query]]:
    """The best path to each node, or all of fewest hops, hop by hop. Without weights a pair is done when it is first reached; with weights every number
    of hops is tried, and the best path overall is taken. If the last edge decides how a path goes on, it stands for the node."""
    expansion, path = hop.expansion, hop.expansion.path
    assert path is not None
    step, level, state = f"{hop.name}_step", f"{hop.name}_level", _state(hop)
    by_edge = len(state) > 2
    first = exp.select(
        *map(column, state),
        named(exp.Array(expressions=[column(SOURCE), column(TARGET)]), NODES),
        named(exp.Array(expressions=[column(EDGE)]), EDGES),
        named(column("w"), COST),
    ).from_(table(step))
    if sources is not None:
        first = first.where(exp.In(this=column(SOURCE), query=exp.Subquery(this=sources)))
    definitions: list[tuple[str, exp.Query]] = [(step, _weighted_steps(hop)), (f"{level}1", _best(first, state, path))]
    reached = f"{level}1"
    for distance in range(2, expansion.max_hops + 1):
        longer = _longer(hop, f"{level}{distance - 1}", step)
        if path.weight is None:
            longer = longer.where(exp.Not(this=exp.Exists(this=_same_state(hop, reached))))
        definitions.append((f"{level}{distance}", _best(longer, state, path)))
        if path.weight is None and distance < expansion.max_hops:
            rows = [_rows(hop, reached), _rows(hop, f"{level}{distance}")]
            reached = f"{hop.name}_seen{distance}"
            definitions.append((reached, exp.union(*rows, distinct=False)))
    low = 1 if by_edge else expansion.min_hops
    paths = [_path_rows(f"{level}{distance}", by_edge) for distance in range(low, expansion.max_hops + 1)]
    every: exp.Query = paths[0] if len(paths) == 1 else exp.union(*paths, distinct=False)
    ends = [SOURCE, TARGET]
    chosen = every if path.weight is None and not by_edge else _best(every, ends, path, with_length=True)
    length = neutral("size", column(EDGES, "q"))
    shown = [column(name, "q") for name in (*ends, NODES, EDGES, COST)]
    whole = exp.select(*shown, named(length, LENGTH)).from_(chosen.subquery("q"))
    if by_edge:
        whole = whole.where(exp.GTE(this=length.copy(), expression=exp.Literal.number(expansion.min_hops)))
    return [*definitions, (hop.name, whole)]


def _weighted_steps(hop: HopInput) -> exp.Query:
    path = hop.expansion.path
    assert path is not None
    weights = [stored.alias for stored in hop.columns if stored.stored == path.weight]
    weight = exp.cast(column(weights[0]) if weights else exp.Literal.number(1), "DOUBLE")
    queries: list[exp.Query] = []
    for near, far in _ways(hop):
        columns = [
            named(column(near), SOURCE),
            named(column(far), TARGET),
            named(weight.copy(), "w"),
            *_edge_itself(hop),
        ]
        query = (
            exp.select(*columns).from_(table(hop.edges)).where(exp.NEQ(this=column("src"), expression=column("dst")))
        )
        query = query.where(exp.GTE(this=weight.copy(), expression=exp.Literal.number(0)), *_each(hop))
        queries.append(query)
    return queries[0] if len(queries) == 1 else exp.union(*queries, distinct=False)


def _path_rows(name: str, elsewhere: bool) -> exp.Select:
    rows = exp.select(*map(column, (SOURCE, TARGET, NODES, EDGES, COST))).from_(table(name))
    return rows.where(exp.NEQ(this=column(SOURCE), expression=column(TARGET))) if elsewhere else rows


def _longer(hop: HopInput, level: str, step: str) -> exp.Select:
    return _onwards(
        hop,
        level,
        step,
        named(neutral("append", column(NODES, "l"), column(TARGET, "h")), NODES),
        named(neutral("append", column(EDGES, "l"), column(EDGE, "h")), EDGES),
        named(exp.Add(this=column(COST, "l"), expression=column("w", "h")), COST),
    )


def _best(candidates: exp.Query, state: list[str], path: Path, *, with_length: bool = False) -> exp.Query:
    """The best path of each state, or all that are equally good."""
    keys: list[exp.Expression] = [column(COST, "c")]
    keys += [neutral("size", column(EDGES, "c"))] if with_length else []
    keys += [] if path.is_every else [column(NODES, "c"), column(EDGES, "c")]
    order = exp.Order(expressions=[exp.Ordered(this=key, desc=False, nulls_first=True) for key in keys])
    partition: list[exp.Expression] = [column(name, "c") for name in state if name in (SOURCE, TARGET, EDGE, TYPE)]
    number = exp.Anonymous(this="RANK") if path.is_every else exp.RowNumber()
    rank = exp.Window(this=number, partition_by=partition, order=order)
    names = (*state, NODES, EDGES, COST)
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


def _same_state(hop: HopInput, relation: str) -> exp.Select:
    """What was reached before of the hop `h` from the level `l`."""
    same = _same_pair(relation, "l", "h")
    if len(_state(hop)) == 2:
        return same
    return same.where(*(exp.EQ(this=column(name, "r"), expression=column(name, "h")) for name in hop.identity))


def _rows(hop: HopInput, name: str) -> exp.Select:
    return exp.select(*map(column, _state(hop))).from_(table(name))


def _pairs(name: str, distance: int | None) -> exp.Select:
    rows = exp.select(column(SOURCE), column(TARGET)).from_(table(name))
    return rows if distance is None else rows.select(named(exp.Literal.number(distance), "n"))


def _next_level(hop: HopInput, level: str, step: str, reached: str) -> exp.Query:
    return _onwards(hop, level, step).distinct().where(exp.Not(this=exp.Exists(this=_same_state(hop, reached))))
