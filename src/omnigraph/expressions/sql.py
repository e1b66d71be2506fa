"""Typed expressions as SQL trees (sqlglot) that mean the same on both engines.

Three-valued logic is SQL's own. `/` and `%` by zero give null. Timestamps are UTC without a zone. Parameters, `now()` and long
lists stay placeholders, so that one tree serves every call of a query.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from omnigraph.expressions.functions import SECONDS
from omnigraph.expressions.interpreter import item_type, type_of
from omnigraph.language.query.plan import (
    Binary,
    Choice,
    Constant,
    EntityRef,
    Expression,
    FieldOf,
    FunctionCall,
    ItemRef,
    ListOf,
    Now,
    Parameter,
    PropertyRef,
    Quantified,
    RecordOf,
    Unary,
)
from omnigraph.relational.sql import exp, neutral
from omnigraph.values.json_values import utc_without_zone
from omnigraph.values.types import PropertyType, Scalar

MAX_LISTED = 64
"""A longer list is passed to the engine as one value, which it hashes."""

Known = Constant | Parameter | Now
"""What a placeholder stands for."""

_SQL_TYPES = {
    Scalar.STRING: "TEXT",
    Scalar.BLOB: "VARBINARY",
    Scalar.BOOL: "BOOLEAN",
    Scalar.I32: "INT",
    Scalar.I64: "BIGINT",
    Scalar.U32: "BIGINT",
    Scalar.U64: "DECIMAL",
    Scalar.F32: "FLOAT",
    Scalar.F64: "DOUBLE",
    Scalar.DATE: "DATE",
    Scalar.DATETIME: "TIMESTAMPNTZ",
}
"""Engine-neutral types: unsigned integers are held in the next wider signed type, which Spark has too, or as decimals of 20
digits."""

F64 = PropertyType(Scalar.F64)


def sql_type(type: PropertyType) -> exp.DataType:
    if type.fields and not type.is_list:
        members = [exp.ColumnDef(this=_quoted(name), kind=sql_type(field)) for name, field in type.fields]
        return exp.DataType(this=exp.DataType.Type.STRUCT, expressions=members, nested=True)
    base = (
        sql_type(item_type(type))
        if type.fields
        else _type_tree(_SQL_TYPES[Scalar.F32 if type.dimension is not None else type.scalar])
    )
    if not type.is_list and type.dimension is None:
        return base
    return exp.DataType(this=exp.DataType.Type.ARRAY, expressions=[base], nested=True)


def _type_tree(name: str) -> exp.DataType:
    """Built by hand: parsing a type's name would load the whole SQL parser, which a short read does not need."""
    digits = [exp.DataTypeParam(this=exp.Literal.number(number)) for number in (20, 0)] if name == "DECIMAL" else None
    tree = exp.DataType(this=exp.DataType.Type[name], nested=False)
    if digits is not None:
        tree.set("expressions", digits)
    return tree


def cast(expression: exp.Expression, type: PropertyType) -> exp.Cast:
    return exp.Cast(this=expression, to=sql_type(type))


# ---------------------------------------------------------------- values


def literal(item: object, type: PropertyType) -> exp.Expression:
    """A Python value as a typed SQL literal."""
    if item is None:
        return cast(exp.null(), type)
    if isinstance(item, list | tuple):
        inner = PropertyType(Scalar.F32) if type.dimension is not None else item_type(type)
        return cast(exp.Array(expressions=[literal(member, inner) for member in item]), type)
    return _scalar(item, type)


def _scalar(item: object, type: PropertyType) -> exp.Expression:
    match item:
        case bool():
            return exp.true() if item else exp.false()
        case int():
            number = exp.Literal.number(abs(item))
            return cast(exp.Neg(this=number) if item < 0 else number, type)
        case float():
            return cast(exp.Literal.string(repr(item)), type)
        case dt.datetime():
            moment = utc_without_zone(item).isoformat(sep=" ", timespec="microseconds")
            return cast(exp.Literal.string(moment), type)
        case dt.date():
            return cast(exp.Literal.string(item.isoformat()), type)
        case str() if type.scalar is Scalar.DATETIME:
            # Constants are UTC with a Z, which a type without zone does not accept.
            return cast(exp.Literal.string(item.removesuffix("Z").replace("T", " ")), type)
        case str() if type.scalar is Scalar.DATE:
            return cast(exp.Literal.string(item), type)
        case str():
            return exp.Literal.string(item)
        case bytes():
            return exp.Unhex(this=exp.Literal.string(item.hex()))
        case _:
            raise TypeError(f"no SQL literal for {item!r}")


# ---------------------------------------------------------------- expressions


class ExpressionCompiler:
    """Compiles the row-level expressions of a plan.

    `column` gives the SQL of a property of a bound entity; `other` that of an expression that is not row-level (blocks, search).
    Placeholders are added to `placeholders`.
    """

    def __init__(
        self,
        column: Callable[[PropertyRef], exp.Expression],
        other: Callable[[Expression], exp.Expression],
        placeholders: dict[str, Known],
    ) -> None:
        self._column = column
        self._other = other
        self._placeholders = placeholders

    def compile(self, expression: Expression) -> exp.Expression:
        match expression:
            case Constant(item, type):
                return literal(item, type)
            case Parameter() | Now():
                return self.placeholder(expression)
            case PropertyRef():
                return self._column(expression)
            case EntityRef(variable):
                return self._column(PropertyRef(variable, "id", type_of(expression)))
            case Unary():
                return self._unary(expression)
            case Binary():
                return self._binary(expression)
            case ListOf(items, _):
                return exp.Array(expressions=[self._in_type(item, item_type(expression.type)) for item in items])
            case RecordOf(items, type):
                pairs = zip(type.fields, items, strict=True)
                return record([(name, self._in_type(item, field)) for (name, field), item in pairs])
            case FieldOf(inner, name, _):
                return value_of(self.compile(inner), name)
            case FunctionCall():
                return self._call(expression)
            case Choice():
                return self._choice(expression)
            case Quantified():
                return self._quantified(expression)
            case ItemRef(variable, type):
                return cast(exp.column(exp.to_identifier(_item_name(variable), quoted=True)), type)
        return self._other(expression)

    def placeholder(self, known: Known) -> exp.Expression:
        place = next((place for place, value in self._placeholders.items() if value == known), None)
        if place is None:
            place = f"p{len(self._placeholders)}"
            self._placeholders[place] = known
        return cast(exp.Placeholder(this=place), known.type)

    def _unary(self, unary: Unary) -> exp.Expression:
        operand = self.compile(unary.operand)
        match unary.op:
            case "not":
                return exp.Not(this=_operand(operand))
            case "-":
                return exp.Neg(this=cast(operand, unary.type))
            case "is_null":
                return exp.Is(this=_operand(operand), expression=exp.null())
            case "is_not_null":
                return exp.Not(this=exp.Is(this=_operand(operand), expression=exp.null()))

    def _binary(self, binary: Binary) -> exp.Expression:
        if binary.op == "in":
            return self._in(binary.left, binary.right)
        left, right = _operand(self.compile(binary.left)), _operand(self.compile(binary.right))
        match binary.op:
            case "contains" if type_of(binary.left).is_list:
                return self._contains(binary.left, binary.right)
            case "contains":
                return exp.Contains(this=left, expression=right)
            case "starts_with":
                return exp.StartsWith(this=left, expression=right)
            case "ends_with":
                return neutral("ends_with", left, right)
            case "/":
                return exp.Div(this=cast(left, F64), expression=_not_zero(cast(right, F64)))
            case "%":
                left, right = (cast(side, binary.type) for side in (left, right))
                return exp.Mod(this=left, expression=_not_zero(_not_minus_one(right, binary.right)))
            case "+" | "-" | "*":
                # In the type of the result: the sum of two narrow numbers may be wide.
                left, right = (cast(side, binary.type) for side in (left, right))
            case _ if _is_mixed([type_of(binary.left), type_of(binary.right)]):
                left, right = cast(left, F64), cast(right, F64)
        return _PLAIN[binary.op](this=left, expression=right)

    # ------------------------------------------------------------ functions and choices

    def _call(self, call: FunctionCall) -> exp.Expression:
        if call.function == "coalesce":
            first, *others = (self._in_type(argument, call.type) for argument in call.arguments)
            return exp.Coalesce(this=first, expressions=others)
        return function_sql(call, [_operand(self.compile(argument)) for argument in call.arguments])

    def _choice(self, choice: Choice) -> exp.Expression:
        ifs = [
            exp.If(this=self.compile(condition), true=self._in_type(value, choice.type))
            for condition, value in choice.branches
        ]
        otherwise = None if choice.otherwise is None else self._in_type(choice.otherwise, choice.type)
        return cast(exp.Case(ifs=ifs, default=otherwise), choice.type)

    def _in_type(self, expression: Expression, type: PropertyType) -> exp.Expression:
        """A value in the type that it shares with others."""
        compiled = self.compile(expression)
        return compiled if type_of(expression).scalar is type.scalar else cast(compiled, type)

    def _quantified(self, quantified: Quantified) -> exp.Expression:
        items, condition = _operand(self.compile(quantified.items)), self.compile(quantified.condition)
        name = exp.to_identifier(_item_name(quantified.item.variable), quoted=True)
        return neutral(quantified.kind, items, condition, name)

    # ------------------------------------------------------------ lists

    def _contains(self, array: Expression, item: Expression) -> exp.Expression:
        """Null if either is null."""
        whole, wanted = _operand(self.compile(array)), _operand(self.compile(item))
        if _is_mixed([item_type(type_of(array)), type_of(item)]):
            whole, wanted = cast(whole, _list_of(F64)), cast(wanted, F64)
        return exp.ArrayContains(this=whole, expression=wanted)

    def _in(self, item: Expression, array: Expression) -> exp.Expression:
        """`x in list`: false if the list is empty; null if x is null, or if x is not found and the list has a null."""
        match array:
            case Constant(()):
                return exp.false()
            case Constant(tuple() as values, type) if len(values) <= MAX_LISTED:
                return self._in_members(item, [Constant(value, item_type(type)) for value in values])
            case ListOf(members, _):
                return self._in_members(item, members)
            case Parameter() | Constant():
                return self._in_known(item, array)
        whole = _operand(self.compile(array))
        is_empty = exp.EQ(this=exp.ArraySize(this=whole), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=is_empty, true=exp.false())], default=self._contains(array, item))

    def _in_members(self, item: Expression, members: Sequence[Expression]) -> exp.Expression:
        values = [_operand(self.compile(operand)) for operand in (item, *members)]
        if _is_mixed([type_of(item), *(type_of(operand) for operand in members)]):
            values = [cast(value, F64) for value in values]
        return exp.In(this=values[0], expressions=values[1:])

    def _in_known(self, item: Expression, array: Constant | Parameter) -> exp.Expression:
        wanted: exp.Expression = _operand(self.compile(item))
        whole: exp.Expression = self.placeholder(array)
        if _is_mixed([type_of(item), item_type(array.type)]):
            wanted, whole = cast(wanted, F64), cast(whole, _list_of(F64))
        contained = exp.In(this=wanted, unnest=exp.Unnest(expressions=[whole]))
        if not array.type.nullable:
            return contained
        is_null = exp.Is(this=whole.copy(), expression=exp.null())
        return exp.Case(ifs=[exp.If(this=is_null, true=cast(exp.null(), PropertyType(Scalar.BOOL)))], default=contained)


def _item_name(variable: str) -> str:
    """Engines fold the case of names, but `$item` and `$Item` differ."""
    return "i_" + variable.encode().hex()


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def record(values: Sequence[tuple[str, exp.Expression]]) -> exp.Expression:
    return exp.Struct(expressions=[exp.PropertyEQ(this=_quoted(name), expression=value) for name, value in values])


def value_of(whole: exp.Expression, name: str) -> exp.Expression:
    """A value of a record."""
    return exp.Dot(this=exp.Paren(this=whole), expression=_quoted(name))


def sortable(value: exp.Expression, type: PropertyType) -> exp.Expression:
    """What sorts as a value does: engines place nulls inside records differently."""
    if not type.fields:
        return value
    if type.is_list:
        item = exp.to_identifier("sorted_item", quoted=True)
        return neutral("each_item", value, sortable(exp.column(item), replace(type, is_list=False)), item)
    keys: list[tuple[str, exp.Expression]] = []
    for place, (name, _) in enumerate(type.fields):
        member = value_of(value.copy(), name)
        known = exp.Paren(this=exp.Not(this=exp.Is(this=member, expression=exp.null())))
        keys += [(f"n{place}", known), (f"v{place}", member.copy())]
    return record(keys)


def _operand(expression: exp.Expression) -> exp.Expression:
    """In parentheses, unless it is a single name, literal or call."""
    return expression if isinstance(expression, _ATOMS) else exp.Paren(this=expression)


def _list_of(item: PropertyType) -> PropertyType:
    return PropertyType(item.scalar, is_list=True)


def _is_mixed(types: Iterable[PropertyType]) -> bool:
    """Integers mixed with floats: they compare as F64; left alone, the engines would choose different types."""
    kinds = {type_.scalar.is_float for type_ in types if type_.scalar.is_numeric}
    return len(kinds) > 1


def _not_zero(divisor: exp.Expression) -> exp.Expression:
    return exp.Nullif(this=divisor, expression=exp.Literal.number(0))


def _not_minus_one(divisor: exp.Expression, written: Expression) -> exp.Expression:
    """The remainder of a division by -1 is that by 1, which does not overflow."""
    if type_of(written).scalar.is_float or (isinstance(written, Constant) and written.value != -1):
        return divisor
    is_minus_one = exp.EQ(this=divisor.copy(), expression=exp.Neg(this=exp.Literal.number(1)))
    return exp.Case(ifs=[exp.If(this=is_minus_one, true=exp.Literal.number(1))], default=divisor)


def function_sql(call: FunctionCall, arguments: Sequence[exp.Expression]) -> exp.Expression:
    """A value function over compiled arguments; null if one of them is."""
    match call.function:
        case "replace":
            return exp.Anonymous(this="REPLACE", expressions=list(arguments))
        case "substring":
            text, *places = arguments
            name = "substring" if len(places) == 2 else "substring_from"
            return neutral(name, text, *(cast(place, PropertyType(Scalar.I64)) for place in places))
        case "abs":
            return exp.Abs(this=cast(arguments[0], call.type))
        case "round" | "floor" | "ceil":
            return _rounded(call, arguments[0])
        case "text":
            return _as_text(type_of(call.arguments[0]).scalar, arguments[0])
        case "integer" | "float":
            if type_of(call.arguments[0]).scalar is Scalar.STRING:
                return neutral(call.function, arguments[0])
            whole = type_of(call.arguments[0]).scalar.is_float and call.function == "integer"
            return cast(neutral("trunc", arguments[0]) if whole else arguments[0], call.type)
        case "sqrt" | "ln" | "power":
            return neutral(call.function, *(cast(argument, F64) for argument in arguments))
        case "date_trunc":
            return cast(neutral(f"truncated_{_unit(call, 0)}", arguments[1]), call.type)
        case "date_add":
            time, count_ = arguments[:2]
            added = neutral(f"added_{_unit(call, 2)}", time, cast(count_, PropertyType(Scalar.I64)))
            return cast(added, call.type)
        case "duration":
            first, last = (neutral("microseconds", time) for time in arguments[:2])
            elapsed = cast(exp.Paren(this=exp.Sub(this=last, expression=first)), F64)
            scale = SECONDS[_unit(call, 2)] * 1_000_000
            return exp.Div(this=elapsed, expression=cast(exp.Literal.number(scale), F64))
    return neutral(call.function, *arguments)


def _unit(call: FunctionCall, place: int) -> str:
    unit = call.arguments[place]
    assert isinstance(unit, Constant)
    return str(unit.value)


def _as_text(scalar: Scalar, value: exp.Expression) -> exp.Expression:
    if scalar.is_float:
        return neutral("float_text", cast(value, F64))
    return neutral("instant_text", value) if scalar is Scalar.DATETIME else cast(value, PropertyType(Scalar.STRING))


def _rounded(call: FunctionCall, number: exp.Expression) -> exp.Expression:
    """Integers are rounded already."""
    if call.type.scalar.is_integer:
        return cast(number, call.type)
    digits = call.arguments[1] if len(call.arguments) > 1 else None
    number = cast(number, F64)
    if not isinstance(digits, Constant) or digits.value == 0:
        return neutral(call.function, number)
    scale = literal(10.0 ** int(str(digits.value)), F64)
    scaled = neutral("round", exp.Mul(this=number, expression=scale))
    return exp.Div(this=scaled, expression=scale.copy())


_ATOMS = (exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Cast, exp.Array, exp.Paren)
_PLAIN: Mapping[str, Callable[..., exp.Expression]] = {
    "and": exp.And,
    "or": exp.Or,
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "+": exp.Add,
    "-": exp.Sub,
    "*": exp.Mul,
}
