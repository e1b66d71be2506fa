"""Numbers for the ids of one node table: positions in a sorted list, then positions in order of arrival.

A number never changes its id and no id has two, so data held in numbers stays valid across versions: a version only says which
numbers are live. Numbers of the sorted list sort as their ids do; those of later arrivals do not.
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.tables.addresses import Fragment
from omnigraph.tables.adjacency.segment import Arrays, Covered, Header, HeldArrays, segment_name
from omnigraph.tables.changed_table import INLINE_FRAGMENT
from omnigraph.tables.fragment_columns import PREFIX_BYTES, prefix, prefixes
from omnigraph.tables.table import Table
from omnigraph.values.inline_rows import NO_INLINE, Inline, InlineChange

if TYPE_CHECKING:
    from omnigraph.tables.adjacency.nodes import Nodes


# The difference between a version and the fragments that an array was built from: rows that are gone, and fragments that were
# added.


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
    if fragment.deletions == covered.deletions:
        return np.zeros(0, np.int64)
    now = table.deleted_offsets(fragment) + first
    if covered.deletions == "":
        return now
    before = arrays.whole("deleted")
    before = before[np.searchsorted(before, first) : np.searchsorted(before, first + covered.rows)]
    newly = np.setdiff1d(now, before, assume_unique=True)
    return newly if len(newly) + len(before) == len(now) else None


FEW = 256
"""Up to this many ids are found by binary search; more by `find_many`."""
FENCE = 8_192
"""One prefix out of this many is also stored in `fences`, which tell where to search."""
BYTES_PER_ARRIVAL = 200
MANY = 250_000
"""From this many ids on, searching 8-byte prefixes is faster than searching strings, which no longer fit the processor's
caches."""
UNORDERED_SHARE = 8
"""Ids count as ordered if at most one out of this many is less than its predecessor."""

_serials = itertools.count()


class SortedIds:
    """The ids of some fragments in ascending order, and the row of each."""

    def __init__(self, header: Header, arrays: Arrays, name: str = "") -> None:
        self.header = header
        self.arrays = arrays
        self.name = name
        """Name of the segment it is stored in; "" if it is not stored."""

    @cached_property
    def identity(self) -> str:
        """The name of that segment, or the name it would have: ids of the same rows have the same numbers, stored or not."""
        return self.name or segment_name(self.header)

    def __len__(self) -> int:
        return self.header.count

    @property
    def nbytes(self) -> int:
        return self.arrays.nbytes

    @property
    def texts(self) -> pa.Array:
        """All ids, in order."""
        ends, data = self.arrays.whole("ends"), self.arrays.whole("ids")
        return pa.StringArray.from_buffers(len(self), pa.py_buffer(ends), pa.py_buffer(data))

    def some(self, numbers: Sequence[int]) -> list[str]:
        """The ids of a few numbers."""
        held, data = self.arrays.held("ends"), self.arrays.held("ids")
        if held is not None and data is not None:
            view = data.data
            return [str(view[held[number] : held[number + 1]], "utf-8") for number in numbers]
        bounds = self.arrays.slices("ends", numbers, [number + 2 for number in numbers])
        firsts, lasts = [int(bound[0]) for bound in bounds], [int(bound[1]) for bound in bounds]
        return [bytes(data).decode() for data in self.arrays.slices("ids", firsts, lasts)]

    def find(self, texts: Sequence[str]) -> list[int]:
        """The number of each of a few ids; -1 for an unknown id."""
        prefixes = self.arrays.held("prefixes")
        if prefixes is not None and len(prefixes):
            return self._find_by_prefix(texts, prefixes)
        places = self.lower_bounds(texts)
        known = [place for place in places if place < len(self)]
        known_ids = dict(zip(known, self.some(known), strict=True))
        return [place if known_ids.get(place) == text else -1 for text, place in zip(texts, places, strict=True)]

    def _find_by_prefix(self, texts: Sequence[str], prefixes: np.ndarray) -> list[int]:
        """Compares the full id only where the prefix matches; searches on only if several ids share that prefix."""
        shared = self.header.shared
        skipped, count = len(shared.encode()), len(prefixes)
        wanted = np.array([prefix(text.encode()[skipped:]) for text in texts], np.uint64)
        places = prefixes.searchsorted(wanted)
        is_near = (prefixes[np.minimum(places, count - 1)] == wanted).tolist()
        numbers = []
        for text, place, is_candidate in zip(texts, places.tolist(), is_near, strict=True):
            if not is_candidate or not text.startswith(shared):
                numbers.append(-1)
            elif self.some([place])[0] == text:
                numbers.append(place)
            else:
                numbers += [
                    low if low < count and self.some([low])[0] == text else -1 for low in self.lower_bounds([text])
                ]
        return numbers

    def find_many(self, ids: pa.Array) -> np.ndarray:
        """The number of each of many ids; -1 for an unknown id."""
        shared = self.header.shared
        if len(self) < MANY or (shared and not pc.all(pc.starts_with(ids, shared)).as_py()):
            return self._find_by_hash(ids)
        skipped, own = len(shared.encode()), self.arrays.whole("prefixes")
        if np.any(own[1:] == own[:-1]):
            return self._find_by_hash(ids)
        wanted = prefixes(ids, skipped)
        places = _places(own, wanted)
        ends, lengths = self.arrays.whole("ends"), np.asarray(pc.binary_length(ids))
        is_there = (own[places] == wanted) & (ends[places + 1] - ends[places] == lengths)
        if int(lengths.max()) > skipped + PREFIX_BYTES:
            is_there &= np.asarray(pc.equal(self.texts.take(places), ids))
        return np.where(is_there, places, -1).astype(np.int32)

    def _find_by_hash(self, ids: pa.Array) -> np.ndarray:
        return np.asarray(pc.fill_null(pc.index_in(ids, value_set=self.texts), -1)).astype(np.int32)

    def lower_bounds(self, texts: Sequence[str]) -> list[int]:
        """How many ids are less than each of the given ones."""
        shared = self.header.shared
        places, inside = [0] * len(texts), []
        for place, text in enumerate(texts):
            if text.startswith(shared):
                inside.append(place)
            else:
                places[place] = 0 if text < shared else len(self)
        if not inside or len(self) == 0:
            return places
        skipped = len(shared.encode())
        wanted = np.array([prefix(texts[place].encode()[skipped:]) for place in inside], np.uint64)
        whole = self.arrays.held("prefixes")
        if whole is not None:
            lows, highs = (np.searchsorted(whole, wanted, side).tolist() for side in ("left", "right"))
            for place, low, high in zip(inside, lows, highs, strict=True):
                places[place] = low if low == high else self._bisect(texts[place], low, high)
            return places
        fences = self.arrays.whole("fences")
        firsts = np.maximum(np.searchsorted(fences, wanted, "left") - 1, 0) * FENCE
        lasts = np.minimum(np.searchsorted(fences, wanted, "right") * FENCE, len(self))
        parts = self.arrays.slices("prefixes", firsts.tolist(), lasts.tolist())
        for place, first, number, part in zip(inside, firsts.tolist(), wanted, parts, strict=True):
            low, high = (first + int(np.searchsorted(part, number, side)) for side in ("left", "right"))
            places[place] = low if low == high else self._bisect(texts[place], low, high)
        return places

    def _bisect(self, text: str, low: int, high: int) -> int:
        """Like `lower_bounds`, among ids that share a prefix."""
        if high - low == 1:
            return low if text <= self.some([low])[0] else high
        wanted = text.encode()
        return bisect_left(range(len(self)), wanted, low, high, key=lambda number: self.some([number])[0].encode())


class Numbering:
    """Thread-safe. Two numberings of one table need not agree, so data held in numbers is keyed by the numbering's serial."""

    def __init__(self, base: SortedIds) -> None:
        self.base = base
        self.serial = next(_serials)
        self._arrivals: dict[str, int] = {}
        self._texts: list[str] = []
        self._of_changes: dict[str, tuple[Inline, np.ndarray]] = {}
        """By column: the changes requested last, and their numbers. Most versions add one change to the previous."""
        self._lock = threading.Lock()
        self.latest: Callable[[], Nodes | None] = lambda: None
        """Weak reference to the nodes requested last: the next version often adds only a few."""

    @property
    def nbytes(self) -> int:
        return self.base.nbytes + len(self._texts) * BYTES_PER_ARRIVAL

    @property
    def size(self) -> int:
        return len(self.base) + len(self._texts)

    @property
    def arrivals(self) -> int:
        return len(self._texts)

    def numbers(self, ids: pa.Array, *, add: bool = False) -> np.ndarray:
        """The number of each id. An id without one gets one if `add`, else -1."""
        few = len(ids) <= FEW
        numbers = np.array(self.base.find(ids.to_pylist()), np.int32) if few else self.base.find_many(ids)
        for place in np.flatnonzero(numbers < 0).tolist():
            numbers[place] = self._arrival(ids[place].as_py(), add)
        return numbers

    def find(self, texts: Sequence[str]) -> list[int]:
        """The number of each of a few ids; -1 for an unknown id."""
        numbers = self.base.find(texts)
        if self._texts:
            numbers = [
                self._arrivals.get(text, -1) if number < 0 else number
                for text, number in zip(texts, numbers, strict=True)
            ]
        return numbers

    def of_changes(self, changes: Inline, column: str) -> np.ndarray:
        """The numbers of the ids in a column of inline rows; ids without a number get one. Each change is numbered once: it is
        the same object in all later versions that have its rows."""
        known, numbers = self._of_changes.get(column, (NO_INLINE, np.zeros(0, np.int32)))
        if changes[: len(known)] != known:
            known, numbers = NO_INLINE, np.zeros(0, np.int32)
        if len(changes) > len(known):
            numbers = np.concatenate([numbers, *self._numbers_of_each(changes[len(known) :], column)])
            self._of_changes[column] = (changes, numbers)
        return numbers

    def _numbers_of_each(self, changes: Sequence[InlineChange], column: str) -> list[np.ndarray]:
        key = ("numbers", self.serial, column)
        new = [change for change in changes if change.rows and key not in change.held]
        texts = [row[change.columns.index(column)] for change in new for row in change.rows]
        # Arrived ids are not among the sorted ones, so these need not be searched: the ends of a new edge are often new nodes.
        unknown = [text for text in texts if text not in self._arrivals]
        stored = dict(zip(unknown, self.base.find(unknown) if unknown else (), strict=True))
        pairs = ((text, stored.get(text, -1)) for text in texts)
        numbers = np.array([self._arrival(text, True) if number < 0 else number for text, number in pairs], np.int32)
        first = 0
        for change in new:
            change.held[key] = numbers[first : first + len(change.rows)]
            first += len(change.rows)
        return [change.held[key] for change in changes if change.rows]

    def _arrival(self, text: str, add: bool) -> int:
        if not add:
            return self._arrivals.get(text, -1)
        with self._lock:
            number = self._arrivals.setdefault(text, self.size)
            if number == self.size:
                self._texts.append(text)
            return number

    def ids(self, numbers: np.ndarray) -> pa.Array:
        count = len(self.base)
        if len(numbers) <= FEW:
            return pa.array(self.texts(numbers.tolist()), pa.utf8())
        texts = self.base.texts
        if self._texts and int(numbers.max()) >= count:
            texts = pa.concat_arrays([texts, pa.array(self._texts, pa.utf8())])
        return texts.take(pa.array(numbers))

    def texts(self, numbers: list[int]) -> list[str]:
        """The ids of a few numbers."""
        if not self._texts:
            return self.base.some(numbers)
        count = len(self.base)
        stored = iter(self.base.some([number for number in numbers if number < count]))
        return [next(stored) if number < count else self._texts[number - count] for number in numbers]

    def arrived(self, size: int) -> list[str]:
        """The ids that arrived after the sorted ones, up to a size of the numbering."""
        return self._texts[: size - len(self.base)]


def _places(ordered: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The position of each of many numbers in an ascending array; any position for a number that is not there. Numbers in order
    are found by binary search, which then stays within the processor's caches; others by hashing, which takes half as long for
    them."""
    if np.count_nonzero(wanted[1:] < wanted[:-1]) * UNORDERED_SHARE <= len(wanted):
        return np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.asarray(pc.fill_null(pc.index_in(pa.array(wanted), value_set=pa.array(ordered)), 0))


def sorted_ids(
    ids: pa.Array, rows: np.ndarray, stored_rows: int, covers: tuple[Covered, ...], name: str = ""
) -> SortedIds:
    """Built from live rows: their ids, and the position of each among the `stored_rows` of the covered fragments."""
    order = np.asarray(pc.sort_indices(ids)).astype(np.int64)
    texts = ids.take(order)
    shared = _common_prefix(texts[0].as_py(), texts[-1].as_py()) if len(texts) else ""
    numbers = np.full(stored_rows, -1, np.int32)
    numbers[rows[order]] = np.arange(len(order), dtype=np.int32)
    ends, data = _buffers(texts)
    first = prefixes(texts, len(shared.encode()))
    # Arrays that every read needs come first: they are read together with the header.
    arrays = {
        "fences": first[::FENCE].copy(),
        "deleted": np.flatnonzero(numbers < 0).astype(np.int32),
        "prefixes": first,
        "ends": ends,
        "ids": data,
        "order": rows[order].astype(np.int32),
        "numbers": numbers,
    }
    return SortedIds(Header("nodes", covers, len(texts), shared=shared), HeldArrays(arrays), name)


def _common_prefix(first: str, last: str) -> str:
    different = (place for place, (letter, other) in enumerate(zip(first, last, strict=False)) if letter != other)
    return first[: next(different, min(len(first), len(last)))]


def _buffers(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each string ends, counted from 0, and the bytes of all."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if data is None or len(texts) == 0:
        return np.zeros(len(texts) + 1, np.int32), np.zeros(0, np.uint8)
    return ends - ends[0], np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
