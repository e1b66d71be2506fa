"""Neighbours as arrays, beside the plainest way to say the same."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from omnigraph.tables.adjacency.csr import Adjacency, csr_of, patched

Pairs = list[tuple[int, int]]


def ends(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in pairs], np.int32), np.array([b for _, b in pairs], np.int32)


def check(adjacency: Adjacency, pairs: Pairs, size: int, width: int) -> None:
    """`pairs`: what there should be, in any order."""
    by_node = [sorted(far for near, far in pairs if near == node) for node in range(size)]
    assert adjacency.degrees().tolist() == [len(neighbours) for neighbours in by_node]
    numbers = np.random.default_rng(1).integers(0, size, 7)
    assert adjacency.counts(numbers).tolist() == [len(by_node[number]) for number in numbers]
    owners, found = adjacency.expand(numbers)
    expected = [(place, far) for place, number in enumerate(numbers) for far in by_node[number]]
    assert list(zip(owners.tolist(), found.tolist(), strict=True)) == expected
    near, far = adjacency.pairs()
    assert sorted(zip(near.tolist(), far.tolist(), strict=True)) == sorted(pairs)
    for most in (1, 100, 40_000, 2**40):
        values = np.random.default_rng(2).integers(-most, most, width)
        assert adjacency.sums(values).tolist() == [sum(int(values[f]) for f in node) for node in by_node]


@pytest.mark.parametrize("seed", range(30))
def test_changes_on_top_are_the_same_as_all_at_once(seed: int) -> None:
    numbers = random.Random(seed)
    size, width = numbers.randint(1, 12), numbers.randint(1, 9)
    pairs = [(numbers.randrange(size), numbers.randrange(width)) for _ in range(numbers.choice([0, 3, 20, 60]))]
    removed = numbers.sample(pairs, numbers.randint(0, len(pairs)))
    added = [(numbers.randrange(size), numbers.randrange(width)) for _ in range(numbers.choice([0, 2, 15]))]
    left = list(pairs)
    for pair in removed:
        left.remove(pair)
    left += added
    below, repeated = csr_of(*ends(pairs), size, width, per_edge=True)
    assert repeated == (len(set(pairs)) < len(pairs))
    once, _ = csr_of(*ends(pairs), size, width, per_edge=False)
    check(Adjacency(below, size, width), pairs, size, width)
    check(Adjacency(once, size, width), sorted(set(pairs)), size, width)
    every = patched(below, size, ends(removed), ends(added), width, per_edge=True, listed=lambda: below)
    check(every, left, size, width)
    distinct = patched(once, size, ends(removed), ends(added), width, per_edge=False, listed=lambda: below)
    check(distinct, sorted(set(left)), size, width)


def test_a_version_holds_no_more_than_its_changes() -> None:
    size = 100_000
    ring = np.arange(size, dtype=np.int32)
    below, _ = csr_of(ring, np.roll(ring, 1), size, size, per_edge=False)
    below.degrees.sum()
    none, added = ends([]), ends([(5, 7), (size, 5)])
    tracemalloc.start()
    try:
        versions = [
            patched(below, size + 1, none, added, size + 1, per_edge=False, listed=lambda: below) for _ in range(9)
        ]
        assert [int(version.degrees().sum()) for version in versions] == [size + 2] * 9
        assert tracemalloc.get_traced_memory()[0] < size
        assert sum(version.nbytes for version in versions) < size
    finally:
        tracemalloc.stop()
