"""A stored version with inline rows on top of it: to a reader, one table.

The inline rows are one more fragment, with its own addresses, after all others. Rows of the stored version that they replace are
masked. Whatever is cached for the stored version stays valid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.tables.addresses import (
    OFFSET_BITS,
    ROW_ADDRESS,
    ROW_ID,
    Fragment,
    fragment_of_address,
    offset_of_address,
)
from omnigraph.tables.inline import arrow_rows
from omnigraph.tables.layout import Layout
from omnigraph.tables.table import Table
from omnigraph.values.arrow import are_among
from omnigraph.values.inline_rows import Inline

INLINE_FRAGMENT = (1 << 31) - 2
"""The id of the fragment of inline rows: Lance never reaches it, and its addresses are positive as signed 64-bit integers."""

MAX_FILTERS = 32
MAX_FILTER_LENGTH = 1_000
"""How many filters' results a table remembers, and the longest filter it remembers."""


class ChangedTable(Table):
    """`stored` is the version beneath, opened on first use. A ChangedTable has no dataset: code that works on files uses
    `stored`."""

    def __init__(
        self, path: str, version: int, layout: Layout | None, inline: Inline, open_stored: Callable[[], Table]
    ) -> None:
        assert layout is not None, "inline rows have a type"
        self.path = path
        self.layout: Layout = layout
        self.version = version
        self.inline = inline
        self.keys = None
        self.grown = None
        self._open_stored = open_stored
        self._beneath: Table | None = None
        self._places_by_filter: dict[str, Sequence[int]] = {}

    @classmethod
    def on(cls, stored: Table, inline: Inline) -> ChangedTable:
        return cls(stored.path, stored.version, stored.layout, inline, lambda: stored)

    @property
    def stored(self) -> Table:
        if self._beneath is None:
            self._beneath = self._open_stored()
        return self._beneath

    # ------------------------------------------------------------ inline rows

    @cached_property
    def inline_rows(self) -> pa.Table:
        return arrow_rows(self.layout, self.inline)

    @cached_property
    def masked(self) -> np.ndarray[Any, Any]:
        """Addresses in the stored version of rows that readers do not see, ascending."""
        return np.sort(np.array([address for change in self.inline for address in change.masked], dtype=np.uint64))

    def masked_offsets(self, fragment: int) -> np.ndarray[Any, Any]:
        low, high = np.searchsorted(self.masked, np.array([fragment, fragment + 1], np.uint64) << np.uint64(32))
        offsets: np.ndarray[Any, Any] = self.masked[low:high] & np.uint64((1 << OFFSET_BITS) - 1)
        return offsets

    @cached_property
    def schema(self) -> pa.Schema:
        return self.layout.schema

    @cached_property
    def rows(self) -> int:
        return self.stored.rows - self.inline.masked_count + self.inline.row_count

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        fragments = list(self.stored.fragments)
        if self.inline.masked_count:
            masked = {address >> OFFSET_BITS for change in self.inline for address in change.masked}
            fragments = [self._masked(fragment) if fragment.id in masked else fragment for fragment in fragments]
        if self.inline.row_count:
            name, rows, size = f"inline:{self.digest}", self.inline.row_count, self.inline.size
            fragments.append(Fragment(INLINE_FRAGMENT, (name,), "", rows, size))
        return tuple(fragments)

    def _masked(self, fragment: Fragment) -> Fragment:
        offsets = self.masked_offsets(fragment.id).tolist()
        deletions = f"{fragment.deletions}+masked:{_digest(repr(offsets))}"
        return replace(fragment, deletions=deletions, rows=fragment.rows - len(offsets))

    @cached_property
    def stored_rows(self) -> dict[int, int]:
        return {**self.stored.stored_rows, INLINE_FRAGMENT: self.inline.row_count}

    def deleted_offsets(self, fragment: Fragment) -> np.ndarray[Any, Any]:
        if fragment.id == INLINE_FRAGMENT:
            return np.zeros(0, np.int64)
        beneath = next(candidate for candidate in self.stored.fragments if candidate.id == fragment.id)
        masked = self.masked_offsets(fragment.id).astype(np.int64)
        return np.union1d(self.stored.deleted_offsets(beneath), masked)

    def read_stored(self, columns: Sequence[str], fragments: Sequence[int]) -> pa.Table:
        # Deleted rows may lack values that live rows must have.
        shape = pa.schema([field.with_nullable(True) for field in self.shape(columns, False)])
        beneath = [fragment for fragment in fragments if fragment != INLINE_FRAGMENT]
        pieces = [self.stored.read_stored(columns, beneath).cast(shape)] if beneath else []
        if INLINE_FRAGMENT in fragments:
            pieces.append(self.inline_rows.select(list(columns)).cast(shape))
        return pa.concat_tables(pieces) if pieces else shape.empty_table()

    def rows_at(self, addresses: np.ndarray[Any, Any], columns: Sequence[str]) -> pa.Table:
        is_own = addresses >> OFFSET_BITS == INLINE_FRAGMENT
        if not is_own.any():
            return self.stored.rows_at(addresses, columns)
        shape = self.shape(columns, False)
        places = (addresses[is_own] & ((1 << OFFSET_BITS) - 1)).tolist()
        if is_own.all():
            return self._rows_at(places, shape)
        beneath = self.stored.rows_at(addresses[~is_own], columns).select(shape.names).cast(shape)
        rows = pa.concat_tables([beneath, self._rows_at(places, shape)])
        order = np.concatenate([np.flatnonzero(~is_own), np.flatnonzero(is_own)])
        return rows.take(pa.array(np.argsort(order)))

    def values_at(self, addresses: Sequence[int], columns: Sequence[str]) -> dict[str, list[Any]]:
        if all(fragment_of_address(address) != INLINE_FRAGMENT for address in addresses):
            return self.stored.values_at(addresses, columns)
        return super().values_at(addresses, columns)

    @cached_property
    def held_columns(self) -> dict[int, frozenset[str]]:
        named = [frozenset(change.columns) for change in self.inline if change.rows]
        own = {INLINE_FRAGMENT: frozenset.intersection(*named)} if named else {}
        return {**self.stored.held_columns, **own}

    @cached_property
    def digest(self) -> str:
        """Digest of the inline changes."""
        return self.inline.digest.hex()[:24]

    @cached_property
    def searchable(self) -> Table:
        """The inline rows as an in-memory Lance table, so that filters mean exactly the same as in a stored one."""
        import lance

        rows = self.inline_rows
        # Its columns have the names that readers use, so it needs no layout.
        return Table(self.path, lance.write_dataset(rows, f"memory://inline-{id(self)}", session=lance.Session()))

    # ------------------------------------------------------------ reading

    def stored_column(self, name: str) -> str | None:
        return self.stored.stored_column(name)

    def stored_filter(self, filter: str | None) -> str | None:
        raise AssertionError("only the stored table has filters on stored columns")

    def count(self, filter: str) -> int:
        count = self.stored.count(filter)
        if len(self.masked):
            members = ", ".join(map(str, self.masked.tolist()))
            text = f"({filter}) AND {ROW_ADDRESS} IN ({members})"
            count -= self.stored.read([], text, with_address=True).num_rows
        return count + len(self._satisfying(filter))

    def _satisfying(self, filter: str | None) -> Sequence[int]:
        """Positions of the inline rows that a filter keeps. They are remembered: finding them takes as long as scanning 10,000
        stored rows."""
        if not self.inline.row_count or filter == "false":
            return ()
        if filter is None:
            return range(self.inline.row_count)
        if (places := self._places_by_filter.get(filter)) is None:
            kept = self.searchable.read([], filter, with_address=True).column(ROW_ADDRESS).to_pylist()
            places = tuple(offset_of_address(address) for address in kept)
            if len(filter) <= MAX_FILTER_LENGTH and len(self._places_by_filter) < MAX_FILTERS:
                self._places_by_filter[filter] = places
        return places

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        *,
        fragments: Iterable[int] | None = None,
        with_address: bool = False,
        with_row_id: bool = False,
        with_deleted: bool = False,
        batch_rows: int | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        assert not with_row_id, "inline rows have no row ids"
        assert not with_deleted, "`read_stored` reads deleted rows"
        chosen = None if fragments is None else list(fragments)
        has_own = chosen is None or INLINE_FRAGMENT in chosen
        beneath = None if chosen is None else [fragment for fragment in chosen if fragment != INLINE_FRAGMENT]
        reader = None
        if beneath is None or beneath:
            reader = self.stored.scan(
                columns,
                filter,
                fragments=beneath,
                with_address=with_address or bool(len(self.masked)),
                batch_rows=batch_rows,
                limit=None if limit is None else limit + len(self.masked),
            )
        shape = self.shape(columns, with_address)
        places = self._satisfying(filter) if has_own else ()
        return pa.RecordBatchReader.from_batches(shape, _limited(self._batches(reader, places, shape), limit))

    def _batches(self, reader: Any, places: Sequence[int], shape: pa.Schema) -> Iterator[Any]:
        for batch in () if reader is None else reader:
            for kept in self._slices(batch):
                yield pa.RecordBatch.from_arrays([kept.column(name) for name in shape.names], schema=shape)
        if len(places):
            yield from self._rows_at(places, shape).combine_chunks().to_batches()

    def _slices(self, batch: Any) -> Iterator[Any]:
        """A batch of a scan, cut at the masked rows, so that nothing is copied."""
        if not len(self.masked) or not batch.num_rows:
            yield batch
            return
        addresses = batch.column(ROW_ADDRESS).to_numpy(zero_copy_only=False)
        if not (addresses[1:] > addresses[:-1]).all():
            yield self.unmasked(batch)
            return
        low, high = np.searchsorted(self.masked, [addresses[0], addresses[-1] + np.uint64(1)])
        masked = self.masked[low:high]
        places = np.searchsorted(addresses, masked)
        start = 0
        for place in places[addresses[places] == masked].tolist():
            if place > start:
                yield batch.slice(start, place - start)
            start = place + 1
        if start < batch.num_rows:
            yield batch.slice(start)

    def unmasked(self, rows: Any) -> Any:
        """Rows of the stored version, with their addresses, without the masked ones."""
        if not len(self.masked) or not rows.num_rows:
            return rows
        column = rows.column(ROW_ADDRESS)
        addresses = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
        low, high = np.searchsorted(self.masked, [addresses.min(), addresses.max()])
        if low == high and (low == len(self.masked) or self.masked[low] > addresses.max()):
            return rows
        hidden = np.isin(addresses, self.masked)
        return rows.filter(pa.array(~hidden)) if hidden.any() else rows

    def _rows_at(self, places: Sequence[int], shape: pa.Schema) -> pa.Table:
        rows = self.inline_rows
        is_all = list(places) == list(range(rows.num_rows))
        chosen = rows if is_all else rows.take(pa.array(places, pa.int64()))
        arrays = [
            pa.array([self._address(place) for place in places], pa.uint64())
            if name == ROW_ADDRESS
            else chosen.column(name)
            for name in shape.names
        ]
        return pa.Table.from_arrays(arrays, schema=shape)

    def _address(self, place: int) -> int:
        return INLINE_FRAGMENT << OFFSET_BITS | place

    def lookup(
        self,
        name: str,
        values: Sequence[object],
        columns: Sequence[str] | None = None,
        *,
        with_address: bool = False,
        filter: str | None = None,
    ) -> pa.Table:
        wanted = list(dict.fromkeys(values))
        places = self._find(name, wanted, filter)
        shape = self.shape(columns, with_address)
        # An inline row is the only row with its id.
        others = [value for value in wanted if value not in self.inline.places] if name == "id" else wanted
        if not others:
            return self._rows_at(places, shape)
        masks = bool(len(self.masked))
        rows = self.stored.lookup(name, others, columns, with_address=with_address or masks, filter=filter)
        rows = self.unmasked(rows) if masks else rows
        rows = rows.select(shape.names)
        if not places:
            return rows
        # Not `Table.cast`, which refuses a null in a required column: under a merged schema a row may lack one, which is a conflict.
        stored = pa.Table.from_arrays([rows.column(field.name).cast(field.type) for field in shape], schema=shape)
        return pa.concat_tables([stored, self._rows_at(places, shape)])

    def addresses_of(self, ids: Collection[str]) -> dict[str, int]:
        places = self.inline.places
        addresses = {id: self._address(places[id]) for id in ids if id in places}
        others = [id for id in ids if id not in places]
        beneath = self.stored.addresses_of(others) if others else {}
        if beneath and self.inline.masked_count:
            masked = self.inline.masked_addresses
            beneath = {id: address for id, address in beneath.items() if address not in masked}
        return beneath | addresses

    def _find(self, name: str, wanted: Sequence[Any], filter: str | None) -> list[int]:
        """Positions of the inline rows that have one of these values, ascending."""
        if name == "id":
            places = sorted(self.inline.places[value] for value in wanted if value in self.inline.places)
        elif self.inline.row_count:
            column = self.inline_rows.column(name)
            places = pc.indices_nonzero(are_among(column, pa.array(wanted, column.type))).to_pylist()
        else:
            places = []
        if filter is None or not places:
            return places
        kept = set(self._satisfying(filter))
        return [place for place in places if place in kept]

    def place_of(self, id: str) -> int | None:
        """The address of the inline row with this id; None if there is none."""
        place = self.inline.places.get(id)
        return None if place is None else self._address(place)

    def addresses_unlike(self, other: ChangedTable) -> np.ndarray[Any, Any]:
        """Addresses of the inline rows that the other table does not have inline."""
        theirs = other.inline.row_texts
        ids = [id for id, row in self.inline.row_texts.items() if theirs.get(id) != row]
        return np.array([self._address(self.inline.places[id]) for id in ids], dtype=np.uint64)

    def ids_at(self, addresses: Iterable[int]) -> list[str]:
        """The ids of inline rows, by address."""
        ids = list(self.inline.places)
        return [ids[offset_of_address(address)] for address in addresses]

    def newest_addresses(self) -> list[int]:
        """Addresses of the rows of the last change."""
        rows = self.inline.row_count
        return [self._address(place) for place in range(rows - len(self.inline[-1].rows), rows)]

    # ------------------------------------------------------------ searching

    def all_hits(self, columns: Sequence[str], filter: str | None) -> pa.Table:
        """The inline rows that a filter keeps, in the form of search results."""
        places = self._satisfying(filter)
        return self._rows_at(places, self.shape(columns, True)).rename_columns([*columns, ROW_ID])

    def has_values(self, column: str) -> bool:
        return bool(self.inline.row_count) and self.inline_rows.column(column).null_count < self.inline_rows.num_rows

    def placed(self, hits: pa.Table) -> pa.Table:
        """Results of a search of `searchable`, with row ids that are unique in the whole table."""
        ids = [self._address(offset_of_address(id)) for id in hits.column(ROW_ID).to_pylist()]
        place = hits.schema.get_field_index(ROW_ID)
        return hits.set_column(place, ROW_ID, pa.array(ids, pa.uint64()))

    def looks_up_in_memory(self, name: str, columns: Sequence[str]) -> bool:
        return self.stored.looks_up_in_memory(name, columns)

    def take_addresses(self, addresses: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        unique = sorted(set(addresses))
        shape = self.shape(columns, True)
        own = [offset_of_address(address) for address in unique if fragment_of_address(address) == INLINE_FRAGMENT]
        beneath = unique[: len(unique) - len(own)]
        pieces = [self.stored.take_addresses(beneath, columns).select(shape.names).cast(shape)] if beneath else []
        return pa.concat_tables([*pieces, self._rows_at(own, shape)])


def masks_left(stored: Table, inline: Inline) -> Inline:
    """The changes without masks of rows that this version lacks; it has the same fragments as the version they were made for, or
    fewer."""
    fragments = {fragment.id: fragment for fragment in stored.fragments}
    live: set[int] = set()
    for address in inline.masked_addresses:
        fragment = fragments.get(fragment_of_address(address))
        if fragment is not None:
            gone, offset = stored.deleted_offsets(fragment), offset_of_address(address)
            place = int(np.searchsorted(gone, offset))
            if place == len(gone) or gone[place] != offset:
                live.add(address)
    left = (change.masking_only(live) for change in inline)
    return Inline(change for change in left if change.rows or change.masked)


def _limited(batches: Iterator[Any], limit: int | None) -> Iterator[Any]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]
