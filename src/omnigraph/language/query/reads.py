"""A read -> ReadPlan: pattern, columns, grouping, total order, cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.language.parsing.cursor import Position
from omnigraph.language.query import plan, syntax
from omnigraph.language.query.expressions import ExpressionChecker
from omnigraph.language.query.functions import common_value_type
from omnigraph.language.query.patterns import check_block, check_pattern
from omnigraph.language.query.printer import column_name
from omnigraph.language.query.scope import ID, Checking, NodeVariable, Scope, type_of
from omnigraph.values.types import INTEGER_RANGES, PropertyType, Scalar

_KINDS: dict[Scalar, plan.ColumnKind] = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.VECTOR: "vector",
    Scalar.RECORD: "object",
}


def result_column(name: str, expression: plan.Expression) -> plan.ResultColumn:
    """The description of a column."""
    if isinstance(expression, plan.EntityRef):
        return plan.ResultColumn(name, "object", nullable=expression.is_optional)
    type_ = expression.type
    if type_.is_list:
        return plan.ResultColumn(name, "list", type_.nullable, item_kind=_KINDS[type_.scalar])
    return plan.ResultColumn(name, _KINDS[type_.scalar], type_.nullable, vector_dim=type_.dimension)


_ROW_DEPENDENT = (plan.Aggregate, plan.PropertyRef, plan.EntityRef, plan.Exists, plan.CountOf)


def check_read(
    query: syntax.QueryDecl, body: syntax.ReadBody, checking: Checking, declared: tuple[plan.DeclaredParameter, ...]
) -> plan.ReadPlan:
    return _checker(checking, body, _staged(query, body, checking, declared), _ReadChecker).check(query, declared)


def _checker(
    checking: Checking, body: syntax.ReadBody, stage: _Stage | None, kind: type[_ReadChecker]
) -> _ReadChecker | _UnionChecker:
    return _UnionChecker(checking, body, stage, kind) if body.others else kind(checking, body, stage)


def _staged(
    query: syntax.QueryDecl, body: syntax.ReadBody, checking: Checking, declared: tuple[plan.DeclaredParameter, ...]
) -> _Stage | None:
    """The stage before a read, with all stages before that."""
    if body.before is None:
        for part in (body, *body.others):
            if not part.clauses:
                message = "only behind a stage may `match` be left out"
                raise checking.refuse("T50", message, part.items[0].at, "write match { … } first")
        return None
    checker = _checker(checking, body.before, _staged(query, body.before, checking, declared), _StageChecker)
    read = checker.check(query, declared)
    values = {column.name: column.expression.type for column in read.projections if not column.name.startswith("$")}  # type: ignore[union-attr]  # values, no entities
    optional = tuple(name for name in checker.entities if checker.is_optional(name))
    start_rows = plan.Given(read, tuple(checker.entities), optional)
    return _Stage(start_rows, checker.entities, values)


@dataclass(frozen=True)
class _Stage:
    """What a stage carries on: entities with their types, and values by their names."""

    start_rows: plan.Given
    entities: Mapping[str, tuple[str, ...]]
    values: Mapping[str, PropertyType]


def check_matched(
    name: str, clauses: tuple[syntax.Clause, ...], scope: Scope, declared: tuple[plan.DeclaredParameter, ...]
) -> plan.ReadPlan:
    """The `match` of an insert as a read: a row for each match, in the order of ids, with no columns yet."""
    checking = scope.checking
    around, checking.reads = checking.reads, set()
    pattern = check_pattern(clauses, scope)
    reads, checking.reads = checking.reads, around | checking.reads
    entities = ({*scope.nodes} | {*scope.edges} | {*scope.unnested}) - scope.anonymous
    return plan.ReadPlan(
        name=name,
        parameters=declared,
        pattern=pattern,
        projections=(),
        columns=(),
        grouped=False,
        distinct=False,
        order=(),
        tie_break=tuple(sorted(entities)),
        limit=None,
        offset=None,
        reads=tuple(sorted(reads)),
    )


def with_columns(rows: plan.ReadPlan, columns: Mapping[str, plan.Expression]) -> plan.ReadPlan:
    """A read without columns, given these columns."""
    projections = tuple(plan.Projection(name, expression) for name, expression in columns.items())
    described = tuple(result_column(projection.name, projection.expression) for projection in projections)
    return replace(rows, projections=projections, columns=described)


def _is_ranking(expression: plan.Expression) -> bool:
    return isinstance(expression, plan.Nearest | plan.Bm25 | plan.Rrf)


def _place_of(expression: syntax.Expr, kind: type[syntax.AggregateCall | syntax.Call]) -> Position:
    """The position of a subexpression of this kind, or of the alias that stands for it."""
    inner = [node for node, depth in syntax.walk(expression) if depth > 1 and isinstance(node, kind | syntax.Word)]
    return next((node.at for node in inner if isinstance(node, kind)), inner[0].at)


class _ReadChecker:
    def __init__(self, checking: Checking, body: syntax.ReadBody, stage: _Stage | None) -> None:
        self._checking = checking
        self._body = body
        self._scope = Scope(checking)
        self.entities: dict[str, tuple[str, ...]] = {}
        """The entities that a stage carries on, with their types."""
        if stage is not None:
            self._scope.start_rows = stage.start_rows
            self._scope.nodes = {name: NodeVariable(types) for name, types in stage.entities.items()}
            self._scope.optional = {*stage.start_rows.optional}
            self._scope.values = dict(stage.values)

    def is_optional(self, name: str) -> bool:
        return self._scope.is_optional(name)

    def check(self, query: syntax.QueryDecl, declared: tuple[plan.DeclaredParameter, ...]) -> plan.ReadPlan:
        body, scope = self._body, self._scope
        pattern = check_pattern(body.clauses, scope)
        projections = self._projections()
        grouped = any(plan.is_aggregated(projection.expression) for projection in projections)
        if grouped:
            self._check_group_key(projections)
        having = self._having(projections, grouped)
        order = self._order(projections, grouped)
        self._check_rankings(projections, order)
        expansions = [hop for inside in (pattern, *pattern.optionals) for hop in inside.expansions]
        paths = {hop.path.variable for hop in expansions if hop.path is not None and hop.path.is_every}
        entities = ({*scope.nodes} | {*scope.edges} | {*scope.unnested} | paths) - scope.anonymous
        rows = () if scope.start_rows is None else (plan.ROWS,)
        return plan.ReadPlan(
            name=query.name,
            parameters=declared,
            pattern=pattern,
            projections=projections,
            columns=tuple(result_column(projection.name, projection.expression) for projection in projections),
            grouped=grouped,
            distinct=body.distinct,
            order=order,
            tie_break=() if grouped or body.distinct else (*rows, *sorted(entities)),
            limit=self._cut("limit", body.limit),
            offset=self._cut("offset", body.offset),
            reads=tuple(sorted(self._checking.reads)),
            having=having,
            texts=tuple(self._checking.texts.values()),
            description=query.description,
            instruction=query.instruction,
        )

    # ------------------------------------------------------------ columns

    def _projections(self) -> tuple[plan.Projection, ...]:
        aliased: dict[str, plan.Expression] = {}
        checker = ExpressionChecker(self._scope, "return", columns=aliased, blocks=check_block)
        projections: list[plan.Projection] = []
        names: set[str] = set()
        for item in self._body.items:
            expression = self._carried(item, checker.check(item.expression))
            if type_of(expression).scalar is Scalar.BLOB:
                hint = "return the entity's id, and read the Blob with g.entity(type, id)"
                raise self._checking.refuse("T24", "a Blob cannot be returned", item.at, hint)
            self._refuse_nested(expression, item.expression)
            if item.alias is not None:
                aliased[item.alias] = expression
            name = item.alias if item.alias is not None else self._name(item.expression)
            if name in names:
                message = f"two columns are called '{name}'"
                raise self._checking.refuse("T25", message, item.at, "give one of them an alias: … as name")
            names.add(name)
            projections.append(plan.Projection(name, expression))
        return tuple(projections)

    def _carried(self, item: syntax.ReturnItem, expression: plan.Expression) -> plan.Expression:
        """What an item stands for: itself, unless a stage carries it on."""
        return expression

    def _name(self, expression: syntax.Expr) -> str:
        return column_name(expression)

    def _refuse_nested(self, expression: plan.Expression, written: syntax.Expr) -> None:
        """Refuses a ranking inside an expression, and an aggregate inside another, also if an alias stands for it."""
        if isinstance(expression, plan.Rrf):
            return
        for inside in plan.children(expression):
            for inner in plan.walk(inside):
                if isinstance(inner, plan.Aggregate) and isinstance(expression, plan.Aggregate):
                    at = _place_of(written, syntax.AggregateCall)
                    raise self._checking.refuse("T37", "an aggregate is not allowed inside another", at)
                if isinstance(inner, plan.Nearest | plan.Bm25 | plan.Rrf):
                    hint = "return the score as a column of its own"
                    at = _place_of(written, syntax.Call)
                    raise self._checking.refuse("T34", "a ranking is not allowed inside an expression", at, hint)

    def _check_group_key(self, projections: tuple[plan.Projection, ...]) -> None:
        for item, projection in zip(self._body.items, projections, strict=True):
            expression = projection.expression
            if _is_ranking(expression):
                raise self._checking.refuse("T34", "a ranking is not allowed next to an aggregate", item.at)
            if plan.is_aggregated(expression):
                self._check_grouped(expression, projections, item.expression)
            elif not any(isinstance(inner, _ROW_DEPENDENT) for inner in plan.walk(expression)):
                message = "a column next to an aggregate is a group key, and this one is the same for every row"
                raise self._checking.refuse("T9", message, item.at, "return a property or a variable, or leave it out")

    def _check_grouped(
        self,
        expression: plan.Expression,
        projections: tuple[plan.Projection, ...],
        written: syntax.Expr,
        rule: str = "T9",
    ) -> None:
        """Refuses an expression that mentions, outside its aggregates, anything but the group key. An order key that has no
        aggregate may also mention properties of entities in the group key."""
        keys = [projection.expression for projection in projections if not plan.is_aggregated(projection.expression)]
        fixed = {key.variable for key in keys if isinstance(key, plan.EntityRef)} | {*self.entities}
        if rule != "T36" or plan.is_aggregated(expression):
            fixed = set()
        stack = [expression]
        while stack:
            current = stack.pop()
            if current in keys or isinstance(current, plan.Aggregate):
                if isinstance(current, plan.Aggregate):
                    self._refuse_nested(current, written)
                continue
            if isinstance(current, plan.Exists | plan.CountOf):
                hint = "return the block as a column of its own, or put it into an aggregate"
                raise self._checking.refuse(rule, "a block may differ within a group", written.at, hint)
            if isinstance(current, plan.PropertyRef | plan.EntityRef):
                if current.variable in fixed:
                    continue
                name = f"${current.variable}" + (f".{current.column}" if isinstance(current, plan.PropertyRef) else "")
                name = name.removeprefix(f"${plan.ROWS}.")
                hint = f"return {name} as a column too, or put it into an aggregate"
                raise self._checking.refuse(rule, f"{name} may differ within a group", written.at, hint)
            stack.extend(plan.children(current))

    def _having(self, projections: tuple[plan.Projection, ...], grouped: bool) -> tuple[plan.Expression, ...]:
        checker = ExpressionChecker(self._scope, "having", columns=self._aliases(projections))
        conditions = []
        for written in self._body.having:
            condition = checker.condition(written)
            if not grouped:
                hint = "a condition on rows belongs in `match`"
                raise self._checking.refuse(
                    "T46", "`having` filters groups, and nothing is aggregated here", written.at, hint
                )
            self._check_grouped(condition, projections, written)
            conditions.append(condition)
        return tuple(conditions)

    def _aliases(self, projections: tuple[plan.Projection, ...]) -> dict[str, plan.Expression]:
        pairs = zip(self._body.items, projections, strict=True)
        return {item.alias: projection.expression for item, projection in pairs if item.alias is not None}

    # ------------------------------------------------------------ order

    def _order(self, projections: tuple[plan.Projection, ...], grouped: bool) -> tuple[plan.OrderKey, ...]:
        checker = ExpressionChecker(self._scope, "order", columns=self._aliases(projections), blocks=check_block)
        returned = [projection.expression for projection in projections]
        keys: list[plan.OrderKey] = []
        for item in self._body.order:
            expression = checker.check(item.expression)
            self._refuse_nested(expression, item.expression)
            self._check_key(item, expression, keys)
            if grouped and expression not in returned:
                self._check_grouped(expression, projections, item.expression, "T36")
            elif self._body.distinct and expression not in returned:
                message = "a query with `distinct` can be ordered only by its columns"
                raise self._checking.refuse("T36", message, item.at, "return it, and order by its alias")
            if not grouped and plan.is_aggregated(expression):
                raise self._checking.refuse("T37", "an aggregate can order only a query that returns one", item.at)
            keys.append(plan.OrderKey(expression, item.direction == "desc"))
        return tuple(keys)

    def _check_key(self, item: syntax.OrderItem, expression: plan.Expression, before: list[plan.OrderKey]) -> None:
        type_ = type_of(expression)
        if type_.scalar is Scalar.BLOB:
            raise self._checking.refuse("T24", "rows cannot be ordered by a Blob", item.at)
        if type_.is_list or type_.scalar in (Scalar.VECTOR, Scalar.RECORD):
            raise self._checking.refuse("T42", f"{type_} has no order", item.at)
        if not _is_ranking(expression):
            return
        is_score = isinstance(item.expression, syntax.Word) and bool(before) and _is_ranking(before[0].expression)
        if before and not is_score:
            hint = "fuse two rankings with rrf(…, …), or return the score and order by its alias"
            raise self._checking.refuse("T34", "a ranking must be the first key of `order`", item.at, hint)
        worst_first = "desc" if isinstance(expression, plan.Nearest) else "asc"
        if item.direction == worst_first:
            raise self._checking.refuse("T35", "a ranking is always best first", item.at, f"leave `{worst_first}` out")

    def _check_rankings(self, projections: tuple[plan.Projection, ...], order: tuple[plan.OrderKey, ...]) -> None:
        body = self._body
        first = order[0].expression if order else None
        if isinstance(first, plan.Nearest):
            if body.limit is None:
                raise self._checking.refuse("T17", "ordering by nearest needs a limit", body.order[0].at)
            for item in body.order[1:]:
                if isinstance(item.expression, syntax.Word):
                    raise self._checking.refuse("T18", "an alias cannot be an order key next to nearest", item.at)
        if isinstance(first, plan.Rrf) and body.limit is None:
            raise self._checking.refuse("T21", "ordering by rrf needs a limit", body.order[0].at)
        for returned, projection in zip(body.items, projections, strict=True):
            if isinstance(projection.expression, plan.Rrf) and projection.expression != first:
                message = "rrf is a rank among the rows: it can be returned only where it also orders them"
                raise self._checking.refuse("T21", message, returned.at, "order { rrf(…) } limit n")

    def _cut(self, word: str, value: syntax.Literal | syntax.Variable | None) -> plan.Constant | plan.Parameter | None:
        if value is None:
            return None
        if isinstance(value, syntax.Literal):
            if not isinstance(value.value, int) or value.value > INTEGER_RANGES[Scalar.I64][1]:
                raise self._checking.refuse("T38", f"`{word}` is too large", value.at)
            return plan.Constant(value.value, PropertyType(Scalar.I64))
        type_ = self._checking.parameters.get(value.name)
        if type_ is None:
            raise self._checking.refuse("T6", f"${value.name} is not a parameter", value.at)
        if not type_.scalar.is_integer or type_.is_list or type_.nullable:
            message = f"`{word}` needs a whole number, ${value.name} is {type_}"
            raise self._checking.refuse("T38", message, value.at)
        return plan.Parameter(value.name, type_)


class _StageChecker(_ReadChecker):
    """A read whose items are carried on to another: entities by their ids (rule T50)."""

    def _carried(self, item: syntax.ReturnItem, expression: plan.Expression) -> plan.Expression:
        if not isinstance(expression, plan.EntityRef):
            if item.alias is None and not isinstance(item.expression, syntax.Word):
                hint = "write … as name, and use the name behind the stage"
                raise self._checking.refuse("T50", "a value that `with` carries on needs a name", item.at, hint)
            return expression
        node, name = self._scope.node(expression.variable), expression.variable
        assert node is not None, "an entity is bound"
        if item.alias is not None:
            message = f"${name} keeps its name behind `with`"
            raise self._checking.refuse("T50", message, item.at, f"write ${name} without `as`")
        if len(node.types) > 1:
            message = f"${name} is of several types and cannot be carried on by `with`"
            raise self._checking.refuse("T50", message, item.at, f"carry on its properties: ${name}.… as name")
        self.entities[name] = node.types
        return plan.PropertyRef(name, "id", replace(ID, nullable=expression.is_optional))

    def _name(self, expression: syntax.Expr) -> str:
        return f"${expression.name}" if isinstance(expression, syntax.Variable) else column_name(expression)


class _UnionChecker(_ReadChecker):
    """Several reads with the same columns (rule T48)."""

    def __init__(
        self, checking: Checking, body: syntax.ReadBody, stage: _Stage | None, kind: type[_ReadChecker]
    ) -> None:
        super().__init__(checking, body, stage)
        self._stage, self._kind = stage, kind
        self._parts: list[_ReadChecker] = []

    def is_optional(self, name: str) -> bool:
        return any(part.is_optional(name) for part in self._parts)

    def check(self, query: syntax.QueryDecl, declared: tuple[plan.DeclaredParameter, ...]) -> plan.ReadPlan:
        bodies = [replace(self._body, others=(), order=(), limit=None, offset=None), *self._body.others]
        self._parts = [self._kind(self._checking, body, self._stage) for body in bodies]
        parts = tuple(part.check(query, declared) for part in self._parts)
        self.entities = self._parts[0].entities
        for body, part in zip(bodies, self._parts, strict=True):
            for name in self.entities.keys() & part.entities.keys():
                if part.entities[name] != self.entities[name]:
                    message = f"${name} is {self.entities[name][0]} before and {part.entities[name][0]} here"
                    hint = f"carry on its properties: ${name}.… as name"
                    raise self._checking.refuse("T48", message, body.items[0].at, hint)
        projections = self._columns(bodies, parts)
        return plan.ReadPlan(
            name=query.name,
            parameters=declared,
            pattern=plan.Pattern((), (), ()),
            projections=projections,
            columns=tuple(result_column(projection.name, projection.expression) for projection in projections),
            grouped=False,
            distinct=False,
            order=self._ordered(projections),
            tie_break=(),
            limit=self._cut("limit", self._body.limit),
            offset=self._cut("offset", self._body.offset),
            reads=tuple(sorted(self._checking.reads)),
            union=plan.Union(parts, self._body.keeps_all),
            texts=tuple(self._checking.texts.values()),
            description=query.description,
            instruction=query.instruction,
        )

    def _columns(self, bodies: list[syntax.ReadBody], parts: tuple[plan.ReadPlan, ...]) -> tuple[plan.Projection, ...]:
        names = [projection.name for projection in parts[0].projections]
        types: list[PropertyType] = []
        for body, part in zip(bodies, parts, strict=True):
            at = body.items[0].at
            if [projection.name for projection in part.projections] != names:
                hint = f"return {', '.join(names)}, in this order, in every part"
                raise self._checking.refuse("T48", "the parts of a union return different columns", at, hint)
            for place, (item, projection) in enumerate(zip(body.items, part.projections, strict=True)):
                if isinstance(projection.expression, plan.EntityRef):
                    hint = f"return its properties, such as ${projection.expression.variable}.id"
                    raise self._checking.refuse("T48", "a union returns values, not whole entities", item.at, hint)
                own_type = replace(projection.expression.type, enum=())
                if len(types) <= place:
                    types.append(own_type)
                    continue
                common = common_value_type([replace(types[place], nullable=False), replace(own_type, nullable=False)])
                if common is None:
                    message = f"'{projection.name}' is {types[place]} before and {own_type} here"
                    raise self._checking.refuse("T48", message, item.at, "a column of a union has one type")
                types[place] = replace(common, nullable=types[place].nullable or own_type.nullable)
        pairs = zip(names, types, strict=True)
        return tuple(plan.Projection(name, plan.PropertyRef("", name, type_)) for name, type_ in pairs)

    def _ordered(self, projections: tuple[plan.Projection, ...]) -> tuple[plan.OrderKey, ...]:
        columns = {projection.name: projection.expression for projection in projections}
        keys: list[plan.OrderKey] = []
        for item in self._body.order:
            name = item.expression.name if isinstance(item.expression, syntax.Word) else ""
            if name not in columns:
                hint = f"columns: {', '.join(columns)}"
                raise self._checking.refuse("T48", "a union is ordered by its columns", item.at, hint)
            self._check_key(item, columns[name], keys)
            keys.append(plan.OrderKey(columns[name], item.direction == "desc"))
        return tuple(keys)
