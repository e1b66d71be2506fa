"""Arrays in files: what was written is what is read, whole or in pieces, and nothing else is ever read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnigraph._internal.runtime import ByteCache
from omnigraph.storage.options import open_store
from omnigraph.tables.adjacency.segment import Coding, Header, SegmentLostError, open_segment, write_segment

LARGEST = [1, 2**16 - 1, 2**16, 2**20 - 1, 2**20, 2**24 - 1, 2**24, 2**31 - 1]
BITS = [16, 16, 20, 20, 24, 24, 32, 32]
COUNTS = [0, 1, 2, 26_207, 26_208, 26_209, 60_001]


@pytest.mark.parametrize(("largest", "bits"), list(zip(LARGEST, BITS, strict=True)))
@pytest.mark.parametrize("count", COUNTS)
def test_numbers_take_as_few_bits_as_the_largest_needs(count: int, largest: int, bits: int) -> None:
    array = np.random.default_rng(count).integers(0, largest, count, dtype=np.int32, endpoint=True)
    if count:
        array[count // 2] = largest
    coding = Coding.of(array)
    blocks = coding.encode(array)
    assert coding.bits == (bits if count else 32)
    assert sum(map(len, blocks)) == coding.size(count) <= -(-count * bits // 8) + 4
    assert all(len(block) == coding.block_size() for block in blocks[:-1])
    for number, block in enumerate(blocks):
        part = array[number * coding.block_values :][: coding.block_values]
        assert np.array_equal(coding.decode(block, len(part)), part)
        for first, last in ((0, 1), (1, len(part)), (len(part) // 3, len(part) // 2), (len(part), len(part))):
            assert np.array_equal(coding.decode(block, len(part), first, last), part[first:last])


def test_a_segment_is_read_whole_and_by_blocks(tmp_path: Path) -> None:
    random, store = np.random.default_rng(1), open_store(str(tmp_path), durability="process")
    arrays: dict[str, np.ndarray] = {
        "negative": np.array([-1, 5, 70_000], np.int32),
        "prefixes": random.integers(0, 2**63, 200_000, dtype=np.uint64),
        "long": random.integers(0, 900_000, 1_000_000, dtype=np.int32),
        "none": np.zeros(0, np.int32),
    }
    write_segment("t/a.adj", Header("edges", (), 3), arrays, store)
    whole = open_segment("t/a.adj", store, ByteCache(10**8), "")
    whole.check()
    for name, array in arrays.items():
        found = whole.whole(name)
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
    pieces = open_segment("t/a.adj", store, ByteCache(10**8), "")
    firsts = [0, 26_200, 999_990, 5, 400_000]
    lasts = [3, 80_000, 1_000_000, 5, 400_001]
    for array, first, last in zip(pieces.slices("long", firsts, lasts), firsts, lasts, strict=True):
        assert np.array_equal(array, arrays["long"][first:last])
    assert pieces.held("long") is None

    file = tmp_path / "t" / "a.adj"
    data = bytearray(file.read_bytes())
    data[-500_000] ^= 1
    file.write_bytes(data)
    damaged = open_segment("t/a.adj", store, ByteCache(10**8), "")
    with pytest.raises(SegmentLostError):
        damaged.whole("long")
    with pytest.raises(SegmentLostError):
        damaged.slices("long", [795_000], [805_000])


def test_neighbours_of_one_node_are_not_a_reason_to_read_an_array_whole(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), durability="process")
    numbers = np.random.default_rng(2).permutation(1_000_000).astype(np.int32)
    write_segment("t/a.adj", Header("nodes", (), 1_000_000), {"order": numbers}, store)
    opened = open_segment("t/a.adj", store, ByteCache(10**8), "")
    firsts = list(range(7, 1_000_000, 80_000))
    for asked in range(3):
        assert opened.held("order") is None, f"{asked * len(firsts)} values of a million were wanted"
        parts = opened.slices("order", firsts, [first + 1 for first in firsts])
        assert np.concatenate(parts).tolist() == numbers[firsts].tolist()
    assert opened.held("order") is not None
