"""Parts of a good size whatever the partitioning: small parts of a load are written again, several as one, by tasks.

A load of many types from many splits leaves a small part per type and split. The next small write would have to fold them
all; so the load does it, where it is spread over the machines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import Place, Target
from omnigraph.tables import Part, Table
from omnigraph.tables.folding import FOLD_ROWS_MOST, FOLD_WIDTH
from omnigraph.tables.staging import ROWS_PER_PART


@dataclass(frozen=True)
class PackTask:
    target: Target
    place: Place
    parts: tuple[int, ...]


def pack_parts(task: PackTask) -> tuple[str, ...]:
    table = task.target.open(task.place)
    return task.target.tables.write_parts(table, table.read(parts=task.parts))


def packed(target: Target, table: Table, parts: tuple[str, ...], runner: Runner) -> tuple[str, ...] | None:
    """The parts of a table that holds exactly them, with the small ones joined; None when they are good as they are."""
    small = [part for part in table.parts if part.rows < FOLD_ROWS_MOST]
    if len(small) < FOLD_WIDTH:
        return None
    tasks = [PackTask(target, Place.of(table), group) for group in _groups(small)]
    joined = {file for part in small for file in part.files}
    kept = [text for text in parts if not joined & {file["path"] for file in json.loads(text)["files"]}]
    return (*kept, *(text for texts in runner.map("pack", pack_parts, tasks) for text in texts))


def _groups(parts: list[Part]) -> list[tuple[int, ...]]:
    groups: list[list[int]] = []
    rows = 0
    for part in parts:
        if not groups or rows + part.rows > ROWS_PER_PART:
            groups.append([])
            rows = 0
        groups[-1].append(part.id)
        rows += part.rows
    return [tuple(group) for group in groups]
