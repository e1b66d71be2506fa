"""Stored adjacency: loads, merges and optimize write it after large changes, cleanup removes what is obsolete. Reads work without
it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from omnigraph.history import Commit
from omnigraph.maintenance.kinds import kind_of, table_of
from omnigraph.runtime import ByteCache
from omnigraph.storage import Store
from omnigraph.tables.adjacency.building import EdgeTable, store_adjacency
from omnigraph.tables.adjacency.index import MIN_ROWS
from omnigraph.tables.adjacency.segment import Header, Segment, SegmentLostError, open_segment
from omnigraph.views import Repository, View
from omnigraph.workers import IN_PROCESS, Workers


def refresh_adjacency(
    repository: Repository, view: View, min_rows: int = MIN_ROWS, workers: Workers = IN_PROCESS
) -> list[str]:
    """Write the adjacency that a state lacks; returns the keys of what was written. Does nothing for tables in memory."""
    if repository.tables.store is None:
        return []
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
) -> None:
    """Like `refresh_adjacency`, for a commit, if it changed many rows of a type."""
    if max(changed, default=0) >= MIN_ROWS:
        view = repository.view(repository.history.revisions.snapshot(commit.ref))
        refresh_adjacency(repository, view, workers=workers)


# ---------------------------------------------------------------- what is still useful


@dataclass(frozen=True)
class _Stored:
    key: str
    table: str
    header: Header

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
    stored = [
        _Stored(key, table, segment.header)
        for key in keys
        if kind_of(key) == "adjacency" and (table := table_of(key)) and (segment := _opened(store, key)) is not None
    ]
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
    return {segment.key for segment in (*edges, *nodes, *zones)}


def _opened(store: Store, key: str) -> Segment | None:
    try:
        return open_segment(key, store, ByteCache(0), "")
    except SegmentLostError:
        return None


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
