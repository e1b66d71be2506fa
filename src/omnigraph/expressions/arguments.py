"""The values of an expression's parameters, literals and `now()` in one call."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from omnigraph.deadlines import NEVER, Deadline
from omnigraph.expressions.functions import evaluated
from omnigraph.language.query.plan import Constant, Expression, FunctionCall, ListOf, Now, Parameter, children
from omnigraph.runtime import WorkingMemory
from omnigraph.values.json_values import typed_value
from omnigraph.values.temporal import utc_without_zone
from omnigraph.values.types import PropertyType, Scalar


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call of a query: bound parameters, its one point in time, how long it may take and in which memory."""

    parameters: Mapping[str, object]
    now: dt.datetime
    deadline: Deadline = NEVER
    memory: WorkingMemory = field(default_factory=partial(WorkingMemory, 0), compare=False, repr=False)

    def value(self, expression: Expression) -> object:
        """The Python value of a known expression, as a column of its type would hold it."""
        match expression:
            case Constant(tuple() as items, type):
                # Unlike a stored list, a list written in a query may hold nulls.
                item = PropertyType(Scalar.F32 if type.dimension is not None else type.scalar)
                return [typed_value(value, item) for value in items]
            case Constant(value, type):
                return typed_value(value, type)
            case Parameter(name, _):
                return self.parameters.get(name)
            case Now():
                return utc_without_zone(self.now)
            case ListOf(items, _):
                return [self.value(item) for item in items]
            case FunctionCall():
                return evaluated(expression, [self.value(argument) for argument in expression.arguments])
        raise TypeError(f"{expression!r} depends on a row")

    def number(self, cut: Constant | Parameter) -> int:
        """The value of a `limit` or `offset`."""
        value = self.value(cut)
        assert isinstance(value, int)
        return value


def is_known(expression: Expression) -> bool:
    """Whether an expression has a value before any row is read."""
    if isinstance(expression, ListOf | FunctionCall):
        return all(is_known(item) for item in children(expression))
    return isinstance(expression, Constant | Parameter | Now)
