"""Rows of matches as columns of numbers, one for each variable, and joins of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.language.query.plan import PropertyRef
from omnigraph.tables.ascending import IntegerSet, is_member, stable_order


@dataclass(frozen=True)
class Bindings:
    """`columns` have `rows` numbers each. `is_set`: one column besides weights, ascending, each number once."""

    rows: int
    columns: dict[str, np.ndarray]
    is_set: bool = False
    memo: dict[tuple[str, str], pa.Array] = field(default_factory=dict, compare=False, repr=False)
    """Values that were read already."""
    costs: dict[tuple[object, ...], int] = field(default_factory=dict, compare=False, repr=False)
    """What following edges would cost, by the variable that they begin at, their type, direction and number."""

    def take(self, places: np.ndarray) -> Bindings:
        """The rows at these positions, or those that a mask keeps."""
        columns = {name: numbers[places] for name, numbers in self.columns.items()}
        rows = int(places.sum()) if places.dtype == bool else len(places)
        return Bindings(rows, columns, self.is_set and places.dtype == bool)

    def keeping(self, mask: np.ndarray) -> Bindings:
        return self if mask.all() else self.take(mask)

    def adding(self, **columns: np.ndarray) -> Bindings:
        is_set = self.is_set and all(name.startswith(WEIGHT) for name in columns)
        return Bindings(self.rows, {**self.columns, **columns}, is_set, costs=self.costs)

    def weights(self, measure: str = "") -> np.ndarray | None:
        """How many matches each row stands for, or what they sum up to; None for one match each."""
        factors: dict[str, np.ndarray] = {}
        for name, numbers in self.columns.items():
            factor, _, variant = name.partition(MEASURE)
            if name.startswith(WEIGHT) and (variant == measure or (not variant and factor not in factors)):
                factors[factor] = numbers
        return product(list(factors.values())) if factors else None

    def grouped(self, names: Sequence[str], factor: str, measures: Sequence[Measure]) -> Bindings:
        """A row for each different combination of these columns, with the weights of all its rows."""
        numbers, first = None, np.zeros(1, np.int64)
        if names:
            numbers, first = first_of_each(keys_of([[self.columns[name] for name in names]])[0])
        columns = {name: self.columns[name][first] for name in names}
        for measure in ("", *(measure.name for measure in measures)):
            name = f"{factor}{MEASURE}{measure}" if measure else factor
            weights = self.weights(measure)
            columns[name] = (
                np.array([self.rows if weights is None else exact_sum(weights)])
                if numbers is None
                else totals(numbers, weights, len(first))
            )
        return Bindings(len(first), columns, len(names) == 1)

    def once(self) -> Bindings:
        """Each different row once."""
        if not self.columns or self.is_set:
            return self if self.columns else Bindings(min(self.rows, 1), {})
        _, first = first_of_each(keys_of([list(self.columns.values())])[0])
        return self if len(first) == self.rows else self.take(np.sort(first))

    def only(self, names: Sequence[str]) -> Bindings:
        return Bindings(self.rows, {name: self.columns[name] for name in names}, costs=self.costs)


MIN_HASHED = 4_096
"""At least so many values are looked up by hash; fewer by bisection."""
MAX_EXACT = 2**53
"""Integers up to this are exact as doubles."""
MAX_NUMBER = 2**62
"""Further numbers may not fit in 64 bits."""
WEIGHT = "#"
"""The prefix of a column by which the weight of each row is multiplied: how many matches it stands for."""
MEASURE = "@"
"""Between such a column's name and that of a measure, of which the column is the factor instead."""


class NotCovered(Exception):
    """The executor does not cover this read, or its rows would not fit."""


class TooManyMatches(NotCovered):
    """Their number may not be exact, or not fit in 64 bits."""


@dataclass(frozen=True)
class Measure:
    """The sum of a property over matches, or how many of them have it."""

    operand: PropertyRef
    is_sum: bool

    @property
    def name(self) -> str:
        return f"{'sum' if self.is_sum else 'count'} {self.operand.variable}.{self.operand.column}"


@dataclass(frozen=True)
class Needs:
    """What a result needs of the rows of its outer pattern."""

    countable: frozenset[str] = frozenset()
    """Variables that matter only by how many nodes they have for the rest of a match, or by what these sum up to."""
    variables: frozenset[str] | None = None
    """Those that matter after the expansions; None for all."""
    is_count: bool = False
    """Whether nothing matters but the number of matches of each group, and `measures`."""
    is_set: bool = False
    """Whether it does not matter how often the same numbers of these variables match."""
    measures: tuple[Measure, ...] = ()


NO_COLUMNS = Bindings(1, {})
"""One row without variables: the match of an empty pattern."""


def largest(numbers: np.ndarray) -> float:
    """The largest absolute value."""
    return max(abs(float(numbers.max())), abs(float(numbers.min()))) if len(numbers) else 0.0


def product(factors: Sequence[np.ndarray]) -> np.ndarray:
    """The product of numbers of the same rows. Raises TooManyMatches if it may not be exact."""
    whole = factors[0]
    if len(factors) > 1 and math.prod(max(largest(factor), 1.0) for factor in factors) >= MAX_NUMBER:
        raise TooManyMatches
    for factor in factors[1:]:
        whole = np.multiply(whole, factor, dtype=np.int64)
    return whole


def totals(groups: np.ndarray, numbers: np.ndarray | None, size: int) -> np.ndarray:
    """The sums of numbers by group, of ones if there are none. Raises TooManyMatches if they may not be exact."""
    if numbers is None:
        return np.bincount(groups, minlength=size)
    if largest(numbers) * len(numbers) < MAX_EXACT or (bound := float(np.abs(numbers).sum(dtype=float))) < MAX_EXACT:
        return np.bincount(groups, weights=numbers, minlength=size).astype(np.int64)
    if bound >= MAX_NUMBER:
        raise TooManyMatches
    sums = np.zeros(size, np.int64)
    np.add.at(sums, groups, numbers)
    return sums


def exact_sum(numbers: np.ndarray) -> int:
    """Raises TooManyMatches if it may not fit in 64 bits."""
    if largest(numbers) * len(numbers) >= MAX_NUMBER:
        raise TooManyMatches
    return int(numbers.sum())


def concat(pieces: Sequence[Bindings]) -> Bindings:
    """The rows of several with the same columns."""
    columns = {name: np.concatenate([piece.columns[name] for piece in pieces]) for name in pieces[0].columns}
    return Bindings(sum(piece.rows for piece in pieces), columns)


def cross(left: Bindings, right: Bindings) -> Bindings:
    """Every row of one with every row of the other."""
    if not left.columns and left.rows == 1:
        return right
    first = np.repeat(np.arange(left.rows), right.rows)
    second = np.tile(np.arange(right.rows), left.rows)
    return left.take(first).adding(**right.take(second).columns)


def keys_of(parts: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Rows of several columns as one integer each, in which equal rows are equal. Each part has the same columns."""
    width = len(parts[0])
    if width == 1:
        return [columns[0] for columns in parts]
    keys = [columns[0].astype(np.int64) for columns in parts]
    for place in range(1, width):
        following = [columns[place] for columns in parts]
        size = 1 + max((int(column.max(initial=-1)) for column in following), default=0) + 1
        highest = max((int(key.max(initial=0)) for key in keys), default=0)
        if (highest + 2) * size >= 2**62:
            keys = dense_codes(keys)
        keys = [key * size + (column + 1) for key, column in zip(keys, following, strict=True)]
    return keys


def dense_codes(keys: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same keys as small integers, in the same order."""
    _, codes = np.unique(np.concatenate(keys), return_inverse=True)
    return np.split(codes.astype(np.int64), np.cumsum([len(key) for key in keys])[:-1])


def are_members(values: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Which values are among the ascending members; both are numbers, or -1 among the values."""
    size = int(members[-1]) + 1 if len(members) else 0
    if len(values) * 8 < size:
        return is_member(values, members) if len(values) < MIN_HASHED else are_among(values, members)
    mark = np.zeros(max(size, int(values.max(initial=-1)) + 1) + 1, bool)  # The last is for -1.
    mark[members] = True
    kept: np.ndarray = mark[values]
    return kept


def are_among(values: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Which values are among the members, in any order."""
    return is_member(values, np.sort(members)) if len(values) < MIN_HASHED else IntegerSet(members).has(values)


class Matches:
    """The rows of `right` that have the key of each row of `left`."""

    def __init__(self, left: np.ndarray, right: np.ndarray) -> None:
        low, high = int(right.min(initial=0)), int(right.max(initial=0))
        if low >= 0 and high < 4 * (len(left) + len(right)) + 1024:
            self.order = stable_order(right)
            starts = np.concatenate([[0], np.cumsum(np.bincount(right, minlength=high + 1)), [len(right)]])
            inside = np.where((left >= 0) & (left <= high), left, high + 1)
            self.first = starts[inside]
            self.counts = np.where(inside <= high, starts[np.minimum(inside + 1, high + 1)] - self.first, 0)
        else:
            self.order = np.argsort(right, kind="stable")
            ordered = right[self.order]
            self.first = np.searchsorted(ordered, left, "left")
            self.counts = np.searchsorted(ordered, left, "right") - self.first
        self.total = int(self.counts.sum())

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(position in `left`, position in `right`) of every pair of equal keys."""
        owners = np.repeat(np.arange(len(self.counts)), self.counts)
        within = np.arange(self.total) - np.repeat(np.cumsum(self.counts) - self.counts - self.first, self.counts)
        return owners, self.order[within]


def first_of_each(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a number for each key from 0 on, equal for equal keys; the position of a key for each number)."""
    if len(keys) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low <= 4 * len(keys) + 1024:
        places = keys - low
        at = np.full(high - low + 1, -1, np.int64)
        at[places[::-1]] = np.arange(len(keys) - 1, -1, -1)
        used = np.flatnonzero(at >= 0)
        numbers = np.zeros(len(at), np.int64)
        numbers[used] = np.arange(len(used))
        return numbers[places], at[used]
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    return numbers, order[begins]
