"""One table at one pinned version: what a reader sees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.tables import filters
from omnigraph.tables.digests import deletion_path, local_folder
from omnigraph.tables.fragment_columns import OFFSET
from omnigraph.tables.key_cache import MAX_FRAGMENT_ROWS, FragmentKeys, KeyCache
from omnigraph.tables.lance_errors import translated
from omnigraph.tables.layout import KEY_COLUMNS, Layout, VersionColumns
from omnigraph.values.arrow import are_among
from omnigraph.values.inline_rows import NO_INLINE, Inline

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from omnigraph.tables.adjacency.zones import EdgeZones

ROW_ADDRESS = "_rowaddr"
ROW_ID = "_rowid"
OFFSET_BITS = 32
"""An address is the number of a fragment, and below it this many bits of offset."""

MAX_IN_LIST = 4_096
"""Values per index lookup; a longer list is looked up in several calls or by one scan of the column."""

ROWS_PER_TAKE = 16_384
"""Reading this many rows of a column takes about as long as taking a few rows by their places."""

BYTES_PER_TAKE = 1 << 20

MAX_KEYS_READ = 262_144
MAX_KEYS_FRAGMENTS = 2
"""So many rows in so few fragments of an object store have their keys read whole at the first lookup."""


@dataclass(frozen=True)
class Fragment:
    """A run of rows of a table. Two versions that share a fragment (equal `content`) share its rows exactly."""

    id: int
    files: tuple[str, ...]
    deletions: str
    rows: int
    bytes: int

    @property
    def content(self) -> tuple[tuple[str, ...], str]:
        return (self.files, self.deletions)


def fragment_of_address(address: int) -> int:
    """The fragment a row address lies in."""
    return address >> OFFSET_BITS


def offset_of_address(address: int) -> int:
    return address & ((1 << OFFSET_BITS) - 1)


class Table:
    """Immutable: a path and a version. Safe to share between threads; everything derived from it may be cached."""

    def __init__(self, path: str, dataset: Any, layout: Layout | None = None) -> None:
        self.path = path
        self.dataset = dataset
        """The Lance dataset. Its columns are those that are stored: only `columns` knows which of them a reader sees."""
        self.layout = layout
        """The columns that a reader sees; None: all that are stored, as they are."""
        self.version: int = dataset.version
        self.inline: Inline = NO_INLINE
        """What commits changed on top of the version (`changed_table`)."""
        self.keys: KeyCache | None = None
        """Given by the store of tables that this one belongs to."""
        self.zones: EdgeZones | None = None
        """The same."""
        self.grown: Table | None = None
        """The same rows in a version that can be written to, once somebody did (`growing.grown`)."""

    @property
    def stored(self) -> Table:
        """The version alone, without rows that stand in commits (`changed_table`)."""
        return self

    @property
    def content(self) -> tuple[object, ...]:
        """Equal for two tables that have the same rows, stored alike."""
        return self.path, self.version, self.inline

    @property
    def digest(self) -> str:
        """Of what stands in commits on top of the version."""
        return ""

    @cached_property
    def schema(self) -> pa.Schema:
        return self.dataset.schema if self.layout is None else self.layout.schema

    @cached_property
    def columns(self) -> VersionColumns | None:
        """How the columns that a reader sees are stored; None when they are stored as they are."""
        stored = self.dataset.schema
        if self.layout is None or self.layout.is_stored_in(stored):
            return None
        held = list(self.held_columns.values())
        every = frozenset(stored.names)
        return VersionColumns(self.layout, every, frozenset().union(*held), every.intersection(*held))

    @cached_property
    def held_columns(self) -> dict[int, frozenset[str]]:
        """By fragment: the stored columns that its files have."""
        names = {id: field.name() for field in self.dataset.lance_schema.fields() for id in nested_ids(field)}
        return {
            fragment.fragment_id: frozenset(
                names[id] for file in fragment.metadata.files for id in file.fields if id in names
            )
            for fragment in self.dataset.get_fragments()
        }

    def column_identity(self, name: str) -> object:
        """Equal for two tables if a fragment that they share has the same values in this column."""
        return name if self.layout is None or name in KEY_COLUMNS else self.layout.by_name.get(name, name)

    @property
    def row_identity(self) -> object:
        """Equal for two tables if a fragment that they share has the same rows."""
        return self.schema if self.layout is None else self.layout

    def stored_column(self, name: str) -> str | None:
        """The stored column that is this one; None when its values have to be put together from several, or filled in."""
        return name if self.columns is None else self.columns.stored_name(name)

    def stored_filter(self, filter: str | None) -> str | None:
        return filter if self.columns is None else self.columns.filter(filter)

    @cached_property
    def rows(self) -> int:
        """How many rows; from metadata, without a scan."""
        return sum(fragment.rows for fragment in self.fragments)

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        return tuple(_fragment(fragment.metadata) for fragment in self.dataset.get_fragments())

    @cached_property
    def stored_rows(self) -> dict[int, int]:
        """By fragment: how many rows its files hold, deleted ones included."""
        return {fragment.fragment_id: fragment.physical_rows for fragment in self.dataset.get_fragments()}

    def deleted_offsets(self, fragment: Fragment) -> np.ndarray:
        """The places, in the files of a fragment, of the rows that this version does not have; ascending."""
        import numpy as np

        if fragment.deletions == "":
            return np.zeros(0, np.int64)
        if self.keys is None:
            return self._read_deleted(fragment)
        return self.keys.deleted(self.path, fragment.content, lambda: self._read_deleted(fragment))

    def _read_deleted(self, fragment: Fragment) -> np.ndarray:
        import numpy as np
        import pyarrow as pa

        folder = local_folder(self.dataset)
        if folder is not None and fragment.deletions.endswith(".arrow"):
            with translated(self.path), pa.ipc.open_file(f"{folder}/{fragment.deletions}") as file:
                return np.sort(file.read_all().column(0).to_numpy()).astype(np.int64)
        addresses = self.read([], fragments=[fragment.id], with_address=True).column(0).to_numpy()
        is_deleted = np.ones(self.stored_rows[fragment.id], bool)
        is_deleted[(addresses & np.uint64((1 << OFFSET_BITS) - 1)).astype(np.int64)] = False
        return np.flatnonzero(is_deleted)

    def read_stored(self, columns: Sequence[str], fragments: Sequence[int]) -> pa.Table:
        """Whole fragments as their files have them, with the rows that this version has deleted."""
        with translated(self.path):
            return (
                self.scan(columns, fragments=fragments, with_row_id=True, with_deleted=True).read_all().select(columns)
            )

    def count(self, filter: str) -> int:
        return int(self.dataset.count_rows(self.stored_filter(filter)))

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
        """A stream of batches. `fragments` limits the scan to these fragment ids; order is that of the fragments.
        `with_deleted`: rows that this version has deleted come too, without a row id, which must be asked for."""
        chosen = None if fragments is None else [self.dataset.get_fragment(id) for id in fragments]
        mapped, names = self.columns, None if columns is None else list(columns)
        if mapped is not None:
            names = list(self.schema.names) if names is None else names
            read = mapped.columns_to_read(names, counts_rows=with_address or with_row_id)
        scanner = self.dataset.scanner(
            columns=names if mapped is None else read,
            filter=self.stored_filter(filter),
            fragments=chosen,
            with_row_address=with_address,
            with_row_id=with_row_id,
            include_deleted_rows=with_deleted,
            batch_size=batch_rows,
            limit=limit,
            scan_in_order=True,
        )
        reader = scanner.to_reader()
        if mapped is None or names is None:
            return reader
        extra = [*([ROW_ADDRESS] if with_address else []), *([ROW_ID] if with_row_id else [])]
        return mapped.reader(reader, names, extra)

    def read(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        *,
        fragments: Iterable[int] | None = None,
        with_address: bool = False,
        with_row_id: bool = False,
    ) -> pa.Table:
        chosen = None if fragments is None else list(fragments)
        text, chosen = ("false", None) if chosen == [] else (filter, chosen)
        with translated(self.path):
            return self.scan(
                columns, text, fragments=chosen, with_address=with_address, with_row_id=with_row_id
            ).read_all()

    def lookup(
        self,
        name: str,
        values: Sequence[object],
        columns: Sequence[str] | None = None,
        *,
        with_address: bool = False,
        filter: str | None = None,
    ) -> pa.Table:
        """The rows whose column `name` has one of these values: from memory, for fragments that are held there; else through
        its index, or by one scan when that is cheaper."""
        import pyarrow as pa

        wanted = list(dict.fromkeys(values))
        if len(wanted) > MAX_IN_LIST and len(wanted) > self.rows // 8:
            return self._lookup_by_scan(name, wanted, columns, with_address, filter)
        if self.keys is None:
            return self._lookup_by_filter(name, wanted, columns, with_address, filter, None)
        if filter:
            return self._lookup_filtered(name, wanted, columns, with_address, filter)
        held, others = self._held(name) if name in KEY_COLUMNS else self._held_whole()
        pieces = [
            self._take(fragment, keys, places, columns, with_address)
            for fragment, keys in held
            if (places := keys.find(name, wanted))
        ]
        stored: list[int] = []
        by_keys = self._reads_keys(name, others)
        for fragment in others:
            rows = self._find_in_columns(fragment, name, wanted, columns, with_address)
            if rows is None and by_keys:
                rows = self._find_by_keys(fragment, name, wanted, columns, with_address)
            if rows is None:
                rows = self._find_in_zones(fragment, name, wanted, columns, with_address)
            if rows is None:
                stored.append(fragment.id)
            elif rows.num_rows:
                pieces.append(rows)
        if stored:
            pieces.append(self._lookup_by_filter(name, wanted, columns, with_address, None, stored))
        if not pieces:
            return self.empty(columns, with_address=with_address)
        return _in_order(pa.concat_tables(pieces), with_address)

    def addresses_of(self, ids: Collection[str]) -> dict[str, int]:
        """Where the rows of these ids are, as far as there are any."""
        if self.keys is not None and len(ids) <= MAX_IN_LIST:
            held, others = self._held("id")
            if not others:
                return {id: address for fragment, keys in held for id, address in keys.addresses_of(ids, fragment.id)}
        rows = self.lookup("id", sorted(ids), ["id"], with_address=True)
        return dict(zip(rows.column("id").to_pylist(), rows.column(ROW_ADDRESS).to_pylist(), strict=True))

    def _lookup_filtered(
        self, name: str, wanted: list[Any], columns: Sequence[str] | None, with_address: bool, filter: str
    ) -> pa.Table:
        """The same of rows that satisfy a filter."""
        import pyarrow as pa

        pieces, others = [], []
        for fragment in self.fragments:
            found = self._find_in_zones(fragment, name, wanted, [], with_address=True)
            if found is None or found.num_rows > MAX_IN_LIST:
                others.append(fragment.id)
            elif found.num_rows:
                addresses = ", ".join(map(str, found.column(ROW_ADDRESS).to_pylist()))
                text = f"{ROW_ADDRESS} IN ({addresses}) AND ({filter})"
                pieces.append(self.read(columns, text, fragments=[fragment.id], with_address=with_address))
        if others or not pieces:
            fragments = None if len(others) == len(self.fragments) else others
            pieces.append(self._lookup_by_filter(name, wanted, columns, with_address, filter, fragments))
        return _in_order(pa.concat_tables(pieces), with_address)

    def looks_up_in_memory(self, name: str, columns: Sequence[str]) -> bool:
        """Would a lookup by a key column, as things are, be answered without the store?"""
        if self.keys is None:
            return False
        for fragment in self.fragments:
            keys = self.keys.get(self.path, fragment.content)
            is_known = keys is not None and (set(columns) <= keys.columns.keys() or keys.is_whole(self.row_identity))
            if not is_known and not self.keys.columns.is_held(self, fragment, [name, *columns]):
                return False
        return True

    def _held_whole(self) -> tuple[list[tuple[Fragment, FragmentKeys]], list[Fragment]]:
        """Fragments whose whole rows are in memory, and all others."""
        assert self.keys is not None
        held: list[tuple[Fragment, FragmentKeys]] = []
        others: list[Fragment] = []
        for fragment in self.fragments:
            keys = self.keys.get(self.path, fragment.content)
            if keys is not None and keys.is_whole(self.row_identity):
                held.append((fragment, keys))
            else:
                others.append(fragment)
        return held, others

    def _held(self, name: str) -> tuple[list[tuple[Fragment, FragmentKeys]], list[Fragment]]:
        """Fragments whose keys are in memory (they are read now, if need be), and the long or indexed others."""
        assert self.keys is not None
        held: list[tuple[Fragment, FragmentKeys]] = []
        missing: list[Fragment] = []
        others: list[Fragment] = []
        for fragment in self.fragments:
            if (keys := self.keys.get(self.path, fragment.content)) is not None:
                held.append((fragment, keys))
            elif fragment.rows > MAX_FRAGMENT_ROWS or fragment.id in self._indexed_fragments.get(name, ()):
                others.append(fragment)
            else:
                missing.append(fragment)
        if missing:
            held += self._read_keys(missing)
        return held, others

    def _read_keys(self, fragments: Sequence[Fragment]) -> list[tuple[Fragment, FragmentKeys]]:
        assert self.keys is not None
        names = [name for name in KEY_COLUMNS if name in self.schema.names]
        rows = self.read(names, fragments=[fragment.id for fragment in fragments], with_address=True)
        by_fragment: dict[int, list[int]] = {fragment.id: [] for fragment in fragments}
        for place, address in enumerate(rows.column(ROW_ADDRESS).to_pylist()):
            by_fragment[fragment_of_address(address)].append(place)
        result = []
        for fragment in fragments:
            places = by_fragment[fragment.id]
            own = rows.take(places)
            keys = FragmentKeys.of(own, [offset_of_address(address) for address in own.column(ROW_ADDRESS).to_pylist()])
            self.keys.put(self.path, fragment.content, keys)
            result.append((fragment, keys))
        return result

    @cached_property
    def _indexed_fragments(self) -> dict[str, frozenset[int]]:
        """For each key column the fragments that its index covers."""
        indexed: dict[str, frozenset[int]] = {}
        for entry in self.dataset.describe_indices():
            column, _, kind = entry.name.rpartition(".")
            if kind == "btree" and column in KEY_COLUMNS:
                indexed[column] = frozenset(fragment for segment in entry.segments for fragment in segment.fragment_ids)
        return indexed

    def _take(
        self,
        fragment: Fragment,
        keys: FragmentKeys,
        places: list[int],
        columns: Sequence[str] | None,
        with_address: bool,
    ) -> pa.Table:
        """Rows of one fragment at these places: from memory, if it is kept whole or only keys are asked for."""
        import pyarrow as pa

        addresses = [(fragment.id << 32) | keys.offsets[place] for place in places]
        if keys.rows is not None and keys.is_whole(self.row_identity):
            rows = keys.rows.take(places) if columns is None else keys.rows.select(list(columns)).take(places)
            return rows.append_column(ROW_ADDRESS, pa.array(addresses, pa.uint64())) if with_address else rows
        if columns is None or not set(columns) <= keys.columns.keys():
            known = self._columns(fragment, columns)
            if known is not None:
                return self._from_columns(known, pa.array(places), columns, addresses if with_address else None)
            rows = self.take_addresses(addresses, columns)
            return rows if with_address else rows.drop_columns([ROW_ADDRESS])
        arrays = [pa.array([keys.columns[name][place] for place in places], pa.utf8()) for name in columns]
        if with_address:
            arrays.append(pa.array(addresses, pa.uint64()))
        return pa.Table.from_arrays(arrays, schema=self._shape(columns, with_address))

    def _columns(self, fragment: Fragment, columns: Sequence[str] | None, *others: str) -> dict[str, pa.Array] | None:
        """Columns of a fragment from memory; None while it is not held."""
        assert self.keys is not None
        names = self.schema.names if columns is None else columns
        return self.keys.columns.hold(self, fragment, list(dict.fromkeys([*others, *names])))

    def _find_in_columns(
        self, fragment: Fragment, name: str, wanted: list[Any], columns: Sequence[str] | None, with_address: bool
    ) -> pa.Table | None:
        """The rows of one fragment that have these keys, from memory; None while it is not held."""
        if name not in KEY_COLUMNS:
            return None
        needs_offsets = with_address and fragment.deletions != ""
        known = self._columns(fragment, columns, name, *([OFFSET] if needs_offsets else []))
        if known is None or self.keys is None:
            return None
        places = self.keys.columns.in_order(self, fragment, name, known[name]).find(wanted)
        offsets = (known[OFFSET].take(places) if needs_offsets else places).tolist() if with_address else ()
        addresses = [(fragment.id << 32) | offset for offset in offsets] if with_address else None
        return self._from_columns(known, places, columns, addresses)

    def _reads_keys(self, name: str, fragments: Sequence[Fragment]) -> bool:
        """Are key columns read whole rather than searched through their index? In an object store, where a request takes
        as long as some megabytes, that needs fewer of them, unless there is much to read or many places to read it from."""
        is_small = (
            sum(fragment.rows for fragment in fragments) <= MAX_KEYS_READ and len(fragments) <= MAX_KEYS_FRAGMENTS
        )
        return is_small and name in KEY_COLUMNS and "://" in self.dataset.uri

    def _find_by_keys(
        self, fragment: Fragment, name: str, wanted: list[Any], columns: Sequence[str] | None, with_address: bool
    ) -> pa.Table | None:
        """The rows of one fragment that have these keys, which are read now if need be; None if they are too wide."""
        import pyarrow as pa

        assert self.keys is not None
        names = [name] if fragment.deletions == "" else [name, OFFSET]
        known = self.keys.columns.hold(self, fragment, names, at_once=True)
        if known is None:
            return None
        places = self.keys.columns.in_order(self, fragment, name, known[name]).find(wanted)
        offsets = places if fragment.deletions == "" else known[OFFSET].take(pa.array(places)).to_numpy()
        addresses = [(fragment.id << OFFSET_BITS) | int(offset) for offset in offsets]
        shape = self._shape(columns, with_address)
        others = [column for column in shape.names if column not in (name, ROW_ADDRESS)]
        if not addresses:
            return shape.empty_table()
        rows = (
            self.take_addresses(addresses, others)
            if others
            else pa.table({ROW_ADDRESS: pa.array(addresses, pa.uint64())})
        )
        values = known[name].take(pa.array(places))
        arrays = [values if column == name else rows.column(column) for column in shape.names]
        return pa.Table.from_arrays(arrays, schema=shape)

    def _find_in_zones(
        self, fragment: Fragment, name: str, wanted: list[Any], columns: Sequence[str] | None, with_address: bool
    ) -> pa.Table | None:
        """The rows of one fragment that have these values, where the column ascends in it; None if it is not known to."""
        import pyarrow as pa

        is_indexed = fragment.id in self._indexed_fragments.get(name, ())
        found = None if self.zones is None or is_indexed else self.zones.find(self, fragment, name, wanted)
        if found is None:
            return None
        shape = self._shape(columns, with_address)
        if len(found.places) == 0:
            return shape.empty_table()
        others = [column for column in shape.names if column not in (name, ROW_ADDRESS)]
        rows = self._rows_in(fragment, found.places, found.addresses, others) if others else None
        known = {name: found.values, ROW_ADDRESS: pa.array(found.addresses)}
        cells = [known[each] if each in known or rows is None else rows.column(each) for each in shape.names]
        return pa.Table.from_arrays(cells, schema=shape)

    def _from_columns(
        self, known: dict[str, pa.Array], places: Any, columns: Sequence[str] | None, addresses: list[int] | None
    ) -> pa.Table:
        import pyarrow as pa

        shape = self._shape(columns, addresses is not None)
        arrays = [
            pa.array(addresses, pa.uint64()) if name == ROW_ADDRESS else known[name].take(places)
            for name in shape.names
        ]
        return pa.Table.from_arrays(arrays, schema=shape)

    def empty(self, columns: Sequence[str] | None = None, *, with_address: bool = False) -> pa.Table:
        """No rows, with these columns."""
        return self._shape(columns, with_address).empty_table()

    def _shape(self, columns: Sequence[str] | None, with_address: bool) -> pa.Schema:
        import pyarrow as pa

        fields = list(self.schema) if columns is None else [self.schema.field(name) for name in columns]
        return pa.schema([*fields, *([pa.field(ROW_ADDRESS, pa.uint64())] if with_address else [])])

    def _lookup_by_filter(
        self,
        name: str,
        values: list[object],
        columns: Sequence[str] | None,
        with_address: bool,
        filter: str | None,
        fragments: Sequence[int] | None,
    ) -> pa.Table:
        import pyarrow as pa

        pieces = []
        for start in range(0, max(len(values), 1), MAX_IN_LIST):
            chunk = values[start : start + MAX_IN_LIST]
            text = filters.in_list(name, chunk) if chunk else "false"
            if filter:
                text = f"({text}) AND ({filter})"
            if len(chunk) == 1 and columns is not None and name in columns and name in KEY_COLUMNS:
                pieces.append(self._read_without(name, chunk[0], columns, text, fragments, with_address))
            else:
                pieces.append(self.read(columns, text, fragments=fragments, with_address=with_address))
        return _in_order(pa.concat_tables(pieces), with_address)

    def _read_without(
        self,
        name: str,
        value: object,
        columns: Sequence[str],
        filter: str,
        fragments: Sequence[int] | None,
        with_address: bool,
    ) -> pa.Table:
        """Rows that all have one value in this column, which therefore is not read."""
        import pyarrow as pa

        others = [column for column in columns if column != name]
        rows = self.read(others, filter, fragments=fragments, with_address=with_address or not others)
        shape = self._shape(columns, with_address)
        known = pa.repeat(pa.scalar(value, pa.utf8()), rows.num_rows)
        return pa.Table.from_arrays(
            [known if column == name else rows.column(column) for column in shape.names], schema=shape
        )

    def _lookup_by_scan(
        self, name: str, values: list[object], columns: Sequence[str] | None, with_address: bool, filter: str | None
    ) -> pa.Table:
        import pyarrow as pa

        names = list(columns) if columns is not None else list(self.schema.names)
        value_set = pa.array(values, self.schema.field(name).type)
        read = names if name in names else [*names, name]
        kept = []
        for batch in self.scan(read, filter, with_address=with_address):
            kept.append(batch.filter(are_among(batch.column(name), value_set)))
        if not kept:
            return self.read(names, "false", with_address=with_address)
        table = pa.Table.from_batches(kept)
        return table.select([*names, *([ROW_ADDRESS] if with_address else [])])

    def rows_at(self, addresses: np.ndarray, columns: Sequence[str]) -> pa.Table:
        """Rows at these addresses, in their order: from memory, for fragments that are held there; else by their places."""
        import numpy as np
        import pyarrow as pa

        owners = (addresses >> np.uint64(OFFSET_BITS)).astype(np.int64)
        offsets = (addresses & np.uint64((1 << OFFSET_BITS) - 1)).astype(np.int64)
        pieces, order = [], []
        for owner in np.unique(owners).tolist() if len(owners) != 1 else owners.tolist():
            at = np.flatnonzero(owners == owner)
            fragment = self._fragments_by_id[owner]
            places = offsets[at] - np.searchsorted(self.deleted_offsets(fragment), offsets[at])
            pieces.append(self._rows_in(fragment, places, addresses[at], columns))
            order.append(at)
        if len(pieces) == 1:
            return pieces[0]
        rows = pa.concat_tables(pieces) if pieces else self.empty(columns)
        return rows.take(pa.array(np.argsort(np.concatenate(order)))) if pieces else rows

    def values_at(self, addresses: Sequence[int], columns: Sequence[str]) -> dict[str, list[Any]]:
        """The same of few rows, as Python values."""
        import numpy as np

        owners = {fragment_of_address(address) for address in addresses}
        held = None
        if len(owners) == 1 and self.keys is not None:
            fragment = self._fragments_by_id[owners.pop()]
            held = self.keys.columns.find(self, fragment, columns) if fragment.deletions == "" else None
        if held is None:
            rows = self.rows_at(np.array(addresses, np.uint64), columns)
            return {name: rows.column(name).to_pylist() for name in columns}
        places = [offset_of_address(address) for address in addresses]
        return {name: [column[place].as_py() for place in places] for name, column in held.items()}

    @cached_property
    def _fragments_by_id(self) -> dict[int, Fragment]:
        return {fragment.id: fragment for fragment in self.fragments}

    def _rows_in(
        self, fragment: Fragment, places: np.ndarray, addresses: np.ndarray, columns: Sequence[str]
    ) -> pa.Table:
        """Rows of one fragment, given their places among those that live."""
        import numpy as np
        import pyarrow as pa

        keys = None if self.keys is None else self.keys.get(self.path, fragment.content)
        if keys is not None and keys.rows is not None and keys.is_whole(self.row_identity):
            return keys.rows.select(list(columns)).take(pa.array(places))
        held = None
        if self.keys is not None:
            # All of a small fragment is read as fast as one row of it.
            is_small = fragment.rows <= ROWS_PER_TAKE and fragment.bytes <= BYTES_PER_TAKE
            held = self.keys.columns.hold(self, fragment, columns, ROWS_PER_TAKE, at_once=is_small)
        if held is not None:
            arrays = [held[name].take(pa.array(places)) for name in columns]
            return pa.Table.from_arrays(arrays, schema=self._shape(columns, with_address=False))
        if self.columns is None and len(set(places.tolist())) == len(places):
            with translated(self.path):
                order = np.argsort(places)
                rows = self.dataset.get_fragment(fragment.id).take(places[order].tolist(), columns=list(columns))
                return rows if len(rows) < 2 else rows.take(pa.array(np.argsort(order)))
        rows = self.take_addresses(addresses.tolist(), columns)
        found = rows.column(ROW_ADDRESS).to_numpy()
        return rows.drop_columns([ROW_ADDRESS]).take(pa.array(np.searchsorted(found, addresses)))

    def take_addresses(self, addresses: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Rows at these addresses, in the order of the table, with their addresses."""
        by_fragment: dict[int, list[int]] = {}
        for address in sorted(set(addresses)):
            by_fragment.setdefault(fragment_of_address(address), []).append(address)
        import pyarrow as pa

        if not by_fragment:
            return self.read(columns, "false", with_address=True)
        tables = []
        for fragment, members in by_fragment.items():
            text = f"{ROW_ADDRESS} IN ({', '.join(map(str, members))})"
            tables.append(self.read(columns, text, fragments=[fragment], with_address=True))
        return pa.concat_tables(tables)


def nested_ids(field: Any) -> list[int]:
    """The numbers of a field and of those inside it."""
    return [field.id(), *(id for child in field.children() for id in nested_ids(child))]


def _in_order(rows: pa.Table, with_address: bool) -> pa.Table:
    import pyarrow.compute as pc

    if not with_address or rows.num_rows < 2:
        return rows
    return rows.take(pc.sort_indices(rows, [(ROW_ADDRESS, "ascending")]))


def _fragment(metadata: Any) -> Fragment:
    deletion = metadata.deletion_file
    return Fragment(
        id=metadata.id,
        # The public `path` builds a class at every access, which is most of what a small write would cost.
        files=tuple(file._path for file in metadata.files),
        deletions="" if deletion is None else deletion_path(metadata.id, deletion),
        rows=metadata.physical_rows - (0 if deletion is None else deletion.num_deleted_rows),
        bytes=sum(file.file_size_bytes or 0 for file in metadata.files),
    )
