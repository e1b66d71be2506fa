"""A node table at one version: which node numbers are live, in which order, and its columns by node number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.tables.addresses import OFFSET_BITS, Fragment
from omnigraph.tables.adjacency.numbering import Cover, Numbering, added_since, cover
from omnigraph.tables.changed_table import INLINE_FRAGMENT
from omnigraph.tables.table import Table
from omnigraph.values.inline_rows import NO_INLINE, Inline


@dataclass(frozen=True)
class Nodes:
    """Node numbers below `size` exist here; `live` says which of them the version has (None: all)."""

    numbering: Numbering
    size: int
    live: np.ndarray | None
    cover: Cover
    rest: tuple[tuple[Fragment, np.ndarray], ...]
    """Fragments that are not covered, with the node numbers of their rows."""
    version: int = 0
    inline: Inline = NO_INLINE
    """With `version`: the state of the table."""
    lineage: object = field(default_factory=object)
    """Shared by versions that were made from one another by adding nodes."""

    @property
    def nbytes(self) -> int:
        return (0 if self.live is None else self.size) + sum(int(numbers.nbytes) for _, numbers in self.rest)

    @property
    def rows(self) -> int:
        return self.size if self.live is None else int(self.live.sum())

    @property
    def is_plain(self) -> bool:
        """Whether all numbers are live and in the order of their ids."""
        return self.live is None and self.size == len(self.numbering.base)

    def has_grown_from(self, other: Nodes) -> bool:
        """Whether this is the other version, possibly with more nodes."""
        return self.lineage is other.lineage and self.size >= other.size

    def has_all(self, numbers: Sequence[int]) -> bool:
        """Whether all of a few node numbers are live."""
        if self.live is None:
            return max(numbers, default=-1) < self.size
        return all(number < self.size and self.live[number] for number in numbers)

    def followed(self, table: Table, most_changed: int) -> Nodes | None:
        """A later version that only adds a few nodes, all with new ids; None for any other version."""
        changes = added_since(self.version, self.inline, table)
        if changes is None:
            return None
        count = sum(len(change.rows) for change in changes)
        numbers = self.numbering.of_changes(table.inline, "id")
        if numbers[len(numbers) - count :].tolist() != list(range(self.size, self.size + count)):
            return None
        if self.cover.changed_rows + count > most_changed:
            return None
        covered = self.cover.with_inline_of(table)
        rest = (
            *(pair for pair in self.rest if pair[0].id != INLINE_FRAGMENT),
            *((fragment, numbers) for fragment in covered.rest[-1:] if fragment.id == INLINE_FRAGMENT),
        )
        live = None if self.live is None else np.concatenate([self.live, np.ones(count, bool)])
        return Nodes(self.numbering, self.size + count, live, covered, rest, table.version, table.inline, self.lineage)

    def numbers(self, ids: pa.Array) -> np.ndarray:
        """The number of each id; -1 if the version does not have it."""
        numbers = self.numbering.numbers(ids)
        numbers[numbers >= self.size] = -1
        if self.live is not None:
            numbers[~self.live[numbers]] = -1
        return numbers

    def find(self, ids: Sequence[str]) -> np.ndarray:
        """The numbers of those of a few ids that the version has."""
        numbers = [number for number in self.numbering.find(ids) if 0 <= number < self.size]
        if self.live is not None:
            numbers = [number for number in numbers if self.live[number]]
        return np.array(numbers, np.int32)

    def ids(self, numbers: np.ndarray) -> pa.Array:
        return self.numbering.ids(numbers)

    def sort_keys(self, numbers: np.ndarray) -> list[Any]:
        """Values that sort as the ids of a few numbers do: the numbers themselves, unless one of the ids arrived after the sorted
        ones."""
        listed: list[Any] = numbers.tolist()
        return listed if max(listed, default=0) < len(self.numbering.base) else self.numbering.texts(listed)

    def order_keys(self, numbers: np.ndarray) -> np.ndarray:
        """Integers that sort as the ids of the given numbers do."""
        size = len(self.numbering.base)
        if self.size == size or len(numbers) == 0 or int(numbers.max()) < size:
            return numbers
        keys = numbers.astype(np.int64) << self._arrived_bits
        late = numbers >= size
        keys[late] = self._arrived_keys[numbers[late] - size]
        return keys

    @cached_property
    def _arrived_bits(self) -> int:
        return max(self.size - len(self.numbering.base), 1).bit_length()

    @cached_property
    def _arrived_keys(self) -> np.ndarray:
        """Where the ids that arrived after the sorted ones belong among them."""
        arrived = self.numbering.arrived(self.size)
        order = sorted(range(len(arrived)), key=lambda place: arrived[place].encode())
        below = np.asarray(self.numbering.base.lower_bounds([arrived[place] for place in order]), np.int64)
        keys = np.empty(len(arrived), np.int64)
        keys[order] = (below << self._arrived_bits) - len(arrived) + np.arange(len(arrived))
        return keys

    @cached_property
    def living(self) -> np.ndarray:
        """The live numbers, in the order of their ids."""
        base = self.numbering.base
        numbers = np.arange(len(base), dtype=np.int32)
        arrived = self.numbering.arrived(self.size)
        if arrived:
            order = sorted(range(len(arrived)), key=lambda place: arrived[place].encode())
            places = base.lower_bounds([arrived[place] for place in order])
            numbers = np.insert(numbers, places, np.array(order, np.int32) + len(base))
        return numbers if self.live is None else numbers[self.live[numbers]]

    @cached_property
    def _ordinals(self) -> np.ndarray | None:
        if self.is_plain:
            return None
        ordinals = np.full(self.size, -1, np.int32)
        ordinals[self.living] = np.arange(len(self.living), dtype=np.int32)
        return ordinals

    def ordinals(self, numbers: np.ndarray) -> np.ndarray:
        """Positions of ids among the sorted ids of the version; these are the same in every numbering."""
        return numbers if self._ordinals is None else self._ordinals[numbers]

    def ids_at(self, ordinals: np.ndarray) -> pa.Array:
        return self.ids(ordinals if self._ordinals is None else self.living[ordinals])

    # ------------------------------------------------------------ rows

    @cached_property
    def moved(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers whose rows are not covered, ascending, and the positions of these rows, counted through all fragments not
        covered."""
        if not self.rest:
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        numbers = np.concatenate([numbers for _, numbers in self.rest])
        order = np.argsort(numbers, kind="stable")
        return numbers[order], order

    def addresses(self, table: Table, numbers: np.ndarray) -> np.ndarray:
        """Row addresses of the given live numbers."""
        base, (moved, _) = self.numbering.base, self.moved
        addresses = np.zeros(len(numbers), np.uint64)
        at = np.searchsorted(moved, numbers)
        at[at == len(moved)] = 0
        is_moved = moved[at] == numbers if len(moved) else np.zeros(len(numbers), bool)
        plain = np.flatnonzero(~is_moved)
        listed = numbers[plain].tolist()
        order = base.arrays.held("order")
        if order is None:
            parts = base.arrays.slices("order", listed, [number + 1 for number in listed])
            rows = np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)
        else:
            rows = order[listed].astype(np.int64)
        starts = np.array([first for first, _, _ in self.cover.present], np.int64)
        ids = np.array([fragment.id for _, _, fragment in self.cover.present], np.uint64)
        owner = np.searchsorted(starts, rows, "right") - 1
        if len(rows):
            addresses[plain] = ids[owner] << np.uint64(OFFSET_BITS) | (rows - starts[owner]).astype(np.uint64)
        if is_moved.any():
            addresses[is_moved] = self._rest_addresses(table)[self.moved[1][at[is_moved]]]
        return addresses

    def addresses_of(self, table: Table, numbers: list[int]) -> list[int]:
        """Like `addresses`, for a few numbers."""
        order = self.numbering.base.arrays.held("order")
        if order is None or (self.rest and any(map(self._is_moved, numbers))):
            addresses: list[int] = self.addresses(table, np.array(numbers, np.int32)).tolist()
            return addresses
        starts, ids = self._covered
        rows = [int(order[number]) for number in numbers]
        owners = [bisect_right(starts, row) - 1 for row in rows]
        return [ids[owner] << OFFSET_BITS | row - starts[owner] for owner, row in zip(owners, rows, strict=True)]

    def _is_moved(self, number: int) -> bool:
        moved, _ = self.moved
        place = moved.searchsorted(number)
        return bool(place < len(moved) and moved[place] == number)

    @cached_property
    def _covered(self) -> tuple[list[int], list[int]]:
        """First row and id of each covered fragment."""
        present = self.cover.present
        return [first for first, _, _ in present], [fragment.id for _, _, fragment in present]

    def _rest_addresses(self, table: Table) -> np.ndarray:
        """Addresses of all rows of the fragments that are not covered."""
        parts = []
        for fragment, numbers in self.rest:
            live = table.live_offsets(fragment)
            assert len(live) == len(numbers), "a number for each row"
            parts.append(np.uint64(fragment.id << OFFSET_BITS) | live.astype(np.uint64))
        return np.concatenate(parts)


@dataclass(frozen=True)
class NumberedColumn:
    """A column by node number: below `len(base)` the value of the covered row, unless the node's row has moved."""

    base: pa.Array
    moved: np.ndarray
    values: pa.Array
    """Values of the numbers in `moved`."""
    size: int

    @property
    def nbytes(self) -> int:
        """Without the base, which is cached separately."""
        return int(self.moved.nbytes + self.values.nbytes)

    @cached_property
    def whole(self) -> pa.Array:
        if len(self.moved) == 0 and self.size == len(self.base):
            return self.base
        places = np.full(self.size, len(self.base) + len(self.values), np.int64)
        places[: len(self.base)] = np.arange(len(self.base))
        places[self.moved] = len(self.base) + np.arange(len(self.moved))
        return pa.concat_arrays([self.base, self.values, pa.nulls(1, self.base.type)]).take(pa.array(places))

    def values_at(self, numbers: list[int]) -> list[Any]:
        """The values of a few numbers."""
        if len(self.moved):
            values: list[Any] = self.take(np.array(numbers, np.int32)).to_pylist()
            return values
        return [self.base[number].as_py() for number in numbers]

    def take(self, numbers: np.ndarray) -> pa.Array:
        if len(self.moved) == 0:
            return self.base.take(pa.array(numbers))
        at = np.searchsorted(self.moved, numbers)
        at[at == len(self.moved)] = 0
        is_moved = self.moved[at] == numbers
        if not is_moved.any():
            return self.base.take(pa.array(numbers))
        plain, others = np.flatnonzero(~is_moved), np.flatnonzero(is_moved)
        cells = pa.concat_arrays([self.base.take(pa.array(numbers[plain])), self.values.take(pa.array(at[others]))])
        return cells.take(pa.array(np.argsort(np.concatenate([plain, others]), kind="stable")))


NumberRows = Callable[[Table, Sequence[Fragment], Numbering], list["np.ndarray"]]
"""Gives the node numbers of the rows of fragments; ids without a number get one."""


MAX_DISTINCT = 4_096


@dataclass(frozen=True)
class CodedColumn:
    """A column with few distinct values, by node number: the position of each value in `values`."""

    codes: np.ndarray
    values: pa.Array
    is_short: bool = True
    """False if there are too many distinct values; `codes` is empty then."""

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes + self.values.nbytes)

    @classmethod
    def of(cls, column: pa.Array) -> CodedColumn:
        if len(column) > MAX_DISTINCT and len(column.slice(0, 4 * MAX_DISTINCT).unique()) > MAX_DISTINCT:
            return cls(np.zeros(0, np.int32), column[:0], is_short=False)
        coded = column.dictionary_encode("encode")
        if len(coded.dictionary) > MAX_DISTINCT:
            return cls(np.zeros(0, np.int32), column[:0], is_short=False)
        return cls(np.asarray(coded.indices).astype(np.int32), coded.dictionary)

    def moved(self, column: NumberedColumn) -> CodedColumn:
        """The codes of a column that has this one's column as its base."""
        if not self.is_short or (len(column.moved) == 0 and column.size == len(self.codes)):
            return self
        both = CodedColumn.of(pa.concat_arrays([self.values, column.values]))
        codes = np.zeros(column.size, np.int32)
        # Dictionary encoding numbers values in the order of first occurrence, so those of the base keep their codes.
        codes[: len(self.codes)] = self.codes
        codes[column.moved] = both.codes[len(self.values) :]
        return CodedColumn(codes, both.values, both.is_short)


def nodes_at(table: Table, numbering: Numbering, number_rows: NumberRows, most_changed: int) -> Nodes | None:
    """The nodes of a version in this numbering; None if it differs too much from the covered rows."""
    base = numbering.base
    covered = cover(table, base.header.covers, base.arrays)
    if covered.changed_rows > most_changed:
        return None
    rest = tuple(zip(covered.rest, number_rows(table, covered.rest, numbering), strict=True))
    size, version = numbering.size, (table.version, table.inline)
    if covered.is_exact and size == len(base):
        return Nodes(numbering, size, None, covered, (), *version)
    if len(covered.gone) == 0 and _all_arrived(rest, len(base), size):
        nodes = Nodes(numbering, size, None, covered, rest, *version)
        return nodes if nodes.rows == table.rows else None
    live = np.zeros(size, bool)
    live[: len(base)] = True
    if len(covered.gone):
        live[base.arrays.whole("numbers")[covered.gone]] = False
    for _, numbers in rest:
        live[numbers] = True
    nodes = Nodes(numbering, size, None if live.all() else live, covered, rest, *version)
    return nodes if nodes.rows == table.rows else None


def _all_arrived(rest: Sequence[tuple[Fragment, np.ndarray]], first: int, size: int) -> bool:
    """Whether the given fragments have every number from `first` on."""
    present = np.zeros(size - first, bool)
    for _, numbers in rest:
        present[numbers[numbers >= first] - first] = True
    return bool(present.all())


def base_column(table: Table, nodes: Nodes, name: str) -> pa.Array:
    """A column of the covered rows, by node number; null for rows of fragments that the version does not have."""
    base, type_ = nodes.numbering.base, table.schema.field(name).type
    stored = {
        first: column
        for (first, _, _), column in zip(
            nodes.cover.present,
            stored_columns(table, name, [fragment for _, _, fragment in nodes.cover.present]),
            strict=True,
        )
    }
    parts, first = [], 0
    for covered in base.header.covers:
        parts.append(stored[first] if first in stored else pa.nulls(covered.rows, type_))
        first += covered.rows
    whole = pa.concat_arrays(parts) if parts else pa.array([], type_)
    order = base.arrays.whole("order")
    is_in_order = len(order) == len(whole) and bool(np.array_equal(order, np.arange(len(order))))
    return whole if is_in_order else whole.take(pa.array(order))


def stored_columns(table: Table, name: str, fragments: list[Fragment]) -> list[pa.Array]:
    """A column of each fragment as stored, including deleted rows."""
    if not fragments:
        return []
    if all(fragment.deletions == "" for fragment in fragments) and (whole := table.stored.read_whole(fragments)):
        return [columns[name] for columns in whole]
    column = table.read_stored([name], [fragment.id for fragment in fragments]).column(0)
    whole = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    parts, first = [], 0
    for fragment in fragments:
        rows = table.stored_rows[fragment.id]
        parts.append(whole.slice(first, rows))
        first += rows
    assert first == len(whole), "every stored row was read"
    return parts
