"""Sets of row addresses: as Python's own sets, and small."""

from __future__ import annotations

import pickle
import random

import numpy as np
from hypothesis import given, settings, strategies as st

from omnigraph.tables.addresses import OFFSET_BITS, RowSet

addresses = st.sets(
    st.builds(
        lambda fragment, offset: fragment << OFFSET_BITS | offset, st.sampled_from([0, 1, 7]), st.integers(0, 200)
    )
)


@settings(max_examples=200, deadline=None)
@given(addresses, addresses, addresses)
def test_a_row_set_is_a_set(first: set[int], second: set[int], third: set[int]) -> None:
    rows = RowSet.of(first)
    rows.add(np.array(sorted(second, reverse=True), np.uint64))
    assert rows.addresses().tolist() == sorted(first | second)
    assert len(rows) == len(first | second)
    asked = np.array(sorted(third), np.uint64)
    assert rows.contains(asked).tolist() == [each in first | second for each in sorted(third)]
    assert rows.without(third).addresses().tolist() == sorted((first | second) - third)
    assert rows.with_(third).addresses().tolist() == sorted(first | second | third)
    assert rows.addresses().tolist() == sorted(first | second), "others are made from it, it stays"
    assert np.concatenate([np.zeros(0, np.uint64), *rows.pieces(7)]).tolist() == sorted(first | second)
    assert all(len(piece) <= 7 for piece in rows.pieces(7))
    kept = rows.without_fragments([1])
    assert kept.addresses().tolist() == sorted(each for each in first | second if each >> OFFSET_BITS != 1)


def test_a_set_of_many_rows_takes_an_eighth_of_a_byte_for_each_row_of_its_fragments() -> None:
    count = 1 << 20
    every = RowSet.of(np.arange(count, dtype=np.uint64))
    assert len(pickle.dumps(every)) < count / 8 + 1_000
    few = RowSet.of(np.arange(0, count, count // 100, dtype=np.uint64))
    assert len(pickle.dumps(few)) < 2_000, "a few rows of a large fragment are numbers"


def test_sets_of_sets() -> None:
    dice = random.Random(35)
    sides = [{(dice.randrange(3) << 32) | dice.randrange(400) for _ in range(count)} for count in (30, 500, 0)]
    sets = [RowSet.of(side) for side in sides]
    for own, rows in zip(sides, sets, strict=True):
        for other, others in zip(sides, sets, strict=True):
            assert set(rows.difference(others).addresses().tolist()) == own - other
            assert set(rows.intersection(others).addresses().tolist()) == own & other
            assert set(RowSet.union(rows, others).addresses().tolist()) == own | other
        parts = list(rows.parts(200))
        assert [address for part in parts for address in part.addresses().tolist()] == sorted(own)
        assert all(len(part) <= 200 or len(part.fragments) == 1 for part in parts)
