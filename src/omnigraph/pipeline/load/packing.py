"""Fragments of a good size whatever the partitioning: small fragments of a load are written again, several as one, by tasks.

A load of many types from many splits leaves a small fragment per type and split. The next small write would have to fold them
all; so the load does it, where it is spread over the machines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from omnigraph.pipeline.load.written import WrittenFiles
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import TableVersion, Target
from omnigraph.tables import Fragment, Table
from omnigraph.tables.folding import FOLD_WIDTH, MAX_FOLD_ROWS
from omnigraph.tables.staging import ROWS_PER_FRAGMENT


@dataclass(frozen=True)
class PackTask:
    target: Target
    place: TableVersion
    fragments: tuple[int, ...]
    written: WrittenFiles | None = None


def pack_fragments(task: PackTask) -> tuple[str, ...]:
    table = task.target.open(task.place)
    fragments = task.target.tables.write_fragments(table, table.read(fragments=task.fragments))
    if task.written is not None:
        task.written.note_fragments(table.path, fragments)
    return fragments


def packed(
    target: Target, table: Table, fragments: tuple[str, ...], runner: Runner, written: WrittenFiles | None
) -> tuple[str, ...] | None:
    """The fragments of a table that holds exactly them, with the small ones joined; None when they are good as they are."""
    small = [fragment for fragment in table.fragments if fragment.rows < MAX_FOLD_ROWS]
    if len(small) < FOLD_WIDTH:
        return None
    tasks = [PackTask(target, TableVersion.of(table), group, written) for group in _groups(small)]
    joined = {file for fragment in small for file in fragment.files}
    kept = [text for text in fragments if not joined & {file["path"] for file in json.loads(text)["files"]}]
    return (*kept, *(text for texts in runner.map("pack", pack_fragments, tasks) for text in texts))


def _groups(fragments: list[Fragment]) -> list[tuple[int, ...]]:
    groups: list[list[int]] = []
    rows = 0
    for fragment in fragments:
        if not groups or rows + fragment.rows > ROWS_PER_FRAGMENT:
            groups.append([])
            rows = 0
        groups[-1].append(fragment.id)
        rows += fragment.rows
    return [tuple(group) for group in groups]
