"""Stored adjacency: loads, merges and optimize write it after large changes, cleanup removes what is obsolete. Reads work without
it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from omnigraph._internal.runtime import ByteCache
from omnigraph.errors import OmnigraphError, StorageError
from omnigraph.history.values import Commit
from omnigraph.indexing.kinds import kind_of, table_of
from omnigraph.snapshot import Repository, View
from omnigraph.storage.store import Store
from omnigraph.tables.adjacency.edges import edge_base, fragment_runs, stored_ends
from omnigraph.tables.adjacency.index import FOLDER, MIN_ROWS, AdjacencyIndex, ids_of, segment_files
from omnigraph.tables.adjacency.numbering import Numbering, SortedIds, cover, covers_of
from omnigraph.tables.adjacency.segment import (
    Arrays,
    Header,
    HeldArrays,
    SegmentLostError,
    open_segment,
    segment_name,
    write_segment,
)
from omnigraph.tables.store import TablePlace, Tables
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import IN_PROCESS, Workers

# Writing segments: stored adjacency follows the large changes of a graph.
#
# The ids of each type, and every `PART_EDGES` edges, are written by separate tasks, which may run elsewhere and return file names. A
# task holds the ids of its types, and about 85 bytes for each of its edges.
#
# A segment that still covers most of a version stays in use; a reader adds the rest. It is written again when more than one row in
# `STALE_SHARE` is not covered. Edges are stored in the numbers of stored ids, so new ids mean new edges.

Task = TypeVar("Task")

PART_EDGES = 12_000_000
"""The most edges that one task numbers and sorts: about 1 GB. More are written as a segment in several files."""
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
    """Write the edges of some fragments of a table in the numbers of these segments, as file `part` of `parts` of a segment."""

    place: TablePlace
    source: str
    target: str
    fragments: tuple[int, ...]
    part: int
    parts: int


@dataclass(frozen=True)
class Outcome:
    """The key of what a task has written; None if it has written nothing, for a reason."""

    key: str | None
    reason: str = ""


@dataclass(frozen=True)
class StoredAdjacency:
    """Keys of segments that were written, and by path of a table why its own was not: reads work without it."""

    written: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def store_adjacency(
    tables: Tables,
    nodes: Mapping[str, Table],
    edges: Sequence[EdgeTable],
    min_rows: int = MIN_ROWS,
    workers: Workers = IN_PROCESS,
) -> StoredAdjacency:
    """Write the segments that these versions lack. Those that cannot be written now are left out: reads do without them."""
    index = tables.adjacency
    written: list[str] = []
    left_out: dict[str, str] = {}
    long_edges = [edge for edge in edges if min_rows <= edge.table.rows]
    try:
        ends = {end for edge in long_edges for end in edge.ends}
        long_nodes = {name: t for name, t in sorted(nodes.items()) if t.rows and (name in ends or t.rows >= min_rows)}
        known = {name: ids for name, table in long_nodes.items() if (ids := _stored_ids(index, table)) is not None}
        stale = _stale_edges(index, long_edges, long_nodes, known)
        missing = [name for name in long_nodes if name not in known]
        ids_tasks = [IdsTask(TablePlace.of(tables, long_nodes[name])) for name in missing]
        for name, outcome in zip(missing, _run_tasks(workers, write_ids, ids_tasks), strict=True):
            if outcome.key is None:
                left_out[long_nodes[name].path] = outcome.reason
                continue
            written.append(outcome.key)
            index.has_written(long_nodes[name].path)
            segment = index.opened(outcome.key)
            known[name] = SortedIds(segment.header, segment, segment.name)
        tasks = [
            task
            for edge in stale
            if all(end in known for end in edge.ends)
            for task in _edges_tasks(tables, edge.table, *(_key(long_nodes, known, end) for end in edge.ends))
        ]
        for edge in stale:
            if unnumbered := [end for end in edge.ends if end not in known]:
                left_out[edge.table.path] = f"the ids of {unnumbered[0]} have no numbers"
        for task, outcome in zip(tasks, _run_tasks(workers, write_edges, tasks), strict=True):
            if outcome.key is None:
                left_out[task.place.path] = outcome.reason
            else:
                written.append(outcome.key)
                index.has_written(task.place.path)
    except (OmnigraphError, SegmentLostError) as error:
        reason = error.message if isinstance(error, OmnigraphError) else "what was stored could not be read again"
        left_out |= {edge.table.path: reason for edge in long_edges if edge.table.path not in left_out}
    return StoredAdjacency(tuple(written), left_out)


def _run_tasks(workers: Workers, write: Callable[[Task], Outcome], tasks: Sequence[Task]) -> list[Outcome]:
    return workers.map("adjacency", write, tasks) if tasks else []


def _edges_tasks(tables: Tables, table: Table, source: str, target: str) -> list[EdgesTask]:
    runs = fragment_runs(table.fragments, PART_EDGES)
    place = TablePlace.of(tables, table)
    return [
        EdgesTask(place, source, target, tuple(fragment.id for fragment in run), number, len(runs))
        for number, run in enumerate(runs)
    ]


def _key(nodes: Mapping[str, Table], known: Mapping[str, SortedIds], name: str) -> str:
    return f"{nodes[name].path}/{FOLDER}/{known[name].name}"


def write_ids(task: IdsTask) -> Outcome:
    try:
        ids = ids_of(task.place.open())
        assert isinstance(ids.arrays, HeldArrays)
        if int(ids.arrays.whole("ids").nbytes) > MAX_TEXT_BYTES:
            return Outcome(None, f"its ids take more than {MAX_TEXT_BYTES >> 30} GiB of text")
        return Outcome(_write(task.place, segment_name(ids.header), ids.header, ids.arrays))
    except StorageError as error:
        return Outcome(None, error.message)


def write_edges(task: EdgesTask) -> Outcome:
    try:
        table, index = task.place.open(), task.place.tables.adjacency
        segments = [index.opened(key) for key in (task.source, task.target)]
        source, target = (SortedIds(segment.header, segment, segment.name) for segment in segments)
        numberings = Numbering(source), Numbering(target)
        if task.source == task.target:
            numberings = numberings[0], numberings[0]
        chosen = frozenset(task.fragments)
        fragments = [fragment for fragment in table.fragments if fragment.id in chosen]
        ends = stored_ends(table, fragments, *numberings)
        if any(numbering.arrivals for numbering in numberings):
            # Only a damaged graph has such an edge; its edges are read one by one.
            return Outcome(None, "an edge has an end that is missing: omnigraph verify --deep")
        names = source.name, target.name
        base = edge_base(covers_of(table, fragments), ends, (len(source), len(target)), names)
        assert isinstance(base.arrays, HeldArrays)
        name = segment_name(Header("edges", covers_of(table), table.rows, names))
        if task.parts > 1:
            name = f"{name.removesuffix('.adj')}.{task.part}of{task.parts}.adj"
        return Outcome(_write(task.place, name, base.header, base.arrays))
    except StorageError as error:
        return Outcome(None, error.message)
    except SegmentLostError:
        return Outcome(None, "the stored ids could not be read again")


def _write(place: TablePlace, name: str, header: Header, arrays: HeldArrays) -> str:
    store = place.tables.derived_store
    assert store is not None, "tables in memory have no files"
    key = f"{place.path}/{FOLDER}/{name}"
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
    nodes = (len(known[edge.source]), len(known[edge.target]))
    return any(_fits(base.header, base.arrays, edge.table) for base in index.edge_bases(edge.table, names, nodes))


def _stored_ids(index: AdjacencyIndex, table: Table) -> SortedIds | None:
    segments = index.segments(table, "nodes")
    segment = next((stored for stored in segments if _fits(stored.header, stored, table)), None)
    return None if segment is None else SortedIds(segment.header, segment, segment.name)


def _fits(header: Header, arrays: Arrays, table: Table) -> bool:
    """Whether a segment covers most of a version and can be read."""
    try:
        if cover(table, header.covers, arrays).changed_rows * STALE_SHARE > table.rows:
            return False
        arrays.check()
    except SegmentLostError:
        return False
    return True


def refresh_adjacency(
    repository: Repository, view: View, min_rows: int = MIN_ROWS, workers: Workers = IN_PROCESS
) -> StoredAdjacency:
    """Write the adjacency that a state lacks. Does nothing for tables in memory."""
    if repository.tables.store is None:
        return StoredAdjacency()
    tables = {key: table.stored for key in view.catalog.tables if (table := view.table(key)) is not None}
    nodes = {key.partition(":")[2]: table for key, table in tables.items() if key.startswith("node:")}
    edges = [
        EdgeTable(table, type_.source, type_.target)
        for name, type_ in sorted(view.catalog.edges.items())
        if (table := tables.get(f"edge:{name}")) is not None
    ]
    return store_adjacency(repository.tables, nodes, edges, min_rows, workers)


def refresh_after(
    repository: Repository, commit: Commit, changed: Collection[int], workers: Workers = IN_PROCESS
) -> Mapping[str, str]:
    """Like `refresh_adjacency`, for a commit, if it changed many rows of a type. By table key, why adjacency was left out."""
    if max(changed, default=0) < MIN_ROWS:
        return {}
    view = repository.view(repository.history.revisions.snapshot(commit.ref))
    return left_out_of(view, refresh_adjacency(repository, view, workers=workers))


def left_out_of(view: View, stored: StoredAdjacency) -> dict[str, str]:
    """By table key: why its adjacency was left out."""
    paths = {key: view.path(key) for key in view.catalog.tables}
    return {key: stored.left_out[path] for key, path in paths.items() if path in stored.left_out}


def adjacency_rows(view: View, key: str) -> int | None:
    """How many rows of an edge table its stored adjacency covers; None if it needs none."""
    table = view.table(key)
    if table is None or key.startswith("node:") or table.rows < MIN_ROWS or view.repository.tables.store is None:
        return None
    return view.repository.tables.adjacency.covered_rows(table)


# ---------------------------------------------------------------- what is still useful


@dataclass(frozen=True)
class _Stored:
    """A segment, in one file or in several."""

    keys: tuple[str, ...]
    table: str
    header: Header

    @property
    def key(self) -> str:
        return self.keys[0]

    @property
    def subject(self) -> str:
        """What it describes: ids, edges, or zones of one column."""
        return self.key.rpartition("-")[2] if self.header.kind == "zones" else self.header.kind

    @property
    def files(self) -> frozenset[str]:
        return frozenset(file for covered in self.header.covers for file in covered.files)


def needed_adjacency(store: Store, keys: Iterable[str], is_needed: Callable[[str], bool]) -> set[str]:
    """The stored segments that reads of kept commits may use: at least half of their rows (for zones, all) are in files that are
    needed, and no other segment covers all of theirs. A segment that cannot be read is not needed."""
    adjacency = [key for key in keys if kind_of(key) == "adjacency"]
    stored = [segment for files in segment_files(adjacency) if (segment := _opened(store, files)) is not None]
    useful = [segment for segment in stored if _is_useful(segment, is_needed)]
    edges = [segment for segment in useful if segment.header.kind == "edges" and not _is_superseded(segment, useful)]
    numbering = {name for edge in edges for name in edge.header.numbered_by}
    nodes = [
        segment
        for segment in useful
        if segment.header.kind == "nodes"
        and (segment.key.rsplit("/", 1)[1] in numbering or not _is_superseded(segment, useful))
    ]
    zones = [segment for segment in useful if segment.header.kind == "zones" and not _is_superseded(segment, useful)]
    return {key for segment in (*edges, *nodes, *zones) for key in segment.keys}


def _opened(store: Store, keys: Sequence[str]) -> _Stored | None:
    table = table_of(keys[0])
    try:
        headers = [open_segment(key, store, ByteCache(0), "").header for key in keys]
    except SegmentLostError:
        return None
    covers = tuple(covered for header in headers for covered in header.covers)
    return None if table is None else _Stored(tuple(keys), table, replace(headers[0], covers=covers))


def _is_useful(stored: _Stored, is_needed: Callable[[str], bool]) -> bool:
    covers = stored.header.covers
    needed = sum(c.rows for c in covers if all(is_needed(f"{stored.table}/data/{file}") for file in c.files))
    share = 1 if stored.header.kind == "zones" else 2
    return 0 < sum(c.rows for c in covers) <= share * needed


def _is_superseded(stored: _Stored, others: Iterable[_Stored]) -> bool:
    return any(
        other.table == stored.table and other.subject == stored.subject and stored.files < other.files
        for other in others
    )


def adjacency_fault(store: Store, key: str) -> str | None:
    """What is wrong with a stored segment, if anything."""
    try:
        open_segment(key, store, ByteCache(0), "").check()
    except SegmentLostError:
        return "its content does not have the checksums that it was written with"
    return None
