"""Inputs of a relational query as Arrow tables: only the columns it needs, only the rows that can matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.predicates import Predicate
from omnigraph.language.catalog import EdgeType
from omnigraph.read.inputs.scans import Stream, read_table, scan_table
from omnigraph.read.search.candidates import Computing, find_candidates
from omnigraph.read.sql.shapes import KEY, MARK, TYPE, HopInput, NodeInput
from omnigraph.snapshot import View

BATCH_ROWS = 1_024
"""Rows per batch when texts or vectors are scored."""
STREAMED_ROWS = 2_000_000
"""A scan of more rows is streamed to the engine, which may spill what it must keep."""


def node_rows(view: View, node: NodeInput) -> int:
    """How many rows the tables of a node have."""
    return sum(view.rows(f"node:{type_name}") for type_name in node.types)


def stored_columns(node: NodeInput) -> list[str]:
    """The columns read from the table: the id, the columns of the tree, and those that search functions use."""
    names = ["id", *(column.stored for column in node.columns)]
    names += [computed.expression.property.column for computed in node.computed]
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Searched:
    """A node's rows under the names of the tree, and the index that found them."""

    rows: pa.Table
    how: str


def search_nodes(view: View, node: NodeInput, arguments: Arguments, *, forced: bool = False) -> Searched | None:
    """The rows that a search of the node can want; None unless it has one type and an index finds them."""
    table = view.table(f"node:{node.types[0]}") if len(node.types) == 1 and node.computed else None
    candidates = None if table is None else find_candidates(table, node, stored_columns(node), arguments, forced=forced)
    return (
        None
        if candidates is None
        else Searched(shaped(view, node, node.types[0], candidates.rows, arguments), candidates.how)
    )


def read_nodes(
    view: View, node: NodeInput, arguments: Arguments, ids: Sequence[str] | None = None, *, by_scan: bool = False
) -> pa.Table:
    """The node's rows: those with these ids, or all; filtered as far as a scan or the search indexes can.

    `by_scan`: the search indexes were tried already.
    """
    tables = [_read_type(view, node, type_name, arguments, ids, by_scan) for type_name in node.types]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _read_type(
    view: View, node: NodeInput, type_name: str, arguments: Arguments, ids: Sequence[str] | None, by_scan: bool
) -> pa.Table:
    key = f"node:{type_name}"
    table, filter_text, names = view.table(key), Predicate(node.filters, arguments).filter, stored_columns(node)
    if table is None:
        return shaped(view, node, type_name, view.schema(key).empty_table().select(names), arguments)
    if ids is not None:
        rows = None if filter_text else view.repository.tables.adjacency.lookup(table, ids, names)
        if rows is None:
            rows = table.lookup("id", ids, names, filter=filter_text)
        return shaped(view, node, type_name, rows, arguments)
    if not node.computed:
        return shaped(view, node, type_name, read_table(table, names, filter_text, arguments.deadline), arguments)
    if not by_scan and (candidates := find_candidates(table, node, names, arguments)) is not None:
        return shaped(view, node, type_name, candidates.rows, arguments)
    # Texts and vectors are dropped once they are scored, so only one batch of them is in memory.
    computing = Computing(view, node, arguments)
    parts = [
        shaped(view, node, type_name, pa.Table.from_batches([batch]), arguments, computing)
        for batch in scan_table(table, names, filter_text, arguments.deadline, BATCH_ROWS)
    ]
    return pa.concat_tables(parts) if parts else shaped(view, node, type_name, table.read(names, "false"), arguments)


def shaped(
    view: View,
    node: NodeInput,
    type_name: str,
    rows: pa.Table,
    arguments: Arguments,
    computing: Computing | None = None,
) -> pa.Table:
    """Rows of one type under the names of the tree."""
    arrays = {KEY: rows.column("id")}
    if len(node.types) > 1:
        arrays[TYPE] = pa.repeat(pa.scalar(type_name, pa.utf8()), rows.num_rows)
    for column in node.columns:
        arrays[column.alias] = rows.column(column.stored)
    if node.computed:
        arrays |= (computing or Computing(view, node, arguments)).columns(rows)
    return pa.table(arrays)


def stream_nodes(view: View, node: NodeInput, arguments: Arguments) -> Stream:
    """The rows of `read_nodes` as a stream that is read once, for inputs that should not be held in memory."""
    empty = shaped(view, node, node.types[0], view.schema(f"node:{node.types[0]}").empty_table(), arguments)

    def batches() -> Iterator[pa.RecordBatch]:
        computing = Computing(view, node, arguments) if node.computed else None
        for type_name in node.types:
            table = view.table(f"node:{type_name}")
            if table is None:
                continue
            names = stored_columns(node)
            candidates = find_candidates(table, node, names, arguments) if node.computed else None
            text = Predicate(node.filters, arguments).filter
            for batch in (
                scan_table(table, names, text, arguments.deadline)
                if candidates is None
                else candidates.rows.to_batches()
            ):
                rows = pa.Table.from_batches([batch])
                yield from shaped(view, node, type_name, rows, arguments, computing).to_batches()

    return Stream(empty.schema, batches())


def read_edges(view: View, hop: HopInput, arguments: Arguments) -> pa.Table:
    """Every edge of the hop's types: src, dst, and where edges are read their ids, columns and, of several types, the type."""
    bound = hop.expansion.reads_edges
    names = list(dict.fromkeys(["src", "dst", *(["id"] if bound else []), *(c.stored for c in hop.columns)]))
    filter_text = Predicate(hop.filters, arguments).filter
    parts = []
    for name, key in zip(hop.expansion.edges, hop.table_keys, strict=True):
        table = view.table(key)
        rows = (
            view.schema(key).empty_table().select(names)
            if table is None
            else read_table(table, names, filter_text, arguments.deadline)
        )
        part = edge_relation(hop, rows)
        if hop.expansion.is_mixed:
            part = _with_types(part, view.catalog.edges[name])
        if bound and hop.expansion.others:
            part = part.append_column(TYPE, pa.repeat(pa.scalar(name, pa.utf8()), part.num_rows))
        parts.append(part)
    return pa.concat_tables(parts)


def _with_types(rows: pa.Table, edge: EdgeType) -> pa.Table:
    """The ends of edges with the types of their nodes."""
    for place, kind in ((0, edge.source), (1, edge.target)):
        ends = pc.binary_join_element_wise(rows.column(place), pa.scalar(kind), pa.scalar(MARK))
        rows = rows.set_column(place, rows.column_names[place], ends)
    return rows


def edge_relation(hop: HopInput, rows: pa.Table) -> pa.Table:
    arrays = {"src": rows.column("src"), "dst": rows.column("dst")}
    if hop.expansion.reads_edges:
        arrays["id"] = rows.column("id")
    for column in hop.columns:
        arrays[column.alias] = rows.column(column.stored)
    return pa.table(arrays)
