"""Conditions that no row can satisfy, found in a plan alone: contradictory bounds, values, and tests for null."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from omnigraph.language.query import plan

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass
class _Wanted:
    """What the conditions say about one column. A bound is a value and whether it is excluded."""

    low: tuple[Any, bool] | None = None
    high: tuple[Any, bool] | None = None
    among: set[Any] | None = None
    excluded: set[Any] = field(default_factory=set)
    is_null: bool = False
    is_present: bool = False

    @property
    def is_possible(self) -> bool:
        if self.is_null and (self.is_present or self.low or self.high or self.among is not None):
            return False
        if self.among is not None:
            return any(self._holds(value) for value in self.among)
        if self.low is None or self.high is None:
            return True
        (low, without_low), (high, without_high) = self.low, self.high
        return bool(low < high or (low == high and not without_low and not without_high))

    def _holds(self, value: Any) -> bool:
        if value in self.excluded:
            return False
        if self.low is not None and not (value > self.low[0] or (value == self.low[0] and not self.low[1])):
            return False
        return self.high is None or value < self.high[0] or (value == self.high[0] and not self.high[1])

    def compare(self, op: str, value: Any) -> None:
        self.is_present = True
        match op:
            case "=":
                self.among = {value} if self.among is None else self.among & {value}
            case "!=":
                self.excluded.add(value)
            case ">" | ">=":
                bound = (value, op == ">")
                self.low = bound if self.low is None else max(self.low, bound)
            case "<" | "<=":
                bound = (value, op == "<")
                if self.high is None or value < self.high[0] or (value == self.high[0] and op == "<"):
                    self.high = bound


def impossible(conditions: Iterable[plan.Expression]) -> Iterator[str]:
    """The columns for which the conditions of a pattern can never hold, alone or together."""
    columns: dict[tuple[str, str], _Wanted] = {}
    for condition in conditions:
        match condition:
            case plan.Constant(False, _):
                yield "`false`"
            case plan.Unary("is_null", plan.PropertyRef() as ref, _):
                wanted = columns.setdefault((ref.variable, ref.column), _Wanted())
                wanted.is_null = True
                wanted.is_present = wanted.is_present or not ref.type.nullable
            case plan.Unary("is_not_null", plan.PropertyRef() as ref, _):
                columns.setdefault((ref.variable, ref.column), _Wanted()).is_present = True
            case plan.Binary("in", plan.PropertyRef() as ref, plan.Constant(tuple() as values, _), _):
                wanted = columns.setdefault((ref.variable, ref.column), _Wanted())
                wanted.is_present = True
                known = {value for value in values if value is not None}
                wanted.among = known if wanted.among is None else wanted.among & known
            case plan.Binary(op, plan.PropertyRef() as ref, plan.Constant(value, _), _) if _is_bound(op, ref, value):
                columns.setdefault((ref.variable, ref.column), _Wanted()).compare(op, value)
            case plan.Binary(op, plan.Constant(value, _), plan.PropertyRef() as ref, _) if _is_bound(op, ref, value):
                columns.setdefault((ref.variable, ref.column), _Wanted()).compare(_MIRRORED[op], value)
            case plan.Binary("!=" | "<" | ">", left, right, _) if left == right and not isinstance(left, plan.Constant):
                yield f"'{condition.op}' of a value and itself"
            case plan.Binary(op, plan.Constant(left, _), plan.Constant(right, _), _) if op in _MIRRORED:
                if None not in (left, right) and not _compared(op, left, right):
                    yield f"'{op}' of these two literals"
    for (variable, name), wanted in columns.items():
        if not wanted.is_possible:
            yield f"what is asked of ${variable}.{name}"


def _is_bound(op: str, ref: plan.PropertyRef, value: object) -> bool:
    return op in _MIRRORED and value is not None and not isinstance(value, tuple) and not ref.type.is_list


def _compared(op: str, left: Any, right: Any) -> bool:
    order = (left > right) - (left < right)
    held: dict[str, bool] = {
        "=": order == 0,
        "!=": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }
    return held[op]
