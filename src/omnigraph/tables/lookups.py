"""Rows of a table by the values of a column: from memory, for fragments that are held there; else through zones, through the
column's index, or by one scan if that is cheaper."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.tables import filters
from omnigraph.tables.addresses import OFFSET_BITS, ROW_ADDRESS, Fragment
from omnigraph.tables.fragment_columns import MAX_FRAGMENT_ROWS, OFFSET, FragmentKeys
from omnigraph.tables.layout import KEY_COLUMNS
from omnigraph.values.arrow import are_among

if TYPE_CHECKING:
    from omnigraph.tables.table import Table

MAX_IN_LIST = 4_096
"""Values per index lookup; a longer list is looked up in several calls or by one scan of the column."""

MAX_KEYS_READ = 262_144
MAX_KEYS_FRAGMENTS = 2
"""On an object store, the keys of up to `MAX_KEYS_READ` rows in up to this many fragments are read whole at the first lookup."""

HeldKeys = list[tuple[Fragment, FragmentKeys]]


@dataclass(frozen=True)
class Lookup:
    """The rows that have one of the `values` in the column `name`."""

    table: Table
    name: str
    values: list[Any]
    columns: Sequence[str] | None
    with_address: bool

    @cached_property
    def shape(self) -> pa.Schema:
        return self.table.shape(self.columns, self.with_address)

    def rows(self, filter: str | None) -> pa.Table:
        table = self.table
        if len(self.values) > MAX_IN_LIST and len(self.values) > table.rows // 8:
            return self.by_scan(filter)
        if table.keys is None:
            return self.by_filter(filter, None)
        return self._filtered(filter) if filter else self._by_fragment()

    def _by_fragment(self) -> pa.Table:
        """Looks in each fragment in the way that is fastest for it."""
        held, others = held_keys(self.table, self.name) if self.name in KEY_COLUMNS else _held_whole(self.table)
        pieces = [
            self._take(fragment, keys, places)
            for fragment, keys in held
            if (places := keys.find(self.name, self.values))
        ]
        stored: list[int] = []
        by_keys = self._reads_keys(others)
        for fragment in others:
            rows = self._find_in_columns(fragment)
            if rows is None and by_keys:
                rows = self._find_by_keys(fragment)
            if rows is None:
                rows = self._find_in_zones(fragment)
            if rows is None:
                stored.append(fragment.id)
            elif rows.num_rows:
                pieces.append(rows)
        if stored:
            pieces.append(self.by_filter(None, stored))
        if not pieces:
            return self.shape.empty_table()
        return self._in_order(pa.concat_tables(pieces))

    def _filtered(self, filter: str) -> pa.Table:
        """Like `_by_fragment`, for rows that satisfy a filter."""
        addresses_only = replace(self, columns=[], with_address=True)
        pieces, others = [], []
        for fragment in self.table.fragments:
            rows = addresses_only._find_in_zones(fragment)
            if rows is None or rows.num_rows > MAX_IN_LIST:
                others.append(fragment.id)
            elif rows.num_rows:
                addresses = ", ".join(map(str, rows.column(ROW_ADDRESS).to_pylist()))
                text = f"{ROW_ADDRESS} IN ({addresses}) AND ({filter})"
                pieces.append(
                    self.table.read(self.columns, text, fragments=[fragment.id], with_address=self.with_address)
                )
        if others or not pieces:
            fragments = None if len(others) == len(self.table.fragments) else others
            pieces.append(self.by_filter(filter, fragments))
        return self._in_order(pa.concat_tables(pieces))

    def _take(self, fragment: Fragment, keys: FragmentKeys, places: list[int]) -> pa.Table:
        """Rows of one fragment at these positions: from memory, if it is kept whole or only keys are wanted."""
        columns, table = self.columns, self.table
        addresses = [(fragment.id << OFFSET_BITS) | keys.offsets[place] for place in places]
        if keys.rows is not None and keys.is_whole(table.row_identity):
            rows = keys.rows.take(places) if columns is None else keys.rows.select(list(columns)).take(places)
            return rows.append_column(ROW_ADDRESS, pa.array(addresses, pa.uint64())) if self.with_address else rows
        if columns is None or not set(columns) <= keys.columns.keys():
            whole = table.read_whole([fragment])
            known = self._held_columns(fragment) if whole is None else whole[0]
            if known is not None:
                return self._from_columns(known, pa.array(places), addresses if self.with_address else None)
            rows = table.take_addresses(addresses, columns)
            return rows if self.with_address else rows.drop_columns([ROW_ADDRESS])
        arrays = [pa.array([keys.columns[name][place] for place in places], pa.utf8()) for name in columns]
        if self.with_address:
            arrays.append(pa.array(addresses, pa.uint64()))
        return pa.Table.from_arrays(arrays, schema=self.shape)

    def _held_columns(self, fragment: Fragment, *others: str) -> dict[str, pa.Array] | None:
        """Columns of a fragment from memory; None while it is not held."""
        assert self.table.keys is not None
        names = self.table.schema.names if self.columns is None else self.columns
        return self.table.keys.columns.hold(self.table, fragment, list(dict.fromkeys([*others, *names])))

    def _find_in_columns(self, fragment: Fragment) -> pa.Table | None:
        """The rows of one fragment that have these keys, from memory; None while it is not held."""
        if self.name not in KEY_COLUMNS:
            return None
        needs_offsets = self.with_address and fragment.deletions != ""
        known = self._held_columns(fragment, self.name, *([OFFSET] if needs_offsets else []))
        if known is None or self.table.keys is None:
            return None
        places = self.table.keys.columns.in_order(self.table, fragment, self.name, known[self.name]).find(self.values)
        offsets = (known[OFFSET].take(places) if needs_offsets else places).tolist() if self.with_address else ()
        addresses = [(fragment.id << OFFSET_BITS) | offset for offset in offsets] if self.with_address else None
        return self._from_columns(known, places, addresses)

    def _reads_keys(self, fragments: Sequence[Fragment]) -> bool:
        """Whether key columns are read whole rather than searched through their index. On an object store, where a request takes
        as long as transferring a few megabytes, reading them whole needs fewer requests, unless there are many rows or many
        fragments."""
        is_small = (
            sum(fragment.rows for fragment in fragments) <= MAX_KEYS_READ and len(fragments) <= MAX_KEYS_FRAGMENTS
        )
        return is_small and self.name in KEY_COLUMNS and "://" in self.table.dataset.uri

    def _find_by_keys(self, fragment: Fragment) -> pa.Table | None:
        """The rows of one fragment that have these keys, reading the key column if needed; None if it is too wide."""
        assert self.table.keys is not None
        name, held = self.name, self.table.keys.columns
        names = [name] if fragment.deletions == "" else [name, OFFSET]
        known = held.hold(self.table, fragment, names, at_once=True)
        if known is None:
            return None
        places = held.in_order(self.table, fragment, name, known[name]).find(self.values)
        offsets = places if fragment.deletions == "" else known[OFFSET].take(pa.array(places)).to_numpy()
        addresses = [(fragment.id << OFFSET_BITS) | int(offset) for offset in offsets]
        shape = self.shape
        others = [column for column in shape.names if column not in (name, ROW_ADDRESS)]
        if not addresses:
            return shape.empty_table()
        rows = (
            self.table.take_addresses(addresses, others)
            if others
            else pa.table({ROW_ADDRESS: pa.array(addresses, pa.uint64())})
        )
        values = known[name].take(pa.array(places))
        arrays = [values if column == name else rows.column(column) for column in shape.names]
        return pa.Table.from_arrays(arrays, schema=shape)

    def _find_in_zones(self, fragment: Fragment) -> pa.Table | None:
        """The rows of one fragment that have these values; None if the column is not known to ascend in it."""
        table, name = self.table, self.name
        is_indexed = fragment.id in table.indexed_fragments.get(name, ())
        in_zones = None if table.zones is None or is_indexed else table.zones.find(table, fragment, name, self.values)
        if in_zones is None:
            return None
        shape = self.shape
        if len(in_zones.places) == 0:
            return shape.empty_table()
        others = [column for column in shape.names if column not in (name, ROW_ADDRESS)]
        rows = table.rows_in(fragment, in_zones.places, in_zones.addresses, others) if others else None
        known = {name: in_zones.values, ROW_ADDRESS: pa.array(in_zones.addresses)}
        cells = [known[column] if column in known or rows is None else rows.column(column) for column in shape.names]
        return pa.Table.from_arrays(cells, schema=shape)

    def _from_columns(self, known: dict[str, pa.Array], places: Any, addresses: list[int] | None) -> pa.Table:
        shape = self.shape
        arrays = [
            pa.array(addresses, pa.uint64()) if name == ROW_ADDRESS else known[name].take(places)
            for name in shape.names
        ]
        return pa.Table.from_arrays(arrays, schema=shape)

    def by_filter(self, filter: str | None, fragments: Sequence[int] | None) -> pa.Table:
        """Through the index of the column, if it has one."""
        pieces = []
        for start in range(0, max(len(self.values), 1), MAX_IN_LIST):
            chunk = self.values[start : start + MAX_IN_LIST]
            text = filters.in_list(self.name, chunk) if chunk else "false"
            if filter:
                text = f"({text}) AND ({filter})"
            if len(chunk) == 1 and self.columns is not None and self.name in self.columns and self.name in KEY_COLUMNS:
                pieces.append(self._read_without(chunk[0], self.columns, text, fragments))
            else:
                pieces.append(self.table.read(self.columns, text, fragments=fragments, with_address=self.with_address))
        return self._in_order(pa.concat_tables(pieces))

    def _read_without(
        self, value: object, columns: Sequence[str], filter: str, fragments: Sequence[int] | None
    ) -> pa.Table:
        """Rows that all have the same value in the column, which therefore is not read."""
        others = [column for column in columns if column != self.name]
        rows = self.table.read(others, filter, fragments=fragments, with_address=self.with_address or not others)
        known = pa.repeat(pa.scalar(value, pa.utf8()), rows.num_rows)
        arrays = [known if column == self.name else rows.column(column) for column in self.shape.names]
        return pa.Table.from_arrays(arrays, schema=self.shape)

    def by_scan(self, filter: str | None) -> pa.Table:
        table = self.table
        names = list(self.columns) if self.columns is not None else list(table.schema.names)
        value_set = pa.array(self.values, table.schema.field(self.name).type)
        read = names if self.name in names else [*names, self.name]
        kept = []
        for batch in table.scan(read, filter, with_address=self.with_address):
            kept.append(batch.filter(are_among(batch.column(self.name), value_set)))
        if not kept:
            return table.read(names, "false", with_address=self.with_address)
        return pa.Table.from_batches(kept).select([*names, *([ROW_ADDRESS] if self.with_address else [])])

    def _in_order(self, rows: pa.Table) -> pa.Table:
        if not self.with_address or rows.num_rows < 2:
            return rows
        return rows.take(pc.sort_indices(rows, [(ROW_ADDRESS, "ascending")]))


def held_keys(table: Table, name: str) -> tuple[HeldKeys, list[Fragment]]:
    """Fragments whose keys are in memory, reading them if needed; and the others, which are long or indexed."""
    assert table.keys is not None
    held: HeldKeys = []
    missing: list[Fragment] = []
    others: list[Fragment] = []
    is_whole = table.is_read_whole()
    for fragment in table.fragments:
        if (keys := table.keys.get(table.path, fragment.content)) is not None:
            held.append((fragment, keys))
        elif is_whole:
            missing.append(fragment)
        elif fragment.rows > MAX_FRAGMENT_ROWS or fragment.id in table.indexed_fragments.get(name, ()):
            others.append(fragment)
        else:
            missing.append(fragment)
    if missing:
        held += _read_keys(table, missing)
    return held, others


def _held_whole(table: Table) -> tuple[HeldKeys, list[Fragment]]:
    """Fragments whose whole rows are in memory, and all others."""
    assert table.keys is not None
    held: HeldKeys = []
    others: list[Fragment] = []
    for fragment in table.fragments:
        keys = table.keys.get(table.path, fragment.content)
        if keys is not None and keys.is_whole(table.row_identity):
            held.append((fragment, keys))
        else:
            others.append(fragment)
    return held, others


def _read_keys(table: Table, fragments: Sequence[Fragment]) -> HeldKeys:
    assert table.keys is not None
    names = [name for name in KEY_COLUMNS if name in table.schema.names]
    whole = table.read_whole(fragments)
    if whole is None:
        rows = table.read(names, fragments=[fragment.id for fragment in fragments])
        ends = itertools.accumulate(fragment.rows for fragment in fragments)
        parts = [rows.slice(end - fragment.rows, fragment.rows) for fragment, end in zip(fragments, ends, strict=True)]
    else:
        parts = [pa.table({name: columns[name] for name in names}) for columns in whole]
    read = []
    for fragment, part in zip(fragments, parts, strict=True):
        keys = FragmentKeys.of(part, table.live_offsets(fragment).tolist())
        table.keys.put(table.path, fragment.content, keys)
        read.append((fragment, keys))
    return read
