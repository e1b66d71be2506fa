"""Descriptions of queries for tools: parameters, result columns, types read and written; and the findings of lint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from omnigraph.language.query.plan import MutationPlan, Parameter, QueryPlan, ResultColumn
from omnigraph.wire.members import JsonObject, present

if TYPE_CHECKING:
    from omnigraph.language.query.lint import LintedQuery, LintReport, QueryFinding


def query_json(plan: QueryPlan) -> JsonObject:
    """A stored query: {name, tool_name, description?, instruction?, mutation, params: [{name, kind, item_kind?,
    vector_dim?, nullable}]}."""
    from omnigraph.language.query.reads import result_column

    return present(
        {
            "name": plan.name,
            "tool_name": plan.name,
            "description": plan.description,
            "instruction": plan.instruction,
            "mutation": isinstance(plan, MutationPlan),
            "params": [
                _column(result_column(parameter.name, Parameter(parameter.name, parameter.type)))
                for parameter in plan.parameters
            ],
        }
    )


def operation_json(columns: Iterable[ResultColumn], reads: Iterable[str], writes: Iterable[str]) -> JsonObject:
    """{result: [column], reads: [{kind, type_name}], writes: [...]}."""
    return {"result": [_column(column) for column in columns], "reads": _types(reads), "writes": _types(writes)}


def _column(column: ResultColumn) -> JsonObject:
    return present(
        {
            "name": column.name,
            "kind": column.kind,
            "item_kind": column.item_kind,
            "vector_dim": column.vector_dim,
            "nullable": column.nullable,
        }
    )


def _types(table_keys: Iterable[str]) -> list[JsonObject]:
    pairs = (table_key.split(":", 1) for table_key in table_keys)
    return [{"kind": kind, "type_name": name} for kind, name in pairs]


def lint_json(report: LintReport, schema_source: Mapping[str, str]) -> JsonObject:
    """{status, schema_source, query_path?, queries_processed, errors, warnings, infos, results: [{name, kind, status,
    error?, warnings, operation?}], findings: [{severity, code, message, type_name?, property?, query_names}]}."""
    return present(
        {
            "status": report.status,
            "schema_source": dict(schema_source),
            "query_path": report.file,
            "queries_processed": len(report.queries),
            "errors": report.count("error"),
            "warnings": report.count("warning"),
            "infos": report.count("info"),
            "results": [_linted(query) for query in report.queries],
            "findings": [_finding(finding) for finding in report.findings],
        }
    )


def _linted(query: LintedQuery) -> JsonObject:
    is_good = query.error is None
    return present(
        {
            "name": query.name,
            "kind": query.kind,
            "status": "ok" if is_good else "error",
            "error": query.error and query.error.render(),
            "warnings": list(query.warnings),
            "operation": operation_json(query.columns, query.reads, query.writes) if is_good else None,
        }
    )


def _finding(finding: QueryFinding) -> JsonObject:
    return present(
        {
            "severity": finding.severity,
            "code": finding.code,
            "message": finding.message,
            "type_name": finding.type_name,
            "property": finding.property,
            "query_names": list(finding.query_names),
        }
    )
