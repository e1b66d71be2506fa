"""The difference between a version and the fragments that an array was built from: rows that are gone, and fragments that were
added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.tables.adjacency.segment import Arrays, Covered
from omnigraph.tables.changed_table import INLINE_FRAGMENT
from omnigraph.tables.fragment import Fragment
from omnigraph.tables.table import Table
from omnigraph.values.inline_rows import Inline, InlineChange

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Cover:
    """`gone`: covered rows that the version lacks, ascending. Rows are counted through all covered fragments, in order."""

    gone: np.ndarray
    rest: tuple[Fragment, ...]
    """Fragments of the version that are not covered."""
    present: tuple[tuple[int, int, Fragment], ...]
    """Covered fragments that the version still has: first row, end row, and the fragment at that version."""

    def with_inline_of(self, table: Table) -> Cover:
        """The cover of a version that differs only in inline rows, none of which replaces another row."""
        others = tuple(fragment for fragment in self.rest if fragment.id != INLINE_FRAGMENT)
        return Cover(self.gone, others + table.fragments[-1:] if table.inline.row_count else others, self.present)

    @property
    def changed_rows(self) -> int:
        """By how many rows the version differs from the covered fragments."""
        return len(self.gone) + sum(fragment.rows for fragment in self.rest)

    @property
    def is_exact(self) -> bool:
        return len(self.gone) == 0 and not self.rest


def added_since(version: int, inline: Inline, table: Table) -> Sequence[InlineChange] | None:
    """The inline changes that a version has on top of another of the same table; None if they do more than add rows."""
    changes = table.inline
    if table.version != version or changes[: len(inline)] != inline:
        return None
    added = changes[len(inline) :]
    return None if any(change.masked for change in added) else added


def covers_of(table: Table, fragments: Sequence[Fragment] | None = None) -> tuple[Covered, ...]:
    """`fragments`: those of the version that are covered; by default all."""
    return tuple(
        Covered(fragment.files, fragment.deletions, table.stored_rows[fragment.id])
        for fragment in (table.fragments if fragments is None else fragments)
    )


def cover(table: Table, covers: Sequence[Covered], arrays: Arrays) -> Cover:
    """Compare a version with the covered fragments. The array `deleted` has the rows that were deleted already."""
    import numpy as np

    by_files = {fragment.files: fragment for fragment in table.fragments}
    gone: list[np.ndarray] = []
    present: list[tuple[int, int, Fragment]] = []
    first = 0
    for covered in covers:
        last = first + covered.rows
        fragment = by_files.get(covered.files)
        newly = None if fragment is None else _newly_deleted(table, fragment, covered, first, arrays)
        if fragment is None or newly is None:
            gone.append(np.setdiff1d(np.arange(first, last), arrays.whole("deleted"), assume_unique=True))
        else:
            gone.append(newly)
            present.append((first, last, fragment))
            del by_files[covered.files]
        first = last
    rest = tuple(fragment for fragment in table.fragments if fragment.files in by_files)
    return Cover(np.concatenate(gone) if gone else np.zeros(0, np.int64), rest, tuple(present))


def _newly_deleted(table: Table, fragment: Fragment, covered: Covered, first: int, arrays: Arrays) -> np.ndarray | None:
    """The rows deleted since; None if deleted rows are back."""
    import numpy as np

    if fragment.deletions == covered.deletions:
        return np.zeros(0, np.int64)
    now = table.deleted_offsets(fragment) + first
    if covered.deletions == "":
        return now
    before = arrays.whole("deleted")
    before = before[np.searchsorted(before, first) : np.searchsorted(before, first + covered.rows)]
    newly = np.setdiff1d(now, before, assume_unique=True)
    return newly if len(newly) + len(before) == len(now) else None
