"""Versions with every column that rows are written to, and fragments moved between versions whose columns differ.

Lance numbers the fields of a table, and a data file identifies its columns by these numbers. The columns that a table was created
with have the same numbers in all versions; a column added later may have different numbers on different branches. So a fragment
with such columns carries the field ids of the version that it was written for.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import ValuesLost
from omnigraph.tables.table import Table, nested_ids

FIELD_IDS = "field_ids"
FieldIds = Mapping[str, Sequence[int]]
"""Stored column -> its field ids: its own, then those of nested fields."""

NO_FIELD = -2
"""Lance's own mark for a column of a file that is no longer a field of the table."""

_growing = threading.Lock()


def grown(table: Table, others: Sequence[pa.Field] = ()) -> Table:
    """The table with the same rows, in a version that has every column of its properties, and these of dropped ones, which
    fragments from other versions hold. No row is read or written.

    Made once for each open table.
    """
    result = table
    if table.columns is not None:
        with _growing:
            if table.grown is None:
                assert table.layout is not None, "a table without a layout is stored as it is"
                table.grown = _grown(table, table.layout.grown_schema(table.dataset.schema))
            result = table.grown
    if not others:
        return result
    stored = result.dataset.schema
    return _grown(result, pa.schema([*stored, *(field for field in others if field.name not in stored.names)]))


def _grown(table: Table, wanted: pa.Schema) -> Table:
    from lance import LanceDataset, LanceOperation
    from lance.schema import LanceSchema

    dataset = table.dataset
    stored = dataset.schema
    if wanted.equals(stored):
        return table
    # Lance matches the fields by position: columns are only ever added at the end.
    assert field_ids(dataset) == _ids(LanceSchema.from_pyarrow(stored)), "the fields of a table are numbered in order"
    relaxed = pa.schema([wanted.field(place) for place in range(len(stored))])
    if not relaxed.equals(stored):
        operation = LanceOperation.Project(LanceSchema.from_pyarrow(relaxed))
        dataset = LanceDataset.commit(dataset, operation, read_version=dataset.version, detached=True)
    if len(wanted) > len(stored):
        fragments = [fragment.metadata for fragment in dataset.get_fragments()]
        operation = LanceOperation.Merge(fragments, LanceSchema.from_pyarrow(wanted))
        dataset = LanceDataset.commit(dataset, operation, read_version=dataset.version, detached=True)
    result = Table(table.path, dataset, table.layout)
    result.keys = table.keys
    result.grown = result
    return result


def rows_to_store(table: Table, rows: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
    """Rows with the columns that readers see, as the columns that they are written to."""
    if table.columns is None:
        return rows
    assert table.layout is not None, "a table without a layout is stored as it is"
    names, stored = table.layout.schema.names, table.layout.written_schema
    fields = [table.dataset.schema.field(name) for name in stored.names]
    schema = pa.schema(fields)

    def renamed(part: Any) -> Any:
        columns = [part.column(name) for name in names]
        return type(part).from_arrays(columns, schema=schema)

    def batches() -> Iterator[Any]:
        for batch in rows:
            yield renamed(batch)

    return renamed(rows) if isinstance(rows, pa.Table) else pa.RecordBatchReader.from_batches(schema, batches())


def field_ids(dataset: Any) -> FieldIds:
    """The field ids of a version."""
    return _ids(dataset.lance_schema)


def _ids(schema: Any) -> FieldIds:
    return {field.name(): nested_ids(field) for field in schema.fields()}


def rename_fields(files: Sequence[dict[str, Any]], own: FieldIds, others: FieldIds) -> None:
    """Replace the field ids of one version in data files with those of another. Columns that the other lacks are of properties that
    were dropped since the rows were written."""
    numbers = {NO_FIELD: NO_FIELD}
    for name, ids in own.items():
        numbers.update(zip(ids, others.get(name, [NO_FIELD] * len(ids)), strict=True))
    for file in files:
        file["fields"] = [numbers[id] for id in file["fields"]]


def check_values_kept(after: Table, before: Table, texts: Iterable[str] = ()) -> None:
    """ValuesLost if a fragment of a version that is handed on lacks a column of a property that it had: in the version that it came
    from, or (`texts`) where it was written. Files are not read."""
    if after.columns is None or after.layout is None:
        return
    listed = {name for column in after.layout.columns for name, _ in column.stored}
    held = {fragment.files: before.held_columns[fragment.id] for fragment in before.fragments}
    held |= {_files(value): _named(value) for value in map(json.loads, texts) if FIELD_IDS in value}
    for fragment in after.fragments:
        lost = (held.get(fragment.files, frozenset()) & listed) - after.held_columns[fragment.id]
        if lost:
            raise ValuesLost(after.path, sorted(lost))


class ValueCount:
    """Counts the values in rows of a table's fragments while they are rewritten: those of each property that is not in its newest
    column in all of these fragments. What is there is counted column by column, as it is stored; what is rewritten, as it is
    read."""

    def __init__(self, table: Table, fragments: Collection[int]) -> None:
        self.table = table
        held = {} if table.columns is None else {id: table.held_columns[id] for id in fragments}
        columns = () if table.layout is None else table.layout.columns
        outdated = [column for column in columns if any(column.stored[0][0] not in names for names in held.values())]
        self.lacking = {column.name: 0 for column in outdated}
        """By property: how many values were stored and not yet rewritten."""
        if not outdated:
            return
        rows = {fragment.id: fragment.rows for fragment in table.fragments}
        owners = {name: column for column in outdated for name, _ in column.stored}
        for column in outdated:
            names = {name for name, _ in column.stored}
            if column.fill is not None:
                self.lacking[column.name] = sum(rows[id] for id, own in held.items() if own.isdisjoint(names))
        present = sorted(owners.keys() & frozenset().union(*held.values()))
        chosen = [table.dataset.get_fragment(id) for id in held]
        for batch in table.dataset.scanner(columns=present, fragments=chosen).to_reader() if present else ():
            for name in present:
                self.lacking[owners[name].name] += len(batch) - batch.column(name).null_count

    def counted(self, rows: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
        """The same rows, which are counted as they pass."""

        def pass_on(part: Any) -> Any:
            for name in self.lacking:
                self.lacking[name] -= len(part) - part.column(name).null_count
            return part

        if isinstance(rows, pa.Table) or not self.lacking:
            return pass_on(rows)
        return pa.RecordBatchReader.from_batches(rows.schema, map(pass_on, rows))

    def check(self) -> None:
        """ValuesLost if values were not rewritten."""
        if lost := [name for name, count in self.lacking.items() if count]:
            raise ValuesLost(self.table.path, lost)


def _files(fragment: dict[str, Any]) -> tuple[str, ...]:
    return tuple(file["path"] for file in fragment["files"])


def _named(fragment: dict[str, Any]) -> frozenset[str]:
    """The columns of a fragment in the form in which it can be added to a version."""
    fields = {id for file in fragment["files"] for id in file["fields"]}
    return frozenset(name for name, ids in fragment[FIELD_IDS].items() if not fields.isdisjoint(ids))


def renamed_fields(fragments: Sequence[Any], own: FieldIds | None, table: Table) -> list[Any]:
    """Fragments with the field ids of another version of their table."""
    from lance import FragmentMetadata

    if own is None:
        return list(fragments)
    ids, renamed = field_ids(table.dataset), []
    for fragment in fragments:
        value = fragment.to_json()
        rename_fields(value["files"], own, ids)
        renamed.append(FragmentMetadata.from_json(json.dumps(value)))
    return renamed
