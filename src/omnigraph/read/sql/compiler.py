"""ReadPlan -> RelationalQuery: pattern, then columns, grouping, ranking, total order, limit and offset."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from omnigraph.expressions.interpreter import item_type, type_of
from omnigraph.expressions.sql import F64, ExpressionCompiler, Known, cast, literal, sortable, sql_type
from omnigraph.expressions.usage import blocks
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.plan import (
    ROWS,
    Aggregate,
    Bm25,
    Constant,
    EntityRef,
    Expression,
    Nearest,
    OrderKey,
    Parameter,
    PropertyRef,
    ReadPlan,
    Rrf,
    is_aggregated,
)
from omnigraph.read.sql.key_columns import keys_as_ids
from omnigraph.read.sql.patterns import Context, Relation, Slot
from omnigraph.read.sql.shapes import GIVEN, KEY, Keys, OutputColumn, Ranked, RelationalQuery, common
from omnigraph.relational.sql import column, exp, named, neutral, table, to_sql
from omnigraph.values.types import PropertyType, Scalar

_ID = PropertyType(Scalar.STRING)


def compile_read(plan: ReadPlan, catalog: Catalog, *, keys: Keys = "id", elide: bool = True) -> RelationalQuery:
    """The relational form. A returned entity is its key (and type); the caller fetches the rest by that.

    `elide` leaves out the table of a node that is known by its id alone: an edge implies that its nodes exist.
    """
    return _ReadCompiler(plan, catalog, keys, elide).compile()


class _ReadCompiler:
    def __init__(self, plan: ReadPlan, catalog: Catalog, keys: Keys, elide: bool) -> None:
        self.plan = plan
        self.placeholders: dict[str, Known] = {}
        self.context = Context(
            catalog, keys, elide, partial(ExpressionCompiler, placeholders=self.placeholders), _ranked(plan)
        )
        self.values: list[exp.Expression] = []
        self.outputs: list[OutputColumn] = []
        self.groups: list[exp.Expression] = []
        self.hidden: dict[Expression, str] = {}
        """Order keys of groups that are not returned."""

    def compile(self) -> RelationalQuery:
        plan = self.plan
        self.relation = Relation(self.context, plan.pattern, {})
        uses = self._uses()
        self.relation.build(uses, *self._given())
        self.relation.join_blocks(uses)
        ranking = plan.order[0].expression if plan.order else None
        self.fused: exp.Expression | None = None
        if isinstance(ranking, Rrf):
            self._fuse(ranking)
        elif isinstance(ranking, Nearest | Bm25):
            rank = self.relation.searched[ranking].copy()
            self.relation.select = self.relation.select.where(
                exp.Not(this=exp.Is(this=rank, expression=exp.null())), copy=False
            )
        tree = self._ordered(self._projected())
        self.relation.define_hops()
        if self.context.common:
            tree.set("with_", exp.With(expressions=self.context.common))
        return RelationalQuery(
            tree=tree,
            inputs=tuple(self.context.inputs),
            hops=tuple(self.context.hops),
            definitions=self.context.definitions,
            outputs=tuple(self.outputs),
            placeholders=self.placeholders,
            keys=self.context.keys,
            block=self.relation.block,
        )

    def _given(self) -> tuple[dict[str, Slot] | None, str | None]:
        """The slots of what an earlier stage carries on, and its relation."""
        pattern = self.plan.pattern
        if (start_rows := pattern.start_rows) is None:
            return None, None
        names = [projection.name for projection in start_rows.read.projections if not projection.name.startswith("$")]
        values: dict[str, exp.Expression] = {name: column(f"c{place}", GIVEN) for place, name in enumerate(names)}
        slots = {ROWS: Slot(ROWS, (), True, column(KEY, GIVEN), None, values)}
        types = {binding.variable: binding.types for binding in pattern.bindings}
        for place, name in enumerate(start_rows.entities):
            slots[name] = Slot(name, types[name], False, column(f"v{place}", GIVEN), None, {})
        return slots, GIVEN

    def _uses(self) -> list[Expression]:
        """Expressions whose columns the pattern's rows must carry; a key that is only returned needs no extra column."""
        plan = self.plan
        returned = (*(p.expression for p in plan.projections), *plan.having, *(k.expression for k in plan.order))
        return [expression for expression in returned if not self._is_key(expression)]

    def _is_key(self, expression: Expression) -> bool:
        """Whether an expression is only the key of a bound entity, or a count of such keys."""
        match expression:
            case EntityRef() | PropertyRef(_, "id", _):
                return True
            case Aggregate("count", EntityRef() | PropertyRef(_, "id", _), _, _):
                return True
        return False

    # ------------------------------------------------------------ columns

    def _value(self, expression: Expression) -> exp.Expression:
        """An expression over the pattern's rows; keys stay keys."""
        if isinstance(expression, EntityRef) or (isinstance(expression, PropertyRef) and expression.column == "id"):
            return self.relation.slots[expression.variable].key.copy()
        if isinstance(expression, Rrf):
            assert self.fused is not None
            return self.fused.copy()
        return self.context.expressions(self.relation.column, self._other).compile(expression)

    def _other(self, expression: Expression) -> exp.Expression:
        return self._aggregate(expression) if isinstance(expression, Aggregate) else self.relation.other(expression)

    def _aggregate(self, aggregate: Aggregate) -> exp.Expression:
        if aggregate.function == "count":
            return self._count(aggregate, self._value(aggregate.operand))
        compiler = self.relation.compiler()
        operand = compiler.compile(aggregate.operand)
        match aggregate.function:
            case "collect":
                name = "collect_distinct" if aggregate.distinct else "collect"
                if not aggregate.type.fields:
                    return cast(neutral(name, operand), aggregate.type)
                order = sortable(operand, type_of(aggregate.operand))
                return cast(neutral(f"{name}_records", operand, order), aggregate.type)
            case "median" | "percentile":
                fraction = literal(0.5, F64) if aggregate.argument is None else compiler.compile(aggregate.argument)
                return neutral("percentile", cast(operand, F64), fraction)
            case "first" | "last":
                assert aggregate.argument is not None, "checked"
                order = sortable(operand, type_of(aggregate.operand))
                return neutral(aggregate.function, operand, compiler.compile(aggregate.argument), order.copy())
            case "min":
                return exp.Min(this=operand)
            case "max":
                return exp.Max(this=operand)
        operand_type = (
            PropertyType(Scalar.STRING) if isinstance(aggregate.operand, EntityRef) else aggregate.operand.type
        )
        # Integers are added exactly, so that the order of addition does not change the result.
        widths = {
            Scalar.I32: "BIGINT",
            Scalar.U32: "BIGINT",
            Scalar.I64: "DECIMAL(38, 0)",
            Scalar.U64: "DECIMAL(38, 0)",
        }
        wide: exp.Expression = exp.cast(operand, widths.get(operand_type.scalar, "DOUBLE"))
        values = exp.Distinct(expressions=[wide]) if aggregate.distinct else wide
        total = exp.cast(exp.Sum(this=values), sql_type(aggregate.type))
        if aggregate.function == "sum":
            return total
        count = exp.cast(exp.Count(this=values.copy()), "DOUBLE")
        return exp.Div(this=total, expression=exp.Nullif(this=count, expression=exp.Literal.number(0)))

    def _count(self, aggregate: Aggregate, operand: exp.Expression) -> exp.Expression:
        if isinstance(aggregate.operand, EntityRef):
            slot = self.relation.slots[aggregate.operand.variable]
            if not aggregate.distinct:
                return exp.Count(this=operand if aggregate.operand.is_optional else exp.Star())
            if slot.type is not None:
                kind = exp.DPipe(this=slot.type.copy(), expression=exp.Literal.string("/"))
                operand = exp.DPipe(this=kind, expression=operand)
        return exp.Count(this=exp.Distinct(expressions=[operand]) if aggregate.distinct else operand)

    def _projected(self) -> exp.Select:
        for index, projection in enumerate(self.plan.projections):
            self._project(index, projection.expression)
        if self.plan.grouped:
            self._project_order()
        values = [named(value.copy(), f"r{index}") for index, value in enumerate(self.values)]
        select = self.relation.select.select(*values, copy=False)
        if self.plan.grouped:
            if self.groups:
                select = select.group_by(*(group.copy() for group in self.groups), copy=False)
            return select.having(*map(self._value, self.plan.having), copy=False) if self.plan.having else select
        return select.distinct(copy=False) if self.plan.distinct and not self.plan.grouped else select

    def _project_order(self) -> None:
        """Values of the groups that only order them."""
        returned = [projection.expression for projection in self.plan.projections]
        for key in self.plan.order:
            if key.expression not in returned and key.expression not in self.hidden:
                value = self._value(key.expression)
                if not is_aggregated(key.expression):
                    self.groups.append(value)
                self.hidden[key.expression] = self._add(value)

    def _add(self, value: exp.Expression) -> str:
        self.values.append(value)
        return f"r{len(self.values) - 1}"

    def _project(self, index: int, expression: Expression) -> None:
        description = self.plan.columns[index]
        is_group = self.plan.grouped and not is_aggregated(expression)
        value = self._value(expression)
        if is_group:
            self.groups.append(value)
        if isinstance(expression, EntityRef):
            self._project_entity(index, expression, value, is_group)
            return
        if isinstance(expression, PropertyRef) and expression.column == "id":
            slot = self.relation.slots[expression.variable]
            name = self._add(value)
            types = () if slot.is_edge else slot.types
            self.outputs.append(OutputColumn(description, name, expression.type, types, is_key=not slot.is_edge))
            return
        self.outputs.append(OutputColumn(description, self._add(value), expression.type))

    def _project_entity(self, index: int, entity: EntityRef, key: exp.Expression, is_group: bool) -> None:
        slot = self.relation.slots[entity.variable]
        name = self._add(key)
        type_column = None
        if slot.type is not None:
            type_column = self._add(slot.type.copy())
            if is_group:
                self.groups.append(slot.type.copy())
        self.outputs.append(OutputColumn(self.plan.columns[index], name, None, slot.types, type_column, is_key=True))

    # ------------------------------------------------------------ order and cut

    def _fuse(self, ranking: Rrf) -> None:
        """Rank all entities that matched, whatever the limit, and compute the fused score; entities in neither arm are
        dropped."""
        relation = self.relation
        relation.materialise()
        slot = relation.slots[ranking.first.property.variable]
        ids = [slot.key] if slot.type is None else [slot.key, slot.type]
        k = exp.cast(relation.compiler().compile(ranking.k), "DOUBLE")
        scores: list[exp.Expression] = []
        for arm in (ranking.first, ranking.second):
            score = relation.searched[arm]
            order = [exp.Ordered(this=score.copy(), desc=isinstance(arm, Bm25), nulls_first=False)]
            order += [exp.Ordered(this=id_.copy(), desc=False, nulls_first=True) for id_ in ids]
            rank = exp.Window(this=exp.Anonymous(this="DENSE_RANK"), order=exp.Order(expressions=order))
            ranked = exp.Not(this=exp.Is(this=score.copy(), expression=exp.null()))
            gain = exp.Div(
                this=exp.cast(exp.Literal.number(1), "DOUBLE"),
                expression=exp.paren(exp.Add(this=k.copy(), expression=rank)),
            )
            scores.append(exp.Case(ifs=[exp.If(this=ranked, true=gain)]))
        first, second = relation.context.fresh("f"), relation.context.fresh("f")
        relation.select.select(exp.Star(), named(scores[0], first), named(scores[1], second), copy=False)
        inner = relation.select
        name = relation.context.fresh("m")
        relation.context.common.append(common(name, inner))
        relation.select = exp.select().from_(table(name))
        self._repoint(name)
        parts = [column(first, name), column(second, name)]
        zero = exp.Literal.number(0)
        self.fused = exp.Add(
            this=exp.Coalesce(this=parts[0], expressions=[zero]),
            expression=exp.Coalesce(this=parts[1], expressions=[zero.copy()]),
        )
        relation.select = relation.select.where(
            exp.or_(*(exp.Not(this=exp.Is(this=part.copy(), expression=exp.null())) for part in parts))
        )

    def _repoint(self, name: str) -> None:
        """Refer to the same column names in a new relation."""
        relation = self.relation
        for slot in relation.slots.values():
            slot.key = column(slot.key.name, name)
            slot.type = None if slot.type is None else column(slot.type.name, name)
            slot.columns = {stored: column(place.name, name) for stored, place in slot.columns.items()}
        relation.searched = {search: column(place.name, name) for search, place in relation.searched.items()}
        relation.counts = {block: column(place.name, name) for block, place in relation.counts.items()}

    def _cut(self, cut: Constant | Parameter | None) -> exp.Expression | None:
        if cut is None:
            return None
        if isinstance(cut, Constant):
            return exp.Literal.number(int(str(cut.value)))
        compiler = self.relation.compiler()
        return compiler.compile(cut)

    def _ordered(self, select: exp.Select) -> exp.Select:
        plan = self.plan
        by_columns = plan.grouped or plan.distinct
        keys: list[exp.Expression] = []
        for key in plan.order:
            keys.append(self._order_key(key, by_columns))
        if by_columns:
            keys += self._completing_columns()
            inner = select.subquery("q", copy=False)
            shown = len(self.values) - len(self.hidden)
            select = exp.select(*(column(f"r{index}", "q") for index in range(shown))).from_(inner)
        else:
            items = {unnest.variable: item_type(type_of(unnest.items)) for unnest in plan.pattern.unnests}
            for variable in plan.tie_break:
                slot = self.relation.slots[variable]
                keys.append(_ascending(sortable(slot.key.copy(), items.get(variable, _ID))))
                if slot.type is not None:
                    keys.append(_ascending(slot.type.copy()))
        if keys:
            select = select.order_by(*keys, copy=False)
        limit, offset = self._cut(plan.limit), self._cut(plan.offset)
        if limit is not None:
            select = select.limit(limit, copy=False)
        return select if offset is None else select.offset(offset, copy=False)

    def _order_key(self, key: OrderKey, by_columns: bool) -> exp.Expression:
        expression = key.expression
        if by_columns:
            returned = [projection.expression for projection in self.plan.projections]
            name = self.hidden.get(expression) or self.outputs[returned.index(expression)].value
            value: exp.Expression = column(name, "q")
        else:
            value = self._value(expression)
        descending = key.descending
        if isinstance(expression, Nearest):
            descending = False
        elif isinstance(expression, Bm25 | Rrf):
            descending = True
        return exp.Ordered(this=value, desc=descending, nulls_first=not descending)

    def _completing_columns(self) -> list[exp.Expression]:
        """Sort keys that make the order total: the result's columns, left to right."""
        keys = []
        for output, projection in zip(self.outputs, self.plan.projections, strict=True):
            if is_aggregated(projection.expression):
                continue
            keys.append(_ascending(sortable(column(output.value, "q"), type_of(projection.expression))))
            if output.type_column is not None:
                keys.append(_ascending(column(output.type_column, "q")))
        return keys


def _ranked(plan: ReadPlan) -> tuple[str, Ranked] | None:
    """The variable that the query ranks, and how."""
    ranking = plan.order[0].expression if plan.order else None
    if isinstance(ranking, Rrf):
        arms: tuple[Nearest | Bm25, ...] = (ranking.first, ranking.second)
    elif isinstance(ranking, Nearest | Bm25):
        arms = (ranking,)
    else:
        return None
    pattern = plan.pattern
    alone = (
        len(pattern.bindings) == 1
        and not (pattern.expansions or pattern.unnests or pattern.optionals)
        and not any(blocks(condition) for condition in pattern.filters)
    )
    cut = tuple(bound for bound in (plan.limit, plan.offset) if bound is not None)
    is_cut = alone and plan.limit is not None and not plan.grouped and not plan.distinct
    return arms[0].property.variable, Ranked(arms, cut if is_cut else None)


def _ascending(value: exp.Expression) -> exp.Expression:
    return exp.Ordered(this=value, desc=False, nulls_first=True)


# Compiled queries, cached: one tree per plan and form, one SQL text per set of supplied relations.

Form = TypeVar("Form")


class PreparedQuery:
    """A compiled query and its SQL texts. `plan` is the one that was compiled: its keys are ids."""

    def __init__(self, plan: ReadPlan, query: RelationalQuery) -> None:
        self.plan = plan
        self.query = query
        self._texts: dict[frozenset[str], str] = {}

    def form(self, make: Callable[[ReadPlan], Form]) -> Form:
        """The plan as one strategy sees it, made once."""
        return self.plan.derived(make, lambda: make(self.plan))

    def sql(self, supplied: frozenset[str]) -> str:
        """DuckDB's text if these relations are supplied; expansions not among them are defined in SQL."""
        expansions = frozenset(hop.name for hop in self.query.hops if hop.name in supplied)
        text = self._texts.get(expansions)
        if text is None:
            text = self._texts[expansions] = to_sql(self.query.whole(expansions), "duckdb", copy=False)
        return text

    def uses(self, name: str) -> int:
        """How often the tree, with every expansion defined in SQL, reads a relation."""
        return sum(table.name == name for table in self.query.whole().find_all(exp.Table))


def prepare(plan: ReadPlan, catalog: Catalog, keys: Keys, *, elide: bool = True) -> PreparedQuery:
    """The compiled form of a plan, made once."""

    def compiled_query() -> PreparedQuery:
        compiled = plan.derived(keys_as_ids, lambda: keys_as_ids(plan, catalog)) if elide else plan
        return PreparedQuery(compiled, compile_read(compiled, catalog, keys=keys, elide=elide))

    return plan.derived((prepare, keys, elide), compiled_query)
