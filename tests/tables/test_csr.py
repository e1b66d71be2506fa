"""Neighbours as arrays, beside the plainest way to say the same."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from omnigraph.tables.adjacency import csr
from omnigraph.tables.adjacency.csr import Adjacency, Csr, PairChanges, csr_of
from omnigraph.tables.adjacency.edges import ChangedEnds, EdgeBase, EndNumbers
from omnigraph.tables.adjacency.segment import Header, HeldArrays

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
        assert adjacency.sums(values, most).tolist() == [sum(int(values[f]) for f in node) for node in by_node]


@pytest.mark.parametrize("seed", range(30))
def test_changes_on_top_are_the_same_as_all_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random.Random(seed)
    monkeypatch.setattr(csr, "BLOCK_EDGES", numbers.choice([1, 4, 1_000]))
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
    several = ChangedEnds.between(base_of(below, width), EndNumbers(*ends(removed)), EndNumbers(*ends(added)))
    assert len(set(zip(several.ends.src, several.ends.dst, strict=True))) == len(several.ends)
    check(Adjacency(below, size, width, several.seen("out", per_edge=True)), left, size, width)
    check(Adjacency(once, size, width, several.seen("out", per_edge=False)), sorted(set(left)), size, width)
    doubled = base_of(below, width, pairs)
    listed = Adjacency(below, size, width, several.seen("out", per_edge=False, parallel=doubled.parallel))
    check(listed, sorted(set(left)), size, width)
    turned = [(b, a) for a, b in left]
    back, _ = csr_of(*ends([(b, a) for a, b in pairs]), width, size, per_edge=True)
    check(Adjacency(back, width, size, several.seen("in", per_edge=True)), turned, width, size)


def base_of(below: Csr, width: int, listing: Pairs = []) -> EdgeBase:  # noqa: B006  # never changed
    """`listing`: pairs, of which those that come again are listed."""
    extra = [pair for place, pair in enumerate(sorted(listing)) if place and pair == sorted(listing)[place - 1]]
    header = Header("edges", (), below.edges, has_parallel=bool(extra), lists_parallel=bool(extra))
    src, dst = ends(extra)
    base = EdgeBase(header, HeldArrays({"parallel_src": src, "parallel_dst": dst}), (below.nodes, width))
    base._listed = {"out": below}
    return base


@pytest.mark.parametrize("bits", [csr.MAX_BITS, 0])
@pytest.mark.parametrize("count", [0, 1, 2, 1_000])
def test_numbers_are_sorted_with_their_places(monkeypatch: pytest.MonkeyPatch, bits: int, count: int) -> None:
    monkeypatch.setattr(csr, "MAX_BITS", bits)
    for largest in (1, 40, 2**40, 2**62):
        keys = np.random.default_rng(count).integers(0, largest, count)
        ordered, order = csr.sorted_with_order(keys)
        assert ordered.tolist() == sorted(keys.tolist())
        assert order.tolist() == sorted(range(count), key=lambda place: (keys[place], place))


@pytest.mark.parametrize("seed", range(30))
def test_edges_that_come_one_after_another_are_the_same_as_all_at_once(seed: int) -> None:
    numbers = random.Random(seed)
    size, width = numbers.randint(2, 12), numbers.randint(2, 9)
    pairs = [(numbers.randrange(size - 1), numbers.randrange(width)) for _ in range(numbers.choice([0, 3, 20]))]
    removed = numbers.sample(pairs, numbers.randint(0, len(pairs)))
    below, _ = csr_of(*ends(pairs), size - 1, width, per_edge=True)
    once, _ = csr_of(*ends(pairs), size - 1, width, per_edge=False)
    base = base_of(below, width)
    left = list(pairs)
    for pair in removed:
        left.remove(pair)
    changed = ChangedEnds.between(base, EndNumbers(*ends(removed)), EndNumbers(*ends([])))
    refused = 0
    for _ in range(6):
        added = [(numbers.randrange(size), numbers.randrange(width)) for _ in range(numbers.choice([1, 2]))]
        known = set(zip(changed.ends.src.tolist(), changed.ends.dst.tolist(), strict=True))
        more = changed.and_more(base, EndNumbers(*ends(added)))
        assert (more is None) == (bool(known & set(added)) or len(set(added)) < len(added))
        if more is None:
            refused += 1
            continue
        changed, left = more, left + added
        check(Adjacency(below, size, width, changed.seen("out", per_edge=True)), left, size, width)
        check(Adjacency(once, size, width, changed.seen("out", per_edge=False)), sorted(set(left)), size, width)
    assert refused < 6


def test_a_version_holds_no_more_than_its_changes() -> None:
    size = 100_000
    ring = np.arange(size, dtype=np.int32)
    below, _ = csr_of(ring, np.roll(ring, 1), size, size, per_edge=False)
    below.degrees.sum()
    near, far = ends([(5, 7), (size, 5)])
    added = PairChanges(near, far, np.ones(2, np.int64))
    tracemalloc.start()
    try:
        versions = [Adjacency(below, size + 1, size + 1, added) for _ in range(9)]
        assert [int(version.degrees().sum()) for version in versions] == [size + 2] * 9
        assert tracemalloc.get_traced_memory()[0] < size
        assert sum(version.nbytes for version in versions) < size
    finally:
        tracemalloc.stop()
