"""Finds a record again by what a rule said of it: only when a load is refused, so the sources are simply read again.

A second reading gives every record the id it had: ids are made from the source and the line, and handed out among the rows that
are written together, which are the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.embedding.filling import Embeddings, TextVector
from omnigraph.embedding.providers import Purpose
from omnigraph.load.fragments import ArrangedRows, FragmentWriter
from omnigraph.load.reading import ReadTask, SplitReader
from omnigraph.load.refusals import BrokenRule
from omnigraph.records.rows import NamedRows
from omnigraph.rules.check import Record
from omnigraph.tasks.runner import Runner


@dataclass(frozen=True)
class LocateTask:
    """Records to find in what a task has read."""

    read: ReadTask
    wanted: frozenset[Record]


Locations = dict[Record, tuple[int, int]]
"""Record -> split and line. Of several records the last one: it is the one too many."""


class _FakeEmbeddings(Embeddings):
    """Vectors of the right size instead of those of the texts, which nobody looks at here."""

    def embedded(
        self, vector: TextVector, texts: Sequence[str], purpose: Purpose = "document", deadline: Deadline = NEVER
    ) -> np.ndarray:
        return np.ones((len(texts), vector.dimension), np.float32)


class RecordFinder(FragmentWriter):
    """Arranges rows as the load did, and notes where the wanted ones came from instead of writing them."""

    def __init__(self, task: ReadTask, wanted: frozenset[Record]) -> None:
        target = replace(task.target, filling=_FakeEmbeddings(task.target.filling.settings))
        super().__init__(target, task.versions, settings=task.settings)
        self.places: Locations = {}
        self._wanted: dict[tuple[str, str], list[str]] = {}
        for key, column, value in wanted:
            self._wanted.setdefault((key, column), []).append(value)

    def _store(self, key: str, held: ArrangedRows) -> None:
        for (of_key, column), values in self._wanted.items():
            if of_key == key:
                self._note(key, column, held.rows.column(column), values, held.origins)

    def note_named(self, split: int, named: NamedRows) -> None:
        values = self._wanted.get((named.key, "id"), [])
        lines = named.lines.to_numpy(zero_copy_only=False)
        self._note(
            named.key, "id", named.ids, values, lambda places: [(split, line) for line in lines[places].tolist()]
        )

    def _note(
        self, key: str, column: str, cells: Any, values: list[str], origins: Callable[[Any], list[tuple[int, int]]]
    ) -> None:
        rows = np.flatnonzero(pc.is_in(cells, value_set=pa.array(values, pa.string())).to_numpy(zero_copy_only=False))
        for value, place in zip(cells.take(pa.array(rows)).to_pylist(), origins(rows), strict=True):
            self.places[key, column, value] = max(self.places.get((key, column, value), place), place)


def locate_in_bundle(task: LocateTask) -> Locations:
    finder = RecordFinder(task.read, task.wanted)
    for split in task.read.splits:
        for rows in SplitReader(task.read.target, split, task.read.form).read():
            if isinstance(rows, NamedRows):
                finder.note_named(split.index, rows)
            else:
                finder.add(split.index, rows)
    finder.finish()
    return finder.places


def locate(findings: list[BrokenRule], tasks: list[ReadTask], runner: Runner) -> list[tuple[int, int] | None]:
    """Split and line of each finding's record; None when the input has none that is to blame."""
    records = [finding.check.records(finding.violation) for finding in findings]
    wanted = frozenset(record for candidates in records for record in candidates)
    if not wanted:
        return [None] * len(findings)
    places = locations(wanted, tasks, runner)
    return [next((places[record] for record in candidates if record in places), None) for candidates in records]


def locations(wanted: frozenset[Record], tasks: list[ReadTask], runner: Runner) -> Locations:
    """Where records are in the input; those that are not there are left out."""
    places: Locations = {}
    for in_bundle in runner.map("find the records", locate_in_bundle, [LocateTask(task, wanted) for task in tasks]):
        for record, place in in_bundle.items():
            places[record] = max(places.get(record, place), place)
    return places
