"""Aggregates of `.gq`: the operands and the result type of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.language.query import plan, syntax
from omnigraph.language.query.scope import is_plain, type_of
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    from omnigraph.language.query.expressions import ExpressionChecker


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
    if function in ("collect", "first", "last") and not isinstance(operand, plan.EntityRef) and is_plain(type_):
        argument = None if aggregate.argument is None else _ordering(checker, aggregate, aggregate.argument)
        collected = PropertyType(type_.scalar, is_list=True)
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
