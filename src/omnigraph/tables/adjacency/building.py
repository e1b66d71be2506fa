"""Writing segments: what is stored of a graph's tables follows its large changes.

A segment that still covers most of a version stays in use; a reader adds the rest. One is written again when more than one row
in `STALE_SHARE` is not covered. Edges are stored in the numbers of stored ids, so new ids mean new edges.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.errors import StorageError
from omnigraph.storage import Store
from omnigraph.tables.adjacency.cover import cover
from omnigraph.tables.adjacency.edges import edge_base, stored_ends
from omnigraph.tables.adjacency.index import FOLDER, MIN_ROWS, AdjacencyIndex, ids_of
from omnigraph.tables.adjacency.numbering import Numbering, SortedIds
from omnigraph.tables.adjacency.segment import Header, HeldArrays, Segment, SegmentLostError, write_segment
from omnigraph.tables.table import Table

MAX_EDGES = 100_000_000
"""Longer tables would take much memory to build: 50 bytes an edge."""
STALE_SHARE = 20
MAX_TEXT_BYTES = 2**31 - 1


@dataclass(frozen=True)
class EdgeTable:
    """A table of edges, and the types that they join."""

    table: Table
    source: str
    target: str

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target


def store_adjacency(
    index: AdjacencyIndex,
    store: Store,
    nodes: Mapping[str, Table],
    edges: Sequence[EdgeTable],
    min_rows: int = MIN_ROWS,
) -> list[str]:
    """Write the segments that these versions lack; the keys of those that were written. What cannot be written now is left out:
    reads do without."""
    written: list[str] = []
    with contextlib.suppress(StorageError):
        long_edges = [edge for edge in edges if min_rows <= edge.table.rows <= MAX_EDGES]
        ends = {end for edge in long_edges for end in edge.ends}
        long_nodes = {name: t for name, t in sorted(nodes.items()) if t.rows and (name in ends or t.rows >= min_rows)}
        known = {name: ids for name, table in long_nodes.items() if (ids := _stored_ids(index, table)) is not None}
        stale = _stale_edges(index, long_edges, long_nodes, known)
        for name, table in long_nodes.items():
            if name not in known:
                ids = _write_ids(index, store, table, written)
                if ids is not None:
                    known[name] = ids
        for edge in stale:
            if edge.source in known and edge.target in known:
                _write_edges(index, store, edge, known[edge.source], known[edge.target], written)
    return written


def _stale_edges(
    index: AdjacencyIndex, edges: Sequence[EdgeTable], nodes: Mapping[str, Table], known: dict[str, SortedIds]
) -> list[EdgeTable]:
    """The edges that have to be written. Their ends must all have numbers: ids that lack some are taken out of `known`, and with
    new ids come new edges."""
    stale: list[EdgeTable] = []
    while True:
        more = [edge for edge in edges if edge not in stale and not _has_edges(index, edge, known)]
        if not more:
            return stale
        stale += more
        for name in {end for edge in more for end in edge.ends}:
            ids = known.get(name)
            if ids is not None and cover(nodes[name], ids.header.covers, ids.arrays).rest:
                del known[name]


def _has_edges(index: AdjacencyIndex, edge: EdgeTable, known: Mapping[str, SortedIds]) -> bool:
    if not all(end in known for end in edge.ends):
        return False
    names = tuple(known[end].name for end in edge.ends)
    return any(
        each.header.numbered_by == names and _fits(each, edge.table) for each in index.segments(edge.table, "edges")
    )


def _stored_ids(index: AdjacencyIndex, table: Table) -> SortedIds | None:
    segment = next((each for each in index.segments(table, "nodes") if _fits(each, table)), None)
    return None if segment is None else SortedIds(segment.header, segment, segment.name)


def _fits(segment: Segment, table: Table) -> bool:
    """Whether it covers most of a version, and can be read."""
    try:
        if cover(table, segment.header.covers, segment).changed_rows * STALE_SHARE > table.rows:
            return False
        segment.check()
    except SegmentLostError:
        return False
    return True


def _write_ids(index: AdjacencyIndex, store: Store, table: Table, written: list[str]) -> SortedIds | None:
    ids = ids_of(table)
    assert isinstance(ids.arrays, HeldArrays)
    if int(ids.arrays.whole("ids").nbytes) > MAX_TEXT_BYTES:
        return None
    name = segment_name(ids.header)
    _write(index, store, table, name, ids.header, ids.arrays, written)
    return SortedIds(ids.header, ids.arrays, name)


def _write_edges(
    index: AdjacencyIndex, store: Store, edge: EdgeTable, source: SortedIds, target: SortedIds, written: list[str]
) -> None:
    table = edge.table
    numberings = Numbering(source), Numbering(target)
    if source.name == target.name:
        numberings = numberings[0], numberings[0]
    ends = stored_ends(table, *numberings)
    if any(numbering.arrivals for numbering in numberings):
        return  # An end that no node has: only a damaged graph has such edges, and they are read one by one.
    base = edge_base(table, ends, (len(source), len(target)), (source.name, target.name))
    assert isinstance(base.arrays, HeldArrays)
    _write(index, store, table, segment_name(base.header), base.header, base.arrays, written)


def _write(
    index: AdjacencyIndex,
    store: Store,
    table: Table,
    name: str,
    header: Header,
    arrays: HeldArrays,
    written: list[str],
) -> None:
    key = f"{table.path}/{FOLDER}/{name}"
    write_segment(key, header, arrays.arrays, store)
    index.has_written(table.path)
    written.append(key)


def segment_name(header: Header) -> str:
    """By what it covers: the same rows in the same numbers have the same name."""
    identity = [header.kind, *([c.files, c.deletions, c.rows] for c in header.covers), header.numbered_by]
    digest = hashlib.sha256(json.dumps(identity, separators=(",", ":")).encode()).hexdigest()
    return f"{header.count}-{digest[:16]}.adj"
