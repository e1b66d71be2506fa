"""Ascending arrays, against sets and dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from omnigraph.tables.ascending import IntegerSet, distinct, is_member, runs, stable_order, union

NUMBERS = st.lists(st.integers(0, 9))


@given(NUMBERS, NUMBERS)
def test_distinct_and_union(one: list[int], other: list[int]) -> None:
    assert distinct(np.array(one, np.int64)).tolist() == sorted(set(one))
    assert union(np.array(one, np.int64), np.array(other, np.int64)).tolist() == sorted({*one, *other})


@given(NUMBERS, NUMBERS)
def test_members_are_told_from_others(values: list[int], members: list[int]) -> None:
    ordered = np.array(sorted(set(members)), np.uint64)
    assert is_member(np.array(values, np.uint64), ordered).tolist() == [value in members for value in values]


@given(st.integers(0, 2**62), st.lists(st.integers(0, 3_000)), st.integers(1, 2**40))
def test_a_set_knows_its_members_also_where_they_share_a_place(first: int, values: list[int], step: int) -> None:
    members = (first + np.arange(1, 2_000, dtype=np.int64) * step) % 2**62
    known = IntegerSet(np.unique(members))
    wanted = (first + np.array(values, np.int64) * step) % 2**62
    assert known.has(wanted).tolist() == np.isin(wanted, members).tolist()
    assert known.has(members).all()
    assert not IntegerSet(members[:0]).has(wanted).any()
    scattered = np.random.default_rng(step).integers(0, 2**62, 2_000)
    assert IntegerSet(scattered).has(scattered).all()
    assert len(IntegerSet(scattered)._others) > 0


@given(NUMBERS)
def test_runs_cover_the_array_in_order(values: list[int]) -> None:
    ordered = np.array(sorted(values), np.uint64)
    found = runs(ordered)
    assert [value for value, _ in found] == sorted(set(values))
    assert all(set(ordered[places].tolist()) == {value} for value, places in found)
    assert sum(places.stop - places.start for _, places in found) == len(values)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64])
def test_the_kind_of_number_stays(kind: type) -> None:
    assert distinct(np.array([3, 1, 3], kind)).dtype == kind


@given(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 3).map(lambda high: high << 16)))
def test_equal_values_keep_their_order(values: list[int]) -> None:
    found = stable_order(np.array(values, np.int32)).tolist()
    assert found == sorted(range(len(values)), key=values.__getitem__)
