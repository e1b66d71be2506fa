"""Every table in full, the tree in the engine. It answers every read; large tables are streamed to the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.read.inputs import sources
from omnigraph.read.sql.shapes import GIVEN
from omnigraph.read.strategies.strategy import InputChoice, Read, Strategy, TreeAnswer, hop_name


def _answer(read: Read) -> TreeAnswer:
    """In mode "scan", conditions are left to the tree alone, and no table is left out."""
    view, arguments, is_plain = read.view, read.arguments, read.mode == "scan"
    prepared = read.prepared(elide=not is_plain)
    query = prepared.query
    relations: dict[str, Any] = {} if read.start_rows is None else {GIVEN: read.start_rows}
    choices = []
    for node in query.inputs:
        input_ = replace(node, filters=(), ranked=None) if is_plain else node
        rows = sources.node_rows(view, node)
        if not is_plain and rows > sources.STREAMED_ROWS and prepared.uses(node.name) == 1:
            relations[node.name] = sources.stream_nodes(view, input_, arguments)
            choices.append(InputChoice(f"${node.variable}", "scan", None, "streamed", rows))
        else:
            relations[node.name] = sources.read_nodes(view, input_, arguments)
            choices.append(InputChoice(f"${node.variable}", "scan", relations[node.name].num_rows, "", rows))
    for hop in query.hops:
        relations[hop.edges] = sources.read_edges(view, replace(hop, filters=()) if is_plain else hop, arguments)
        edges = sum(map(view.rows, hop.table_keys))
        choices.append(InputChoice(hop_name(hop.expansion), "sql", relations[hop.edges].num_rows, "", edges))
    return TreeAnswer(tuple(choices), prepared, relations)


SCAN = Strategy("scan", frozenset({"auto", "scan", "index", "csr"}), _answer)
