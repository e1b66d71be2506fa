"""Stored adjacency: loads, merges and optimize write it after large changes, cleanup removes what is obsolete. Reads work without
it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.history import Commit
from omnigraph.maintenance.kinds import kind_of, table_of
from omnigraph.runtime import ByteCache
from omnigraph.storage import Store
from omnigraph.tables.adjacency.building import EdgeTable, StoredAdjacency, store_adjacency
from omnigraph.tables.adjacency.index import MIN_ROWS, segment_files
from omnigraph.tables.adjacency.segment import Header, SegmentLostError, open_segment
from omnigraph.views import Repository, View
from omnigraph.workers import IN_PROCESS, Workers


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
