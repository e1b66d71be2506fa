"""Writing segments: stored adjacency follows the large changes of a graph.

The ids and the edges of each type are written by separate tasks, which may run elsewhere and return file names. A task holds the
ids of its types, and about 20 bytes per edge.

A segment that still covers most of a version stays in use; a reader adds the rest. It is written again when more than one row in
`STALE_SHARE` is not covered. Edges are stored in the numbers of stored ids, so new ids mean new edges.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.errors import OmnigraphError, StorageError
from omnigraph.tables.adjacency.cover import cover
from omnigraph.tables.adjacency.edges import edge_base, stored_ends
from omnigraph.tables.adjacency.index import FOLDER, MIN_ROWS, AdjacencyIndex, ids_of
from omnigraph.tables.adjacency.numbering import Numbering, SortedIds
from omnigraph.tables.adjacency.segment import (
    Header,
    HeldArrays,
    Segment,
    SegmentLostError,
    segment_name,
    write_segment,
)
from omnigraph.tables.place import TablePlace
from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table
from omnigraph.workers import IN_PROCESS, Workers

Task = TypeVar("Task")

MAX_EDGES = 400_000_000
"""Longer tables would not fit in a reader's memory: both directions take eight bytes per edge."""
STALE_SHARE = 20
MAX_TEXT_BYTES = 2**31 - 1


@dataclass(frozen=True)
class EdgeTable:
    """An edge table, and the node types that its edges join."""

    table: Table
    source: str
    target: str

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target


@dataclass(frozen=True)
class IdsTask:
    """Write the ids of a node table."""

    place: TablePlace


@dataclass(frozen=True)
class EdgesTask:
    """Write the edges of a table in the numbers of these segments."""

    place: TablePlace
    source: str
    target: str


def store_adjacency(
    tables: Tables,
    nodes: Mapping[str, Table],
    edges: Sequence[EdgeTable],
    min_rows: int = MIN_ROWS,
    workers: Workers = IN_PROCESS,
) -> list[str]:
    """Write the segments that these versions lack; returns their keys. Segments that cannot be written now are left out: reads do
    without them."""
    index, written = tables.adjacency, []
    with contextlib.suppress(OmnigraphError, SegmentLostError):
        long_edges = [edge for edge in edges if min_rows <= edge.table.rows <= MAX_EDGES]
        ends = {end for edge in long_edges for end in edge.ends}
        long_nodes = {name: t for name, t in sorted(nodes.items()) if t.rows and (name in ends or t.rows >= min_rows)}
        known = {name: ids for name, table in long_nodes.items() if (ids := _stored_ids(index, table)) is not None}
        stale = _stale_edges(index, long_edges, long_nodes, known)
        missing = [name for name in long_nodes if name not in known]
        keys = _run_tasks(workers, write_ids, [IdsTask(TablePlace.of(tables, long_nodes[name])) for name in missing])
        for name, key in zip(missing, keys, strict=True):
            if key is not None:
                written.append(key)
                index.has_written(long_nodes[name].path)
                segment = index.opened(key)
                known[name] = SortedIds(segment.header, segment, segment.name)
        tasks = {
            edge.table.path: EdgesTask(
                TablePlace.of(tables, edge.table), *(_key(long_nodes, known, end) for end in edge.ends)
            )
            for edge in stale
            if all(end in known for end in edge.ends)
        }
        for path, key in zip(tasks, _run_tasks(workers, write_edges, list(tasks.values())), strict=True):
            if key is not None:
                written.append(key)
                index.has_written(path)
    return written


def _run_tasks(workers: Workers, write: Callable[[Task], str | None], tasks: Sequence[Task]) -> list[str | None]:
    return workers.map("adjacency", write, tasks) if tasks else []


def _key(nodes: Mapping[str, Table], known: Mapping[str, SortedIds], name: str) -> str:
    return f"{nodes[name].path}/{FOLDER}/{known[name].name}"


def write_ids(task: IdsTask) -> str | None:
    """The key of the segment; None if it could not be written."""
    with contextlib.suppress(StorageError):
        ids = ids_of(task.place.open())
        assert isinstance(ids.arrays, HeldArrays)
        if int(ids.arrays.whole("ids").nbytes) <= MAX_TEXT_BYTES:
            return _write(task.place, ids.header, ids.arrays)
    return None


def write_edges(task: EdgesTask) -> str | None:
    """The key of the segment; None if it could not be written."""
    with contextlib.suppress(StorageError, SegmentLostError):
        table, index = task.place.open(), task.place.tables.adjacency
        segments = [index.opened(key) for key in (task.source, task.target)]
        source, target = (SortedIds(segment.header, segment, segment.name) for segment in segments)
        numberings = Numbering(source), Numbering(target)
        if task.source == task.target:
            numberings = numberings[0], numberings[0]
        ends = stored_ends(table, *numberings)
        if any(numbering.arrivals for numbering in numberings):
            return None  # Only a damaged graph has an edge with a missing end; such edges are read one by one.
        base = edge_base(table, ends, (len(source), len(target)), (source.name, target.name))
        assert isinstance(base.arrays, HeldArrays)
        return _write(task.place, base.header, base.arrays)
    return None


def _write(place: TablePlace, header: Header, arrays: HeldArrays) -> str:
    store = place.tables.derived_store
    assert store is not None, "tables in memory have no files"
    key = f"{place.path}/{FOLDER}/{segment_name(header)}"
    write_segment(key, header, arrays.arrays, store)
    return key


def _stale_edges(
    index: AdjacencyIndex, edges: Sequence[EdgeTable], nodes: Mapping[str, Table], known: dict[str, SortedIds]
) -> list[EdgeTable]:
    """The edge tables to be written. All of their ends must have numbers: node types whose stored ids do not cover every row are
    removed from `known`, and then all edges that they number are stale too."""
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
        segment.header.numbered_by == names and _fits(segment, edge.table)
        for segment in index.segments(edge.table, "edges")
    )


def _stored_ids(index: AdjacencyIndex, table: Table) -> SortedIds | None:
    segment = next((candidate for candidate in index.segments(table, "nodes") if _fits(candidate, table)), None)
    return None if segment is None else SortedIds(segment.header, segment, segment.name)


def _fits(segment: Segment, table: Table) -> bool:
    """Whether a segment covers most of a version and can be read."""
    try:
        if cover(table, segment.header.covers, segment).changed_rows * STALE_SHARE > table.rows:
            return False
        segment.check()
    except SegmentLostError:
        return False
    return True
