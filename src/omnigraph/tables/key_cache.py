"""The key columns (id, src, dst) of small fragments, held in memory.

A fragment's rows never change, so what is kept for its content is never wrong, only evicted. A writer that stages rows puts their
keys here at once, so the next writer of the process needs no request. Very small fragments are kept whole, so that folding them
needs no reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omnigraph.runtime import ByteCache
from omnigraph.tables.fragment_columns import FragmentColumns
from omnigraph.tables.layout import KEY_COLUMNS
from omnigraph.values.arrow import are_among

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

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
        import pyarrow as pa
        import pyarrow.compute as pc

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
