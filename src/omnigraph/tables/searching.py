"""Rows found through a text or vector index. Fragments that the index does not cover are searched too, row by row."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph._internal.lazy_imports import pa
from omnigraph.tables.addresses import ROW_ADDRESS, ROW_ID
from omnigraph.tables.changed_table import ChangedTable
from omnigraph.tables.lance_errors import translated
from omnigraph.tables.table import Table

DISTANCE = "_distance"

PARTITION_ROWS = 4_096
"""Rows per partition of a vector index, on average."""
MIN_PROBED = 32
PROBED_SHARE = 8
"""At least `MIN_PROBED` partitions are searched, and at least one in this many."""


def find_text(
    table: Table,
    column: str,
    words: Sequence[str],
    columns: Sequence[str],
    *,
    every: bool,
    filter: str | None,
    limit: int,
) -> pa.Table:
    """Up to `limit` rows whose text has every (or any) of these words, among those that the filter keeps, with row ids.

    The index's words are pieces of ours, so a row in the result may lack a word as a whole; no row that has it is missing.
    """
    if not isinstance(table, ChangedTable):
        return _text_hits(table, column, words, columns, every, filter, limit)
    hits = _text_hits(table.stored, column, words, columns, every, filter, limit + len(table.masked), masks=True)
    seen = table.unmasked(hits).drop_columns([ROW_ADDRESS])
    # The few inline rows are not searched: all of them are candidates.
    return pa.concat_tables([seen, table.all_hits(columns, filter).cast(seen.schema)]).slice(0, limit)


def _text_hits(
    table: Table,
    column: str,
    words: Sequence[str],
    columns: Sequence[str],
    every: bool,
    filter: str | None,
    limit: int,
    *,
    masks: bool = False,
) -> pa.Table:
    from lance import query

    operator = query.FullTextOperator.AND if every else query.FullTextOperator.OR
    with translated(table.path):
        hits = table.dataset.scanner(
            columns=_read(table, columns),
            full_text_query=query.MatchQuery(" ".join(words), table.stored_column(column), operator=operator),
            filter=table.stored_filter(filter),
            prefilter=True,
            limit=limit,
            with_row_id=True,
            with_row_address=masks or _needs_addresses(table, columns),
            disable_scoring_autoprojection=True,
        ).to_table()
    return _seen(table, hits, columns, [ROW_ID, *([ROW_ADDRESS] if masks else [])])


def find_nearest(
    table: Table,
    column: str,
    query: Sequence[float],
    columns: Sequence[str],
    *,
    metric: str,
    filter: str | None,
    limit: int,
) -> pa.Table:
    """Approximately the `limit` nearest rows among those that the filter keeps, nearest first, with row ids and `_distance`."""
    if not isinstance(table, ChangedTable):
        return _nearest_hits(table, column, query, columns, metric, filter, limit)
    wider = limit + len(table.masked)
    hits = _nearest_hits(table.stored, column, query, columns, metric, filter, wider, masks=True)
    seen = table.unmasked(hits).drop_columns([ROW_ADDRESS])
    if table.has_values(column):
        own = _nearest_hits(table.searchable, column, query, columns, metric, filter, limit)
        seen = pa.concat_tables([seen, table.placed(own).cast(seen.schema)]).sort_by(DISTANCE)
    return seen.slice(0, limit)


def _nearest_hits(
    table: Table,
    column: str,
    query: Sequence[float],
    columns: Sequence[str],
    metric: str,
    filter: str | None,
    limit: int,
    *,
    masks: bool = False,
) -> pa.Table:
    probed = max(MIN_PROBED, table.rows // PARTITION_ROWS // PROBED_SHARE)
    wanted = {
        "column": table.stored_column(column),
        "q": pa.array(query, pa.float32()),
        "k": limit,
        "metric": metric,
        "minimum_nprobes": probed,
    }
    with translated(table.path):
        hits = table.dataset.scanner(
            columns=[*_read(table, columns), DISTANCE],
            nearest=wanted,
            filter=table.stored_filter(filter),
            prefilter=True,
            with_row_id=True,
            with_row_address=masks or _needs_addresses(table, columns),
        ).to_table()
    return _seen(table, hits, columns, [DISTANCE, ROW_ID, *([ROW_ADDRESS] if masks else [])])


def _needs_addresses(table: Table, columns: Sequence[str]) -> bool:
    return table.columns is not None and table.columns.needs_addresses(columns)


def _read(table: Table, columns: Sequence[str]) -> list[str]:
    mapped = table.columns
    return list(columns) if mapped is None else mapped.columns_to_read(columns, counts_rows=True)


def _seen(table: Table, hits: pa.Table, columns: Sequence[str], extra: Sequence[str]) -> pa.Table:
    """Results with the columns that readers see."""
    mapped = table.columns
    if mapped is None:
        return hits
    batches = [mapped.batch(batch, columns, extra) for batch in hits.to_batches()]
    return pa.Table.from_batches(batches, mapped.schema(columns, [hits.schema.field(name) for name in extra]))
