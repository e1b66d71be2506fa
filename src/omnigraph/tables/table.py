"""One table at one pinned version, as readers see it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.metering import current_meter
from omnigraph.tables.addresses import (
    OFFSET_BITS,
    ROW_ADDRESS,
    ROW_ID,
    Fragment,
    fragment_of_address,
    offset_of_address,
)
from omnigraph.tables.digests import deletion_path, local_folder
from omnigraph.tables.fragment_columns import KeyCache
from omnigraph.tables.lance_errors import translated
from omnigraph.tables.layout import KEY_COLUMNS, Layout, VersionColumns
from omnigraph.tables.lookups import MAX_IN_LIST, Lookup, held_keys
from omnigraph.values.inline_rows import NO_INLINE, Inline

if TYPE_CHECKING:
    from omnigraph.tables.adjacency.zones import EdgeZones

ROWS_PER_TAKE = 16_384
"""Reading this many rows of a column takes about as long as taking a few rows by position."""

BYTES_PER_TAKE = 1 << 20

READ_WHOLE_BYTES = 256 * 1024
READ_WHOLE_FRAGMENTS = 4
"""On an object store, a file of up to `READ_WHOLE_BYTES` is read with one request, whichever columns are wanted; up to this many
files at once."""


class Table:
    """Immutable: a path and a version. Thread-safe; everything derived from it may be cached."""

    def __init__(self, path: str, dataset: Any, layout: Layout | None = None) -> None:
        self.path = path
        self._dataset = dataset
        self.layout = layout
        """The columns that readers see; None for all columns as stored."""
        self.version: int = dataset.version
        self.inline: Inline = NO_INLINE
        """Inline changes on top of the version (`changed_table`)."""
        self.keys: KeyCache | None = None
        """Set by the `Tables` that this table belongs to."""
        self.zones: EdgeZones | None = None
        """Set by the `Tables` that this table belongs to."""
        self.grown: Table | None = None
        """The same rows in a version that has all columns that rows are written to, once it was needed (`growing.grown`)."""

    @property
    def dataset(self) -> Any:
        """The Lance dataset, with the columns as stored; `columns` says which of them readers see."""
        meter = current_meter()
        if meter is not None:
            meter.uses(self._dataset)
        return self._dataset

    @property
    def stored(self) -> Table:
        """The stored version alone, without inline rows (`changed_table`)."""
        return self

    @property
    def content(self) -> tuple[object, ...]:
        """Equal for two tables that have the same rows, stored the same way."""
        return self.path, self.version, self.inline

    @property
    def digest(self) -> str:
        """Digest of the inline changes on top of the version."""
        return ""

    @cached_property
    def schema(self) -> pa.Schema:
        return self.dataset.schema if self.layout is None else self.layout.schema

    @cached_property
    def columns(self) -> VersionColumns | None:
        """How the columns that readers see are stored; None if they are stored as they are."""
        stored = self.dataset.schema
        if self.layout is None or self.layout.is_stored_in(stored):
            return None
        return VersionColumns(self.layout, frozenset(stored.names), self.held_columns)

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
        """Equal for two tables if every fragment that they share has the same values in this column."""
        return name if self.layout is None or name in KEY_COLUMNS else self.layout.by_name.get(name, name)

    @property
    def row_identity(self) -> object:
        """Equal for two tables if every fragment that they share has the same rows."""
        return self.schema if self.layout is None else self.layout

    def stored_column(self, name: str) -> str | None:
        """The stored column that is this one; None if its values are combined from several, or filled in."""
        return name if self.columns is None else self.columns.stored_name(name)

    def stored_filter(self, filter: str | None) -> str | None:
        return filter if self.columns is None else self.columns.filter(filter)

    @cached_property
    def rows(self) -> int:
        """The number of rows; from metadata, without a scan."""
        return sum(fragment.rows for fragment in self.fragments)

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        return tuple(_fragment(fragment.metadata) for fragment in self.dataset.get_fragments())

    @cached_property
    def stored_rows(self) -> dict[int, int]:
        """By fragment: how many rows its files hold, including deleted ones."""
        return {fragment.fragment_id: fragment.physical_rows for fragment in self.dataset.get_fragments()}

    def deleted_offsets(self, fragment: Fragment) -> np.ndarray:
        """Offsets in a fragment's files of the rows that this version does not have, ascending."""
        if fragment.deletions == "":
            return np.zeros(0, np.int64)
        if self.keys is None:
            return self._read_deleted(fragment)
        return self.keys.deleted(self.path, fragment.content, lambda: self._read_deleted(fragment))

    def _read_deleted(self, fragment: Fragment) -> np.ndarray:
        folder = local_folder(self.dataset)
        if folder is not None and fragment.deletions.endswith(".arrow"):
            with translated(self.path), pa.ipc.open_file(f"{folder}/{fragment.deletions}") as file:
                return np.sort(file.read_all().column(0).to_numpy()).astype(np.int64)
        addresses = self.read([], fragments=[fragment.id], with_address=True).column(0).to_numpy()
        is_deleted = np.ones(self.stored_rows[fragment.id], bool)
        is_deleted[(addresses & np.uint64((1 << OFFSET_BITS) - 1)).astype(np.int64)] = False
        return np.flatnonzero(is_deleted)

    def live_offsets(self, fragment: Fragment) -> np.ndarray:
        """The offsets, within a fragment's files, of the rows that this version has; ascending."""
        return np.delete(np.arange(self.stored_rows[fragment.id]), self.deleted_offsets(fragment))

    def is_read_whole(self, fragments: Collection[int] | None = None) -> bool:
        """Whether these fragments (None: all) are on an object store, few, and one request each: then neither reading fewer columns
        nor an index saves anything."""
        if "://" not in self.dataset.uri:
            return False
        chosen = self.fragments if fragments is None else [self._fragments_by_id[id] for id in fragments]
        return len(chosen) <= READ_WHOLE_FRAGMENTS and all(
            0 < fragment.bytes <= READ_WHOLE_BYTES for fragment in chosen
        )

    def read_whole(self, fragments: Sequence[Fragment]) -> list[dict[str, pa.Array]] | None:
        """All columns of fragments that are read whole, which are then held in memory; None if they are not read whole, or if one of
        them is not of this version: inline rows are not."""
        ids = [fragment.id for fragment in fragments]
        if self.keys is None or not self._fragments_by_id.keys() >= {*ids} or not self.is_read_whole(ids):
            return None
        names, held = self.schema.names, self.keys.columns
        if missing := [fragment for fragment in fragments if not held.is_held(self, fragment, names)]:
            rows, first = self.read(names, fragments=[fragment.id for fragment in missing]), 0
            for fragment in missing:
                held.put(self, fragment, rows.slice(first, fragment.rows))
                first += fragment.rows
        whole = [columns for fragment in fragments if (columns := held.find(self, fragment, names)) is not None]
        return whole if len(whole) == len(fragments) else None

    def read_stored(self, columns: Sequence[str], fragments: Sequence[int]) -> pa.Table:
        """Whole fragments as stored, including the rows that this version has deleted, with the values that they had."""
        with translated(self.path):
            rows = self.scan(columns, fragments=fragments, with_row_id=True, with_deleted=True).read_all()
        rows = rows.select(columns)
        if self.columns is None:
            return rows
        sizes = [self.stored_rows[fragment] for fragment in fragments]
        return self.columns.with_fills(rows, np.repeat(np.array(fragments, np.uint64), sizes))

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
        """A stream of batches, in fragment order. `fragments` limits the scan to these fragment ids. `with_deleted` includes rows
        that this version has deleted; their row id is null, and row ids must be requested too."""
        ids = None if fragments is None else list(fragments)
        is_whole = self.is_read_whole(ids)
        mapped, names = self.columns, None if columns is None else list(columns)
        if mapped is not None:
            names = list(self.schema.names) if names is None else names
            reads_address = with_address or mapped.needs_addresses(names)
            read = mapped.columns_to_read(names, counts_rows=reads_address or with_row_id)
        scanner = self.dataset.scanner(
            columns=names if mapped is None else read,
            filter=self.stored_filter(filter),
            fragments=None if ids is None else [self.dataset.get_fragment(id) for id in ids],
            with_row_address=with_address if mapped is None else reads_address,
            with_row_id=with_row_id,
            include_deleted_rows=with_deleted,
            batch_size=batch_rows,
            limit=limit,
            scan_in_order=True,
            use_scalar_index=False if is_whole else None,
            late_materialization=False if is_whole else None,
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
        """The rows that have one of these values in column `name`: from memory, for fragments that are held there; else through
        zones, through the column's index, or by one scan if that is cheaper."""
        return Lookup(self, name, list(dict.fromkeys(values)), columns, with_address).rows(filter)

    def addresses_of(self, ids: Collection[str]) -> dict[str, int]:
        """The row addresses of those ids that the table has."""
        if self.keys is not None and len(ids) <= MAX_IN_LIST:
            held, others = held_keys(self, "id")
            if not others:
                return {id: address for fragment, keys in held for id, address in keys.addresses_of(ids, fragment.id)}
        rows = self.lookup("id", sorted(ids), ["id"], with_address=True)
        return dict(zip(rows.column("id").to_pylist(), rows.column(ROW_ADDRESS).to_pylist(), strict=True))

    def looks_up_in_memory(self, name: str, columns: Sequence[str]) -> bool:
        """Whether a lookup by a key column would currently be answered from memory alone."""
        if self.keys is None:
            return False
        for fragment in self.fragments:
            keys = self.keys.get(self.path, fragment.content)
            is_known = keys is not None and (set(columns) <= keys.columns.keys() or keys.is_whole(self.row_identity))
            if not is_known and not self.keys.columns.is_held(self, fragment, [name, *columns]):
                return False
        return True

    @cached_property
    def indexed_fragments(self) -> dict[str, frozenset[int]]:
        """For each key column the fragments that its index covers."""
        indexed: dict[str, frozenset[int]] = {}
        for entry in self.dataset.describe_indices():
            column, _, kind = entry.name.rpartition(".")
            if kind == "btree" and column in KEY_COLUMNS:
                indexed[column] = frozenset(fragment for segment in entry.segments for fragment in segment.fragment_ids)
        return indexed

    def empty(self, columns: Sequence[str] | None = None, *, with_address: bool = False) -> pa.Table:
        """An empty table with these columns."""
        return self.shape(columns, with_address).empty_table()

    def shape(self, columns: Sequence[str] | None, with_address: bool) -> pa.Schema:
        fields = list(self.schema) if columns is None else [self.schema.field(name) for name in columns]
        return pa.schema([*fields, *([pa.field(ROW_ADDRESS, pa.uint64())] if with_address else [])])

    def rows_at(self, addresses: np.ndarray, columns: Sequence[str]) -> pa.Table:
        """Rows at these addresses, in this order: from memory, for fragments that are held there; else taken by position."""
        owners = (addresses >> np.uint64(OFFSET_BITS)).astype(np.int64)
        offsets = (addresses & np.uint64((1 << OFFSET_BITS) - 1)).astype(np.int64)
        pieces, order = [], []
        for owner in np.unique(owners).tolist() if len(owners) != 1 else owners.tolist():
            at = np.flatnonzero(owners == owner)
            fragment = self._fragments_by_id[owner]
            places = offsets[at] - np.searchsorted(self.deleted_offsets(fragment), offsets[at])
            pieces.append(self.rows_in(fragment, places, addresses[at], columns))
            order.append(at)
        if len(pieces) == 1:
            return pieces[0]
        rows = pa.concat_tables(pieces) if pieces else self.empty(columns)
        return rows.take(pa.array(np.argsort(np.concatenate(order)))) if pieces else rows

    def values_at(self, addresses: Sequence[int], columns: Sequence[str]) -> dict[str, list[Any]]:
        """Like `rows_at`, for a few rows, as Python values."""
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

    def rows_in(
        self, fragment: Fragment, places: np.ndarray, addresses: np.ndarray, columns: Sequence[str]
    ) -> pa.Table:
        """Rows of one fragment, by their positions among its live rows."""
        keys = None if self.keys is None else self.keys.get(self.path, fragment.content)
        if keys is not None and keys.rows is not None and keys.is_whole(self.row_identity):
            return keys.rows.select(list(columns)).take(pa.array(places))
        held = None
        if self.keys is not None:
            # Reading a small fragment whole is as fast as reading one of its rows.
            is_small = fragment.rows <= ROWS_PER_TAKE and fragment.bytes <= BYTES_PER_TAKE
            held = self.keys.columns.hold(self, fragment, columns, ROWS_PER_TAKE, at_once=is_small)
        if held is not None:
            arrays = [held[name].take(pa.array(places)) for name in columns]
            return pa.Table.from_arrays(arrays, schema=self.shape(columns, with_address=False))
        if self.columns is None and len(set(places.tolist())) == len(places):
            with translated(self.path):
                order = np.argsort(places)
                rows = self.dataset.get_fragment(fragment.id).take(places[order].tolist(), columns=list(columns))
                return rows if len(rows) < 2 else rows.take(pa.array(np.argsort(order)))
        rows = self.take_addresses(addresses.tolist(), columns)
        addresses_read = rows.column(ROW_ADDRESS).to_numpy()
        return rows.drop_columns([ROW_ADDRESS]).take(pa.array(np.searchsorted(addresses_read, addresses)))

    def take_addresses(self, addresses: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Rows at these addresses, in table order, with their addresses."""
        by_fragment: dict[int, list[int]] = {}
        for address in sorted(set(addresses)):
            by_fragment.setdefault(fragment_of_address(address), []).append(address)
        if not by_fragment:
            return self.read(columns, "false", with_address=True)
        tables = []
        for fragment, members in by_fragment.items():
            text = f"{ROW_ADDRESS} IN ({', '.join(map(str, members))})"
            tables.append(self.read(columns, text, fragments=[fragment], with_address=True))
        return pa.concat_tables(tables)


def nested_ids(field: Any) -> list[int]:
    """The ids of a field and of the fields nested in it."""
    return [field.id(), *(id for child in field.children() for id in nested_ids(child))]


def _fragment(metadata: Any) -> Fragment:
    deletion = metadata.deletion_file
    return Fragment(
        id=metadata.id,
        # The public `path` builds a class at every access, which would dominate the cost of a small write.
        files=tuple(file._path for file in metadata.files),
        deletions="" if deletion is None else deletion_path(metadata.id, deletion),
        rows=metadata.physical_rows - (0 if deletion is None else deletion.num_deleted_rows),
        bytes=sum(file.file_size_bytes or 0 for file in metadata.files),
    )
