"""Results of reads, and how a read would run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.wire.members import JsonObject, present

if TYPE_CHECKING:
    from omnigraph.read import Explanation, Picture, Result, SqlResult, Step


def result_json(result: Result, *, revision: str, as_of: str | None, with_rows: bool = True) -> JsonObject:
    """{query_name, target: {revision, as_of?}, row_count, columns, rows, graph_commit_id}."""
    return {
        "query_name": result.query_name,
        "target": present({"revision": revision, "as_of": as_of}),
        "row_count": result.num_rows,
        "columns": [column.name for column in result.columns],
        "rows": result.to_json() if with_rows else [],
        "graph_commit_id": result.commit_id,
    }


def _step_json(step: Step) -> JsonObject:
    return {
        "depth": step.depth,
        "step": step.what,
        "access": step.access,
        "expected": step.expected,
        "rows": step.rows,
        "ms": None if step.seconds is None else round(step.seconds * 1_000, 3),
        "note": step.note,
    }


def picture_json(picture: Picture) -> JsonObject:
    """{title, nodes: [{type, id?, lines}], edges: [{type, source, target, count}], left_out}."""
    return {
        "title": picture.title,
        "nodes": [
            present({"type": node.type_name, "id": node.id, "lines": list(node.lines)}) for node in picture.nodes
        ],
        "edges": [
            {"type": edge.type_name, "source": edge.source, "target": edge.target, "count": edge.count}
            for edge in picture.edges
        ],
        "left_out": picture.left_out,
    }


def sql_json(result: SqlResult, *, revision: str, as_of: str | None) -> JsonObject:
    """{target: {revision, as_of?}, row_count, columns, rows, graph_commit_id}."""
    return {
        "target": present({"revision": revision, "as_of": as_of}),
        "row_count": result.num_rows,
        "columns": [column.name for column in result.columns],
        "rows": result.to_json(),
        "graph_commit_id": result.commit_id,
    }


def explanation_json(explanation: Explanation) -> JsonObject:
    """{commit, keys, steps: [{depth, step, access, expected, rows, ms, note}], inputs: [{name, tables, columns, filter}],
    access: [{input, path, rows, estimate, expected}], sql}."""
    return {
        "commit": explanation.commit,
        "keys": explanation.keys,
        "steps": [_step_json(step) for step in explanation.steps],
        "inputs": [
            {
                "name": columns.name,
                "tables": list(columns.tables),
                "columns": list(columns.columns),
                "filter": columns.filter,
            }
            for columns in explanation.inputs
        ],
        "access": [
            {
                "input": choice.what,
                "path": choice.path,
                "rows": choice.rows,
                "estimate": choice.estimate,
                "expected": choice.expected,
            }
            for choice in explanation.choices
        ],
        "sql": explanation.sql,
    }
