"""A whole snapshot of a branch as JSON lines, and the cursor that goes on from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from omnigraph.changes.diff import type_order
from omnigraph.changes.entity_changes import EVERYTHING, ChangeFilter
from omnigraph.changes.feed import cursor_at
from omnigraph.changes.stored_rows import chunk_rows
from omnigraph.history import MAIN
from omnigraph.records.encoding import record_lines
from omnigraph.storage.outputs import Target, outputs
from omnigraph.views import Repository, View


@dataclass(frozen=True)
class Baseline:
    """A snapshot that was written out: how many entities, of which commit, and the cursor that goes on from it.

    >>> base = g.baseline("again.ndjson", types=["City"])
    >>> assert (base.entities, base.snapshot_commit_id) == (3, g.commit().id)
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
    """Every entity of the branch's head, one graph-batch record a line, then `{"baseline": {…}}`.

    The file appears whole or not at all, and is on disk before the cursor is given. An `op` filter holds for the cursor
    only: a snapshot has no operations.
    """
    head, view = repository.head(branch)
    commit = head.head.commit
    cursor = cursor_at(repository, head, commit, only)
    with outputs([target], repository.tables.options, replace=replace) as (file,), file.open() as out:
        return _write(out, view, only, commit.id, cursor)


def _write(out: IO[bytes], view: View, only: ChangeFilter, commit_id: str, cursor: str) -> Baseline:
    entities = 0
    for line in records(view, only):
        out.write(line)
        entities += 1
    last = {"baseline": {"snapshot_commit_id": commit_id, "resume_cursor": cursor}}
    out.write(json.dumps(last).encode() + b"\n")
    return Baseline(entities, commit_id, cursor)


def records(view: View, only: ChangeFilter = EVERYTHING) -> Iterator[bytes]:
    """Nodes, then edges, as graph-batch lines. Bounded memory."""
    for entity in sorted(view.catalog.tables.values(), key=type_order):
        table = view.table(entity.table_key)
        if table is not None and only.wants_type(entity):
            for batch in table.scan(batch_rows=min(8_192, chunk_rows(table))):
                yield from (f"{line}\n".encode() for line in record_lines(entity, batch))
