"""Reads that begin at nodes named by their ids or keys and follow a few edges, in node numbers: no relation is built, no tree
compiled.

A key is found among the sorted ids, its neighbours in the adjacency, and the columns of the remaining nodes by node number.
Conditions are interpreted over these columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.errors import ArithmeticOverflow
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import Interpreter, as_mask, is_interpreted
from omnigraph.expressions.predicates import Predicate, conjuncts, stated_column
from omnigraph.expressions.usage import variables
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.plan import (
    Aggregate,
    Binding,
    Direction,
    EntityRef,
    Expansion,
    Expression,
    Pattern,
    PropertyRef,
    ReadPlan,
)
from omnigraph.read.inputs.adjacency import GraphArrays
from omnigraph.read.result import Values
from omnigraph.read.sql.key_columns import keys_as_ids
from omnigraph.read.strategies.strategy import InputChoice, Read, ResultAnswer, Strategy, hop_name
from omnigraph.tables.adjacency.nodes import Nodes
from omnigraph.tables.changed_table import ChangedTable
from omnigraph.values.literals import canonical_text
from omnigraph.values.types import PropertyType, Scalar

FLIPPED: dict[str, Direction] = {"out": "in", "in": "out", "both": "both"}
MAX_NAMED = 64
"""More named nodes than this are left to other strategies."""
MAX_ROWS = 2_000
"""Beyond this many matches an engine is faster."""
TEXT = PropertyType(Scalar.STRING)
ORDERED = (Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME)
COUNT = PropertyType(Scalar.I64)


@dataclass(frozen=True)
class Cell:
    """A column of a variable."""

    variable: str
    column: str
    type: PropertyType


@dataclass(frozen=True)
class DirectedExpansion:
    """An expansion as seen from one of its ends."""

    expansion: Expansion
    near: str
    far: str
    direction: Direction

    @staticmethod
    def of(expansion: Expansion, near: str) -> DirectedExpansion:
        if expansion.source == near:
            return DirectedExpansion(expansion, near, expansion.target, expansion.direction)
        return DirectedExpansion(expansion, near, expansion.source, FLIPPED[expansion.direction])


@dataclass(frozen=True)
class KeyedForm:
    """A plan that qualifies, analysed once."""

    start: str
    named_by: Cell
    """The id or the key that conditions fix."""
    naming: tuple[Expression, ...]
    types: Mapping[str, str]
    """The node type of each variable."""
    conditions: Mapping[str, tuple[Expression, ...]]
    """By the variable that is bound last of those they involve."""
    ways: tuple[DirectedExpansion, ...]
    """In the order in which they are followed: the near end is bound by then."""
    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    """The columns of the result; empty if every column is the number of matches."""
    order: tuple[tuple[Cell, bool], ...]
    """Each with whether it is descending. Ids break ties."""

    def ids(self, arguments: Arguments) -> list[str] | None:
        """The ids that the conditions leave possible; None if that is unknown, or there are too many."""
        values = Predicate(self.naming, arguments).fixed.get(self.named_by.column)
        if values is None or len(values) > MAX_NAMED:
            return None
        return [canonical_text(value, self.named_by.type) for value in values]


def keyed_form(plan: ReadPlan, catalog: Catalog) -> KeyedForm | None:
    """The form of a plan; None if it does not qualify."""
    plan = plan.derived(keys_as_ids, lambda: keys_as_ids(plan, catalog))
    pattern = plan.pattern
    if pattern.start_rows or pattern.unnests or pattern.optionals or plan.distinct or plan.having:
        return None
    if any(hop.reads_edges or hop.others or not hop.is_step for hop in pattern.expansions):
        return None
    if any(len(binding.types) > 1 for binding in pattern.bindings) or not all(map(is_interpreted, pattern.filters)):
        return None
    columns = [projection.expression for projection in plan.projections]
    if plan.grouped:
        if plan.order or plan.limit is not None or plan.offset is not None or not all(map(_is_count, columns)):
            return None
    elif not (all(map(_is_shown, columns)) and all(_is_ordered(key.expression) for key in plan.order)):
        return None
    for binding in pattern.bindings:
        own = [conjunct for conjunct in conjuncts(pattern.filters) if variables(conjunct) == {binding.variable}]
        column = _naming_column(binding, own, catalog)
        ways = None if column is None else _ways(pattern, binding.variable)
        if column is not None and ways is not None:
            naming = tuple(conjunct for conjunct in own if _states(conjunct, column.column))
            others = [conjunct for conjunct in conjuncts(pattern.filters) if conjunct not in naming]
            return KeyedForm(
                start=binding.variable,
                named_by=column,
                naming=naming,
                types={bound.variable: bound.types[0] for bound in pattern.bindings},
                conditions=_placed(others, [binding.variable, *(way.far for way in ways)]),
                ways=ways,
                names=tuple(projection.name for projection in plan.projections),
                cells=() if plan.grouped else tuple(map(_cell, columns)),
                order=tuple((_cell(key.expression), key.descending) for key in plan.order),
            )
    return None


def _is_count(expression: Expression) -> bool:
    """Whether a column is the number of matches."""
    if not isinstance(expression, Aggregate) or expression.function != "count" or expression.distinct:
        return False
    operand = expression.operand
    return isinstance(operand, EntityRef) or (isinstance(operand, PropertyRef) and not operand.type.nullable)


def _is_shown(expression: Expression) -> bool:
    """Whether a stored value is what a result shows; not for a Blob."""
    return isinstance(expression, PropertyRef) and expression.type.scalar is not Scalar.BLOB


def _is_ordered(expression: Expression) -> bool:
    """Whether Python orders and distinguishes the values as SQL does."""
    if not isinstance(expression, PropertyRef):
        return isinstance(expression, EntityRef)
    type_ = expression.type
    return not type_.is_list and (type_.scalar.is_integer or type_.scalar in ORDERED)


def _cell(expression: Expression) -> Cell:
    if isinstance(expression, EntityRef):
        return Cell(expression.variable, "id", TEXT)
    assert isinstance(expression, PropertyRef), "the form has columns only"
    return Cell(expression.variable, expression.column, expression.type)


def _naming_column(binding: Binding, conditions: list[Expression], catalog: Catalog) -> Cell | None:
    """The id or the key, if a condition fixes it."""
    entity = catalog.nodes[binding.types[0]]
    keys = entity.key if len(entity.key) == 1 else ()
    for name, type_ in (("id", TEXT), *((key, entity.properties[key].type) for key in keys)):
        if any(_states(condition, name) for condition in conditions):
            return Cell(binding.variable, name, type_)
    return None


def _states(condition: Expression, column: str) -> bool:
    stated = stated_column(condition)
    return stated is not None and stated[0].column == column


def _ways(pattern: Pattern, start: str) -> tuple[DirectedExpansion, ...] | None:
    """How to reach every variable; None if one cannot be reached, or can be in more than one way."""
    bound, pending, ways = {start}, list(pattern.expansions), []
    while pending:
        following = next((hop for hop in pending if {hop.source, hop.target} & bound), None)
        if following is None or {following.source, following.target} <= bound:
            return None
        pending.remove(following)
        ways.append(
            DirectedExpansion.of(following, following.source if following.source in bound else following.target)
        )
        bound.add(ways[-1].far)
    return tuple(ways) if bound == {binding.variable for binding in pattern.bindings} else None


def _placed(conditions: list[Expression], order: list[str]) -> dict[str, tuple[Expression, ...]]:
    """Each condition at the last variable that it needs."""
    placed: dict[str, tuple[Expression, ...]] = {}
    for condition in conditions:
        needed = variables(condition)
        last = next((variable for variable in reversed(order) if variable in needed), order[0])
        placed[last] = (*placed.get(last, ()), condition)
    return placed


def _answer(read: Read) -> ResultAnswer | None:
    form = read.plan.derived(keyed_form, lambda: keyed_form(read.plan, read.view.catalog))
    ids = None if form is None else form.ids(read.arguments)
    if form is None or ids is None:
        return None
    try:
        return _Walk(read, form).answer(ids)
    except (_NotFew, ArithmeticOverflow):
        # An overflow may be in rows that other conditions exclude: the engine decides.
        return None


KEYED = Strategy("keyed", frozenset({"auto"}), _answer)


class _NotFew(Exception):
    """More would have to be read than is held or stored compactly, or there are more than a few rows."""


class _Walk:
    """Matches as columns of node numbers, one per variable."""

    def __init__(self, read: Read, form: KeyedForm) -> None:
        self.form = form
        self.plan, self.arguments = read.plan, read.arguments
        self.compact = GraphArrays(read.view, read.arguments.deadline)
        self.numbers: dict[str, np.ndarray] = {}
        self.looked_up: pa.Table | None = None
        """Inline rows, if they are all that is needed; the numbers are then positions in this table."""
        self.rows = 0
        self.choices: list[InputChoice] = []

    def answer(self, ids: list[str]) -> ResultAnswer:
        form = self.form
        self._begin(ids)
        counted_last = not form.cells and form.ways and form.ways[-1].far not in form.conditions
        for way in form.ways[:-1] if counted_last else form.ways:
            self._follow(way)
        rows = self._count(form.ways[-1]) if counted_last else self.rows
        if not form.cells:
            return self._answered(Values(form.names, (COUNT,) * len(form.names), [[rows]] * len(form.names)))
        read: dict[Cell, list[Any]] = {}
        if self.plan.limit is None:
            self._read((*(cell for cell, _ in form.order), *form.cells), read)
        places = self._cut(self._ordered(read))
        self._read(form.cells, read)
        columns = [[read[cell][place] for place in places] for cell in form.cells]
        return self._answered(Values(form.names, tuple(cell.type for cell in form.cells), columns))

    def _answered(self, values: Values) -> ResultAnswer:
        return ResultAnswer(tuple(self.choices), values)

    # ------------------------------------------------------------ matches

    def _nodes(self, variable: str) -> Nodes:
        nodes = self.compact.nodes_if_cached(self.form.types[variable])
        if nodes is None:
            raise _NotFew
        return nodes

    def _begin(self, ids: list[str]) -> None:
        start = self.form.start
        self.looked_up = None if self.form.ways else self._inline_rows(ids)
        if self.looked_up is None:
            self.numbers[start], how = self._nodes(start).find(ids), "by number"
        else:
            self.numbers[start], how = np.arange(self.looked_up.num_rows), "inline"
        self.rows = len(self.numbers[start])
        self.choices.append(InputChoice(f"${start}", "lookup", self.rows, f"{len(ids)} ids, {how}", len(ids)))
        self._satisfy(start)

    def _inline_rows(self, ids: list[str]) -> pa.Table | None:
        """The rows with these ids if all of them are inline, so that no stored version has to be opened."""
        table = self.compact.view.table(f"node:{self.form.types[self.form.start]}")
        if ids and isinstance(table, ChangedTable) and all(id in table.inline.places for id in ids):
            return table.lookup("id", ids)
        return None

    def _follow(self, way: DirectedExpansion) -> None:
        """Repeat every match for each of its neighbours, with that neighbour added."""
        self.arguments.deadline.check()
        adjacency = self._adjacency(way)
        owners, neighbours = adjacency.expand(self.numbers[way.near])
        self._note_choice(way, len(owners), "by number")
        self.rows = len(owners)
        if self.rows > MAX_ROWS:
            raise _NotFew
        self.numbers = {variable: numbers[owners] for variable, numbers in self.numbers.items()}
        self.numbers[way.far] = neighbours
        self._satisfy(way.far)

    def _count(self, way: DirectedExpansion) -> int:
        """How many matches `_follow` would give."""
        rows = int(self._adjacency(way).counts(self.numbers[way.near]).sum())
        self._note_choice(way, rows, "counted")
        return rows

    def _note_choice(self, way: DirectedExpansion, rows: int, how: str) -> None:
        """Record how many edges were followed, and how many were expected for as many nodes."""
        view = self.compact.view
        nodes = max(view.rows(f"node:{self.form.types[way.near]}"), 1)
        expected = round(self.rows * view.rows(f"edge:{way.expansion.edge}") / nodes)
        self.choices.append(InputChoice(hop_name(way.expansion), "csr", rows, how, expected))

    def _adjacency(self, way: DirectedExpansion) -> Any:
        self._nodes(way.far)
        adjacency = self.compact.neighbours_at_hand(way.expansion.edge, way.direction)
        if adjacency is None:
            raise _NotFew
        return adjacency

    def _satisfy(self, variable: str) -> None:
        """Keep the matches that satisfy the conditions which can be evaluated by now."""
        conditions = self.form.conditions.get(variable)
        if not conditions or not self.rows:
            return
        interpreter = Interpreter(self.arguments, self.rows, self._cells)
        for condition in conditions:
            kept = as_mask(interpreter.evaluate(condition))
            if not kept.all():
                self.numbers = {variable: numbers[kept] for variable, numbers in self.numbers.items()}
                self.rows = int(kept.sum())
                interpreter = Interpreter(self.arguments, self.rows, self._cells)

    def _cells(self, variable: str, name: str) -> pa.Array:
        type_name, numbers = self.form.types[variable], self.numbers[variable]
        if self.looked_up is not None:
            return self.looked_up.column(name).take(numbers).combine_chunks()
        if name == "id":
            return self._nodes(variable).ids(numbers)
        return self.compact.columns(type_name, [name], numbers)[name]

    # ------------------------------------------------------------ results

    def _read(self, cells: tuple[Cell, ...], read: dict[Cell, list[Any]]) -> None:
        """Read the values of the given columns, those of one variable together."""
        by_variable: dict[str, list[Cell]] = {}
        for cell in dict.fromkeys(cells):
            if cell not in read:
                by_variable.setdefault(cell.variable, []).append(cell)
        for variable, wanted in by_variable.items():
            names = list(dict.fromkeys(cell.column for cell in wanted))
            if self.looked_up is None:
                columns = self.compact.values(self.form.types[variable], names, self.numbers[variable])
            else:
                columns = {name: self._cells(variable, name).to_pylist() for name in names}
            read.update((cell, columns[cell.column]) for cell in wanted)
            if variable != self.form.start and names != ["id"]:
                self.choices.append(InputChoice(f"${variable}", "lookup", self.rows, "by number", self.rows))

    def _ordered(self, read: dict[Cell, list[Any]]) -> list[int]:
        """Positions of the matches in the order of the result."""
        places = list(range(self.rows))
        if self.rows < 2:
            return places
        self._read(tuple(cell for cell, _ in self.form.order), read)
        # Least significant key first: sorting is stable.
        for variable in reversed(self.plan.tie_break):
            if self.looked_up is None:
                ids = self._nodes(variable).sort_keys(self.numbers[variable])
            else:
                ids = self._cells(variable, "id").to_pylist()
            places.sort(key=ids.__getitem__)
        for cell, is_descending in reversed(self.form.order):
            values = read[cell]
            places.sort(key=lambda place: (values[place] is not None, values[place]), reverse=is_descending)
        return places

    def _cut(self, places: list[int]) -> list[int]:
        offset = 0 if self.plan.offset is None else self.arguments.number(self.plan.offset)
        limit = None if self.plan.limit is None else self.arguments.number(self.plan.limit)
        return places[offset:] if limit is None else places[offset : offset + limit]
