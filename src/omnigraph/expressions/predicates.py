"""What conditions on one entity imply before its rows are read: a scan filter, columns with few values, and what remains."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from omnigraph._internal.caches import cached_property
from omnigraph.expressions.functions import Arguments, is_known
from omnigraph.language.query.plan import Binary, Expression, PropertyRef, Unary
from omnigraph.tables import filters
from omnigraph.values.types import INTEGER_RANGES, PropertyType, Scalar

MAX_VALUES = 4_096
"""More values than this are neither looked up one by one nor listed in a filter."""
MAX_EXACT = 2**53
"""Below this, an integer and a float compare as F64 exactly as they do in full precision."""

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class _Filter:
    """Keeps every row for which the condition is true; `is_exact`: and no other."""

    text: str
    is_exact: bool = True


_NONE = _Filter("false")


@dataclass(frozen=True)
class Predicate:
    """Conditions on one entity, all of which must hold."""

    conditions: tuple[Expression, ...]
    arguments: Arguments

    @cached_property
    def filter(self) -> str | None:
        """Text of a scan filter that keeps every row for which all conditions are true; None if it would keep all rows."""
        return " AND ".join(f"({filter_.text})" for _, filter_ in self._filters if filter_ is not None) or None

    @cached_property
    def remaining(self) -> tuple[Expression, ...]:
        """The conditions to be checked on the rows that the filter keeps."""
        return tuple(condition for condition, filter_ in self._filters if filter_ is None or not filter_.is_exact)

    @cached_property
    def fixed(self) -> dict[str, tuple[object, ...]]:
        """Columns in which only rows with one of a few values can qualify, with these values."""
        fixed: dict[str, tuple[object, ...]] = {}
        for conjunct in self.conjuncts:
            if (fixing := self._fixing(conjunct)) is not None:
                name, values = fixing
                fixed[name] = values if name not in fixed else tuple({*fixed[name]}.intersection(values))
        return fixed

    def apart_from(self, column: str) -> Predicate:
        """This predicate without the conditions that `fixed[column]` expresses."""
        fixing = ((conjunct, self._fixing(conjunct)) for conjunct in self.conjuncts)
        return Predicate(
            tuple(conjunct for conjunct, fixed in fixing if fixed is None or fixed[0] != column), self.arguments
        )

    @cached_property
    def conjuncts(self) -> tuple[Expression, ...]:
        """The conditions with every `and` split."""
        return tuple(conjuncts(self.conditions))

    @cached_property
    def _filters(self) -> list[tuple[Expression, _Filter | None]]:
        return [(conjunct, self._filter(conjunct)) for conjunct in self.conjuncts]

    # ------------------------------------------------------------ few values

    def _fixing(self, condition: Expression) -> tuple[str, tuple[object, ...]] | None:
        """The column and the values of which it must have one, if the condition says just that."""
        if (stated := stated_column(condition)) is None:
            return None
        ref, other, is_list = stated
        value = self.arguments.value(other)
        values = (value or []) if is_list else [value]
        assert isinstance(values, list)
        held = _held(values, ref.type)
        return None if held is None or len(held) > MAX_VALUES else (ref.column, tuple(held))

    # ------------------------------------------------------------ filters

    def _filter(self, condition: Expression) -> _Filter | None:
        match condition:
            case Binary("and", left, right, _):
                return _both(self._filter(left), self._filter(right))
            case Binary("or", left, right, _):
                return _either(self._filter(left), self._filter(right))
            case Unary("is_null", PropertyRef() as ref, _):
                return _Filter(f"{filters.column(ref.column)} IS NULL")
            case Unary("is_not_null", PropertyRef() as ref, _):
                return _Filter(_present(ref))
            case Binary("in", PropertyRef() as ref, other, _) if is_known(other):
                return self._listed(ref, other)
            case Binary(op, PropertyRef() as ref, other, _) if op in _MIRRORED and is_known(other):
                return _compared(op, ref, self.arguments.value(other))
            case Binary(op, other, PropertyRef() as ref, _) if op in _MIRRORED and is_known(other):
                return _compared(_MIRRORED[op], ref, self.arguments.value(other))
        return None

    def _listed(self, ref: PropertyRef, other: Expression) -> _Filter | None:
        values = self.arguments.value(other) or []
        assert isinstance(values, list)
        held = _held(values, ref.type)
        if held is None or len(held) > MAX_VALUES:
            return None
        return _Filter(filters.in_list(ref.column, held)) if held else _NONE


def stated_column(condition: Expression) -> tuple[PropertyRef, Expression, bool] | None:
    """A column that must have a value known before any row is read, or (True) one of a list of such values."""
    match condition:
        case Binary("=", PropertyRef() as ref, other, _) if is_known(other):
            return ref, other, False
        case Binary("=", other, PropertyRef() as ref, _) if is_known(other):
            return ref, other, False
        case Binary("in", PropertyRef() as ref, other, _) if is_known(other):
            return ref, other, True
    return None


def conjuncts(conditions: Iterable[Expression]) -> Iterator[Expression]:
    """The conditions with every `and` split."""
    for condition in conditions:
        match condition:
            case Binary("and", left, right, _):
                yield from conjuncts((left, right))
            case _:
                yield condition


def _present(ref: PropertyRef) -> str:
    return f"{filters.column(ref.column)} IS NOT NULL"


def _both(left: _Filter | None, right: _Filter | None) -> _Filter | None:
    if left is None or right is None:
        kept = left or right
        return None if kept is None else _Filter(kept.text, is_exact=False)
    return _Filter(f"({left.text}) AND ({right.text})", left.is_exact and right.is_exact)


def _either(left: _Filter | None, right: _Filter | None) -> _Filter | None:
    if left is None or right is None:
        return None
    return _Filter(f"({left.text}) OR ({right.text})", left.is_exact and right.is_exact)


def _compared(op: str, ref: PropertyRef, value: object) -> _Filter | None:
    """A comparison of a column with a value."""
    if value is None:
        return _NONE
    scalar = ref.type.scalar
    if ref.type.is_list or ref.type.dimension is not None:
        return None
    if scalar.is_integer:
        return _compared_whole(op, ref, value)
    if scalar is Scalar.F64:
        return _compared_fraction(op, ref, value)
    held = _held([value], ref.type)
    return None if not held else _written(op, ref, held[0])


def _written(op: str, ref: PropertyRef, value: object) -> _Filter:
    return _Filter(f"{filters.column(ref.column)} {op} {filters.literal(value)}")


def _compared_whole(op: str, ref: PropertyRef, value: object) -> _Filter | None:
    """An integer column compared with any number: the bound that this means, or always, or never."""
    assert isinstance(value, int | float)
    if isinstance(value, float):
        if not abs(value) < MAX_EXACT:
            return None
        if not value.is_integer():
            if op in ("=", "!="):
                return _NONE if op == "=" else _Filter(_present(ref))
            op, value = ("<=", math.floor(value)) if op in ("<", "<=") else (">=", math.ceil(value))
        value = int(value)
    low, high = INTEGER_RANGES[ref.type.scalar]
    if low <= value <= high:
        return _written(op, ref, value)
    is_always = op == "!=" or (op in ("<", "<=") if value > high else op in (">", ">="))
    return _Filter(_present(ref)) if is_always else _NONE


def _compared_fraction(op: str, ref: PropertyRef, value: object) -> _Filter | None:
    assert isinstance(value, int | float)
    number = float(value)
    return _written(op, ref, number) if math.isfinite(number) else None


def _held(values: Sequence[object], type: PropertyType) -> list[object] | None:
    """Those of the values that a column of this type can equal, as it holds them; None if that is unknown."""
    spellings: dict[object, None] = {}
    as_fractions = type.scalar.is_integer and any(isinstance(value, float) for value in values)
    if as_fractions and not all(value is None or abs(value) < MAX_EXACT for value in values):  # type: ignore[arg-type]  # numbers
        return None
    for value in values:
        if value is None:
            continue
        match value:
            case _ if type.is_list or type.dimension is not None:
                return None
            case bool() if type.scalar is Scalar.BOOL:
                spellings[value] = None
            case bool():
                return None
            case int() if type.scalar.is_integer:
                low, high = INTEGER_RANGES[type.scalar]
                if low <= value <= high:
                    spellings[value] = None
            case float() if type.scalar.is_integer:
                low, high = INTEGER_RANGES[type.scalar]
                if value.is_integer() and low <= value <= high:
                    spellings[int(value)] = None
            case int() | float() if type.scalar is Scalar.F64 and math.isfinite(value):
                spellings[float(value)] = None
            case str() if type.scalar is Scalar.STRING:
                spellings[value] = None
            case dt.datetime() if type.scalar is Scalar.DATETIME:
                spellings[value] = None
            case dt.date() if type.scalar is Scalar.DATE and not isinstance(value, dt.datetime):
                spellings[value] = None
            case _:
                return None
    return list(spellings)
