"""Plans that only select, order or count columns of their matches; a few matches need no engine."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.expressions.interpreter import is_interpreted
from omnigraph.expressions.usage import variables
from omnigraph.language.query.plan import Aggregate, EntityRef, Expression, PropertyRef, ReadPlan
from omnigraph.values.types import Scalar

_ORDERED = (Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME)


@dataclass(frozen=True)
class DirectForm:
    """A plan that qualifies. `counts`: it returns one row of counts."""

    plan: ReadPlan
    counts: bool
    conditions: tuple[Expression, ...]
    """Conditions that involve no variable, or several."""


def direct_form(plan: ReadPlan) -> DirectForm | None:
    """The plan, if it only selects, orders or counts columns of its matches."""
    pattern = plan.pattern
    if pattern.start_rows or pattern.unnests or pattern.optionals:
        return None
    if any(hop.is_searched or hop.others for hop in pattern.expansions):
        return None
    if plan.distinct or plan.having or any(len(binding.types) > 1 for binding in pattern.bindings):
        return None
    if not all(is_interpreted(condition) for condition in pattern.filters):
        return None
    conditions = tuple(condition for condition in pattern.filters if len(variables(condition)) != 1)
    columns = [projection.expression for projection in plan.projections]
    if plan.grouped:
        countable = all(
            isinstance(expression, Aggregate)
            and expression.function == "count"
            and not expression.distinct
            and _is_column(expression.operand)
            for expression in columns
        )
        return DirectForm(plan, True, conditions) if countable and not plan.order else None
    ordered = all(_is_column(key.expression) and is_ordered(key.expression) for key in plan.order)
    return (
        DirectForm(plan, False, conditions)
        if ordered and all(_is_column(expression) for expression in columns)
        else None
    )


def _is_column(expression: Expression) -> bool:
    return isinstance(expression, PropertyRef | EntityRef)


def is_ordered(expression: Expression) -> bool:
    """Whether Python orders and distinguishes the values as SQL does."""
    if isinstance(expression, EntityRef):
        return True
    type_ = expression.type
    return not type_.is_list and (type_.scalar.is_integer or type_.scalar in _ORDERED)
