"""Which committed rows a merge or a patch replaces, and which of them keep their values.

The check of ids finds pairs: the address of a committed row, and that of the new row that takes its place. A task that finds many writes
them to a file of the load, in the order of the committed rows. Other tasks read the pairs of a few fragments from all files, compare the
rows, and return sets of addresses. The driver holds these sets, and never a pair of many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.changes.stored_rows import rows_at
from omnigraph.changes.table_diff import differs, value_columns
from omnigraph.tables.addresses import OFFSET_BITS, RowSet
from omnigraph.tables.ascending import distinct, runs
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import Runner
from omnigraph.tasks.target import TableVersion, Target

if TYPE_CHECKING:
    Integers = np.ndarray[Any, Any]

MAX_HELD_PAIRS = 65_536
"""Pairs of one task that travel to the driver instead of through a file."""
PAIR_BYTES = 16

MAX_TASK_ROWS = 1_048_576
MAX_TASK_BYTES = 256 * 1024 * 1024
"""What a task holds of each side."""


@dataclass(frozen=True)
class PairFolder:
    """Where tasks write the pairs that they find."""

    path: str
    max_held: int

    def keep(self, target: Target, pairs: pa.Table) -> Pairs:
        """`pairs`: columns old and new."""
        old, new = (pairs.column(name).to_numpy() for name in ("old", "new"))
        order = np.argsort(old, kind="stable")
        rows = np.stack([old[order], new[order]], axis=1).astype(np.uint64, copy=False)
        by_fragment = runs(rows[:, 0] >> np.uint64(OFFSET_BITS)) if len(rows) else []
        fragments = np.array([fragment for fragment, _ in by_fragment], np.uint64)
        starts = np.array([0, *(places.stop for _, places in by_fragment)], np.int64)
        if len(rows) <= self.max_held:
            return Pairs(fragments, starts, rows.tobytes())
        key = f"{self.path}/{uuid4().hex}"
        target.store.put(key, rows.tobytes())
        return Pairs(fragments, starts, key)


@dataclass(frozen=True)
class Pairs:
    """What one task found: the fragments of the committed rows, ascending, and where the pairs of each start among all. `content`: the
    pairs themselves, or the key of the file that has them."""

    fragments: Integers
    starts: Integers
    content: bytes | str

    def __len__(self) -> int:
        return int(self.starts[-1])

    def span(self, first: int, last: int) -> Span | None:
        """The pairs of the fragments from the first to the last; None if there are none."""
        begin, end = np.searchsorted(self.fragments, np.array([first, last + 1], np.uint64)).tolist()
        offset, stop = (int(self.starts[place]) * PAIR_BYTES for place in (begin, end))
        if offset == stop:
            return None
        if isinstance(self.content, bytes):
            return Span(self.content[offset:stop], 0, stop - offset)
        return Span(self.content, offset, stop - offset)


@dataclass(frozen=True)
class Span:
    """Neighbouring pairs, or the part of a file that has them."""

    content: bytes | str
    offset: int
    length: int

    def read(self, target: Target) -> Integers:
        data = self.content
        if isinstance(data, str):
            (data,) = target.store.get_ranges(data, [(self.offset, self.length)])
        return np.frombuffer(data, np.uint64).reshape(-1, 2)


@dataclass(frozen=True)
class ReplacedRows:
    """Committed rows that others take the place of, and those of them that keep their values."""

    rows: RowSet
    unchanged: RowSet


@dataclass(frozen=True)
class ComparisonTask:
    """A task: the pairs of a few fragments of one type."""

    target: Target
    key: str
    old: TableVersion
    new: TableVersion
    spans: tuple[Span, ...]
    step: int
    """How many pairs are compared at once."""


def find_replaced(
    target: Target, key: str, committed: Table, incoming: TableVersion, pairs: Sequence[Pairs], runner: Runner
) -> ReplacedRows:
    step = _task_rows(committed)
    tasks = [
        ComparisonTask(target, key, TableVersion.of(committed), incoming, spans, step) for spans in _spans(pairs, step)
    ]
    results = runner.map("compare", compare, tasks)
    return ReplacedRows(
        RowSet.union(*(result.rows for result in results)), RowSet.union(*(result.unchanged for result in results))
    )


def _spans(pairs: Sequence[Pairs], step: int) -> Iterator[tuple[Span, ...]]:
    """The pairs of whole fragments, about `step` at a time."""
    if not any(map(len, pairs)):
        return
    fragments = distinct(np.concatenate([task_pairs.fragments for task_pairs in pairs]))
    counts = np.zeros(len(fragments), np.int64)
    for task_pairs in pairs:
        counts[np.searchsorted(fragments, task_pairs.fragments)] += np.diff(task_pairs.starts)
    first = held = 0
    for place, count in enumerate(counts.tolist()):
        if held and held + count > step:
            yield _of_fragments(pairs, int(fragments[first]), int(fragments[place - 1]))
            first, held = place, 0
        held += count
    yield _of_fragments(pairs, int(fragments[first]), int(fragments[-1]))


def _of_fragments(pairs: Sequence[Pairs], first: int, last: int) -> tuple[Span, ...]:
    return tuple(span for task_pairs in pairs if (span := task_pairs.span(first, last)) is not None)


def compare(task: ComparisonTask) -> ReplacedRows:
    pairs = np.concatenate([span.read(task.target) for span in task.spans])
    # Of a dry run, two new rows may have the id of one committed row.
    old, places = np.unique(pairs[:, 0], return_index=True)
    new, unchanged = pairs[places, 1], RowSet()
    for start in range(0, len(old), task.step):
        part = slice(start, start + task.step)
        unchanged.add(_unchanged(task, old[part], new[part]))
    return ReplacedRows(RowSet.of(old), unchanged)


def _unchanged(task: ComparisonTask, old: Integers, new: Integers) -> Integers:
    """The committed rows whose values are the same. `old` ascends."""
    entity = task.target.catalog.tables[task.key]
    before = rows_at(task.target.open(task.old), old, value_columns(entity))
    after = rows_at(task.target.open(task.new), new, value_columns(entity))
    # Rows come in the order of their addresses; the pairs are in that of the old ones.
    order = np.argsort(new)
    if not np.array_equal(order, np.arange(len(order))):
        after = after.take(np.argsort(order))
    same: Integers = old[~differs(before, after, entity)]
    return same


def _task_rows(table: Table) -> int:
    size = sum(fragment.bytes for fragment in table.fragments)
    return max(256, min(MAX_TASK_ROWS, MAX_TASK_BYTES * table.rows // max(size, 1)))
