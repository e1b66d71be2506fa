"""Key columns of edges that ascend within their fragments: which rows may have a value.

The ids that a load makes ascend, and so do sources where a node has several edges. For such a column the first value of every
`ZONE_ROWS` rows is stored, and the last value of each fragment; a lookup reads the zones that may have its value. That takes a
hundredth of a byte per edge, whereas an index of every row takes 4 to 14 bytes. Fragments in any other order get such an index.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph._internal.runtime import ByteCache
from omnigraph.errors import StorageError
from omnigraph.storage.store import Store
from omnigraph.tables.adjacency.segment import Covered, Header, Segment, SegmentLostError, open_segment, write_segment
from omnigraph.tables.lance_errors import translated

if TYPE_CHECKING:
    from omnigraph.tables.addresses import Fragment
    from omnigraph.tables.table import Table

FOLDER = "_adjacency"
SUFFIX = ".zones"
COLUMNS = ("id", "src")
ZONE_ROWS = 2_048
MIN_ROWS = 32 * 1024
"""The keys of shorter fragments are held in memory."""
BYTES_PER_VALUE = 80
ADDRESS_SHIFT = 32
"""As `fragment.OFFSET_BITS`."""


@dataclass(frozen=True)
class Zones:
    """The first value of each zone of a fragment's column, and the last value of all."""

    firsts: Sequence[str]
    last: str
    rows: int

    def offsets(self, values: Iterable[str]) -> np.ndarray:
        """Offsets of the rows that may have one of these values, ascending, including deleted rows."""
        wanted: set[int] = set()
        for value in values:
            if self.firsts[0] <= value <= self.last:
                wanted.update(range(max(bisect_left(self.firsts, value) - 1, 0), bisect_right(self.firsts, value)))
        ranges = [np.arange(zone * ZONE_ROWS, min((zone + 1) * ZONE_ROWS, self.rows)) for zone in sorted(wanted)]
        return np.concatenate(ranges) if ranges else np.zeros(0, np.int64)


@dataclass(frozen=True)
class Found:
    """Rows of a fragment: their positions among its live rows, their addresses, and their values in the column."""

    places: np.ndarray
    addresses: np.ndarray
    values: pa.ChunkedArray


Files = tuple[str, ...]


@dataclass(frozen=True)
class _StoredZones:
    """The stored zones of a column, by the files of each fragment; and the files that each segment covers."""

    zones: dict[Files, Zones]
    groups: tuple[frozenset[Files], ...]

    @property
    def nbytes(self) -> int:
        return 64 + sum(len(zones.firsts) * BYTES_PER_VALUE for zones in self.zones.values())


class EdgeZones:
    """Thread-safe. If a segment is missing or damaged, a lookup scans instead."""

    def __init__(self, root: str, cache: ByteCache, store: Store) -> None:
        self._root = root
        self._cache = cache
        self._store = store

    def find(self, table: Table, fragment: Fragment, column: str, wanted: Sequence[str]) -> Found | None:
        """The rows of a fragment that have these values; None if the column is not known to ascend in it."""
        if column not in COLUMNS or fragment.rows < MIN_ROWS or "src" not in table.schema.names:
            return None
        zones = self._stored(table, column).zones.get(fragment.files)
        if zones is None:
            return None
        deleted = table.deleted_offsets(fragment)
        offsets = np.setdiff1d(zones.offsets(wanted), deleted, assume_unique=True)
        places = offsets - np.searchsorted(deleted, offsets)
        with translated(table.path):
            values = table.dataset.get_fragment(fragment.id).take(places.tolist(), columns=[column]).column(0)
        chosen = np.flatnonzero(np.asarray(pc.is_in(values, value_set=pa.array(wanted, pa.utf8()))))
        addresses = np.uint64(fragment.id << ADDRESS_SHIFT) | offsets[chosen].astype(np.uint64)
        return Found(places[chosen], addresses, values.take(pa.array(chosen)))

    def covered(self, table: Table, column: str) -> frozenset[int]:
        """The fragments that need no index of a column: those of segments whose fragments are all in the version."""
        if all(fragment.rows < MIN_ROWS for fragment in table.fragments):
            return frozenset()
        files = {fragment.files: fragment.id for fragment in table.fragments}
        groups = [group for group in self._stored(table, column).groups if group <= files.keys()]
        return frozenset(files[place] for group in groups for place in group)

    def _stored(self, table: Table, column: str) -> _StoredZones:
        key = ("zones", self._root, table.path, column, table.version)
        return self._cache.get(key, lambda: self._read(table.path, column))

    def _read(self, path: str, column: str) -> _StoredZones:
        zones: dict[Files, Zones] = {}
        groups: list[frozenset[Files]] = []
        ending = f"-{column}{SUFFIX}"
        try:
            keys = [info.key for info in self._store.list(f"{path}/{FOLDER}") if info.key.endswith(ending)]
        except StorageError:
            keys = []
        for key in keys:
            try:
                segment = open_segment(key, self._store, self._cache, self._root)
                zones |= _zones_in(segment)
            except SegmentLostError:
                continue
            groups.append(frozenset(covered.files for covered in segment.header.covers))
        return _StoredZones(zones, tuple(groups))

    def write(self, table: Table, fragments: Sequence[int], column: str) -> frozenset[int]:
        """Store the zones of those fragments in which a column ascends; returns their ids."""
        columns: list[tuple[Fragment, pa.Array]] = []
        for fragment in table.fragments:
            if fragment.id in fragments and fragment.rows >= MIN_ROWS:
                values = pa.concat_arrays(table.read_stored([column], [fragment.id]).column(0).chunks)
                if _is_ascending(values):
                    columns.append((fragment, pa.concat_arrays([values[::ZONE_ROWS], values[-1:]])))
        if not columns:
            return frozenset()
        covers = tuple(Covered(fragment.files, "", table.stored_rows[fragment.id]) for fragment, _ in columns)
        header = Header("zones", covers, sum(covered.rows for covered in covers))
        digest = hashlib.sha256(json.dumps([c.files for c in covers], separators=(",", ":")).encode()).hexdigest()
        key = f"{table.path}/{FOLDER}/{header.count}-{digest[:16]}-{column}{SUFFIX}"
        write_segment(key, header, _as_arrays(pa.concat_arrays([values for _, values in columns])), self._store)
        self._cache.drop(lambda known: isinstance(known, tuple) and known[:3] == ("zones", self._root, table.path))
        return frozenset(fragment.id for fragment, _ in columns)


def _is_ascending(values: pa.Array) -> bool:
    return len(values) < 2 or bool(pc.all(pc.less_equal(values[:-1], values[1:])).as_py())


def _as_arrays(texts: pa.Array) -> dict[str, np.ndarray]:
    encoded = [text.encode() for text in texts.to_pylist()]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return {"ends": ends, "values": np.frombuffer(b"".join(encoded), np.uint8)}


def _zones_in(segment: Segment) -> dict[Files, Zones]:
    ends, data = segment.whole("ends").tolist(), bytes(segment.whole("values").data)
    texts = [data[first:last].decode() for first, last in pairwise(ends)]
    zones, at = {}, 0
    for covered in segment.header.covers:
        count = -(-covered.rows // ZONE_ROWS)
        zones[covered.files] = Zones(texts[at : at + count], texts[at + count], covered.rows)
        at += count + 1
    return zones
