"""The functions of values, by name: their arguments, their results and their meaning. Checks, docs and editors read this table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal as OneOf

from omnigraph.language.parsing.cursor import Position
from omnigraph.language.query import plan, syntax
from omnigraph.language.query.scope import is_plain, type_of
from omnigraph.values.json_values import Unfit
from omnigraph.values.literals import fitted
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    from omnigraph.language.query.expressions import ExpressionChecker


# Aggregates of `.gq`: the operands and the result type of each.


def check_aggregate(checker: ExpressionChecker, aggregate: syntax.AggregateCall) -> plan.Aggregate:
    """An aggregate with its operand checked (rules T8, T24, T34, T37)."""
    function = aggregate.function
    if checker.place not in ("return", "having", "order"):
        hint = "use a `count { … }` block" if checker.place == "match" else None
        raise checker.checking.refuse("T37", f"{function} is not allowed in `{checker.place}`", aggregate.at, hint)
    operand = _aggregated(checker, aggregate)
    if function == "count":
        return plan.Aggregate("count", operand, aggregate.distinct, PropertyType(Scalar.I64))
    type_ = type_of(operand)
    is_value = is_plain(type_) or (type_.scalar is Scalar.RECORD and not type_.is_list)
    if function in ("collect", "first", "last") and not isinstance(operand, plan.EntityRef) and is_value:
        argument = None if aggregate.argument is None else _ordering(checker, aggregate, aggregate.argument)
        collected = PropertyType(type_.scalar, is_list=True, fields=type_.fields)
        result_type = collected if function == "collect" else replace(type_, nullable=True)
        return plan.Aggregate(function, operand, aggregate.distinct, result_type, argument)
    allowed = type_.scalar.is_numeric
    if function in ("min", "max"):
        allowed = allowed or type_.scalar in (Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME)
    if isinstance(operand, plan.EntityRef) or type_.is_list or not allowed:
        what = "an entity" if isinstance(operand, plan.EntityRef) else str(type_)
        hint = f"name a property: {function}(${operand.variable}.…)" if isinstance(operand, plan.EntityRef) else None
        raise checker.checking.refuse("T8", f"{function} is not defined for {what}", aggregate.operand.at, hint)
    fraction = None if aggregate.argument is None else _fraction(checker, aggregate.argument)
    return plan.Aggregate(function, operand, aggregate.distinct, _aggregate_type(function, type_), fraction)


def _fraction(checker: ExpressionChecker, written: syntax.Expr) -> plan.Constant:
    fraction = checker.check(written)
    value = fraction.value if isinstance(fraction, plan.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        hint = "the middle is percentile(…, 0.5), which is median(…)"
        raise checker.checking.refuse(
            "T8", "the second argument of percentile is a number from 0 to 1", written.at, hint
        )
    return plan.Constant(float(value), PropertyType(Scalar.F64))


def _ordering(checker: ExpressionChecker, aggregate: syntax.AggregateCall, written: syntax.Expr) -> plan.Expression:
    order = checker.check(written)
    if isinstance(order, plan.EntityRef) or not is_plain(order.type):
        raise checker.checking.refuse("T8", f"{aggregate.function} needs a second argument to order by", written.at)
    return order


def _aggregated(checker: ExpressionChecker, aggregate: syntax.AggregateCall) -> plan.Expression:
    if isinstance(aggregate.operand, syntax.Variable) and checker.scope.edge(aggregate.operand.name) is not None:
        return plan.EntityRef(aggregate.operand.name, checker.scope.is_optional(aggregate.operand.name))
    inside = [aggregate.operand] if aggregate.argument is None else [aggregate.operand, aggregate.argument]
    for node, _ in (visited for part in inside for visited in syntax.walk(part)):
        if isinstance(node, syntax.AggregateCall):
            raise checker.checking.refuse("T37", "an aggregate is not allowed inside another", node.at)
        if isinstance(node, syntax.Call):
            raise checker.checking.refuse("T34", f"{node.function} cannot be aggregated", node.at)
    operand = checker.check(aggregate.operand)
    if type_of(operand).scalar is Scalar.BLOB:
        raise checker.checking.refuse("T24", "a Blob cannot be aggregated", aggregate.operand.at)
    return operand


def _aggregate_type(function: plan.AggregateFunction, operand: PropertyType) -> PropertyType:
    if function in ("min", "max"):
        return replace(operand, nullable=True)
    if function == "sum" and operand.scalar.is_integer:
        return PropertyType(Scalar.U64 if operand.scalar is Scalar.U64 else Scalar.I64, nullable=True)
    return PropertyType(Scalar.F64, nullable=True)


Kind = OneOf[
    "text", "number", "whole", "time", "list", "texts", "not text", "written", "digits", "period", "calendar", "clock"
]
"""What an argument must be. `not text` is a number, a truth value or a time, `written` a text or a number. `digits`, and the units `period` (of date_trunc), `calendar` (of date_add) and `clock` (of
duration) are literals."""
Gives = OneOf["text", "texts", "whole", "fraction", "number", "time"]
"""What a call returns; `number` and `time` have the type of the first such argument."""

MAX_NESTED = 8
"""How deeply calls may nest: their SQL may mention an argument more than once."""
MAX_DIGITS = 15

UNITS: dict[str, tuple[str, ...]] = {
    "period": ("year", "month", "week", "day", "hour", "minute", "second"),
    "calendar": ("year", "month", "week", "day", "hour", "minute", "second"),
    "clock": ("week", "day", "hour", "minute", "second"),
}
BELOW_DAY = ("hour", "minute", "second")
_KIND_WORDS = {
    "text": "a text",
    "number": "a number",
    "whole": "a whole number",
    "time": "a Date or a DateTime",
    "list": "a list",
    "texts": "a list of texts",
    "not text": "a number, a Bool, a Date or a DateTime",
    "written": "a text or a number",
}


@dataclass(frozen=True)
class Function:
    """A function of values. The last `optional` arguments may be left out."""

    name: str
    arguments: tuple[Kind, ...]
    gives: Gives
    shape: str
    meaning: str
    optional: int = 0
    can_be_null: bool = False
    """Whether a call may be null although no argument is."""


FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        Function("lower", ("text",), "text", "lower(text)", "in lower case, letter by letter"),
        Function("upper", ("text",), "text", "upper(text)", "in upper case, letter by letter"),
        Function("trim", ("text",), "text", "trim(text)", "without leading and trailing spaces, tabs and line ends"),
        Function(
            "replace",
            ("text", "text", "text"),
            "text",
            "replace(text, part, other)",
            "with every `part` replaced by `other`",
        ),
        Function(
            "substring",
            ("text", "whole", "whole"),
            "text",
            "substring(text, start, count)",
            "`count` characters from position `start` on, which counts from 1; without `count`, all of them",
            optional=1,
        ),
        Function("length", ("text",), "whole", "length(text)", "the number of characters"),
        Function(
            "split",
            ("text", "text"),
            "texts",
            "split(text, separator)",
            "the list of the parts between separators; null if the separator is empty",
            can_be_null=True,
        ),
        Function(
            "join", ("texts", "text"), "text", "join(list, separator)", "the texts of a list, one after the other"
        ),
        Function(
            "text",
            ("not text",),
            "text",
            "text(value)",
            "a number, `true` or `false`, a date or an instant as text, as in results",
        ),
        Function(
            "integer",
            ("written",),
            "whole",
            "integer(value)",
            "the whole number that a text spells, or null; of a number, what is left without its fraction",
            can_be_null=True,
        ),
        Function(
            "float",
            ("written",),
            "fraction",
            "float(value)",
            "the number that a text spells, or null; a number as F64",
            can_be_null=True,
        ),
        Function("abs", ("number",), "number", "abs(number)", "without its sign"),
        Function(
            "round",
            ("number", "digits"),
            "number",
            "round(number, digits)",
            "to the nearest number with this many digits after the point (0 to 15; 0 if left out), halves away from zero",
            optional=1,
        ),
        Function("floor", ("number",), "number", "floor(number)", "the nearest whole value that is not larger"),
        Function("ceil", ("number",), "number", "ceil(number)", "the nearest whole value that is not smaller"),
        Function(
            "sqrt",
            ("number",),
            "fraction",
            "sqrt(number)",
            "the square root; null for numbers below 0",
            can_be_null=True,
        ),
        Function(
            "ln", ("number",), "fraction", "ln(number)", "the natural logarithm; null for 0 and below", can_be_null=True
        ),
        Function(
            "power",
            ("number", "number"),
            "fraction",
            "power(base, exponent)",
            "the power; null where it is not a finite number",
            can_be_null=True,
        ),
        Function("year", ("time",), "whole", "year(time)", "the year, in UTC"),
        Function("month", ("time",), "whole", "month(time)", "the month, 1 to 12"),
        Function("day", ("time",), "whole", "day(time)", "the day of the month, 1 to 31"),
        Function("week", ("time",), "whole", "week(time)", "the ISO week, 1 to 53: weeks start on Monday"),
        Function("weekday", ("time",), "whole", "weekday(time)", "the day of the week, 1 (Monday) to 7, in UTC"),
        Function("hour", ("time",), "whole", "hour(time)", "the hour of the day, 0 to 23, in UTC; 0 for a date"),
        Function(
            "date_trunc",
            ("period", "time"),
            "time",
            "date_trunc(unit, time)",
            'the start of the "year", "month", "week" (Monday), "day", "hour", "minute" or "second", in UTC',
        ),
        Function(
            "date_add",
            ("time", "whole", "calendar"),
            "time",
            "date_add(time, count, unit)",
            "this many units later; the last day of the month, if that is too short",
        ),
        Function(
            "duration",
            ("time", "time", "clock"),
            "fraction",
            "duration(from, to, unit)",
            'the time between, in "second"s, "minute"s, "hour"s, "day"s or "week"s, with a fraction; negative backwards',
        ),
        Function("size", ("list",), "whole", "size(list)", "the number of items"),
    )
}
COALESCE = Function("coalesce", (), "text", "coalesce(a, b, …)", "the first of the values that is not null")
OTHER_NAMES = {
    "tostring": "write text(value)",
    "str": "write text(value)",
    "tointeger": "write integer(value)",
    "toint": "write integer(value)",
    "int": "write integer(value)",
    "tofloat": "write float(value)",
    "todouble": "write float(value)",
    "double": "write float(value)",
    "cast": "write text(value), integer(value) or float(value)",
    "tolower": "write lower(text)",
    "lcase": "write lower(text)",
    "toupper": "write upper(text)",
    "ucase": "write upper(text)",
    "len": "write length(text), or size(list)",
    "char_length": "write length(text)",
    "strlen": "write length(text)",
    "substr": "write substring(text, start, count)",
    "if": "write case when condition then a else b end",
    "iif": "write case when condition then a else b end",
    "ifnull": "write coalesce(a, b)",
    "nvl": "write coalesce(a, b)",
    "isnull": "write $variable.property is null",
    "ceiling": "write ceil(number)",
    "log": "write ln(number)",
    "pow": "write power(base, exponent)",
    "concat": 'write join([…], ""), with the texts in a list',
    "datediff": 'write duration(from, to, "day")',
    "array_length": "write size(list)",
    "cardinality": "write size(list)",
    "type": "an edge variable has one type: the word of its traversal",
    "id": "write $variable.id",
    "percentile_cont": "write percentile(value, 0.9)",
    "group_concat": 'write join(collect(value), ", ")',
    "string_agg": 'write join(collect(value), ", ")',
    "array_agg": "write collect(value)",
    "stdev": "there is none; compute it from sum(x * x), sum(x) and count(x)",
}
"""Names of functions in other languages, with what to write instead."""
NAMES = (*FUNCTIONS, COALESCE.name)


def check_function(checker: ExpressionChecker, call: syntax.FunctionCall) -> plan.FunctionCall:
    """A call with its arguments checked (rule T43)."""
    _check_nesting(checker, call)
    if call.function == COALESCE.name:
        return _coalesce(checker, call)
    function = FUNCTIONS.get(call.function)
    if function is None:
        raise checker.unknown_function(call)
    least = len(function.arguments) - function.optional
    if not least <= len(call.arguments) <= len(function.arguments):
        raise checker.checking.refuse(
            "T43",
            f"{call.function} takes {_arity(function)}, not {len(call.arguments)}",
            call.at,
            f"write {function.shape}",
        )
    arguments = tuple(
        _argument(checker, function, kind, written)
        for kind, written in zip(function.arguments, call.arguments, strict=False)
    )
    return make_call(checker, function, arguments, call.at)


def make_call(
    checker: ExpressionChecker, function: Function, arguments: tuple[plan.Expression, ...], at: Position
) -> plan.FunctionCall:
    """A call whose arguments are checked already."""
    types = [_type(argument) for argument in arguments]
    nullable = function.can_be_null or any(type_.nullable for type_ in types)
    time = next((type_ for type_ in types if type_.scalar in (Scalar.DATE, Scalar.DATETIME)), None)
    unit = next((a.value for a, kind in zip(arguments, function.arguments, strict=False) if kind in UNITS), None)  # type: ignore[union-attr]  # units are literals
    if time is not None and time.scalar is Scalar.DATE and unit in BELOW_DAY and function.name != "duration":
        raise checker.checking.refuse("T43", f"a Date has no {unit}s", at, "use a DateTime")
    match function.gives:
        case "text":
            result = PropertyType(Scalar.STRING, nullable)
        case "texts":
            result = PropertyType(Scalar.STRING, nullable, is_list=True)
        case "whole":
            result = PropertyType(Scalar.I64, nullable)
        case "fraction":
            result = PropertyType(Scalar.F64, nullable)
        case "number":
            first = types[0].scalar
            kept = Scalar.F64 if first.is_float else Scalar.U64 if first is Scalar.U64 else Scalar.I64
            result = PropertyType(kept, nullable)
        case "time":
            assert time is not None, "a function that gives a time takes one"
            result = PropertyType(time.scalar, nullable)
    return plan.FunctionCall(function.name, arguments, result)


def _type(expression: plan.Expression) -> PropertyType:
    assert not isinstance(expression, plan.EntityRef), "an argument is a value"
    return expression.type


def _check_nesting(checker: ExpressionChecker, call: syntax.FunctionCall) -> None:
    stack: list[tuple[syntax.Node, int]] = [(call, 0)]
    while stack:
        node, nested = stack.pop()
        nested += isinstance(node, syntax.FunctionCall)
        if nested > MAX_NESTED:
            raise checker.checking.refuse("T43", f"functions nest more than {MAX_NESTED} deep", call.at)
        stack.extend((child, nested) for child in syntax.children(node))


def _arity(function: Function) -> str:
    most = len(function.arguments)
    word = "argument" if most == 1 else "arguments"
    return f"{most - function.optional} or {most} {word}" if function.optional else f"{most} {word}"


def _argument(checker: ExpressionChecker, function: Function, kind: Kind, written: syntax.Expr) -> plan.Expression:
    if kind in UNITS:
        return _unit(checker, function, kind, written)
    checked = _listed(checker, written) if kind in ("list", "texts") else checker.check(written)
    if kind == "digits":
        if isinstance(checked, plan.Constant) and type(checked.value) is int and 0 <= checked.value <= MAX_DIGITS:
            return checked
        message = f"the digits of {function.name} are a number from 0 to {MAX_DIGITS}"
        raise checker.checking.refuse("T43", message, written.at)
    if isinstance(checked, plan.Constant) and checked.value is None:
        return _null(kind)
    if isinstance(checked, plan.EntityRef) or not _is_a(kind, checked.type):
        what = "an entity" if isinstance(checked, plan.EntityRef) else str(checked.type)
        hint = f"write {function.shape}"
        if isinstance(checked, plan.EntityRef):
            hint = f"name a property: ${checked.variable}.name"
        elif kind == "time" and checked.type.scalar is Scalar.STRING:
            hint = 'write date("2026-01-31") or datetime("2026-01-31T12:00:00Z")'
        elif function.name == "length" and checked.type.is_list:
            hint = "size(list) counts the items of a list"
        elif function.name == "size" and checked.type.scalar is Scalar.STRING:
            hint = "length(text) counts the characters of a text"
        raise checker.checking.refuse(
            "T43", f"{function.name} takes {_KIND_WORDS[kind]}, this is {what}", written.at, hint
        )
    return checked


def _listed(checker: ExpressionChecker, written: syntax.Expr) -> plan.Expression:
    """A list. The items of a list that is written in the query may be any values of one type, or null."""
    if not isinstance(written, syntax.ListLiteral) or not written.items:
        return checker.check(written)
    items, type_ = common_type(checker, written.items)
    return plan.ListOf(items, PropertyType(type_.scalar, is_list=True))


def _null(kind: Kind) -> plan.Constant:
    scalar = {"number": Scalar.I64, "whole": Scalar.I64, "not text": Scalar.I64, "time": Scalar.DATETIME}.get(
        kind, Scalar.STRING
    )
    return plan.Constant(None, PropertyType(scalar, nullable=True, is_list=kind in ("list", "texts")))


def _is_a(kind: Kind, type_: PropertyType) -> bool:
    if kind in ("list", "texts"):
        return type_.is_list and (kind == "list" or type_.scalar is Scalar.STRING)
    if type_.is_list or type_.dimension is not None:
        return False
    match kind:
        case "text":
            return type_.scalar is Scalar.STRING
        case "number":
            return type_.scalar.is_numeric
        case "whole":
            return type_.scalar.is_integer
        case "not text":
            return type_.scalar.is_numeric or type_.scalar in (Scalar.BOOL, Scalar.DATE, Scalar.DATETIME)
        case "written":
            return type_.scalar.is_numeric or type_.scalar is Scalar.STRING
        case _:
            return type_.scalar in (Scalar.DATE, Scalar.DATETIME)


def _unit(checker: ExpressionChecker, function: Function, kind: Kind, written: syntax.Expr) -> plan.Constant:
    value = written.value if isinstance(written, syntax.Literal) else None
    unit = value.removesuffix("s") if isinstance(value, str) else None
    if unit not in UNITS[kind]:
        known = ", ".join(f'"{name}"' for name in UNITS[kind])
        raise checker.checking.refuse(
            "T43", f"the unit of {function.name} is one of {known}", written.at, f"write {function.shape}"
        )
    return plan.Constant(unit, PropertyType(Scalar.STRING))


# ---------------------------------------------------------------- values of one type


def _coalesce(checker: ExpressionChecker, call: syntax.FunctionCall) -> plan.FunctionCall:
    if len(call.arguments) < 2:
        raise checker.checking.refuse("T43", "coalesce takes two values or more", call.at, f"write {COALESCE.shape}")
    values, type_ = common_type(checker, call.arguments)
    nullable = all(_type(value).nullable for value in values)
    return plan.FunctionCall("coalesce", values, replace(type_, nullable=nullable))


def common_type(
    checker: ExpressionChecker, written: Sequence[syntax.Expr]
) -> tuple[tuple[plan.Expression, ...], PropertyType]:
    """The values, with literals converted, and the type that they share (rule T44)."""
    values = [checker.value(expression) for expression in written]
    fixed: list[plan.Expression] = [value for value in values if not isinstance(value, plan.Constant)]
    stated = fixed or [value for value in values if not (isinstance(value, plan.Constant) and value.value is None)]
    type_ = common_value_type([_type(value) for value in stated]) if stated else PropertyType(Scalar.STRING)
    for place, (value, expression) in enumerate(zip(values, written, strict=True)):
        if type_ is not None and isinstance(value, plan.Constant):
            values[place] = _fitted(value, type_)
            type_ = common_value_type([type_, _type(values[place])]) if value.value is not None else type_
        if type_ is None:
            known = ", ".join(str(replace(_type(value), nullable=False)) for value in values)
            hint = "all values of coalesce and case have one type; numbers may be mixed"
            raise checker.checking.refuse("T44", f"these values have no common type: {known}", expression.at, hint)
    assert type_ is not None
    return tuple(values), replace(type_, nullable=any(_type(value).nullable for value in values))


def _fitted(constant: plan.Constant, type_: PropertyType) -> plan.Constant:
    try:
        return fitted(constant, replace(type_, nullable=True))
    except Unfit:
        return constant


def common_value_type(types: Sequence[PropertyType]) -> PropertyType | None:
    """The type that values of several types share: the same type, or the widest type of number; None if there is none."""
    shapes = {(type_.scalar, type_.is_list, type_.dimension, type_.fields) for type_ in types}
    if len(shapes) == 1:
        return replace(types[0], nullable=False, enum=())
    if any(type_.is_list for type_ in types) or not all(type_.scalar.is_numeric for type_ in types):
        return None
    return PropertyType(Scalar.F64 if any(type_.scalar.is_float for type_ in types) else Scalar.I64)
