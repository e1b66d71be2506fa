"""Expressions of `.gq` -> typed expressions of the plan: names resolved, operands checked, literals typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Literal as OneOf

from omnigraph.errors import QueryError
from omnigraph.language.catalog import EntityType
from omnigraph.language.parsing.cursor import Position
from omnigraph.language.query import plan, syntax
from omnigraph.language.query.functions import (
    FUNCTIONS,
    NAMES,
    OTHER_NAMES,
    check_aggregate,
    check_function,
    common_type,
    make_call,
)
from omnigraph.language.query.scope import ENDPOINTS, ID, Checking, Scope, is_plain, type_of
from omnigraph.language.query.search import check_ranking, check_text_match
from omnigraph.values.json_values import Unfit
from omnigraph.values.literals import compared, fitted, temporal_constant, untyped_constant
from omnigraph.values.types import INTEGER_RANGES, PropertyType, Scalar

Place = OneOf["match", "return", "having", "order", "where", "insert"]
BlockChecker = Callable[[tuple[syntax.Clause, ...], Scope, Position], plan.Pattern]


def connected(op: OneOf["and", "or"], operands: Sequence[plan.Expression]) -> plan.Expression:
    """A balanced tree, so that a thousand alternatives nest ten levels deep."""
    if len(operands) == 1:
        return operands[0]
    middle = len(operands) // 2
    left, right = connected(op, operands[:middle]), connected(op, operands[middle:])
    return plan.Binary(op, left, right, _bool(left, right))


def suggestion(name: str, known: Sequence[str]) -> str | None:
    """A hint for a misspelt name."""
    close = get_close_matches(name[:100], known, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known: {', '.join(sorted({*known}))}" if 0 < len({*known}) <= 12 else None


def _bool(*operands: plan.Expression) -> PropertyType:
    return plan.NULLABLE_BOOL if any(type_of(operand).nullable for operand in operands) else plan.BOOL


def _listed(items: Sequence[plan.Expression], left: PropertyType) -> plan.Constant | plan.ListOf:
    """The right side of `in`. Literals become one constant; if one of several numbers is a fraction, all are."""
    constants = [item for item in items if isinstance(item, plan.Constant)]
    if len(constants) < len(items):
        return plan.ListOf(tuple(items), PropertyType(left.scalar, is_list=True))
    values = tuple(item.value for item in constants)
    if left.scalar.is_integer and any(isinstance(value, float) for value in values):
        fractions = tuple(None if value is None else float(value) for value in values)  # type: ignore[arg-type]  # numbers
        return plan.Constant(fractions, PropertyType(Scalar.F64, is_list=True))
    return plan.Constant(values, PropertyType(left.scalar, is_list=True))


_PATH_VALUES = {
    "nodes": PropertyType(Scalar.STRING, is_list=True),
    "edges": PropertyType(Scalar.STRING, is_list=True),
    "length": PropertyType(Scalar.I64),
    "cost": PropertyType(Scalar.F64),
}


class ExpressionChecker:
    """Checks the expressions of one place.

    `entity` is the type whose properties a mutation's `where` may name without a variable. `columns` are the aliases in scope:
    for a column those of the columns before it, for `order` all. `blocks` checks the inside of `exists { }` and similar blocks.
    """

    def __init__(
        self,
        scope: Scope,
        place: Place,
        *,
        entity: EntityType | None = None,
        columns: Mapping[str, plan.Expression] | None = None,
        blocks: BlockChecker | None = None,
    ) -> None:
        self.scope = scope
        self.checking: Checking = scope.checking
        self.place = place
        self._entity = entity
        self._columns = {} if columns is None else columns
        self._blocks = blocks

    def condition(self, expression: syntax.Expr) -> plan.Expression:
        """An expression that is true, false or unknown."""
        checked = self.check(expression)
        type_ = None if isinstance(checked, plan.EntityRef) else checked.type
        if isinstance(checked, plan.Constant) and checked.value is None:
            return replace(checked, type=plan.NULLABLE_BOOL)
        if type_ is None or type_.scalar is not Scalar.BOOL or type_.is_list:
            what = "an entity" if type_ is None else str(type_)
            raise self.checking.refuse("T7", f"a condition must be true or false, this is {what}", expression.at)
        return checked

    def check(self, expression: syntax.Expr) -> plan.Expression:
        match expression:
            case syntax.Literal():
                return self._literal(expression)
            case syntax.PropertyAccess():
                return self._property(expression)
            case syntax.Variable():
                return self._variable(expression)
            case syntax.Word():
                return self._word(expression)
            case syntax.Comparison():
                return self._comparison(expression)
            case syntax.Logical():
                return connected(expression.op, [self.condition(operand) for operand in expression.operands])
            case syntax.Not():
                operand = self.condition(expression.operand)
                return plan.Unary("not", operand, _bool(operand))
            case syntax.NullTest():
                return self._null_test(expression)
            case syntax.Arithmetic():
                return self._arithmetic(expression)
            case syntax.Minus():
                return self._minus(expression)
            case syntax.NowCall():
                return plan.Now()
            case syntax.ListLiteral():
                return self._list(expression)
            case syntax.RecordLiteral():
                return self._record(expression)
            case syntax.Call():
                return self._call(expression)
            case syntax.FunctionCall():
                return check_function(self, expression)
            case syntax.CaseExpression():
                return self._case(expression)
            case syntax.Quantifier():
                return self._quantifier(expression)
            case syntax.Duration():
                hint = "a duration is added to or subtracted from a date or an instant: now() - 30 days"
                raise self.checking.refuse("T45", "a duration is not allowed here", expression.at, hint)
            case syntax.AggregateCall():
                return check_aggregate(self, expression)
            case syntax.Block():
                return self._block(expression)

    # ------------------------------------------------------------ leaves

    def _literal(self, literal: syntax.Literal) -> plan.Constant:
        try:
            if literal.kind in ("date", "datetime"):
                return temporal_constant(literal.kind, str(literal.value))
            return untyped_constant(literal.value)
        except Unfit as unfit:
            raise self.checking.refuse("T3", str(unfit), literal.at) from None

    def _list(self, literal: syntax.ListLiteral) -> plan.Constant | plan.ListOf:
        """A list outside of `in`, where items take the type of the left side instead."""
        items = [self.check(item) for item in literal.items]
        types = [type_of(item) for item in items]
        if not all(is_plain(type_) for type_ in types) or any(isinstance(item, plan.EntityRef) for item in items):
            raise self.checking.refuse("T7", "a list holds single values only", literal.at)
        if not all(isinstance(item, plan.Constant) for item in items):
            expressions, type_ = common_type(self, literal.items)
            return plan.ListOf(expressions, PropertyType(type_.scalar, is_list=True))
        if any(isinstance(item, plan.Constant) and item.value is None for item in items):
            raise self.checking.refuse("T3", "null cannot be an item of a list", literal.at)
        scalar = self._common_scalar([type_.scalar for type_ in types], literal.at)
        values = tuple(item.value for item in items if isinstance(item, plan.Constant))
        return plan.Constant(values, PropertyType(scalar, is_list=True))

    def _record(self, literal: syntax.RecordLiteral) -> plan.RecordOf:
        """Its values are single values, under names that differ by more than their case."""
        items: dict[str, plan.Expression] = {}
        for written in literal.fields:
            value = self.check(written.value)
            if isinstance(value, plan.EntityRef) or not is_plain(value.type):
                what = "an entity" if isinstance(value, plan.EntityRef) else str(value.type)
                hint = f"name a property: ${value.variable}.…" if isinstance(value, plan.EntityRef) else None
                message = f"'{written.name}' of a record is a single value, this is {what}"
                raise self.checking.refuse("T51", message, written.value.at, hint)
            if written.name.lower() in {name.lower() for name in items}:
                raise self.checking.refuse("T51", f"two values of the record are called '{written.name}'", written.at)
            items[written.name] = value
        fields = tuple((name, replace(type_of(value), enum=())) for name, value in items.items())
        return plan.RecordOf(tuple(items.values()), PropertyType(Scalar.RECORD, fields=fields))

    def _common_scalar(self, scalars: Sequence[Scalar], at: Position) -> Scalar:
        if not scalars:
            return Scalar.STRING
        if all(scalar.is_numeric for scalar in scalars):
            return Scalar.F64 if any(scalar.is_float for scalar in scalars) else Scalar.I64
        if len(set(scalars)) > 1:
            raise self.checking.refuse("T7", "the items of a list must have one type", at)
        return scalars[0]

    def _variable(self, variable: syntax.Variable) -> plan.Expression:
        name = variable.name
        if self.scope.node(name) is not None:
            return plan.EntityRef(name, self.scope.is_optional(name))
        owner = self.scope.owner(name)
        if owner is not None and name in owner.unnested:
            return plan.PropertyRef(name, "item", owner.unnested[name])
        if (item := self.scope.item(name)) is not None:
            return plan.ItemRef(name, item)
        if owner is not None and name in owner.paths:
            hint = f"read one of its values: ${name}.length"
            raise self.checking.refuse("T23", f"${name} is a path and cannot be used alone", variable.at, hint)
        if self.scope.edge(name) is not None:
            raise self.checking.refuse(
                "T23",
                f"${name} is an edge and cannot be used alone",
                variable.at,
                f"read one of its properties: ${name}.…",
            )
        if name in self.checking.parameters:
            return plan.Parameter(name, self.checking.parameters[name])
        if self.place == "where" or (self.place == "insert" and not self.scope.nodes):
            raise self.checking.refuse(
                "T14", f"${name} is not a parameter", variable.at, suggestion(name, list(self.checking.parameters))
            )
        raise self.checking.refuse("T6", f"${name} is not bound", variable.at, self._known_variables(name))

    def _known_variables(self, name: str) -> str | None:
        known = {*self.checking.parameters}
        scope: Scope | None = self.scope
        while scope is not None:
            known |= ({*scope.nodes} | {*scope.edges}) - scope.anonymous
            scope = scope.parent
        close = get_close_matches(name, sorted(known), n=1)
        if close:
            return f"did you mean '${close[0]}'?"
        return "bind it in `match`, or declare it as a parameter"

    def _property(self, access: syntax.PropertyAccess) -> plan.PropertyRef | plan.FieldOf:
        owner = self.scope.owner(access.variable)
        if owner is not None and access.variable in owner.unnested:
            type_ = owner.unnested[access.variable]
            return self._field(access, plan.PropertyRef(access.variable, "item", type_), type_)
        if (item := self.scope.item(access.variable)) is not None:
            return self._field(access, plan.ItemRef(access.variable, item), item)
        resolved = self._resolved(access)
        if self.scope.is_optional(access.variable):
            return replace(resolved, type=replace(resolved.type, nullable=True))
        return resolved

    def _field(self, access: syntax.PropertyAccess, item: plan.Expression, record: PropertyType) -> plan.FieldOf:
        """A value of a record that is an item of a list."""
        fields = dict(record.fields)
        if access.name not in fields:
            message = f"${access.variable} is {record} and has no '{access.name}'"
            raise self.checking.refuse("T6", message, access.name_at, suggestion(access.name, list(fields)))
        return plan.FieldOf(item, access.name, fields[access.name])

    def _resolved(self, access: syntax.PropertyAccess) -> plan.PropertyRef:
        name, variable = access.name, access.variable
        owner_scope = self.scope.owner(variable)
        if owner_scope is not None and variable in owner_scope.paths:
            return self._path_value(access)
        if self.place == "where":
            raise self.checking.refuse(
                "T6", f"${variable}.{name} cannot be used in `where`", access.at, f"write just `{name}`"
            )
        edge = self.scope.edge(variable)
        if edge is not None:
            if name == "id" or name in ENDPOINTS:
                return plan.PropertyRef(variable, ENDPOINTS.get(name, name), ID)
            properties, owner, own = edge.properties, edge.name, [*ENDPOINTS, "id"]
        else:
            node = self.scope.node(variable)
            if node is None:
                raise self._unbound(access)
            if name == "id":
                return plan.PropertyRef(variable, "id", ID)
            properties, owner, own = self.scope.node_properties(node), node.describe(), ["id"]
        if name not in properties:
            raise self.checking.refuse(
                "T6", f"{owner} has no property '{name}'", access.name_at, suggestion(name, [*properties, *own])
            )
        return plan.PropertyRef(variable, name, properties[name].type)

    def _path_value(self, access: syntax.PropertyAccess) -> plan.PropertyRef:
        if access.name not in _PATH_VALUES:
            message, hint = f"a path has no '{access.name}'", f"a path has: {', '.join(_PATH_VALUES)}"
            raise self.checking.refuse("T6", message, access.name_at, hint)
        return plan.PropertyRef(access.variable, access.name, _PATH_VALUES[access.name])

    def _unbound(self, access: syntax.PropertyAccess) -> Exception:
        if access.variable == "_":
            return self.checking.refuse("T6", "$_ has no properties", access.at, "give the variable a name")
        if access.variable in self.checking.parameters:
            return self.checking.refuse("T6", f"${access.variable} is a parameter and has no properties", access.at)
        hint = self._known_variables(access.variable)
        return self.checking.refuse("T6", f"${access.variable} is not bound", access.at, hint)

    def _word(self, word: syntax.Word) -> plan.Expression:
        name = word.name
        if self.place == "where" and self._entity is not None:
            return self._own_property(word, self._entity)
        if name in self._columns:
            return self._columns[name]
        if (carried := self.scope.value(name)) is not None:
            return plan.PropertyRef(plan.ROWS, name, carried)
        hint = self._owned(name) or "a property is written $variable.name"
        if name == "distinct":
            hint = "write return distinct { … }"
        if self.place in ("order", "having") and self._owned(name) is None:
            hint = suggestion(name, list(self._columns)) or "an order key is a column's alias or a property"
        raise self.checking.refuse("T6", f"unknown name '{name}'", word.at, hint)

    def _owned(self, name: str) -> str | None:
        """The variable whose property was written without a variable."""
        scope: Scope | None = self.scope
        while scope is not None:
            for variable, node in scope.nodes.items():
                if variable not in scope.anonymous and name in scope.node_properties(node):
                    return f"a property is written with its variable: ${variable}.{name}"
            for variable, edge in scope.edges.items():
                if variable not in scope.anonymous and name in edge.properties:
                    return f"a property is written with its variable: ${variable}.{name}"
            scope = scope.parent
        return None

    def _own_property(self, word: syntax.Word, entity: EntityType) -> plan.PropertyRef:
        name = word.name
        is_edge = entity.table_key.startswith("edge:")
        if name == "id" or (is_edge and name in ENDPOINTS):
            return plan.PropertyRef("", ENDPOINTS.get(name, name), ID)
        if name not in entity.properties:
            known = [*entity.properties, *(ENDPOINTS if is_edge else ())]
            raise self.checking.refuse(
                "T11", f"{entity.name} has no property '{name}'", word.at, suggestion(name, known)
            )
        type_ = entity.properties[name].type
        if type_.scalar is Scalar.BLOB:
            raise self.checking.refuse("T11", f"'{name}' is a Blob and cannot be used in a condition", word.at)
        return plan.PropertyRef("", name, type_)

    # ------------------------------------------------------------ comparisons

    def _comparison(self, comparison: syntax.Comparison) -> plan.Expression:
        if comparison.op == "in":
            return self._membership(comparison)
        left, right = self.check(comparison.left), self.check(comparison.right)
        if comparison.op in ("contains", "starts_with", "ends_with"):
            return self._text_or_list(comparison, left, right)
        if isinstance(left, plan.EntityRef) or isinstance(right, plan.EntityRef):
            return self._same_entity(comparison, left, right)
        for side in (left, right):
            if not is_plain(type_of(side)):
                raise self._operands(comparison, left, right)
        left, right = self._comparable_sides(comparison, left, right)
        if comparison.op not in ("=", "!=") and Scalar.BOOL in (type_of(left).scalar, type_of(right).scalar):
            raise self._operands(comparison, left, right)
        return plan.Binary(comparison.op, left, right, _bool(left, right))

    def _comparable_sides(
        self, comparison: syntax.Comparison, left: plan.Expression, right: plan.Expression
    ) -> tuple[plan.Expression, plan.Expression]:
        """Both sides, converted to types that can be compared: a literal takes the type of the other side."""
        check_enum = comparison.op in ("=", "!=")
        if isinstance(right, plan.Constant) and not (isinstance(left, plan.Constant) and right.value is not None):
            right = self._as_compared(right, type_of(left), comparison.right.at, check_enum)
        elif isinstance(left, plan.Constant):
            left = self._as_compared(left, type_of(right), comparison.left.at, check_enum)
        first, second = type_of(left).scalar, type_of(right).scalar
        if first is not second and not (first.is_numeric and second.is_numeric):
            raise self._operands(comparison, left, right)
        return left, right

    def _as_compared(
        self, constant: plan.Constant, other: PropertyType, at: Position, check_enum: bool
    ) -> plan.Constant:
        try:
            return compared(constant, other, check_enum=check_enum)
        except Unfit as unfit:
            raise self.checking.refuse("T3", str(unfit), at) from None

    def _operands(self, comparison: syntax.Comparison, left: plan.Expression, right: plan.Expression) -> Exception:
        first, second = (
            "an entity" if isinstance(side, plan.EntityRef) else str(replace(type_of(side), nullable=False))
            for side in (left, right)
        )
        hint = None
        pair = {type_of(left).scalar, type_of(right).scalar}
        if comparison.op == "contains":
            hint = "`contains` takes a list and an item, or a String and a part of it"
        elif comparison.op == "in":
            hint = "`in` takes a single value and a list of such values"
        elif isinstance(left, plan.EntityRef) or isinstance(right, plan.EntityRef):
            hint = "two entities of the same type compare with = and !=; use $variable.id for ids"
        elif Scalar.BLOB in pair:
            hint = "a Blob is compared with nothing; `is null` and `is not null` ask whether there is one"
        elif pair == {Scalar.STRING, Scalar.DATE} or pair == {Scalar.STRING, Scalar.DATETIME}:
            hint = "declare the parameter as Date or DateTime"
        elif pair == {Scalar.DATE, Scalar.DATETIME}:
            hint = 'ask for the time between them: duration($date, $instant, "days")'
        return self.checking.refuse(
            "T7", f"'{comparison.op}' cannot compare {first} with {second}", comparison.at, hint
        )

    def _same_entity(
        self, comparison: syntax.Comparison, left: plan.Expression, right: plan.Expression
    ) -> plan.Expression:
        if isinstance(left, plan.EntityRef) and isinstance(right, plan.EntityRef) and comparison.op in ("=", "!="):
            first, second = self.scope.node(left.variable), self.scope.node(right.variable)
            # Ids are unique within a type only, so the types must be known to be the same.
            if first is not None and second is not None and first.types == second.types and len(first.types) == 1:
                return plan.Binary(comparison.op, left, right, _bool(left, right))
        raise self._operands(comparison, left, right)

    def _text_or_list(
        self, comparison: syntax.Comparison, left: plan.Expression, right: plan.Expression
    ) -> plan.Expression:
        if isinstance(left, plan.EntityRef) or isinstance(right, plan.EntityRef):
            raise self._operands(comparison, left, right)
        container = type_of(left)
        if comparison.op == "contains" and container.is_list:
            item = PropertyType(container.scalar)
            if isinstance(right, plan.Constant) and is_plain(right.type):
                right = self._as_compared(right, item, comparison.right.at, True)
            if not self._comparable(item, type_of(right)):
                raise self._operands(comparison, left, right)
        elif not all(type_.scalar is Scalar.STRING and not type_.is_list for type_ in (container, type_of(right))):
            raise self._operands(comparison, left, right)
        return plan.Binary(comparison.op, left, right, _bool(left, right))

    def _comparable(self, first: PropertyType, second: PropertyType) -> bool:
        both_plain = is_plain(first) and is_plain(second)
        return both_plain and (first.scalar is second.scalar or (first.scalar.is_numeric and second.scalar.is_numeric))

    def _membership(self, comparison: syntax.Comparison) -> plan.Expression:
        left = self.check(comparison.left)
        if isinstance(left, plan.EntityRef) or not is_plain(left.type):
            raise self._operands(comparison, left, self.check(comparison.right))
        if isinstance(comparison.right, syntax.ListLiteral):
            items: list[plan.Expression] = []
            for written in comparison.right.items:
                item = self.check(written)
                if isinstance(item, plan.Constant) and is_plain(item.type):
                    item = self._as_compared(item, left.type, written.at, True)
                if isinstance(item, plan.EntityRef) or not self._comparable(left.type, item.type):
                    raise self._operands(comparison, left, item)
                items.append(item)
            return plan.Binary("in", left, _listed(items, left.type), _bool(left, *items))
        right = self.check(comparison.right)
        if isinstance(right, plan.EntityRef) or not right.type.is_list:
            raise self._operands(comparison, left, right)
        item_type = PropertyType(right.type.scalar)
        if isinstance(left, plan.Constant):
            left = self._as_compared(left, item_type, comparison.left.at, True)
        if not self._comparable(left.type, item_type):
            raise self._operands(comparison, left, right)
        return plan.Binary("in", left, right, _bool(left, right))

    def _null_test(self, test: syntax.NullTest) -> plan.Expression:
        operand = self.check(test.operand)
        if isinstance(operand, plan.EntityRef) and not operand.is_optional:
            raise self.checking.refuse("T7", "a bound entity is never null", test.at, "test one of its properties")
        return plan.Unary("is_not_null" if test.negated else "is_null", operand, plan.BOOL)

    # ------------------------------------------------------------ numbers

    def _number(self, expression: syntax.Expr) -> plan.Expression:
        checked = self.check(expression)
        if isinstance(checked, plan.Constant) and checked.value is None:
            return replace(checked, type=PropertyType(Scalar.I64, nullable=True))
        if isinstance(checked, plan.EntityRef) or not (checked.type.scalar.is_numeric and not checked.type.is_list):
            what = "an entity" if isinstance(checked, plan.EntityRef) else str(checked.type)
            hint = None
            if not isinstance(checked, plan.EntityRef) and checked.type.scalar in (Scalar.DATE, Scalar.DATETIME):
                hint = 'the time between two instants is duration(from, to, "hour")'
            raise self.checking.refuse("T33", f"arithmetic needs numbers, this is {what}", expression.at, hint)
        return checked

    def _arithmetic(self, arithmetic: syntax.Arithmetic) -> plan.Expression:
        if isinstance(arithmetic.right, syntax.Duration):
            return self._shifted_time(arithmetic, arithmetic.right)
        left, right = self._number(arithmetic.left), self._number(arithmetic.right)
        types = type_of(left), type_of(right)
        by_zero = arithmetic.op in ("/", "%")
        is_float = arithmetic.op == "/" or any(type_.scalar.is_float for type_ in types)
        nullable = by_zero or any(type_.nullable for type_ in types)
        result = PropertyType(Scalar.F64 if is_float else Scalar.I64, nullable=nullable)
        return plan.Binary(arithmetic.op, left, right, result)

    def _shifted_time(self, arithmetic: syntax.Arithmetic, duration: syntax.Duration) -> plan.Expression:
        """A date or an instant plus or minus a duration."""
        time = self.check(arithmetic.left)
        is_time = not isinstance(time, plan.EntityRef) and time.type.scalar in (Scalar.DATE, Scalar.DATETIME)
        if not is_time or type_of(time).is_list or arithmetic.op not in ("+", "-"):
            hint = "a duration is added to or subtracted from a date or an instant: now() - 30 days"
            raise self.checking.refuse("T45", "this is neither a date nor an instant", arithmetic.left.at, hint)
        if duration.count > INTEGER_RANGES[Scalar.I32][1]:
            raise self.checking.refuse("T45", "the duration is too long", duration.at)
        count = plan.Constant(-duration.count if arithmetic.op == "-" else duration.count, PropertyType(Scalar.I64))
        unit = plan.Constant(duration.unit, PropertyType(Scalar.STRING))
        return make_call(self, FUNCTIONS["date_add"], (time, count, unit), arithmetic.at)

    def _minus(self, minus: syntax.Minus) -> plan.Expression:
        operand = self._number(minus.operand)
        type_ = type_of(operand)
        return plan.Unary(
            "-", operand, PropertyType(Scalar.F64 if type_.scalar.is_float else Scalar.I64, type_.nullable)
        )

    # ------------------------------------------------------------ functions and blocks

    def _call(self, call: syntax.Call) -> plan.Expression:
        if call.function in ("nearest", "bm25", "rrf"):
            if self.place not in ("return", "order"):
                hint = "rank in `order`, or return the score as a column"
                raise self.checking.refuse("T34", f"{call.function} is not allowed in `{self.place}`", call.at, hint)
            return check_ranking(self, call)
        if self.place != "match":
            raise self.checking.refuse("T41", f"{call.function} can stand in `match` only", call.at)
        return check_text_match(self, call)

    def value(self, expression: syntax.Expr) -> plan.Expression:
        """Any expression but a whole entity or a Blob."""
        checked = self.check(expression)
        if isinstance(checked, plan.EntityRef):
            hint = f"name a property: ${checked.variable}.name"
            raise self.checking.refuse("T44", "this is an entity, not a value", expression.at, hint)
        if checked.type.scalar is Scalar.BLOB:
            raise self.checking.refuse("T24", "a Blob cannot be used as a value", expression.at)
        return checked

    def unknown_function(self, call: syntax.FunctionCall) -> QueryError:
        hint = (
            OTHER_NAMES.get(call.function.lower())
            or suggestion(call.function, NAMES)
            or f"functions: {', '.join(sorted(NAMES))}"
        )
        return self.checking.refuse("T43", f"there is no function '{call.function}'", call.at, hint)

    def _case(self, case: syntax.CaseExpression) -> plan.Choice:
        conditions = [self.condition(branch.condition) for branch in case.branches]
        written = [branch.value for branch in case.branches]
        values, type_ = common_type(self, written if case.otherwise is None else [*written, case.otherwise])
        otherwise = None if case.otherwise is None else values[-1]
        if otherwise is None:
            type_ = replace(type_, nullable=True)
        return plan.Choice(tuple(zip(conditions, values, strict=False)), otherwise, type_)

    def _quantifier(self, quantifier: syntax.Quantifier) -> plan.Quantified:
        items, name = self.check(quantifier.items), quantifier.variable
        if isinstance(items, plan.EntityRef) or not items.type.is_list:
            what = "an entity" if isinstance(items, plan.EntityRef) else str(items.type)
            hint = f"write {quantifier.kind}($item in $variable.list where condition)"
            raise self.checking.refuse(
                "T43", f"{quantifier.kind} takes a list, this is {what}", quantifier.items.at, hint
            )
        taken = self.scope.owner(name) is not None or self.scope.item(name) is not None
        if taken or name in self.checking.parameters or name == "_":
            message = f"${name} is already in use; an item needs a name of its own"
            raise self.checking.refuse("T29", message, quantifier.variable_at)
        # The list may be null, but an item is null only if the list is written in the query.
        is_written = isinstance(items, plan.Constant | plan.ListOf)
        item = plan.ItemRef(name, PropertyType(items.type.scalar, is_written, fields=items.type.fields))
        self.scope.items[name] = item.type
        condition = self.condition(quantifier.condition)
        del self.scope.items[name]
        for inner in plan.walk(condition):
            if isinstance(inner, plan.Exists | plan.CountOf | plan.TextMatch):
                message = f"neither a block nor a text search is allowed inside `{quantifier.kind}`"
                raise self.checking.refuse("T41", message, quantifier.condition.at)
        type_ = plan.NULLABLE_BOOL if items.type.nullable or type_of(condition).nullable else plan.BOOL
        return plan.Quantified(quantifier.kind, item, items, condition, type_)

    def _block(self, block: syntax.Block) -> plan.Expression:
        if self._blocks is None:
            hint = "blocks are allowed in `match`, `return` and `order`"
            raise self.checking.refuse("T41", f"`{block.kind} {{ }}` is not allowed here", block.at, hint)
        pattern = self._blocks(block.clauses, self.scope, block.at)
        if block.kind == "count":
            return plan.CountOf(pattern)
        exists = plan.Exists(pattern)
        return plan.Unary("not", exists, plan.BOOL) if block.kind == "not" else exists

    def stored(self, value: syntax.Expr, target: PropertyType, *, where: str) -> plan.Expression:
        """The value of a property in a binding or an assignment (rule T3)."""
        checked = self.check(value)
        if isinstance(checked, plan.Constant):
            try:
                return fitted(checked, target)
            except Unfit as unfit:
                raise self.checking.refuse("T3", f"{where}: {unfit}", value.at) from None
        source = type_of(checked)
        if isinstance(checked, plan.EntityRef):
            hint = f"write ${checked.variable}.id"
            raise self.checking.refuse("T3", f"{where}: an entity is not a value of {target}", value.at, hint)
        if not _storable(source, target):
            raise self.checking.refuse("T3", f"{where}: {source} is not a value of {target}", value.at)
        return checked


def _storable(source: PropertyType, target: PropertyType) -> bool:
    """Whether a value of the given type may be written to the target. Ranges and enums are checked when the value is known."""
    if source.is_list != target.is_list or source.dimension != target.dimension:
        return False
    if source.scalar is target.scalar:
        return True
    if source.scalar.is_integer:
        return target.scalar.is_numeric
    if source.scalar.is_float:
        return target.scalar.is_float
    return source.scalar is Scalar.STRING and target.scalar is Scalar.BLOB
