"""Small reads without an engine: the rows that reduction found, joined and computed with as the executor does.

An engine takes longer to plan such a query than this takes to answer it. Conditions on one variable are satisfied by these rows; others are checked here.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import ArithmeticOverflow
from omnigraph.expressions.interpreter import NotInterpreted
from omnigraph.expressions.predicates import conjuncts
from omnigraph.expressions.usage import blocks, variables
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.executor.bindings import Bindings, Matches, NotCovered, cross, first_of_each, keys_of
from omnigraph.read.executor.matching import PatternMatcher
from omnigraph.read.executor.output import ResultTable
from omnigraph.read.executor.sources import RelationSource
from omnigraph.read.executor.values import is_covered
from omnigraph.read.inputs.adjacency import whole
from omnigraph.read.sql.shapes import EDGE, KEY, SOURCE, TARGET
from omnigraph.read.strategies.reduction import Reduced, reduced
from omnigraph.read.strategies.strategy import Read, ResultAnswer, Strategy


def is_direct(plan: ReadPlan) -> bool:
    """Whether a read follows from the rows of each variable, and the pairs of each expansion."""
    pattern = plan.pattern
    if pattern.start_rows or pattern.unnests or pattern.optionals:
        return False
    if any(len(binding.types) > 1 for binding in pattern.bindings):
        return False
    used = [*pattern.filters, *plan.having, *(projection.expression for projection in plan.projections)]
    used += [key.expression for key in plan.order]
    return all(is_covered(expression) and not blocks(expression) for expression in used)


def _answer(read: Read) -> ResultAnswer | None:
    if not read.prepared().form(is_direct):
        return None
    small = read.once(reduced)
    if small is None or not small.is_checked:
        return None
    matcher = PatternMatcher(read.view, read.arguments)
    plan = small.prepared.plan
    try:
        rows = _joined(matcher, list(_parts(matcher, small)))
        several = [condition for condition in conjuncts(plan.pattern.filters) if len(variables(condition)) != 1]
        for condition in several:
            rows = rows.take(matcher.values.holds(condition, rows))
        return ResultAnswer(small.choices, ResultTable(matcher, plan).table(rows))
    except (NotCovered, NotInterpreted, ArithmeticOverflow):
        return None
    finally:
        matcher.release()


DIRECT = Strategy("direct", frozenset({"auto", "index"}), _answer)


def _parts(matcher: PatternMatcher, small: Reduced) -> Iterator[Bindings]:
    """The rows of each expansion, and of each variable that none leads to, by their positions among the rows of variables."""
    query, relations = small.prepared.query, small.relations
    types = {binding.variable: binding.types for binding in small.prepared.plan.pattern.bindings}
    ids: dict[str, pa.Array] = {}
    for node in query.inputs:
        ids[node.variable] = whole(relations[node.name].column(KEY))
        names = {"id": KEY, **{column.stored: column.alias for column in node.columns}}
        matcher.sources[node.variable] = RelationSource(relations[node.name], names, node.types)
    hops = [(hop.expansion, relations[hop.name], hop.columns) for hop in query.hops]
    ends = [(name, side) for hop, *_ in hops for name, side in ((hop.source, SOURCE), (hop.target, TARGET))]
    for variable in dict.fromkeys(name for name, _ in ends if name not in ids):  # Known by their ids alone.
        known = [
            whole(rows.column(side))
            for hop, rows, _ in hops
            for name, side in ((hop.source, SOURCE), (hop.target, TARGET))
            if name == variable
        ]
        ids[variable] = pa.concat_arrays(known).unique()
        matcher.sources[variable] = RelationSource(pa.table({KEY: ids[variable]}), {"id": KEY}, types[variable])
    for hop, rows, columns in hops:
        near, far = (
            _places(rows.column(side), ids[name]) for side, name in ((SOURCE, hop.source), (TARGET, hop.target))
        )
        kept = np.flatnonzero((near >= 0) & (far >= 0) & ((hop.source != hop.target) | (near == far)))
        numbers_of = {hop.source: near[kept], hop.target: far[kept]}
        if hop.edge_variable is not None:
            codes = np.asarray(whole(rows.column(EDGE)).dictionary_encode().indices)
            numbers, first = first_of_each(codes[kept])
            names = {"id": EDGE, **{column.stored: column.alias for column in columns}}
            matcher.sources[hop.edge_variable] = RelationSource(rows.take(pa.array(kept[first])), names)
            numbers_of[hop.edge_variable] = numbers
        yield Bindings(len(kept), numbers_of)
    for variable in ids.keys() - {name for name, _ in ends}:
        yield Bindings(len(ids[variable]), {variable: np.arange(len(ids[variable]))})


def _places(cells: pa.ChunkedArray, ids: pa.Array) -> np.ndarray:
    """The position of each id, or -1."""
    return np.asarray(pc.fill_null(pc.index_in(whole(cells), value_set=ids), -1))


def _joined(matcher: PatternMatcher, parts: list[Bindings]) -> Bindings:
    rows = parts.pop()
    while parts:
        part = next((part for part in parts if rows.columns.keys() & part.columns.keys()), parts[0])
        parts = [other for other in parts if other is not part]
        shared = [name for name in part.columns if name in rows.columns]
        if not shared:
            matcher.reserve(rows.rows * part.rows, len(rows.columns) + len(part.columns))
            rows = cross(rows, part)
            continue
        matches = Matches(*keys_of([[side.columns[name] for name in shared] for side in (rows, part)]))
        matcher.reserve(matches.total, len(rows.columns) + len(part.columns))
        left, right = matches.pairs()
        new = {name: numbers[right] for name, numbers in part.columns.items() if name not in shared}
        rows = rows.take(left).adding(**new)
    return rows
