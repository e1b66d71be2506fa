"""Ascending arrays of integers. `numpy.unique` hashes, which takes up to sixty times as long as the sort here."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import np

if TYPE_CHECKING:
    Integers = np.ndarray[Any, Any]


def distinct(values: Integers) -> Integers:
    """Each value once, ascending."""
    ordered = np.sort(values)
    kept: Integers = ordered[_begins(ordered)]
    return kept


def union(left: Integers, right: Integers) -> Integers:
    """The values of both, each once, ascending."""
    return distinct(np.concatenate([left, right]))


def stable_order(values: Integers) -> Integers:
    """Stable sort order of non-negative 32-bit values. Each half of 16 bits is radix sorted, which takes a fifth of the time of a
    comparison sort."""
    order = np.argsort((values & 0xFFFF).astype(np.uint16), kind="stable")
    return np.asarray(order[np.argsort((values >> 16).astype(np.uint16)[order], kind="stable")])


def runs(ordered: Integers) -> list[tuple[int, slice]]:
    """Each distinct value of an ascending array, with the slice of its positions."""
    bounds = [*np.flatnonzero(_begins(ordered)).tolist(), len(ordered)]
    return [(ordered[start].item(), slice(start, end)) for start, end in pairwise(bounds)]


def _begins(ordered: Integers) -> Integers:
    begins = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


def is_member(values: np.ndarray[Any, Any], members: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whether each value is one of the ascending `members`. The cost depends on the number of values, hardly on that of
    members."""
    if not len(members):
        return np.zeros(len(values), bool)
    places = np.minimum(np.searchsorted(members, values), len(members) - 1)
    is_equal: np.ndarray[Any, Any] = members[places] == values
    return is_equal


class IntegerSet:
    """Integers that are found by hash, in a table with at least four places for each of them."""

    def __init__(self, members: Integers) -> None:
        self.members = members
        self._bits = max(int(len(members) * 4).bit_length(), 10)
        numbers, places = np.arange(len(members), dtype=np.int32), self._places(members)
        self._at = np.full(1 << self._bits, -1, np.int32)
        self._at[places] = numbers
        moved = np.flatnonzero(self._at[places] != numbers)  # Another member has the same place.
        self._others = np.sort(members[moved])
        self._has_others = np.zeros(len(members), bool)
        self._has_others[self._at[places[moved]]] = True

    @property
    def nbytes(self) -> int:
        return int(self.members.nbytes + self._at.nbytes + self._others.nbytes + self._has_others.nbytes)

    def _places(self, values: Integers) -> Integers:
        mixed = values.astype(np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed >>= np.uint64(64 - self._bits)
        return mixed.view(np.int64)

    def has(self, values: Integers) -> np.ndarray[Any, Any]:
        """Which of the values are members."""
        numbers = self._at[self._places(values)]
        kept = numbers >= 0
        possible = np.flatnonzero(kept)
        numbers, wanted = numbers[possible], values[possible]
        is_equal = self.members[numbers] == wanted
        rest = np.flatnonzero(self._has_others[numbers] & ~is_equal)
        is_equal[rest] = is_member(wanted[rest], self._others)
        kept[possible] = is_equal
        return kept
