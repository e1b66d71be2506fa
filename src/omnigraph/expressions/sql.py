"""Typed expressions as SQL trees (sqlglot). The trees mean the same on both engines.

Three-valued logic is SQL's own. `/` and `%` by zero give null on both engines. Instants are UTC without a zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from omnigraph.language.query.plan import (
    Binary,
    Constant,
    EntityRef,
    Expression,
    ListOf,
    Now,
    Parameter,
    PropertyRef,
    Unary,
)
from omnigraph.values.temporal import utc_without_zone
from omnigraph.values.types import PropertyType, Scalar

_SQL_TYPES = {
    Scalar.STRING: "TEXT",
    Scalar.BLOB: "VARBINARY",
    Scalar.BOOL: "BOOLEAN",
    Scalar.I32: "INT",
    Scalar.I64: "BIGINT",
    Scalar.U32: "BIGINT",
    Scalar.U64: "DECIMAL(20, 0)",
    Scalar.F32: "FLOAT",
    Scalar.F64: "DOUBLE",
    Scalar.DATE: "DATE",
    Scalar.DATETIME: "TIMESTAMP_NTZ",
}
"""Engine-neutral types: unsigned integers are held in the next wider signed type, which Spark has too."""


def sql_type(type: PropertyType) -> exp.DataType:
    if type.dimension is not None:
        return exp.DataType.build("ARRAY<FLOAT>", dialect="spark")
    base = _SQL_TYPES[type.scalar]
    return exp.DataType.build(f"ARRAY<{base}>" if type.is_list else base, dialect="spark")


def value(item: object, type: PropertyType) -> exp.Expression:
    """A Python value as a typed SQL literal."""
    if item is None:
        return exp.cast(exp.null(), sql_type(type))
    if isinstance(item, list | tuple):
        inner = PropertyType(Scalar.F32) if type.dimension is not None else PropertyType(type.scalar, enum=type.enum)
        items = exp.Array(expressions=[value(member, inner) for member in item])
        return exp.cast(items, sql_type(type))
    return _scalar(item, type)


def _scalar(item: object, type: PropertyType) -> exp.Expression:
    match item:
        case bool():
            return exp.true() if item else exp.false()
        case int():
            number = exp.Literal.number(abs(item))
            return exp.cast(exp.Neg(this=number) if item < 0 else number, sql_type(type))
        case float():
            return exp.cast(exp.Literal.string(repr(item)), sql_type(type))
        case dt.datetime():
            moment = utc_without_zone(item).isoformat(sep=" ", timespec="microseconds")
            return exp.cast(exp.Literal.string(moment), sql_type(type))
        case dt.date():
            return exp.cast(exp.Literal.string(item.isoformat()), "DATE")
        case str():
            text_value = exp.Literal.string(item)
            if type.scalar is Scalar.DATETIME:
                # Constants are UTC with a Z, which a type without zone does not read.
                return exp.cast(exp.Literal.string(item.removesuffix("Z").replace("T", " ")), sql_type(type))
            if type.scalar is Scalar.DATE:
                return exp.cast(text_value, sql_type(type))
            return text_value
        case bytes():
            return exp.Unhex(this=exp.Literal.string(item.hex()))
        case _:
            raise TypeError(f"no SQL literal for {item!r}")


class ExpressionCompiler:
    """Compiles the row-level expressions of a plan. Blocks, search and aggregates belong to the query compiler.

    `column` gives the SQL of a property of a bound entity; `parameters` the bound values; `now` the query's instant.
    """

    def __init__(
        self,
        column: Callable[[PropertyRef], exp.Expression],
        parameters: Mapping[str, Any],
        now: dt.datetime,
        other: Callable[[Expression], exp.Expression] | None = None,
    ) -> None:
        self.column = column
        self.parameters = parameters
        self.now = now
        self.other = other

    def compile(self, expression: Expression) -> exp.Expression:
        match expression:
            case Constant(item, type):
                return value(item, type)
            case Parameter(name, type):
                return value(self.parameters.get(name), type)
            case Now(type):
                return value(self.now, type)
            case PropertyRef():
                return self.column(expression)
            case EntityRef(variable):
                return self.column(PropertyRef(variable, "id", PropertyType(Scalar.STRING)))
            case Unary():
                return self._unary(expression)
            case Binary():
                return self._binary(expression)
            case ListOf(items, _):
                return exp.Array(expressions=[self.compile(item) for item in items])
        if self.other is None:
            raise TypeError(f"{expression!r} is not a row-level expression")
        return self.other(expression)

    def _unary(self, unary: Unary) -> exp.Expression:
        operand = self.compile(unary.operand)
        match unary.op:
            case "not":
                return exp.Not(this=exp.paren(operand))
            case "-":
                return exp.Neg(this=exp.cast(operand, sql_type(unary.type)))
            case "is_null":
                return exp.Is(this=exp.paren(operand), expression=exp.null())
            case "is_not_null":
                return exp.Not(this=exp.Is(this=exp.paren(operand), expression=exp.null()))

    def _binary(self, binary: Binary) -> exp.Expression:
        if binary.op == "in":
            return self._in(binary)
        left: exp.Expression = exp.paren(self.compile(binary.left))
        right: exp.Expression = exp.paren(self.compile(binary.right))
        match binary.op:
            case "contains":
                return self._contains(binary, left, right)
            case "starts_with":
                return exp.StartsWith(this=left, expression=right)
            case "/":
                divisor = exp.Nullif(this=exp.cast(right, "DOUBLE"), expression=exp.Literal.number(0))
                return exp.Div(this=exp.cast(left, "DOUBLE"), expression=divisor)
            case "%":
                left, right = (exp.cast(side, sql_type(binary.type)) for side in (left, right))
                return exp.Mod(this=left, expression=exp.Nullif(this=right, expression=exp.Literal.number(0)))
            case "+" | "-" | "*":
                # In the type of the result: two narrow numbers may have a wide sum.
                left, right = (exp.cast(side, sql_type(binary.type)) for side in (left, right))
        return _PLAIN[binary.op](this=left, expression=right)

    def _contains(self, binary: Binary, left: exp.Expression, right: exp.Expression) -> exp.Expression:
        if _type_of(binary.left).is_list:
            return exp.ArrayContains(this=left, expression=right)
        return exp.Contains(this=left, expression=right)

    def _in(self, binary: Binary) -> exp.Expression:
        """`x in list`: null when x is null, or when it is not found and the list holds a null."""
        left = exp.paren(self.compile(binary.left))
        match binary.right:
            case ListOf(members, _):
                items = [self.compile(member) for member in members]
            case Constant(members, type) if isinstance(members, tuple):
                items = _values(members, type)
            case Parameter(name, type):
                bound = self.parameters.get(name)
                if bound is None:
                    return exp.cast(exp.null(), "BOOLEAN")
                items = _values(bound, type)
            case _:
                return self._in_array(left, binary.right)
        if not items:
            return exp.And(this=exp.Not(this=exp.Is(this=left, expression=exp.null())), expression=exp.false())
        return exp.In(this=left, expressions=items)

    def _in_array(self, left: exp.Expression, array: Expression) -> exp.Expression:
        """Membership in a list that is known only when the query runs: nothing, not even null, is in an empty one."""
        whole = exp.paren(self.compile(array))
        is_empty = exp.EQ(this=exp.ArraySize(this=whole.copy()), expression=exp.Literal.number(0))
        found = exp.ArrayContains(this=whole, expression=left)
        return exp.Case(ifs=[exp.If(this=is_empty, true=exp.false())], default=found)


def _values(items: Sequence[object], list_type: PropertyType) -> list[exp.Expression]:
    item_type = PropertyType(list_type.scalar, enum=list_type.enum)
    return [value(item, item_type) for item in items]


def _type_of(expression: Expression) -> PropertyType:
    if isinstance(expression, EntityRef):
        return PropertyType(Scalar.STRING)
    return expression.type


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
