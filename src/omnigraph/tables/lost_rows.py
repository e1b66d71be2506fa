"""Rows that others deleted, replaced or moved while a table was compacted: where they are in the new fragments.

This is needed after every lost race, each time with a few more such rows, and how fast it is decides how soon the next attempt is
made. So everything found once is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.tables.addresses import OFFSET_BITS, ROW_ADDRESS, Fragment
from omnigraph.tables.growing import FIELD_IDS, NO_FIELD, FieldIds
from omnigraph.tables.staging import by_fragment, delete_rows, load_fragment
from omnigraph.tables.table import Table
from omnigraph.values.arrow import widened

# Values that a version does not read although its files hold them: a column of a file has no field there, and a property of the
# type is stored in it. No write makes such a version; it was possible in earlier releases.


def lost_values(table: Table, uri: str, options: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """The files of each fragment with such values, and the values themselves: the ids of its rows, and the properties by name.
    `uri`: the folder of the table."""
    table = table.stored
    for fragment in table.fragments:
        files = [file for file in _metadata(table, fragment.id).files if NO_FIELD in file.fields]
        for file in files:
            place = f"{uri}/data/{file._path}"
            lost = _lost_columns(table, _schema(place, options), file.fields)
            if lost:
                rows = _read(place, options, ["id", *(stored for _, stored in lost)])
                kept = np.setdiff1d(np.arange(rows.num_rows), table.deleted_offsets(fragment))
                rows = rows.take(pa.array(kept))
                columns: dict[str, Any] = {"id": rows.column("id")}
                for name, stored in lost:
                    values = rows.column(stored).combine_chunks()
                    columns[name] = widened(values, table.schema.field(name).type)
                yield fragment.files, pa.table(columns)


def _metadata(table: Table, fragment: int) -> Any:
    return table.dataset.get_fragment(fragment).metadata


def _lost_columns(table: Table, schema: pa.Schema, fields: Sequence[int]) -> list[tuple[str, str]]:
    """Properties, each with the column of a file that holds its values and has no field in the version."""
    if table.layout is None:
        return []
    names = [name for field in schema for name in _repeated(field)]
    unread = {name for name, id in zip(names, fields, strict=True) if id == NO_FIELD}
    return [
        (column.name, stored)
        for column in table.layout.columns
        for stored in [next((name for name, _ in column.stored if name in unread), None)]
        if stored is not None
    ]


def _repeated(field: pa.Field) -> list[str]:
    """The name of a column, for it and for each field nested in it."""
    nested = [field.type.field(place) for place in range(field.type.num_fields)]
    return [field.name, *(field.name for child in nested for _ in _repeated(child))]


def _schema(place: str, options: Mapping[str, str]) -> pa.Schema:
    import lance

    return lance.file.LanceFileReader(place, dict(options) or None).metadata().schema


def _read(place: str, options: Mapping[str, str], columns: Sequence[str]) -> pa.Table:
    import lance

    return lance.file.LanceFileReader(place, dict(options) or None, columns=list(columns)).read_all().to_table()


def rows_with(table: Table, values: pa.Table, fragments: Sequence[int] | None = None) -> pa.Table:
    """The rows of these fragments that gain a value of a property, by their ids, with it and with their addresses. A row gains a
    value where it has none, or the one that all older rows have."""
    assert table.layout is not None, "the table of a type has a layout"
    rows = table.read(fragments=fragments, with_address=True)
    places = pc.index_in(rows.column("id"), value_set=values.column("id").combine_chunks())
    gains: Any = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
    for name in values.column_names[1:]:
        column = table.layout.by_name[name]
        known, own = values.column(name).take(places), rows.column(name)
        replaced = pc.is_null(own)
        if column.fill is not None and not isinstance(column.fill, tuple):
            replaced = pc.or_(replaced, pc.fill_null(pc.equal(own, pa.scalar(column.fill, column.type)), False))
            differs = pc.fill_null(pc.not_equal(own, known), True)
            replaced = pc.and_(replaced, differs)
        replaced = pc.and_(replaced, pc.is_valid(known))
        gains = pc.or_(gains, replaced)
        field = rows.schema.field(name).with_nullable(True)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pc.if_else(replaced, known, own))
    return rows.filter(gains)


def without_addresses(rows: pa.Table) -> tuple[pa.Table, Any]:
    """The rows as they are written, and the addresses that they had."""
    return rows.drop_columns([ROW_ADDRESS]), rows.column(ROW_ADDRESS).to_numpy()


# What two versions of a table have in common: fragments with the same files, and which of their rows each version has.


def fragments_by_files(table: Table | None) -> dict[tuple[str, ...], Fragment]:
    """Fragments that are identified by their files: those whose files are in no other fragment."""
    by_files: dict[tuple[str, ...], Fragment] = {}
    repeated: set[tuple[str, ...]] = set()
    for fragment in table.fragments if table is not None else ():
        if fragment.files in by_files:
            repeated.add(fragment.files)
        by_files[fragment.files] = fragment
    return {files: fragment for files, fragment in by_files.items() if files not in repeated}


def live_offsets(table: Table, fragment: Fragment) -> np.ndarray[Any, Any]:
    rows = table.read([], fragments=[fragment.id], with_address=True)
    addresses: np.ndarray[Any, Any] = rows.column(ROW_ADDRESS).to_numpy()
    return addresses & np.uint64((1 << OFFSET_BITS) - 1)


if TYPE_CHECKING:
    Addresses = np.ndarray[Any, Any]

MAX_MAPPED_ROWS = 65_536
"""In groups of up to this many rows, all rows are located at once; in larger ones only those that are lost."""


@dataclass(frozen=True)
class RewrittenGroup:
    """Fragments of a version, and the new ones with the same rows, as Lance's JSON with fragment ids and row ids."""

    old: tuple[Fragment, ...]
    new: tuple[str, ...]

    @property
    def rows(self) -> int:
        return sum(fragment.rows for fragment in self.old)

    @property
    def field_ids(self) -> FieldIds | None:
        """Field ids of the version that the new fragments were written for; None if its columns are those that the table was
        created with."""
        ids: FieldIds | None = json.loads(self.new[0]).get(FIELD_IDS) if self.new else None
        return ids

    @cached_property
    def new_fragments(self) -> dict[int, Any]:
        return {fragment.id: fragment for fragment in map(load_fragment, self.new)}


@dataclass(frozen=True)
class Rewrite:
    """The fragments that compaction wrote for one version of a table; they can be put on later versions too."""

    base: Table
    groups: tuple[RewrittenGroup, ...]

    @property
    def first_id(self) -> int:
        return min(fragment for group in self.groups for fragment in group.new_fragments)


class LostRows:
    """The lost rows of one rewrite, on any head. `staged` is the base with the new fragments, and with their indexes if there are any."""

    def __init__(self, rewrite: Rewrite, staged: Table) -> None:
        self._base = rewrite.base
        self._staged = staged
        self._gone: dict[tuple[Fragment, str | None], Addresses | None] = {}
        """By fragment and its deletions at a head: addresses of its rows in the base that are gone."""
        self._moved: dict[int, int] = {}
        """Address in the base -> address of the same row in the new fragments."""
        self._trimmed: dict[int, tuple[bytes, Any]] = {}

    def addresses(
        self, group: RewrittenGroup, head: Table, twins: Mapping[tuple[str, ...], Fragment]
    ) -> Addresses | None:
        """Addresses in the new fragments of the rows that the head no longer has in the group's old ones. None if the old ones
        have rows at the head that they did not have in the base."""
        gone: list[Addresses] = [np.array([], dtype=np.uint64)]
        for fragment in group.old:
            rows = self._gone_from(fragment, head, twins.get(fragment.files))
            if rows is None:
                return None
            gone.append(rows)
        old = np.concatenate(gone).tolist()
        self._locate(group, [address for address in old if address not in self._moved])
        return np.array([self._moved[address] for address in old], dtype=np.uint64)

    def _gone_from(self, fragment: Fragment, head: Table, twin: Fragment | None) -> Addresses | None:
        key = (fragment, None if twin is None else twin.deletions)
        if key not in self._gone:
            self._gone[key] = self._compared(fragment, head, twin)
        return self._gone[key]

    def _compared(self, fragment: Fragment, head: Table, twin: Fragment | None) -> Addresses | None:
        if twin is not None and twin.deletions == fragment.deletions:
            return np.array([], dtype=np.uint64)
        if twin is None:
            return live_offsets(self._base, fragment) | np.uint64(fragment.id << OFFSET_BITS)
        before, now = self._base.deleted_offsets(fragment), head.deleted_offsets(twin)
        if len(np.setdiff1d(before, now, assume_unique=True)):
            return None
        offsets: Addresses = np.setdiff1d(now, before, assume_unique=True).astype(np.uint64)
        return offsets | np.uint64(fragment.id << OFFSET_BITS)

    def _locate(self, group: RewrittenGroup, addresses: list[int]) -> None:
        """Find rows of the base in the new fragments, by id."""
        if not addresses:
            return
        if group.rows <= MAX_MAPPED_ROWS:
            old = self._base.read(["id"], fragments=[fragment.id for fragment in group.old], with_address=True)
            new = self._staged.read(["id"], fragments=list(group.new_fragments), with_address=True)
        else:
            old = self._base.take_addresses(addresses, ["id"])
            new = self._staged.lookup("id", old.column("id").to_pylist(), ["id"], with_address=True)
        places = dict(zip(new.column("id").to_pylist(), new.column(ROW_ADDRESS).to_pylist(), strict=True))
        for id, address in zip(old.column("id").to_pylist(), old.column(ROW_ADDRESS).to_pylist(), strict=True):
            self._moved[address] = places[id]

    def trimmed(self, group: RewrittenGroup, addresses: Addresses) -> list[Any]:
        """The group's new fragments without the rows at these addresses."""
        fragments = dict(group.new_fragments)
        for fragment, offsets in by_fragment(addresses):
            left = self._without(fragment, offsets)
            if left is None:
                del fragments[fragment]
            else:
                fragments[fragment] = left
        return list(fragments.values())

    def _without(self, fragment: int, offsets: Any) -> Any:
        known = self._trimmed.get(fragment)
        if known is None or known[0] != offsets.tobytes():
            left = delete_rows(self._staged, fragment, offsets).left
            self._trimmed[fragment] = known = (offsets.tobytes(), left and _to_be_added(left))
        return known[1]


def _to_be_added(fragment: Any) -> Any:
    """A fragment of one version in the form in which another version can add it, with its deletions and ids."""
    value = fragment.to_json()
    value.update(created_at_version_meta=None, last_updated_at_version_meta=None)
    return load_fragment(json.dumps(value))
