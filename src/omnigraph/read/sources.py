"""Inputs of a relational query as Arrow tables: only the columns it needs, only the rows that can matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from omnigraph.read.pushdown import Values, conjunction
from omnigraph.read.search import Computing
from omnigraph.read.shapes import KEY, TYPE, HopInput, NodeInput
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1_024
"""Rows of a batch whose texts or vectors are scored."""


def stored_columns(node: NodeInput) -> list[str]:
    """What is read from the table: the id, the columns of the tree, and what search functions look at."""
    names = ["id", *(column.stored for column in node.columns)]
    names += [one.expression.property.column for one in node.computed]
    return list(dict.fromkeys(names))


def read_nodes(view: View, node: NodeInput, values: Values, ids: Sequence[str] | None = None) -> pa.Table:
    """The node's rows: those with these ids, or all; filtered as far as the scan can."""
    import pyarrow as pa

    tables = [_read_type(view, node, type_name, values, ids) for type_name in node.types]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _read_type(view: View, node: NodeInput, type_name: str, values: Values, ids: Sequence[str] | None) -> pa.Table:
    import pyarrow as pa

    key = f"node:{type_name}"
    table, filter_text, names = view.table(key), conjunction(node.filters, values), stored_columns(node)
    if table is None:
        return shaped(view, node, type_name, view.schema(key).empty_table().select(names), values)
    if ids is not None:
        return shaped(view, node, type_name, table.lookup("id", ids, names, filter=filter_text), values)
    if not node.computed:
        return shaped(view, node, type_name, table.read(names, filter_text), values)
    # A text or a vector is dropped as soon as it is scored: only one batch of them is ever in memory.
    computing = Computing(view, node, values)
    parts = [
        shaped(view, node, type_name, pa.Table.from_batches([batch]), values, computing)
        for batch in table.scan(names, filter_text, batch_rows=BATCH_ROWS)
    ]
    return pa.concat_tables(parts) if parts else shaped(view, node, type_name, table.read(names, "false"), values)


def shaped(
    view: View, node: NodeInput, type_name: str, rows: pa.Table, values: Values, computing: Computing | None = None
) -> pa.Table:
    """Rows of one type under the names of the tree."""
    import pyarrow as pa

    arrays = {KEY: rows.column("id")}
    if len(node.types) > 1:
        arrays[TYPE] = pa.repeat(pa.scalar(type_name, pa.utf8()), rows.num_rows)
    for column in node.columns:
        arrays[column.alias] = rows.column(column.stored)
    if node.computed:
        arrays |= (computing or Computing(view, node, values)).columns(rows)
    return pa.table(arrays)


def stream_nodes(view: View, node: NodeInput, values: Values) -> pa.RecordBatchReader:
    """The same rows as a stream that is read once, for inputs that should not be held in memory."""
    import pyarrow as pa

    empty = shaped(view, node, node.types[0], view.schema(f"node:{node.types[0]}").empty_table(), values)

    def batches() -> Iterator[pa.RecordBatch]:
        computing = Computing(view, node, values) if node.computed else None
        for type_name in node.types:
            table = view.table(f"node:{type_name}")
            if table is None:
                continue
            for batch in table.scan(stored_columns(node), conjunction(node.filters, values)):
                rows = pa.Table.from_batches([batch])
                yield from shaped(view, node, type_name, rows, values, computing).to_batches()

    return pa.RecordBatchReader.from_batches(empty.schema, batches())


def read_edges(view: View, hop: HopInput, values: Values) -> pa.Table:
    """Every edge of the hop's type: src, dst, and with an edge variable its id and columns."""
    bound = hop.expansion.edge_variable is not None
    names = list(dict.fromkeys(["src", "dst", *(["id"] if bound else []), *(c.stored for c in hop.columns)]))
    table = view.table(hop.table_key)
    filter_text = conjunction(hop.filters, values)
    rows = view.schema(hop.table_key).empty_table().select(names) if table is None else table.read(names, filter_text)
    return edge_relation(hop, rows)


def edge_relation(hop: HopInput, rows: pa.Table) -> pa.Table:
    import pyarrow as pa

    arrays = {"src": rows.column("src"), "dst": rows.column("dst")}
    if hop.expansion.edge_variable is not None:
        arrays["id"] = rows.column("id")
    for column in hop.columns:
        arrays[column.alias] = rows.column(column.stored)
    return pa.table(arrays)
