"""A stored segment: named arrays in one file, read whole or by blocks.

    magic (8 bytes), length and CRC-32 of the header (4 bytes each, little-endian), header (JSON), checksums, arrays

Each array is a run of blocks, the last of which may be shorter (`coding`). `checksums` has a CRC-32 for each block of each array;
the CRC-32 of `checksums` is in the header. A block is checked before anything in it is used. Files are read, not mapped:
truncating a mapped file would kill the process.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from omnigraph._internal.lazy_imports import np
from omnigraph._internal.runtime import ByteCache
from omnigraph.errors import ObjectMissing, StorageError
from omnigraph.storage.store import Store

# How the values of an array are stored: as they are, or non-negative integers in as few bits as the largest needs.
#
# A packed block has the low 16 bits of each integer first, then the remaining bits of each: none, four or eight. Each block is
# decoded independently, in whole or in part.

BLOCK_BYTES = 64 * 1024
PACKED = {"packed-16": 0, "packed-20": 4, "packed-24": 8}
"""Name -> bits per value above the low sixteen."""


@dataclass(frozen=True)
class Coding:
    """The stored form of one array. `name`: a NumPy type, or a packing of 32-bit integers."""

    name: str
    bits: int
    """Per value."""

    @classmethod
    def named(cls, name: str) -> Coding:
        """Raises ValueError or TypeError if the name is unknown."""
        return cls(name, 16 + PACKED[name] if name in PACKED else 8 * np.dtype(name).itemsize)

    @classmethod
    def of(cls, array: np.ndarray) -> Coding:
        """The shortest coding for these values."""
        if array.dtype == np.int32 and len(array) and int(array.min()) >= 0:
            largest = int(array.max())
            for name, bits in PACKED.items():
                if largest < 1 << (16 + bits):
                    return cls.named(name)
        return cls.named(array.dtype.newbyteorder("<").str)

    def none(self) -> np.ndarray:
        """An empty array."""
        return np.zeros(0, np.int32 if self.name in PACKED else self.name)

    @property
    def block_values(self) -> int:
        """Values per block: a multiple of 8, so that a block ends on a byte boundary."""
        return BLOCK_BYTES * 8 // self.bits // 8 * 8

    def size(self, count: int) -> int:
        """Bytes that `count` values take, from the beginning of a block."""
        whole, rest = divmod(count, self.block_values)
        return whole * self.block_values * self.bits // 8 + -(-rest * self.bits // 8)

    def block_size(self) -> int:
        return self.size(self.block_values)

    def encode(self, array: np.ndarray) -> list[memoryview]:
        """One buffer per block."""
        step = self.block_values
        blocks = [array[start : start + step] for start in range(0, len(array), step)]
        if self.name not in PACKED:
            return [np.ascontiguousarray(block, self.name).data.cast("B") for block in blocks]
        return [memoryview(_packed(block, PACKED[self.name])) for block in blocks]

    def decode(self, block: bytes | memoryview, count: int, first: int = 0, last: int | None = None) -> np.ndarray:
        """Values [first, last) of a block of `count` values."""
        last = count if last is None else last
        if self.name not in PACKED:
            type_ = np.dtype(self.name)
            return np.frombuffer(block, type_, last - first, first * type_.itemsize)
        low = np.frombuffer(block, "<u2", last - first, 2 * first).astype(np.int32)
        if PACKED[self.name] == 8:
            low |= np.frombuffer(block, np.uint8, last - first, 2 * count + first).astype(np.int32) << 16
        elif PACKED[self.name] == 4 and last > first:
            even = first // 2
            pairs = np.frombuffer(block, np.uint8, -(-last // 2) - even, 2 * count + even)
            high = np.empty((len(pairs), 2), np.int32)
            np.bitwise_and(pairs, 15, out=high[:, 0], casting="unsafe")
            np.right_shift(pairs, 4, out=high[:, 1], casting="unsafe")
            low |= high.reshape(-1)[first % 2 : first % 2 + last - first] << 16
        return low


def _packed(block: np.ndarray, bits: int) -> bytes:
    low = (block & 0xFFFF).astype("<u2").tobytes()
    high = (block >> 16).astype(np.uint8)
    if bits == 4:
        high = np.append(high, np.uint8(0)) if len(high) % 2 else high
        high = high[::2] | high[1::2] << np.uint8(4)
    return low + high.tobytes() if bits else low


MAGIC = b"OGADJ-2\n"
FIRST_READ_BYTES = 128 * 1024
"""Size of the first read: the header, its checksums unless there are very many, and the arrays that follow."""
REMOTE_READ_BYTES = 4 * 1024 * 1024
"""The same on an object store, where a request takes as long as transferring a few megabytes. Arrays up to this size are read
whole there."""
WHOLE_SHARE = 4
"""An array is read whole once the blocks requested of it exceed `FEW_BLOCKS` and one in this many of its own. The first query of
a process wants only a few values of each array."""
SLICES_PER_BLOCK = 32
FEW_BLOCKS = 32
CHUNK_BYTES = 8 * 1024 * 1024
SMALL_BYTES = BLOCK_BYTES // 4
"""Arrays up to this size are always read whole."""

Kind = Literal["nodes", "edges", "zones"]


class SegmentLostError(Exception):
    """A segment cannot be read, or is not as it was written. Readers catch this and go on without the segment."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Arrays(Protocol):
    """Named arrays, in memory or in a file."""

    @property
    def nbytes(self) -> int: ...

    def whole(self, name: str) -> np.ndarray: ...

    def held(self, name: str) -> np.ndarray | None:
        """Like `whole`, if the array is in memory; else None."""

    def slices(self, name: str, firsts: Sequence[int], lasts: Sequence[int]) -> list[np.ndarray]:
        """The slices [first, last) of one array."""

    def check(self) -> None:
        """Read and check everything, from the store."""


@dataclass(frozen=True)
class HeldArrays:
    """Arrays in memory."""

    arrays: Mapping[str, np.ndarray]

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self.arrays.values())

    def whole(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def held(self, name: str) -> np.ndarray | None:
        return self.arrays[name]

    def slices(self, name: str, firsts: Sequence[int], lasts: Sequence[int]) -> list[np.ndarray]:
        array = self.arrays[name]
        return [array[first:last] for first, last in zip(firsts, lasts, strict=True)]

    def check(self) -> None:
        """Nothing is stored."""


@dataclass(frozen=True)
class Covered:
    """A fragment as a segment covers it: all rows of its files, except those deleted in `deletions`."""

    files: tuple[str, ...]
    deletions: str
    rows: int
    """Rows in its files, including deleted ones."""


@dataclass(frozen=True)
class Header:
    """What a segment is about. `numbered_by`: the segments that number the ends of its edges, source and target."""

    kind: Kind
    covers: tuple[Covered, ...]
    count: int
    """Number of ids or edges."""
    numbered_by: tuple[str, ...] = ()
    shared: str = ""
    """The common prefix of all ids."""
    has_parallel: bool = False
    """Whether any two edges have the same ends."""
    has_ranks: bool = False
    """Whether edges are in a different order than their rows."""
    lists_parallel: bool = False
    """Whether the ends of parallel edges are listed in arrays of their own, which is done if they are few."""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "covers": [{"files": list(c.files), "deletions": c.deletions, "rows": c.rows} for c in self.covers],
            "count": self.count,
            "numbered_by": list(self.numbered_by),
            "shared": self.shared,
            "has_parallel": self.has_parallel,
            "has_ranks": self.has_ranks,
            "lists_parallel": self.lists_parallel,
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Header:
        covers = tuple(Covered(tuple(c["files"]), c["deletions"], c["rows"]) for c in value["covers"])
        return cls(
            value["kind"],
            covers,
            value["count"],
            tuple(value["numbered_by"]),
            value["shared"],
            value["has_parallel"],
            value["has_ranks"],
            value.get("lists_parallel", False),
        )


@dataclass(frozen=True)
class _Place:
    """Where an array is in the file, and the index of its first block's checksum."""

    offset: int
    count: int
    coding: Coding
    first_block: int

    @property
    def length(self) -> int:
        return self.coding.size(self.count)

    def block(self, number: int) -> tuple[int, int]:
        """Where a block begins in the array, in bytes, and how many values it has."""
        values = self.coding.block_values
        return number * self.coding.block_size(), min(values, self.count - number * values)


@dataclass(frozen=True)
class _Block:
    data: bytes

    @property
    def nbytes(self) -> int:
        return len(self.data)


class Segment:
    """A segment in a store. What is read of it is cached. Every method may raise SegmentLostError."""

    def __init__(
        self, key: str, header: Header, layout: _Layout, front: bytes, store: Store, cache: ByteCache, root: str
    ) -> None:
        self.key = key
        self._front = front
        """The first bytes of the file."""
        self._small_bytes = REMOTE_READ_BYTES if _is_remote(store) else SMALL_BYTES
        self.header = header
        self._layout = layout
        self._store = store
        self._cache = cache
        self._root = root
        self._uses: dict[str, int] = {}
        """How many blocks were requested, by array."""

    @property
    def nbytes(self) -> int:
        """Without its arrays, which are cached separately."""
        return len(self._layout.checksums) * 36 + len(self._front)

    @property
    def name(self) -> str:
        return self.key.rsplit("/", 1)[-1]

    def whole(self, name: str) -> np.ndarray:
        array: np.ndarray = self._cache.get(("array", self._root, self.key, name), lambda: self._read_whole(name))
        return array

    def held(self, name: str) -> np.ndarray | None:
        array: np.ndarray | None = self._cache.find(("array", self._root, self.key, name))
        return array

    def _read_whole(self, name: str) -> np.ndarray:
        place = self._layout.places[name]
        (data,) = self._read([(place.offset, place.length)])
        view, blocks = memoryview(data), -(-place.count // place.coding.block_values)
        decoded = []
        for number in range(blocks):
            begin, count = place.block(number)
            block = view[begin : begin + place.coding.size(count)]
            self._check(place.first_block + number, block)
            decoded.append(place.coding.decode(block, count))
        return np.concatenate([place.coding.none(), *decoded]) if len(decoded) != 1 else decoded[0]

    def slices(self, name: str, firsts: Sequence[int], lasts: Sequence[int]) -> list[np.ndarray]:
        place = self._layout.places[name]
        held = self.held(name)
        if held is None:
            values = place.coding.block_values
            spans = list(zip(firsts, lasts, strict=True))
            wanted = {block for first, last in spans for block in range(first // values, -(-last // values))}
            # An array that is requested repeatedly is read whole: see `WHOLE_SHARE`.
            # Cutting many slices out of blocks takes longer than reading a block.
            self._uses[name] = self._uses.get(name, 0) + len(wanted) + len(spans) // SLICES_PER_BLOCK
            is_often = self._uses[name] > FEW_BLOCKS and self._uses[name] * WHOLE_SHARE * BLOCK_BYTES > place.length
            if place.length <= self._small_bytes or is_often:
                held = self.whole(name)
            else:
                blocks = self._blocks(name, place, sorted(wanted))
                return [_joined(place, blocks, first, last) for first, last in spans]
        return [held[first:last] for first, last in zip(firsts, lasts, strict=True)]

    def _blocks(self, name: str, place: _Place, wanted: Sequence[int]) -> dict[int, bytes]:
        """Blocks of one array by block number; missing ones are read in as few requests as possible."""
        blocks: dict[int, bytes] = {}
        missing: list[int] = []
        for number in wanted:
            held = self._cache.find(("block", self._root, self.key, name, number))
            if held is None:
                missing.append(number)
            else:
                blocks[number] = held.data
        size, runs = place.coding.block_size(), list(_consecutive(missing))
        spans = [(first * size, min((last + 1) * size, place.length)) for first, last in runs]
        read = self._read([(place.offset + begin, end - begin) for begin, end in spans])
        for (first, last), data in zip(runs, read, strict=True):
            for number in range(first, last + 1):
                block = data[(number - first) * size : (number - first + 1) * size]
                self._check(place.first_block + number, block)
                blocks[number] = block
                self._cache.put(("block", self._root, self.key, name, number), _Block(block))
        return blocks

    def _read(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        further = [(offset, length) for offset, length in spans if offset + length > len(self._front)]
        try:
            read = iter(self._store.get_ranges(self.key, further) if further else ())
        except StorageError as error:
            raise SegmentLostError(self.key) from error
        pieces = [
            next(read) if offset + length > len(self._front) else self._front[offset : offset + length]
            for offset, length in spans
        ]
        if any(len(data) != length for data, (_, length) in zip(pieces, spans, strict=True)):
            raise SegmentLostError(self.key)
        return pieces

    def _check(self, number: int, block: bytes | memoryview) -> None:
        """Check a block against its stored checksum."""
        if zlib.crc32(block) != self._layout.checksums[number]:
            raise SegmentLostError(self.key)

    def check(self) -> None:
        """Read and check everything, from the store."""
        self._front = b""
        for name in self._layout.places:
            self._read_whole(name)


@dataclass(frozen=True)
class _Layout:
    """Where the arrays of a file are."""

    places: Mapping[str, _Place]
    checksums: Sequence[int]


def _joined(place: _Place, blocks: Mapping[int, bytes], first: int, last: int) -> np.ndarray:
    """A slice of an array, given the blocks that contain it."""
    if first == last:
        return place.coding.none()
    values, parts = place.coding.block_values, []
    for number in range(first // values, -(-last // values)):
        begin, (_, count) = number * values, place.block(number)
        parts.append(place.coding.decode(blocks[number], count, max(first - begin, 0), min(last - begin, count)))
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _consecutive(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as ranges (first, last), both inclusive."""
    start = previous = None
    for number in numbers:
        if previous is None or number != previous + 1:
            if start is not None and previous is not None:
                yield start, previous
            start = number
        previous = number
    if start is not None and previous is not None:
        yield start, previous


# ---------------------------------------------------------------- files


def open_segment(key: str, store: Store, cache: ByteCache, root: str) -> Segment:
    """Takes one request, unless the header is long. Raises SegmentLostError."""
    import struct

    try:
        (data,) = store.get_ranges(key, [(0, REMOTE_READ_BYTES if _is_remote(store) else FIRST_READ_BYTES)])
        magic, length, crc = struct.unpack_from("<8sII", data)
        if magic != MAGIC:
            raise SegmentLostError(key)
        if len(data) < 16 + length:
            (more,) = store.get_ranges(key, [(len(data), 16 + length - len(data))])
            data += more
        text = data[16 : 16 + length]
        if zlib.crc32(text) != crc:
            raise SegmentLostError(key)
        value = json.loads(text)
        begin, count = 16 + length, value["blocks"]
        if len(data) < begin + count * 4:
            (more,) = store.get_ranges(key, [(len(data), begin + count * 4 - len(data))])
            data += more
        sums = data[begin : begin + count * 4]
        if zlib.crc32(sums) != value["checksum"]:
            raise SegmentLostError(key)
        begin += count * 4
        places = {
            name: _Place(begin + offset, count, Coding.named(coding), first)
            for name, (offset, count, coding, first) in value["arrays"].items()
        }
        layout = _Layout(places, np.frombuffer(sums, "<u4").tolist())
        return Segment(key, Header.of_json(value), layout, data, store, cache, root)
    except (StorageError, struct.error, ValueError, KeyError, TypeError) as error:
        raise SegmentLostError(key) from error


def _is_remote(store: Store) -> bool:
    return "://" in store.uri


def write_segment(key: str, header: Header, arrays: Mapping[str, np.ndarray], store: Store) -> int:
    """Write a segment, completely or not at all; returns its size in bytes."""
    import struct

    parts: list[memoryview] = []
    sums: list[int] = []
    places: dict[str, list[Any]] = {}
    offset = 0
    for name, array in arrays.items():
        coding = Coding.of(array)
        blocks, size = coding.encode(array), coding.size(len(array))
        places[name] = [offset, len(array), coding.name, len(sums)]
        sums += [zlib.crc32(block) for block in blocks]
        parts += blocks
        offset += size
    checksums = np.array(sums, "<u4").tobytes()
    value = header.to_json() | {"blocks": len(sums), "checksum": zlib.crc32(checksums), "arrays": places}
    text = json.dumps(value, separators=(",", ":")).encode()
    front = struct.pack("<8sII", MAGIC, len(text), zlib.crc32(text)) + text + checksums
    store.fill(key, _chunks([memoryview(front), *parts]))
    return len(front) + offset


def _chunks(parts: Sequence[memoryview]) -> Iterator[bytes]:
    held: list[memoryview] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= CHUNK_BYTES:
            yield b"".join(held)
            held = []
    yield b"".join(held)


def segment_name(header: Header) -> str:
    """Named by what it covers: the same rows in the same numbers have the same name. A segment in several files has their numbers
    before the extension: `1200-0123456789abcdef.0of3.adj` has the edges of its first fragments, and is a segment of these."""
    identity = [header.kind, *([c.files, c.deletions, c.rows] for c in header.covers), header.numbered_by]
    digest = hashlib.sha256(json.dumps(identity, separators=(",", ":")).encode()).hexdigest()
    return f"{header.count}-{digest[:16]}.adj"


def is_there(store: Store, key: str) -> bool:
    try:
        store.info(key)
    except ObjectMissing:
        return False
    return True
