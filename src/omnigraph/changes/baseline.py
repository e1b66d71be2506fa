"""A whole snapshot of a branch as JSON lines, and the cursor from which changes continue."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from omnigraph._internal.lazy_imports import pa
from omnigraph.changes.diff import type_order
from omnigraph.changes.entity_changes import EVERYTHING, ChangeFilter
from omnigraph.changes.feed import cursor_at
from omnigraph.changes.stored_rows import chunk_rows
from omnigraph.history.chain import MAIN
from omnigraph.language.catalog import EntityType
from omnigraph.records.encoding import json_blocks
from omnigraph.snapshot import Repository, View
from omnigraph.storage.outputs import Target, outputs

BATCH_ROWS = 8_192


@dataclass(frozen=True)
class Baseline:
    """A snapshot that was written out: how many entities, of which commit, and the cursor from which changes continue.

    >>> base = g.baseline("again.ndjson", types=["City"])
    >>> assert (base.entities, base.snapshot_commit_id) == (3, g.head().id)
    """

    entities: int
    snapshot_commit_id: str
    resume_cursor: str

    def __repr__(self) -> str:
        return f"<Baseline of {self.entities} entities at {self.snapshot_commit_id}>"


def write_baseline(
    repository: Repository,
    target: Target,
    branch: str = MAIN,
    *,
    only: ChangeFilter = EVERYTHING,
    replace: bool = False,
) -> Baseline:
    """Write every entity of the branch's head, one graph-batch record per line, then `{"baseline": {…}}`.

    The file appears completely or not at all, and is on disk before the cursor is returned. An `op` filter applies to the cursor only: a
    snapshot has no operations.
    """
    view, last = _captured(repository, branch, only)
    with outputs([target], repository.tables.options, replace=replace) as (file,), file.open() as out:
        entities = 0
        for entity, rows in _selected_rows(view, only):
            out.writelines(json_blocks(entity, rows))
            entities += rows.num_rows
        out.write(last.line)
    return Baseline(entities, last.snapshot_commit_id, last.resume_cursor)


def baseline_blocks(repository: Repository, branch: str = MAIN, *, only: ChangeFilter = EVERYTHING) -> Iterator[bytes]:
    """The same lines as a stream of blocks. A stream without the last line is incomplete."""
    view, last = _captured(repository, branch, only)
    blocks = (block for entity, rows in _selected_rows(view, only) for block in json_blocks(entity, rows))
    return itertools.chain(blocks, [last.line])


@dataclass(frozen=True)
class _LastLine:
    snapshot_commit_id: str
    resume_cursor: str

    @property
    def line(self) -> bytes:
        return json.dumps({"baseline": asdict(self)}).encode() + b"\n"


def _captured(repository: Repository, branch: str, only: ChangeFilter) -> tuple[View, _LastLine]:
    head, view = repository.head(branch)
    commit = head.head.commit
    return view, _LastLine(commit.id, cursor_at(repository, head, commit, only))


def _selected_rows(view: View, only: ChangeFilter) -> Iterator[tuple[EntityType, pa.RecordBatch]]:
    """Nodes, then edges, in batches."""
    for entity in sorted(view.catalog.tables.values(), key=type_order):
        if only.wants_type(entity):
            yield from ((entity, batch) for batch in scanned_batches(view, entity))


def scanned_batches(view: View, entity: EntityType) -> Iterator[pa.RecordBatch]:
    """The rows of a type in batches that fit in memory, however wide the rows are."""
    table = view.table(entity.table_key)
    return iter(()) if table is None else iter(table.scan(batch_rows=min(BATCH_ROWS, chunk_rows(table))))
