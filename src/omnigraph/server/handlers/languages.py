"""The languages as a service: how a query would run, what is wrong with a text, its canonical form, what may come next."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from omnigraph.api.reads import ServedExplanation
from omnigraph.api.structs import JsonObject, present
from omnigraph.errors import LanguageError, QueryError, SchemaError, UsageError
from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.reads import check_text

if TYPE_CHECKING:
    from omnigraph.language.query.lint import LintReport


@handles("getLanguage")
def language(_call: RouteCall) -> HandlerResult:
    from omnigraph.language.query.completion import editor_tables

    tables = editor_tables()
    etag = hashlib.sha256(json.dumps(tables).encode()).hexdigest()[:32]
    return HandlerResult(tables, etag=etag)


@handles("explainQuery")
def explain(call: RouteCall) -> HandlerResult:
    body, graph = call.body, call.graph
    check_text(call, body["query"])
    commit = graph.show(call.existing_branch()).id
    text, params, name = body["query"], body.get("params"), body.get("name")
    explanation, result = graph.explain(text, params, name=name, revision=commit), None
    if body.get("run"):
        timeout = call.service.settings.limits.query_seconds
        result = graph.query(text, params, name=name, revision=commit, timeout=timeout, cancel=call.cancellation)
    return HandlerResult(ServedExplanation.to_json(explanation, run=result), commit=commit)


@handles("lintText")
def lint(call: RouteCall) -> HandlerResult:
    """What the text says is never an error of the request."""
    call.ask_graph()
    body = call.body
    if ("query" in body) == ("schema" in body):
        raise UsageError("give a query or a schema")
    text = body.get("query", body.get("schema"))
    check_text(call, text)
    if "schema" in body:
        return HandlerResult({"diagnostics": _schema_diagnostics(text)})
    commit = call.graph.show(call.existing_branch()).id
    report = call.graph.lint(text, revision=commit)
    return HandlerResult({"diagnostics": _query_diagnostics(text, report)}, commit=commit)


def _query_diagnostics(text: str, report: LintReport) -> list[JsonObject]:
    from omnigraph.language.query.parser import parse_queries

    try:
        places = {query.name: (query.at.line, query.at.column) for query in parse_queries(text).queries}
    except QueryError as error:
        return [_of_error(text, error)]
    diagnostics = [_of_error(text, query.error) for query in report.queries if query.error is not None]
    for finding in report.findings:
        if finding.severity != "error":
            line, column = places.get(next(iter(finding.query_names), ""), (1, 1))
            diagnostics.append(_diagnostic(text, line, column, finding.code, finding.severity, finding.message))
    return diagnostics


def _schema_diagnostics(text: str) -> list[JsonObject]:
    from omnigraph.graph.texts import lint_schema
    from omnigraph.language.schema.compiler import compile_schema

    try:
        compile_schema(text)
        findings = lint_schema(text, is_first=False)
    except SchemaError as error:
        return [_of_error(text, error)]
    return [
        _diagnostic(text, finding.line, finding.column, finding.code, "warning", finding.message)
        for finding in findings
    ]


def _of_error(text: str, error: LanguageError) -> JsonObject:
    return _diagnostic(text, error.line, error.column, error.rule, "error", error.message, error.hint)


def _diagnostic(
    text: str, line: int, column: int, rule: str, severity: str, message: str, hint: str | None = None
) -> JsonObject:
    """It ends where the word at its place does."""
    line, column = max(line, 1), max(column, 1)
    lines = text.splitlines()
    rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    word = next((place for place, letter in enumerate(rest) if not (letter.isalnum() or letter in "_$")), len(rest))
    return present(
        {
            "line": line,
            "column": column,
            "end_line": line,
            "end_column": column + max(word, 1),
            "rule": rule,
            "severity": severity,
            "message": message,
            "hint": hint,
        }
    )


@handles("formatQueries")
def format_text(call: RouteCall) -> HandlerResult:
    from omnigraph.language.query.parser import parse_queries
    from omnigraph.language.query.printer import format_queries

    call.ask_graph()
    check_text(call, call.body["query"])
    return HandlerResult({"query": format_queries(parse_queries(call.body["query"]))})


@handles("completeQuery")
def complete(call: RouteCall) -> HandlerResult:
    from omnigraph.language.query.completion import completions

    body = call.body
    check_text(call, body["query"])
    snapshot = call.graph.snapshot(call.existing_branch())
    items = completions(body["query"], body["line"], body["column"], snapshot.schema)
    return HandlerResult(
        {"items": [present({"label": item.label, "kind": item.kind, "detail": item.detail}) for item in items]},
        commit=snapshot.commit.id,
    )
