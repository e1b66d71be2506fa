"""Edges under a key that their schema declared later: the same rows, with the ids that follow from the key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.history.values import TableState
from omnigraph.language.catalog import Catalog, EdgeType
from omnigraph.records.ids import derived_ids
from omnigraph.snapshot import View
from omnigraph.tables.staging import Staged
from omnigraph.tables.table import Table


@dataclass(frozen=True)
class RekeyedTable:
    """A staged version with the ids of the key. `duplicates`: edges that were left out, because another has the same key."""

    state: TableState
    staged: Staged
    duplicates: tuple[str, ...]


def rekeyed_edges(before: Catalog, after: Catalog) -> tuple[EdgeType, ...]:
    """The edge types whose ids follow from another key, or only now from one."""
    known = before.by_id
    return tuple(
        edge for edge in after.edges.values() if edge.id in known and edge.key_ids not in ((), known[edge.id].key_ids)
    )


def rekey(view: View, edge: EdgeType) -> RekeyedTable | None:
    """The table of an edge type with other ids; None if it has no rows. The view's schema is the one with the key. Of several
    edges with the same key, that with the smallest id is kept."""
    table, before = view.table(edge.table_key), view.state(edge.table_key)
    if table is None or before is None or not before.rows:
        return None
    left_out = _duplicates(table, edge)

    def batches() -> Iterator[Any]:
        for batch in table.scan():
            yield _rekeyed(batch, edge, left_out)

    rows = pa.RecordBatchReader.from_batches(table.schema, batches())
    staged = view.repository.tables.stage(table, rows=rows, clear=True, fold=False)
    state = TableState(staged.path, staged.version, before.generation + 1, staged.rows, staged.digest)
    return RekeyedTable(state, staged, tuple(left_out.to_pylist()))


def _ids(rows: Any, edge: EdgeType) -> pa.StringArray:
    columns = {name: rows.column(name) for name in edge.key}
    chunked = {name: column for name, column in columns.items() if isinstance(column, pa.ChunkedArray)}
    return derived_ids(edge, columns | {name: pa.concat_arrays(column.chunks) for name, column in chunked.items()})


def _rekeyed(batch: pa.RecordBatch, edge: EdgeType, left_out: pa.StringArray) -> pa.RecordBatch:
    kept = batch.filter(pc.invert(pc.is_in(batch.column("id"), value_set=left_out))) if len(left_out) else batch
    return kept.set_column(kept.schema.get_field_index("id"), kept.schema.field("id"), _ids(kept, edge))


def _duplicates(table: Table, edge: EdgeType) -> pa.StringArray:
    """The ids of edges with the key of another one."""
    rows = table.read(["id", *edge.key]).sort_by("id").combine_chunks()
    keys = pa.table({"id": rows.column("id"), "key": _ids(rows, edge)})
    if len(keys.column("key").unique()) == keys.num_rows:
        return pa.array([], pa.string())
    first = keys.group_by("key", use_threads=False).aggregate([("id", "first")]).column("id_first")
    others = keys.filter(pa.compute.invert(pa.compute.is_in(keys.column("id"), value_set=first.combine_chunks())))
    return others.column("id").combine_chunks()
