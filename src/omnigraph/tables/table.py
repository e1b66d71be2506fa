"""One table at one pinned version: what a reader sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.tables import filters

if TYPE_CHECKING:
    import pyarrow as pa

ROW_ADDRESS = "_rowaddr"
ROW_ID = "_rowid"

IN_LIST_MOST = 4_096
"""Values per index lookup; a longer list is looked up in several calls or by one scan of the column."""


@dataclass(frozen=True)
class Part:
    """A run of rows of a table. Two versions that share a part (equal `content`) share its rows exactly."""

    id: int
    files: tuple[str, ...]
    deletions: str
    rows: int
    bytes: int

    @property
    def content(self) -> tuple[tuple[str, ...], str]:
        return (self.files, self.deletions)


def part_of_address(address: int) -> int:
    """The part a row address lies in."""
    return address >> 32


def offset_of_address(address: int) -> int:
    return address & 0xFFFFFFFF


class Table:
    """Immutable: a path and a version. Safe to share between threads; everything derived from it may be cached."""

    def __init__(self, path: str, dataset: Any) -> None:
        self.path = path
        self.dataset = dataset
        """The Lance dataset, which is also an Arrow dataset: DuckDB scans it in place."""
        self.version: int = dataset.version

    @property
    def schema(self) -> pa.Schema:
        return self.dataset.schema

    @cached_property
    def rows(self) -> int:
        """How many rows; from metadata, without a scan."""
        return int(self.dataset.count_rows())

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return tuple(_part(fragment.metadata) for fragment in self.dataset.get_fragments())

    def count(self, filter: str) -> int:
        return int(self.dataset.count_rows(filter))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        *,
        parts: Iterable[int] | None = None,
        with_address: bool = False,
        with_row_id: bool = False,
        batch_rows: int | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """A stream of batches. `parts` limits the scan to these part ids; order is that of the parts."""
        fragments = None if parts is None else [self.dataset.get_fragment(part) for part in parts]
        scanner = self.dataset.scanner(
            columns=None if columns is None else list(columns),
            filter=filter,
            fragments=fragments,
            with_row_address=with_address,
            with_row_id=with_row_id,
            batch_size=batch_rows,
            limit=limit,
            scan_in_order=True,
        )
        return scanner.to_reader()

    def read(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        *,
        parts: Iterable[int] | None = None,
        with_address: bool = False,
        with_row_id: bool = False,
    ) -> pa.Table:
        chosen = None if parts is None else list(parts)
        if chosen == []:
            return self.scan(columns, "false", with_address=with_address, with_row_id=with_row_id).read_all()
        return self.scan(columns, filter, parts=chosen, with_address=with_address, with_row_id=with_row_id).read_all()

    def lookup(
        self,
        name: str,
        values: Sequence[object],
        columns: Sequence[str] | None = None,
        *,
        with_address: bool = False,
        filter: str | None = None,
    ) -> pa.Table:
        """The rows whose column `name` has one of these values: through its index, or by one scan when that is cheaper."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = list(dict.fromkeys(values))
        if len(wanted) > max(IN_LIST_MOST, self.rows // 8):
            return self._lookup_by_scan(name, wanted, columns, with_address, filter)
        found = []
        for start in range(0, max(len(wanted), 1), IN_LIST_MOST):
            chunk = wanted[start : start + IN_LIST_MOST]
            text = filters.in_list(name, chunk) if chunk else "false"
            if filter:
                text = f"({text}) AND ({filter})"
            found.append(self.read(columns, text, with_address=with_address))
        table = pa.concat_tables(found)
        return table.take(pc.sort_indices(table, [(ROW_ADDRESS, "ascending")])) if with_address else table

    def _lookup_by_scan(
        self, name: str, values: list[object], columns: Sequence[str] | None, with_address: bool, filter: str | None
    ) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        names = list(columns) if columns is not None else list(self.schema.names)
        value_set = pa.array(values, self.schema.field(name).type)
        read = names if name in names else [*names, name]
        kept = []
        for batch in self.scan(read, filter, with_address=with_address):
            kept.append(batch.filter(pc.is_in(batch.column(name), value_set=value_set)))
        if not kept:
            return self.read(names, "false", with_address=with_address)
        table = pa.Table.from_batches(kept)
        return table.select([*names, *([ROW_ADDRESS] if with_address else [])])

    def take_addresses(self, addresses: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Rows at these addresses, in the order of the table, with their addresses."""
        by_part: dict[int, list[int]] = {}
        for address in sorted(set(addresses)):
            by_part.setdefault(part_of_address(address), []).append(address)
        import pyarrow as pa

        if not by_part:
            return self.read(columns, "false", with_address=True)
        tables = []
        for part, members in by_part.items():
            text = f"{ROW_ADDRESS} IN ({', '.join(map(str, members))})"
            tables.append(self.read(columns, text, parts=[part], with_address=True))
        return pa.concat_tables(tables)


def _part(metadata: Any) -> Part:
    deletion = metadata.deletion_file
    value = metadata.to_json()
    return Part(
        id=metadata.id,
        files=tuple(file.path for file in metadata.files),
        deletions="" if deletion is None else deletion_path(metadata.id, value["deletion_file"]),
        rows=metadata.physical_rows - (0 if deletion is None else deletion.num_deleted_rows),
        bytes=sum(file.get("file_size_bytes") or 0 for file in value["files"]),
    )


def deletion_path(part_id: int, deletion: dict[str, Any]) -> str:
    """Where a part's deletions are stored, relative to the table."""
    suffix = "arrow" if deletion["file_type"] == "array" else "bin"
    return f"_deletions/{part_id}-{deletion['read_version']}-{deletion['id']}.{suffix}"
