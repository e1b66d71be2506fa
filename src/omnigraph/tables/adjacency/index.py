"""The adjacency of a graph's tables at any version: held in memory, read from stored segments, or built.

A numbering of a node table, and the edges of some fragments in these numbers, serve every version that differs little from them:
after small commits, on branches, at older states. A version that differs too much gets others: stored ones that fit, or new ones
built in memory.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from omnigraph._internal.lazy_imports import np, pa
from omnigraph._internal.runtime import ByteCache
from omnigraph.errors import StorageError
from omnigraph.storage.store import Store
from omnigraph.tables.addresses import OFFSET_BITS, ROW_ADDRESS, Fragment
from omnigraph.tables.adjacency.edges import (
    EdgeBase,
    Edges,
    EndNumbers,
    JoinedEdges,
    NumberedEdges,
    base_edge_column,
    edge_base,
    edges_at,
    stored_ends,
)
from omnigraph.tables.adjacency.nodes import CodedColumn, Nodes, NumberedColumn, base_column, nodes_at
from omnigraph.tables.adjacency.numbering import Numbering, SortedIds, covers_of, sorted_ids
from omnigraph.tables.adjacency.segment import Segment, SegmentLostError, open_segment
from omnigraph.tables.changed_table import INLINE_FRAGMENT, ChangedTable
from omnigraph.tables.lookups import MAX_KEYS_FRAGMENTS
from omnigraph.tables.table import Table

FOLDER = "_adjacency"
MIN_ROWS = 16_384
"""Smaller tables are read as fast as a segment would be. For tables below half of this, no segment is looked for."""
CHANGED_SHARE = 8
"""A version may differ from the covered fragments in one row out of this many, or in `CHANGED_ROWS` rows if that is more."""
CHANGED_ROWS = 4_096
MAX_LOOKED_UP = 1_024
"""More ids than this are looked up through an index, or by a scan."""
READ_SHARE = 8
FEW_CELLS = 64
"""Up to this many cells per column are read together, as Python values."""
MAX_TRIED = 4
"""How many stored segments are opened, at most, to find one that fits."""


_NAME = re.compile(r"([0-9]+)-[^.]+(?:\.[0-9]+of[0-9]+)?\.adj")
_PART = re.compile(r"\.([0-9]+)of([0-9]+)\.adj$")


class AdjacencyIndex:
    """Thread-safe: if two threads build the same value at the same time, both copies are right and one of them is kept."""

    def __init__(self, root: str, cache: ByteCache, store: Store | None) -> None:
        self._root = root
        self._cache = cache
        self._store = store
        """None if nothing is stored."""
        self._lost: set[str] = set()
        """Keys of segments that could not be read."""
        self._listed: dict[str, tuple[object, list[str]]] = {}

    def forget(self, key: str) -> None:
        """Stop using a segment that cannot be read, and drop everything that was derived from segments."""
        self._lost.add(key)
        self._cache.drop(lambda known: _is_adjacency_key(known, self._root))

    def has_written(self, path: str) -> None:
        """Call after storing a segment of this table, so that its segments are listed again."""
        self._listed.pop(path, None)

    # ------------------------------------------------------------ nodes

    def nodes(self, table: Table) -> Nodes:
        return self._cache.get(("nodes", self._root, table.content), lambda: self._make_nodes(table))

    def nodes_if_cached(self, table: Table) -> Nodes | None:
        """Like `nodes`; None if that would mean reading many ids."""
        is_held = ("nodes", self._root, table.content) in self._cache
        return self.nodes(table) if is_held or is_small(table) or self._has_stored_ids(table) else None

    def _make_nodes(self, table: Table) -> Nodes:
        key = ("numbering", self._root, table.path)
        numbering: Numbering | None = self._cache.find(key)
        if numbering is not None and (nodes := self._nodes_in(table, numbering)) is not None:
            return nodes
        for segment in self.segments(table, "nodes"):
            numbering = Numbering(SortedIds(segment.header, segment, segment.name))
            if (nodes := self._nodes_in(table, numbering)) is not None:
                self._cache.replace(key, numbering)
                return nodes
        numbering = Numbering(ids_of(table.stored))
        self._cache.replace(key, numbering)
        nodes = nodes_at(table, numbering, self.number_rows, table.stored.rows + table.rows)
        assert nodes is not None, "a numbering covers the version that it was made from"
        return nodes

    def _nodes_in(self, table: Table, numbering: Numbering) -> Nodes | None:
        most = _most_changed(len(numbering.base))
        if numbering.arrivals > most:
            return None
        latest = numbering.latest()
        nodes = None if latest is None else latest.followed(table, most)
        if nodes is None:
            nodes = nodes_at(table, numbering, self.number_rows, most)
        if nodes is not None:
            numbering.latest = weakref.ref(nodes)
        return nodes

    def _has_stored_ids(self, table: Table) -> bool:
        """Whether the ids of a version have stored numbers, so that not all of them must be read."""
        numbering: Numbering | None = self._cache.find(("numbering", self._root, table.path))
        if numbering is not None:
            return numbering.base.name != ""
        return next(self.segments(table, "nodes"), None) is not None

    def lookup(self, table: Table, ids: Sequence[str], columns: Sequence[str]) -> pa.Table | None:
        """The rows with these ids; None if another way is better: no ids are stored, or too many are asked for."""
        wanted = list(dict.fromkeys(ids))
        if len(wanted) > MAX_LOOKED_UP or not self._has_stored_ids(table):
            return None
        nodes = self.nodes(table)
        if not nodes.numbering.base.name:
            return None
        known_ids = pa.array(wanted, pa.utf8())
        numbers = nodes.numbers(known_ids)
        known = numbers >= 0
        if not known.all():
            numbers, known_ids = numbers[known], known_ids.filter(pa.array(known))
        others = [name for name in columns if name != "id"]
        schema = pa.schema([table.schema.field(name) for name in columns])
        if len(numbers) == 0:
            return schema.empty_table()
        rows = table.rows_at(nodes.addresses(table, numbers), others) if others else None
        cells = [known_ids if name == "id" or rows is None else rows.column(name) for name in columns]
        return pa.Table.from_arrays(cells, schema=schema)

    def number_rows(self, table: Table, fragments: Sequence[Fragment], numbering: Numbering) -> list[np.ndarray]:
        """The node numbers of the rows of the given fragments."""
        arrays = self._by_fragment(("numbers", self._root, table.path, numbering.serial), table, fragments, ["id"])
        return [
            _inline_numbers(table, numbering, "id")
            if fragment.id == INLINE_FRAGMENT
            else self._cache.get(key, lambda rows=rows: numbering.numbers(rows().column("id"), add=True))  # type: ignore[misc]
            for fragment, (key, rows) in zip(fragments, arrays, strict=True)
        ]

    def column(self, table: Table, nodes: Nodes, name: str) -> NumberedColumn:
        if name == "id":
            arrived = pa.array(nodes.numbering.arrived(nodes.size), pa.utf8())
            texts = (
                pa.concat_arrays([nodes.numbering.base.texts, arrived]) if len(arrived) else nodes.numbering.base.texts
            )
            return NumberedColumn(texts, nodes.moved[0][:0], arrived[:0], nodes.size)
        key = self._column_key(table, nodes, name)
        base = self._cache.get(("base column", *key), lambda: base_column(table, nodes, name))
        rest = [fragment for fragment, _ in nodes.rest]
        if not rest:
            return NumberedColumn(base, nodes.moved[0], pa.array([], base.type), nodes.size)
        arrays = self._by_fragment(("cells", *key[:2], key[3]), table, rest, [name])
        cells = [self._cache.get(at, lambda rows=rows: rows().column(name)) for at, rows in arrays]  # type: ignore[misc]
        moved, order = nodes.moved
        values = pa.concat_arrays(cells).take(pa.array(order))
        return NumberedColumn(base, moved, values, nodes.size)

    def columns(self, table: Table, nodes: Nodes, names: Sequence[str], numbers: np.ndarray) -> dict[str, pa.Array]:
        """Columns at the given live node numbers."""
        if len(numbers) > FEW_CELLS:
            return {name: self._cells(table, nodes, name, numbers) for name in names}
        values = self.values(table, nodes, names, numbers)
        return {name: pa.array(values[name], table.schema.field(name).type) for name in names}

    def _cells(self, table: Table, nodes: Nodes, name: str, numbers: np.ndarray) -> pa.Array:
        """A column at the given live node numbers. Unless the column is held, up to `MAX_LOOKED_UP` cells are read on their
        own, if they are less than one in `READ_SHARE`."""
        is_held = name == "id" or ("base column", *self._column_key(table, nodes, name)) in self._cache
        if is_held or len(numbers) > min(MAX_LOOKED_UP, table.rows // READ_SHARE):
            return self.column(table, nodes, name).take(numbers)
        column = table.rows_at(nodes.addresses(table, numbers), [name]).column(0)
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)

    def values(self, table: Table, nodes: Nodes, names: Sequence[str], numbers: np.ndarray) -> dict[str, list[Any]]:
        """Columns at a few live node numbers, as Python values."""
        columns: dict[str, list[Any]] = {}
        listed = numbers.tolist()
        if not listed:
            return {name: [] for name in names}
        for name in names:
            if name == "id":
                columns[name] = nodes.numbering.texts(listed)
            elif ("base column", *self._column_key(table, nodes, name)) in self._cache:
                columns[name] = self.column(table, nodes, name).values_at(listed)
        others = [name for name in names if name not in columns]
        return columns | table.values_at(nodes.addresses_of(table, listed), others) if others else columns

    def codes(self, table: Table, nodes: Nodes, name: str) -> CodedColumn | None:
        """A column with few distinct values; None if it has many."""
        column = self.column(table, nodes, name)
        key = ("codes", *self._column_key(table, nodes, name))
        coded = self._cache.get(key, lambda: CodedColumn.of(column.base)).moved(column)
        return coded if coded.is_short else None

    def _column_key(self, table: Table, nodes: Nodes, name: str) -> tuple[Any, ...]:
        """The cache key of a column's values for the covered rows."""
        covered = tuple(first for first, _, _ in nodes.cover.present)
        return self._root, table.path, nodes.numbering.serial, table.column_identity(name), covered

    # ------------------------------------------------------------ edges

    def edges(self, table: Table, source: Nodes, target: Nodes, versions: object) -> Edges:
        """`versions`: the versions of the node tables."""
        ends = (source.numbering.serial, source.size, target.numbering.serial, target.size)
        key = ("edges", self._root, table.content, versions, ends)
        return self._cache.get(key, lambda: self._make_edges(table, source, target))

    def _make_edges(self, table: Table, source: Nodes, target: Nodes) -> Edges:
        key = ("edge base", self._root, table.path, source.numbering.serial, target.numbering.serial)
        base: EdgeBase | None = self._cache.find(key)
        if base is not None and (edges := self._edges_on(table, base, source, target)) is not None:
            return edges
        names = (source.numbering.base.identity, target.numbering.base.identity)
        for stored in self.edge_bases(table, names, (len(source.numbering.base), len(target.numbering.base))):
            base = stored
            if (edges := self._edges_on(table, base, source, target)) is not None:
                self._cache.replace(key, base)
                return edges
        # Of the stored rows alone: inline rows are never covered, so that later versions can be told apart by what they add.
        stored_rows = table.stored
        ends = stored_ends(stored_rows, stored_rows.fragments, source.numbering, target.numbering)
        base = edge_base(covers_of(stored_rows), ends, (source.numbering.size, target.numbering.size))
        self._cache.replace(key, base)
        built = edges_at(table, base, source, target, self.number_ends, stored_rows.rows + table.rows)
        assert built is not None, "edges cover the version that they were made from"
        return built

    def _edges_on(self, table: Table, base: EdgeBase, source: Nodes, target: Nodes) -> Edges | None:
        most, latest = _most_changed(base.header.count), base.latest()
        edges = None if latest is None else latest.followed(table, source, target, most)
        if edges is None:
            edges = edges_at(table, base, source, target, self.number_ends, most)
        if edges is not None:
            base.latest = weakref.ref(edges)
        return edges

    def numbered_edges(self, table: Table, edges: Edges) -> NumberedEdges | None:
        """The edges of a version by number; None for a damaged graph."""
        key = ("back order", self._root, *self._edges_key(table, edges))
        return edges.numbered(lambda: self._cache.get(key, edges.base.back_order))

    def edge_column(self, table: Table, edges: Edges, name: str) -> NumberedColumn:
        """A column by edge number."""
        covered = tuple(first for first, _, _ in edges.cover.present)
        key = (self._root, *self._edges_key(table, edges), table.column_identity(name), covered)
        base = self._cache.get(("edge column", *key), lambda: base_edge_column(table, edges, name))
        arrays = self._by_fragment(("edge cells", *key[:-1]), table, edges.cover.rest, [name])
        cells = [self._cache.get(at, lambda rows=rows: rows().column(name)) for at, rows in arrays]  # type: ignore[misc]
        values = pa.concat_arrays(cells) if cells else pa.array([], base.type)
        added = np.arange(len(base), len(base) + len(values))
        return NumberedColumn(base, added, values, len(base) + len(values))

    def _edges_key(self, table: Table, edges: Edges) -> tuple[Any, ...]:
        return table.path, edges.source.numbering.serial, edges.target.numbering.serial, edges.base.header.covers

    def is_at_hand(self, table: Table, source: Nodes, target: Nodes) -> bool:
        """Whether the edges of a version can be derived from what is stored or held, without reading them all."""
        serials = (source.numbering.serial, target.numbering.serial)
        if ("edge base", self._root, table.path, *serials) in self._cache:
            return True
        names = (source.numbering.base.identity, target.numbering.base.identity)
        return any(group[0].header.numbered_by == names for group in self.segment_groups(table, "edges"))

    def edge_bases(self, table: Table, names: tuple[str, ...], nodes: tuple[int, int]) -> Iterator[EdgeBase]:
        """The stored edges of a table in the numbers of these segments, which have so many."""
        for group in self.segment_groups(table, "edges"):
            if any(segment.header.numbered_by != names for segment in group):
                continue
            parts = [EdgeBase(segment.header, segment, nodes) for segment in group]
            yield (
                parts[0]
                if len(parts) == 1
                else JoinedEdges(parts, self._cache, ("array", self._root, f"{group[0].key} and others"))
            )

    def covered_rows(self, table: Table) -> int:
        """How many rows of an edge table its stored edges cover."""
        covered = [0]
        for group in self.segment_groups(table, "edges"):
            files = {part.files for segment in group for part in segment.header.covers}
            covered.append(sum(fragment.rows for fragment in table.fragments if fragment.files in files))
        return max(covered)

    def number_ends(
        self, table: Table, fragments: Sequence[Fragment], source: Numbering, target: Numbering
    ) -> list[EndNumbers]:
        key = ("ends", self._root, table.path, source.serial, target.serial)
        arrays = self._by_fragment(key, table, fragments, ["src", "dst"])

        def numbered(rows: Any) -> EndNumbers:
            read = rows()
            return EndNumbers(
                source.numbers(read.column("src"), add=True), target.numbers(read.column("dst"), add=True)
            )

        return [
            EndNumbers(_inline_numbers(table, source, "src"), _inline_numbers(table, target, "dst"))
            if fragment.id == INLINE_FRAGMENT
            else self._cache.get(at, lambda rows=rows: numbered(rows))  # type: ignore[misc]
            for fragment, (at, rows) in zip(fragments, arrays, strict=True)
        ]

    # ------------------------------------------------------------ reading

    def _by_fragment(
        self, key: tuple[Any, ...], table: Table, fragments: Sequence[Fragment], columns: list[str]
    ) -> list[tuple[tuple[Any, ...], Any]]:
        """For each fragment its cache key, and a function that returns its rows; fragments that are missing are read together,
        once."""
        keys = [(*key, fragment.content) for fragment in fragments]
        missing = [fragment for fragment, at in zip(fragments, keys, strict=True) if at not in self._cache]
        read: dict[int, pa.RecordBatch] = {}

        def rows_of(fragment: Fragment) -> pa.RecordBatch:
            if not read:
                read.update(_rows_by_fragment(table, missing if fragment in missing else [fragment], columns))
            if fragment.id not in read:
                read.update(_rows_by_fragment(table, [fragment], columns))
            return read[fragment.id]

        return [(at, lambda fragment=fragment: rows_of(fragment)) for fragment, at in zip(fragments, keys, strict=True)]

    def segments(self, table: Table, kind: str) -> Iterator[Segment]:
        """Stored segments of a table in one file, closest in row count first."""
        return (group[0] for group in self.segment_groups(table, kind) if len(group) == 1)

    def segment_groups(self, table: Table, kind: str) -> Iterator[list[Segment]]:
        """The files of each stored segment of a table, closest in row count first."""
        if self._store is None or table.rows < MIN_ROWS // 2 or table.stored.is_read_whole():
            return
        tried = 0
        for names in sorted(
            segment_files(self._names(table)), key=lambda names: (abs(_rows_in(names[0]) - table.rows), names)
        ):
            keys = [f"{table.path}/{FOLDER}/{name}" for name in names]
            if tried == MAX_TRIED or not self._lost.isdisjoint(keys):
                continue
            tried += 1
            try:
                segments = [self.opened(key) for key in keys]
            except SegmentLostError as lost:
                self._lost.add(lost.key)
                continue
            if segments[0].header.kind == kind:
                yield segments

    def opened(self, key: str) -> Segment:
        """A stored segment. Raises SegmentLostError if it cannot be read."""
        store = self._store
        assert store is not None, "tables in memory have no files"
        return self._cache.get(("segment", self._root, key), lambda: open_segment(key, store, self._cache, self._root))

    def _names(self, table: Table) -> list[str]:
        """File names of the stored segments of a table; listed again for each version."""
        known = self._listed.get(table.path)
        if known is not None and known[0] == table.content:
            return known[1]
        assert self._store is not None
        try:
            files = [info.key.rsplit("/", 1)[1] for info in self._store.list(f"{table.path}/{FOLDER}")]
        except StorageError:
            return []
        names = [name for name in files if _rows_in(name) >= 0]
        self._listed[table.path] = (table.content, names)
        return names


def is_small(table: Table) -> bool:
    """Whether reading a table whole is as fast as reading a segment of it. On an object store each fragment costs a request or
    more."""
    stored = table.stored
    is_near = "://" not in stored.dataset.uri or len(stored.fragments) <= MAX_KEYS_FRAGMENTS or stored.is_read_whole()
    return table.rows <= MIN_ROWS and is_near


def _most_changed(rows: int) -> int:
    return max(rows // CHANGED_SHARE, CHANGED_ROWS)


def _rows_in(name: str) -> int:
    """How many rows a segment covers, from its name; -1 if the name is not that of a segment."""
    parsed = _NAME.fullmatch(name)
    return -1 if parsed is None else int(parsed[1])


def segment_files(names: Iterable[str]) -> list[list[str]]:
    """The files of each segment that has all of them, in their order; by their names or keys."""
    by_stem: dict[str, list[tuple[int, int, str]]] = {}
    for name in names:
        parsed = _PART.search(name)
        number, count = (0, 1) if parsed is None else (int(parsed[1]), int(parsed[2]))
        stem = name if parsed is None else f"{name[: parsed.start()]} {count}"
        by_stem.setdefault(stem, []).append((number, count, name))
    return [[name for *_, name in sorted(files)] for files in by_stem.values() if len(files) == files[0][1]]


def ids_of(table: Table) -> SortedIds:
    """The sorted ids of a version, read from the table."""
    covers = covers_of(table)
    total, kept, first = sum(covered.rows for covered in covers), [], 0
    for fragment in table.fragments:
        kept.append(first + table.live_offsets(fragment))
        first += table.stored_rows[fragment.id]
    whole = table.read_whole(table.fragments)
    parts = table.read(["id"]).column("id").chunks if whole is None else [columns["id"] for columns in whole]
    ids = pa.concat_arrays(parts) if parts else pa.array([], pa.utf8())
    return sorted_ids(ids, np.concatenate(kept) if kept else np.zeros(0, np.int64), total, covers)


def _inline_numbers(table: Table, numbering: Numbering, column: str) -> np.ndarray:
    """Node numbers of the inline rows."""
    assert isinstance(table, ChangedTable), "no other table has inline rows"
    return numbering.of_changes(table.inline, column)


def _rows_by_fragment(table: Table, fragments: Sequence[Fragment], columns: list[str]) -> dict[int, pa.RecordBatch]:
    batches: dict[int, pa.RecordBatch] = {}
    for fragment in fragments:
        # The keys of a small fragment are held if this process wrote it or looked a key up in it.
        keys = None if table.keys is None else table.keys.get(table.path, fragment.content)
        if keys is not None and set(columns) <= keys.columns.keys():
            cells = [pa.array(keys.columns[name], pa.utf8()) for name in columns]
            batches[fragment.id] = pa.RecordBatch.from_arrays(cells, names=columns)
    unread = [fragment for fragment in fragments if fragment.id not in batches]
    if not unread:
        return batches
    ids = sorted(fragment.id for fragment in unread)
    rows = table.read(columns, fragments=ids, with_address=True).combine_chunks()
    owners = (rows.column(ROW_ADDRESS).to_numpy() >> np.uint64(OFFSET_BITS)).astype(np.int64)
    for fragment in unread:
        first, last = np.searchsorted(owners, fragment.id, "left"), np.searchsorted(owners, fragment.id, "right")
        part = rows.slice(first, last - first).select(columns).combine_chunks()
        arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in part.columns]
        batches[fragment.id] = pa.RecordBatch.from_arrays(arrays, names=columns)
    return batches


def _is_adjacency_key(key: object, root: str) -> bool:
    kinds = {
        "nodes",
        "numbering",
        "numbers",
        "edges",
        "edge base",
        "edge column",
        "edge cells",
        "back order",
        "cells",
        "ends",
        "base column",
        "codes",
        "segment",
        "array",
        "block",
    }
    return isinstance(key, tuple) and key[0] in kinds and key[1] == root
