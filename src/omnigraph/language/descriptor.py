"""What tools are told about a compiled query: result columns, parameters, types read and written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omnigraph.language.query.plan import MutationPlan, Parameter, QueryPlan, ReadPlan, ResultColumn
from omnigraph.language.query.reads import result_column


def describe(plan: QueryPlan) -> dict[str, Any]:
    """The operation: columns of the result, entity types that may be inspected, and exactly those written."""
    columns = plan.columns if isinstance(plan, ReadPlan) else ()
    writes = plan.writes if isinstance(plan, MutationPlan) else ()
    return {
        "result": [_column(column) for column in columns],
        "reads": _types(plan.reads),
        "writes": _types(writes),
    }


def catalog_entry(plan: QueryPlan) -> dict[str, Any]:
    """A stored query as a list of queries shows it."""
    entry: dict[str, Any] = {"name": plan.name, "tool_name": plan.name}
    if plan.description is not None:
        entry["description"] = plan.description
    if plan.instruction is not None:
        entry["instruction"] = plan.instruction
    entry["mutation"] = isinstance(plan, MutationPlan)
    entry["params"] = [_column(result_column(one.name, Parameter(one.name, one.type))) for one in plan.parameters]
    return entry


def _column(column: ResultColumn) -> dict[str, Any]:
    value: dict[str, Any] = {"name": column.name, "kind": column.kind}
    if column.item_kind is not None:
        value["item_kind"] = column.item_kind
    if column.vector_dim is not None:
        value["vector_dim"] = column.vector_dim
    value["nullable"] = column.nullable
    return value


def _types(table_keys: Iterable[str]) -> list[dict[str, str]]:
    pairs = (table_key.split(":", 1) for table_key in table_keys)
    return [{"kind": kind, "type_name": name} for kind, name in pairs]
