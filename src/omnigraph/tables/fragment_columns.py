"""Columns of fragments that are looked up often, held in memory.

One rule: a fragment is held once the lookups that went to storage have cost as much as reading it, at one lookup per
`ROWS_PER_LOOKUP` rows. So a first query never pays for it, and a table that changes all the time pays at most twice.

A fragment's rows never change, so what is held for its content is right for every version that shares it. A column that is too
wide is not held, and one that was evicted has to be earned again.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph._internal.runtime import ByteCache
from omnigraph.tables.layout import KEY_COLUMNS
from omnigraph.values.arrow import are_among

if TYPE_CHECKING:
    from omnigraph.tables.addresses import Fragment
    from omnigraph.tables.table import Table


# Finding keys in a column of strings by binary search.
#
# The first eight bytes of a string, read as one big-endian number, sort as the string does. So most of a search is a search among
# numbers, for all wanted keys at once; only strings that share their first bytes are compared themselves.

PREFIX_BYTES = 8
"""How many bytes of a string make up the number."""


@dataclass(frozen=True)
class SortedKeys:
    """A column, the positions of its strings in ascending order, and for each position the string's prefix."""

    column: pa.Array
    order: np.ndarray
    prefixes: np.ndarray

    @classmethod
    def of(cls, column: pa.Array) -> SortedKeys:
        order = np.asarray(pc.sort_indices(column)).astype(np.int32)
        return cls(column, order, prefixes(column)[order])

    @property
    def nbytes(self) -> int:
        """Without the column, which is cached separately."""
        return int(self.order.nbytes + self.prefixes.nbytes)

    def runs(self, wanted: Sequence[str]) -> list[tuple[int, int]]:
        """For each wanted key the range (from, to) in `order` of the rows that have it; empty if there are none."""
        first = np.array([prefix(key.encode()) for key in wanted], np.uint64)
        lows = np.searchsorted(self.prefixes, first, "left").tolist()
        highs = np.searchsorted(self.prefixes, first, "right").tolist()
        return [self._run(*bounds) for bounds in zip(wanted, lows, highs, strict=True)]

    def _run(self, key: str, low: int, high: int) -> tuple[int, int]:
        """Like `runs`, for one key within a range of strings that share their prefix."""
        if low == high or (self._text(self.order[low]) == key and self._text(self.order[high - 1]) == key):
            return low, high
        low = bisect_left(self.order, key, low, high, key=self._text)
        return low, bisect_right(self.order, key, low, high, key=self._text)

    def _text(self, place: int) -> str:
        text: str = self.column[place].as_py()
        return text

    def find(self, wanted: Sequence[str]) -> np.ndarray:
        """Positions of rows that have one of these keys, ascending."""
        runs = [self.order[low:high] for low, high in self.runs(wanted) if low < high]
        return np.sort(np.concatenate(runs)) if runs else self.order[:0]


def prefix(key: bytes) -> int:
    """The first eight bytes of a string as one big-endian number; missing bytes count as zero."""
    return int.from_bytes(key[:8].ljust(8, b"\0"), "big")


def prefixes(column: pa.Array, skipped: int = 0) -> np.ndarray:
    """`prefix` of each string of a column, after the first `skipped` bytes, which all of them have."""
    assert column.type == pa.utf8(), "keys are texts"
    _, offsets, data = column.buffers()
    if len(column) == 0 or data is None:
        return np.zeros(len(column), np.uint64)
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    padded = np.concatenate([np.frombuffer(data, np.uint8)[: ends[-1]], np.zeros(8, np.uint8)])
    begins = ends[:-1] + skipped
    words = np.lib.stride_tricks.sliding_window_view(padded, 8)[begins].view(">u8").astype(np.uint64).ravel()
    missing = (8 * (8 - np.minimum(ends[1:] - begins, 8))).astype(np.uint64)
    # A shift by 64 bits is undefined; an empty string has no bytes to keep.
    kept = np.where(missing < 64, words >> np.minimum(missing, 63), 0)
    return np.asarray(kept << np.minimum(missing, 63), np.uint64)


ROWS_PER_LOOKUP = 4_096
"""Reading and sorting this many rows takes about as long as one lookup through an index."""
MIN_LOOKUPS = 8
COLUMN_SHARE = 16
"""A column may take up to one part in this many of the memory."""
PARTS_COUNTED = 4_096
BATCH_ROWS = 2_048
OFFSET = "_offset"
"""Pseudo-column: the offset of each row in its fragment."""


@dataclass
class _Use:
    """How often one fragment was looked up, and which of its columns were read because of that."""

    lookups: int = 0
    read: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _TooWide:
    """Marks a column that is not held."""

    nbytes: int = 64


class FragmentColumns:
    """Thread-safe. Several graphs may share the memory."""

    def __init__(self, memory: ByteCache) -> None:
        self._memory = memory
        self._uses: OrderedDict[object, _Use] = OrderedDict()
        self._lock = threading.Lock()

    def hold(
        self,
        table: Table,
        fragment: Fragment,
        names: Sequence[str],
        rows_per_lookup: int = ROWS_PER_LOOKUP,
        *,
        at_once: bool = False,
    ) -> dict[str, pa.Array] | None:
        """These columns of a fragment's live rows, in row order; None until there was one lookup per `rows_per_lookup` rows.

        Each call counts as one lookup, except with `at_once`, which reads the columns right away.
        """
        keys = {name: _key(table, fragment, name) for name in names}
        use = self._counted(keys, (table.dataset.uri, fragment.content), 0 if at_once else 1)
        if not at_once and use.lookups < max(MIN_LOOKUPS, fragment.rows // rows_per_lookup):
            return None
        columns: dict[str, pa.Array] = {}
        if at_once and len(names) > 1:
            self._read_together(table, fragment, keys)
        for name, key in keys.items():
            column = self._memory.get(key, lambda name=name: self._read(table, fragment, name))  # type: ignore[misc]  # bound now
            if isinstance(column, _TooWide):
                return None
            columns[name] = column
        with self._lock:
            use.read.update(names)
        return columns

    def find(self, table: Table, fragment: Fragment, names: Sequence[str]) -> dict[str, pa.Array] | None:
        """These columns, if they are held."""
        columns: dict[str, pa.Array] = {}
        for name in names:
            column = self._memory.find(_key(table, fragment, name))
            if column is None or isinstance(column, _TooWide):
                return None
            columns[name] = column
        return columns

    def put(self, table: Table, fragment: Fragment, rows: pa.Table) -> None:
        """Cache columns of a fragment's live rows."""
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            cells = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
            is_wide = cells.nbytes > self._memory.capacity // COLUMN_SHARE
            self._memory.put(_key(table, fragment, name), _TooWide() if is_wide else cells)

    def _counted(self, keys: Mapping[str, object], fragment: object, lookups: int) -> _Use:
        with self._lock:
            use = self._uses.setdefault(fragment, _Use())
            self._uses.move_to_end(fragment)
            if len(self._uses) > PARTS_COUNTED:
                self._uses.popitem(last=False)
            if any(name in use.read and key not in self._memory for name, key in keys.items()):
                use.lookups, use.read = 0, set()
            use.lookups += lookups
            return use

    def is_held(self, table: Table, fragment: Fragment, names: Sequence[str]) -> bool:
        return all(_key(table, fragment, name) in self._memory for name in names)

    def in_order(self, table: Table, fragment: Fragment, name: str, column: pa.Array) -> SortedKeys:
        """A held key column, ready to be searched."""
        return self._memory.get(("order", table.dataset.uri, fragment.content, name), lambda: SortedKeys.of(column))

    def _read_together(self, table: Table, fragment: Fragment, keys: Mapping[str, object]) -> None:
        """Read the columns that are not held yet in one scan."""
        missing = [name for name, key in keys.items() if name != OFFSET and key not in self._memory]
        if len(missing) < 2:
            return
        self.put(table, fragment, table.scan(missing, fragments=[fragment.id]).read_all())

    def _read(self, table: Table, fragment: Fragment, name: str) -> Any:
        """A column; reading stops as soon as it turns out to be too wide."""
        if name == OFFSET:
            addresses = table.scan([], fragments=[fragment.id], with_address=True).read_all().column(0).combine_chunks()
            return pc.bit_wise_and(addresses, pa.scalar(0xFFFFFFFF, pa.uint64()))
        type_ = table.schema.field(name).type
        if pa.types.is_fixed_size_list(type_):
            return _TooWide()
        batches, size = [], 0
        for batch in table.scan([name], fragments=[fragment.id], batch_rows=BATCH_ROWS):
            size += batch.nbytes
            if size > self._memory.capacity // COLUMN_SHARE:
                return _TooWide()
            batches.append(batch.column(0))
        return pa.concat_arrays(batches) if batches else pa.array([], type_)


def _key(table: Table, fragment: Fragment, name: str) -> tuple[object, ...]:
    return ("column", table.dataset.uri, fragment.content, table.column_identity(name))


# The key columns (id, src, dst) of small fragments, held in memory.
#
# A fragment's rows never change, so what is kept for its content is never wrong, only evicted. A writer that stages rows puts their
# keys here at once, so the next writer of the process needs no request. Very small fragments are kept whole, so that folding them
# needs no reading.

MAX_FRAGMENT_ROWS = 32 * 1024
"""Keys of longer fragments are not kept."""
MAX_WHOLE_BYTES = 64 * 1024
"""Fragments up to this size are kept with all their columns by the process that wrote them."""
BYTES_PER_KEY = 200
"""Approximate memory of a key: its string, its position in a list and in a dictionary."""
BYTES_PER_FRAGMENT = 400
"""Approximate memory of the objects of a fragment, however few its rows."""
BYTES_PER_COLUMN = 1_200
"""Approximate memory of a column that is kept whole, without its values. Most of a one-row fragment's memory is this."""

Content = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class FragmentKeys:
    """Key columns of the live rows of one fragment. `offsets`: of these rows in the fragment, ascending; `rows`: the whole rows,
    if kept."""

    columns: dict[str, list[str]]
    offsets: Sequence[int]
    rows: pa.Table | None = None
    row_identity: object = None
    """`Table.row_identity` of the table that the rows belong to."""
    _places: dict[str, dict[str, list[int]]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rows: pa.Table, offsets: Sequence[int] | None = None) -> FragmentKeys:
        columns = {name: rows.column(name).to_pylist() for name in KEY_COLUMNS if name in rows.column_names}
        return cls(columns, range(rows.num_rows) if offsets is None else offsets)

    @classmethod
    def of_written(cls, rows: pa.Table, row_identity: object) -> FragmentKeys:
        """Like `of`, for a fragment that was just written; keeps its rows too if they are few."""
        keys = cls.of(rows)
        return replace(keys, rows=rows, row_identity=row_identity) if rows.nbytes <= MAX_WHOLE_BYTES else keys

    @property
    def nbytes(self) -> int:
        keys = BYTES_PER_FRAGMENT + len(self.offsets) * (len(self.columns) or 1) * BYTES_PER_KEY
        return keys + (0 if self.rows is None else int(self.rows.nbytes) + self.rows.num_columns * BYTES_PER_COLUMN)

    def is_whole(self, row_identity: object) -> bool:
        """Whether the whole rows are kept, in the columns of such a table."""
        return self.rows is not None and (self.row_identity is row_identity or self.row_identity == row_identity)

    def find(self, name: str, values: Sequence[object]) -> list[int]:
        """Positions (indexes into the columns) of rows that have one of these values, ascending.

        A column that is not a key can be searched only if the rows are kept whole.
        """
        if name not in self.columns:
            return self._find_in_rows(name, values)
        places = self._index(name)
        return sorted(place for value in values for place in places.get(value, ()))  # type: ignore[call-overload]

    def addresses_of(self, ids: Iterable[str], fragment: int) -> list[tuple[str, int]]:
        """Those of the ids that this fragment has, with their row addresses."""
        places = self._index("id")
        return [(id, fragment << 32 | self.offsets[places[id][0]]) for id in ids if id in places]

    def _index(self, name: str) -> dict[str, list[int]]:
        places = self._places.get(name)
        if places is None:
            places = {}
            for place, key in enumerate(self.columns[name]):
                places.setdefault(key, []).append(place)
            self._places[name] = places
        return places

    def _find_in_rows(self, name: str, values: Sequence[object]) -> list[int]:
        assert self.rows is not None, "only a fragment that is kept whole knows its other columns"
        column = self.rows.column(name)
        mask = are_among(column, pa.array(values, column.type))
        places: list[int] = pc.indices_nonzero(mask).to_pylist()
        return places

    def without(self, offsets: Iterable[int]) -> FragmentKeys:
        """The same fragment with more rows deleted."""
        gone = set(offsets)
        kept = [place for place, offset in enumerate(self.offsets) if offset not in gone]
        columns = {name: [values[place] for place in kept] for name, values in self.columns.items()}
        rows = None if self.rows is None else self.rows.take(kept)
        return FragmentKeys(columns, [self.offsets[place] for place in kept], rows, self.row_identity)


class KeyCache:
    """Keys of the fragments of one graph, in its shared cache. Thread-safe."""

    def __init__(self, cache: ByteCache, root: str) -> None:
        self.columns = FragmentColumns(cache)
        """Whole columns of fragments of any size, once these are looked up often."""
        self._cache = cache
        self._root = root

    def get(self, path: str, content: Content) -> FragmentKeys | None:
        keys = self._cache.find(("keys", self._root, path, content))
        assert keys is None or isinstance(keys, FragmentKeys)
        return keys

    def put(self, path: str, content: Content, keys: FragmentKeys) -> None:
        if len(keys.offsets) <= MAX_FRAGMENT_ROWS:
            self._cache.put(("keys", self._root, path, content), keys)

    def deleted(self, path: str, content: Content, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Offsets of the deleted rows of a fragment."""
        return self._cache.get(("deleted", self._root, path, content), make)
