"""Reads on arrays of node numbers: the executor, tried twice.

Before anything is looked up, it takes reads that begin at a few nodes, if the numbers they need are at hand. At last it takes
whatever it covers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import ArithmeticOverflow
from omnigraph.expressions.interpreter import NotInterpreted
from omnigraph.expressions.predicates import conjuncts, stated_column
from omnigraph.expressions.usage import all_patterns, blocks, variables
from omnigraph.language.query.plan import (
    Aggregate,
    Binary,
    EntityRef,
    Expansion,
    Expression,
    Pattern,
    PropertyRef,
    ReadPlan,
    children,
    is_aggregated,
    walk,
)
from omnigraph.read.executor.bindings import Measure, Needs, NotCovered
from omnigraph.read.executor.counting import subtree
from omnigraph.read.executor.matching import MAX_COUNT, MAX_SCANNED, ConditionsOf, PatternMatcher
from omnigraph.read.executor.output import ResultTable, counts_matches, measures_of
from omnigraph.read.executor.sizes import MAX_MATCHES, refuse_endless
from omnigraph.read.executor.values import is_covered
from omnigraph.read.inputs import sources as inputs
from omnigraph.read.inputs.adjacency import GraphArrays
from omnigraph.read.strategies.strategy import Read, ResultAnswer, Strategy
from omnigraph.values.types import Scalar


@dataclass(frozen=True)
class ArraysForm:
    """What is known of a plan that the executor covers."""

    plan: ReadPlan
    node_types: frozenset[str]
    edge_types: frozenset[str]
    stated: tuple[tuple[tuple[str, ...], str], ...]
    """The types and the column of each variable that has a column of known value."""
    needs: Needs
    is_product: bool
    """Whether it counts the combinations of variables that nothing connects."""
    difference: tuple[ReadPlan, ReadPlan] | None
    """Two plans the first of which counts as many matches more as the second one does."""
    conditions: ConditionsOf = field(default_factory=dict, compare=False)


def arrays_form(plan: ReadPlan) -> ArraysForm | None:
    """The form of a plan; None if the executor does not cover it."""
    returned = (*(p.expression for p in plan.projections), *plan.having, *(key.expression for key in plan.order))
    patterns = list(all_patterns(plan.pattern, returned))
    if not all(map(is_covered, returned)) or not all(map(_is_covered, patterns)):
        return None
    types = {binding.variable: binding.types for binding in plan.pattern.bindings}
    is_count = _is_count(plan, returned)
    needs = Needs(
        frozenset(_countable(plan, returned) if is_count else ()),
        frozenset(_needed(plan, returned)),
        is_count,
        measures=tuple(dict.fromkeys(_measures(returned))) if is_count else (),
    )
    stated = [(condition, stated_column(condition)) for condition in conjuncts(plan.pattern.filters)]
    return ArraysForm(
        plan,
        frozenset(name for pattern in patterns for binding in pattern.bindings for name in binding.types),
        frozenset(name for pattern in patterns for hop in pattern.expansions for name in hop.edges),
        tuple(
            (types[column[0].variable], column[0].column)
            for condition, column in stated
            if column is not None and variables(condition) == {column[0].variable} and column[0].variable in types
        ),
        needs,
        is_count and not plan.pattern.expansions and len(plan.pattern.bindings) > 1,
        _difference(plan) if is_count else None,
    )


def _difference(plan: ReadPlan) -> tuple[ReadPlan, ReadPlan] | None:
    """A tree of which two variables must differ, as the tree without that condition, less what it has where they are the same."""
    pattern, columns = plan.pattern, [projection.expression for projection in plan.projections]
    apart = [condition for condition in pattern.filters if len(variables(condition)) == 2]
    if len(apart) != 1 or plan.having or plan.order or plan.limit or plan.offset or pattern.optionals:
        return None
    match apart[0]:
        case Binary("!=", EntityRef(kept), EntityRef(gone), _):
            pass
        case _:
            return None
    others = tuple(condition for condition in pattern.filters if condition is not apart[0])
    types = {binding.variable: binding.types for binding in pattern.bindings}
    if types.get(kept) != types.get(gone) or gone in {name for other in others for name in variables(other)}:
        return None
    whole = replace(plan, pattern=replace(pattern, filters=others))
    if subtree(kept, pattern.expansions, {*_countable(whole, columns)}) is None:
        return None
    hops: dict[object, Expansion] = {}
    for hop in pattern.expansions:
        source, target = (kept if name == gone else name for name in (hop.source, hop.target))
        ends = frozenset((source, target)) if hop.direction == "both" else (source, target)
        key = hop.edge_variable or (hop.edge, hop.direction, ends)
        hops.setdefault(key, replace(hop, source=source, target=target))
    bindings = tuple(binding for binding in pattern.bindings if binding.variable != gone)
    same = replace(pattern, bindings=bindings, expansions=tuple(hops.values()), filters=others)
    counts = tuple(replace(column, operand=EntityRef(kept)) for column in columns if isinstance(column, Aggregate))
    if len(counts) < len(columns):
        return None
    shown = (replace(p, expression=count) for p, count in zip(plan.projections, counts, strict=True))
    return whole, replace(plan, pattern=same, projections=tuple(shown))


def _needed(plan: ReadPlan, returned: Sequence[Expression]) -> Iterator[str]:
    """The variables of results, unnests, optional blocks and the conditions on these."""
    pattern = plan.pattern
    yield from plan.tie_break
    nodes = {binding.variable for binding in pattern.bindings} if _is_count(plan, returned) else ()
    for expression in (*returned, *(unnest.items for unnest in pattern.unnests)):
        aggregates = [inner for inner in walk(expression) if isinstance(inner, Aggregate)]
        held = [aggregate for aggregate in aggregates if not _is_additive(aggregate, nodes)]
        outside = _outside_aggregates(expression) if is_aggregated(expression) else [expression]
        for inner in (*outside, *held):
            yield from variables(inner)
    for optional in pattern.optionals:
        yield from optional.outer
    if pattern.unnests or pattern.optionals:
        for condition in pattern.filters:
            yield from variables(condition)


def _is_count(plan: ReadPlan, returned: Sequence[Expression]) -> bool:
    aggregates = [inner for expression in returned for inner in walk(expression) if isinstance(inner, Aggregate)]
    optionals = plan.pattern.optionals
    used = {name for expression in (*returned, *plan.pattern.filters) for name in variables(expression)}
    used.update(name for optional in optionals for name in optional.outer)
    is_whole = not plan.pattern.unnests and not (optionals and plan.pattern.start_rows)
    is_whole = is_whole and all(_multiplies_rows(optional, used) for optional in optionals)
    nodes = () if plan.pattern.start_rows else {binding.variable for binding in plan.pattern.bindings}
    is_additive = all(_is_additive(aggregate, nodes) for aggregate in aggregates)
    return is_whole and plan.grouped and not plan.distinct and is_additive


def _measures(returned: Sequence[Expression]) -> Iterator[Measure]:
    for aggregate in (inner for expression in returned for inner in walk(expression) if isinstance(inner, Aggregate)):
        yield from measures_of(aggregate)


def _multiplies_rows(optional: Pattern, used: Collection[str]) -> bool:
    """Whether an optional block matters only by how many matches it has: an edge to a variable that nothing uses."""
    if optional.filters or optional.unnests or optional.optionals or len(optional.outer) != 1:
        return False
    if len(optional.bindings) != 1 or len(optional.expansions) != 1:
        return False
    (hop,), (binding,) = optional.expansions, optional.bindings
    return hop.is_step and not hop.reads_edges and len(binding.types) == 1 and binding.variable not in used


def _countable(plan: ReadPlan, returned: Sequence[Expression]) -> Iterator[str]:
    """The variables of which nothing is asked but their own conditions, at ends of single hops; and of edges, nothing at all."""
    pattern, stage = plan.pattern, plan.pattern.start_rows
    keys = [inner for expression in returned if not is_aggregated(expression) for inner in walk(expression)]
    mixed = [child for expression in returned if is_aggregated(expression) for child in _outside_aggregates(expression)]
    used = set() if stage is None else {*stage.entities}
    for expression in (*(unnest.items for unnest in pattern.unnests), *keys, *mixed):
        used |= variables(expression)
    edges = {hop.edge_variable for hop in pattern.expansions if hop.edge_variable is not None}
    for condition in conjuncts(pattern.filters):
        mentioned = variables(condition)
        used |= mentioned if len(mentioned) > 1 or blocks(condition) or mentioned <= edges else set()
    for optional in pattern.optionals:
        used |= {*optional.outer}
    for hop in pattern.expansions:
        edge = hop.edge_variable
        if edge is not None and edge not in used and hop.direction != "both" and not hop.others:
            yield edge
        elif hop.reads_edges or not hop.is_step:
            used |= {hop.source, hop.target}
        used |= {hop.source} if hop.source == hop.target else set()
    ends = {end for hop in pattern.expansions for end in (hop.source, hop.target)}
    for binding in pattern.bindings:
        if binding.variable in ends - used and len(binding.types) == 1:
            yield binding.variable


def _outside_aggregates(expression: Expression) -> Iterator[Expression]:
    """The parts of an aggregated expression that are in no aggregate."""
    for child in () if isinstance(expression, Aggregate) else children(expression):
        yield from _outside_aggregates(child) if is_aggregated(child) else [child]


def _is_additive(aggregate: Aggregate, nodes: Collection[str]) -> bool:
    """Whether an aggregate of a group follows from those of its parts: how many matches there are, or a sum of whole numbers."""
    operand = aggregate.operand
    if counts_matches(aggregate):
        return True
    if aggregate.distinct or not isinstance(operand, PropertyRef) or operand.variable not in nodes:
        return False
    is_whole = operand.type.scalar in (Scalar.I32, Scalar.U32, Scalar.I64) and not operand.type.is_list
    return aggregate.function == "count" or (aggregate.function in ("sum", "avg") and is_whole)


def _is_covered(pattern: Pattern) -> bool:
    if any(hop.walk is not None or hop.is_mixed or (hop.others and hop.reads_edges) for hop in pattern.expansions):
        return False
    return all(map(is_covered, pattern.filters)) and all(is_covered(unnest.items) for unnest in pattern.unnests)


def _seeded(read: Read) -> ResultAnswer | None:
    form = read.plan.derived(arrays_form, lambda: arrays_form(read.plan))
    if form is None or not (_has_few_rows(read) or _begins_at_few(read, form) or form.is_product):
        return None
    if not _is_at_hand(read, form):
        return None
    return _answer(read, form)


def _has_few_rows(read: Read) -> bool:
    """Whether a stage gives few rows."""
    return read.start_rows is not None and read.start_rows.num_rows <= MAX_SCANNED


def _begins_at_few(read: Read, form: ArraysForm) -> bool:
    """Whether a condition names nodes by id or key, or states a column of a short table."""
    for types, column in form.stated:
        keys = {read.view.catalog.nodes[name].key for name in types}
        if len(types) == 1 and (column == "id" or keys == {(column,)}):
            return True
        if sum(read.view.rows(f"node:{name}") for name in types) <= MAX_SCANNED:
            return True
    return False


def _is_at_hand(read: Read, form: ArraysForm) -> bool:
    """Whether nodes and edges have numbers that are held or stored."""
    compact = GraphArrays(read.view, read.arguments.deadline)
    return all(compact.nodes_if_cached(name) is not None for name in form.node_types) and all(
        compact.has_edges_at_hand(name) for name in form.edge_types
    )


def _answer(read: Read, form: ArraysForm) -> ResultAnswer | None:
    matcher = PatternMatcher(read.view, read.arguments, read.start_rows, form.needs, form.conditions)
    try:
        table = ResultTable(matcher, read.plan).table(matcher.match(read.plan.pattern))
    except (NotCovered, NotInterpreted, ArithmeticOverflow):
        # An overflow may be in rows that other conditions exclude: the engine decides.
        return None
    finally:
        matcher.release()
    return ResultAnswer(tuple(matcher.choices), table)


def _any(read: Read) -> ResultAnswer | None:
    form = read.plan.derived(arrays_form, lambda: arrays_form(read.plan))
    if form is None or not _is_worth(read, form):
        return None
    refuse_endless(read.view, read.plan.pattern, read.arguments, MAX_COUNT if form.needs.is_count else MAX_MATCHES)
    return (form.difference and _subtracted(read, form.difference)) or _answer(read, form)


def _subtracted(read: Read, plans: tuple[ReadPlan, ReadPlan]) -> ResultAnswer | None:
    """The counts of the first plan less those of the second."""
    parts = [Read(read.view, plan, read.arguments, read.mode) for plan in plans]
    answers = [answered for part in parts if (answered := _any(part)) is not None]
    tables = [answered.table for answered in answers if isinstance(answered.table, pa.Table)]
    if len(tables) < len(parts):
        return None
    whole, same = ([column[0].as_py() for column in table.columns] for table in tables)
    names = [column.name for column in read.plan.columns]
    table = pa.table({name: pa.array([a - b], pa.int64()) for name, a, b in zip(names, whole, same, strict=True)})
    return ResultAnswer(tuple(choice for answered in answers for choice in answered.choices), table)


def _is_worth(read: Read, form: ArraysForm) -> bool:
    """Whether its numbers fit in the cache; without an expansion, also whether they are at hand, and the table is not so long that
    a scan is streamed."""
    view, compact = read.view, GraphArrays(read.view, read.arguments.deadline)
    rows = {name: view.rows(f"node:{name}") for name in form.node_types}
    if form.edge_types:
        return compact.fits(sum(rows.values()), sum(view.rows(f"edge:{name}") for name in form.edge_types))
    return max(rows.values(), default=0) <= inputs.STREAMED_ROWS and _is_at_hand(read, form)


SEEDED = Strategy("seeded", frozenset({"auto"}), _seeded)
ARRAYS = Strategy("arrays", frozenset({"auto", "csr"}), _any)
