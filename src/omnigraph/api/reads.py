"""Results of reads, how a read would run, and descriptions of queries for tools: parameters, columns, findings of lint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from omnigraph.api.structs import As, Count, JsonObject, Struct, at, maybe, ref

if TYPE_CHECKING:
    from omnigraph.language.query.lint import LintedQuery
    from omnigraph.language.query.plan import QueryPlan, ResultColumn


def _column_names(result: Any) -> list[str]:
    return [column.name for column in result.columns]


def _rows(result: Any) -> Any:
    return result.to_json()


class TargetJson(Struct):
    revision: str
    as_of: str = maybe()


class SqlJson(Struct):
    target: TargetJson
    row_count: Count = at("num_rows")
    columns: list[str] = at(_column_names)
    rows: list[Any] = at(_rows)
    graph_commit_id: str = at("commit_id")


class _QueryNamed(Struct):
    query_name: str


class ResultJson(SqlJson, _QueryNamed):
    """Of a query, which has a name."""


class ServedTarget(Struct, nulls=True):
    branch: str | None
    snapshot: str | None


class ServedRead(Struct, component="Read"):
    """Without rows there are no columns."""

    query_name: str
    target: ServedTarget
    row_count: Count = at("num_rows")
    columns: list[str] = maybe(lambda result: _column_names(result) if result.num_rows else None)
    rows: list[Any] = at(_rows)
    graph_commit_id: str = maybe("commit_id")


# How a read would run.


class StepJson(Struct, of="Step", nulls=True, in_full=False):
    depth: Count
    step: str = at("what")
    access: str
    expected: Count | None
    rows: Count | None
    ms: float | None = at(
        "seconds", lambda seconds: round(seconds * 1_000, 3), lambda ms: None if ms is None else ms / 1_000
    )
    note: str


class InputColumnsJson(Struct, of="InputColumns", nulls=True, in_full=False):
    name: str
    tables: list[str]
    columns: list[str]
    filter: str | None


class InputChoiceJson(Struct, of="InputChoice", nulls=True, in_full=False):
    input: str = at("what")
    path: str
    rows: Count | None
    estimate: Count | None
    expected: Count | None


class ExplanationJson(Struct, of="Explanation"):
    commit: str
    keys: str
    steps: list[StepJson]
    inputs: list[InputColumnsJson]
    access: list[InputChoiceJson] = at("choices")
    sql: str


class RunTimeJson(Struct):
    row_count: Count = at("num_rows")
    reading_ms: float = at(lambda result: round(result.timing.inputs_s * 1_000, 3))
    engine_ms: float = at(lambda result: round(result.timing.engine_s * 1_000, 3))
    total_ms: float = at(lambda result: round(result.timing.total_s * 1_000, 3))


class ServedExplanation(
    ExplanationJson, of="Explanation", component="Explanation", renamed={"commit": "graph_commit_id"}
):
    run: RunTimeJson = maybe()


class PictureNodeJson(Struct):
    type: str = at("type_name")
    id: str = maybe()
    lines: list[str]


class PictureEdgeJson(Struct):
    type: str = at("type_name")
    source: str
    target: str
    count: Count


class PictureJson(Struct):
    title: str
    nodes: list[PictureNodeJson]
    edges: list[PictureEdgeJson]
    left_out: Count


# Descriptions of queries.

_ParamKind: TypeAlias = Annotated[str, As(ref("ParamKind"))]


class ColumnJson(Struct, of="ResultColumn", component="QueryParam"):
    name: str
    kind: _ParamKind
    item_kind: _ParamKind = maybe()
    vector_dim: Count = maybe()
    nullable: bool


def _is_mutation(plan: QueryPlan) -> bool:
    from omnigraph.language.query.plan import MutationPlan

    return isinstance(plan, MutationPlan)


def _parameters(plan: QueryPlan) -> list[ResultColumn]:
    from omnigraph.language.query.plan import Parameter
    from omnigraph.language.query.reads import result_column

    return [result_column(parameter.name, Parameter(parameter.name, parameter.type)) for parameter in plan.parameters]


class QueryJson(Struct, of="ServedQuery", component="QueryEntry"):
    """A stored query."""

    name: str
    tool_name: str = at("name")
    description: str = maybe()
    instruction: str = maybe()
    mutation: bool = at(_is_mutation)
    params: list[ColumnJson] = at(_parameters)


def _type_keys(keys: Iterable[str]) -> list[JsonObject]:
    pairs = (key.split(":", 1) for key in keys)
    return [{"kind": kind, "type_name": name} for kind, name in pairs]


class OperationJson(Struct):
    """The columns of a query's result, and the types that it reads and writes."""

    result: list[ColumnJson] = at("columns")
    reads: list[Any] = at("reads", _type_keys)
    writes: list[Any] = at("writes", _type_keys)


def _operation(query: LintedQuery) -> LintedQuery | None:
    return query if query.error is None else None


class LintedQueryJson(Struct):
    name: str
    kind: str
    status: str = at(lambda query: "ok" if query.error is None else "error")
    error: str = maybe(lambda query: query.error and query.error.render())
    warnings: list[str]
    operation: OperationJson = maybe(_operation)


class FindingJson(Struct):
    severity: str
    code: str
    message: str
    type_name: str = maybe()
    property: str = maybe()
    query_names: list[str]


class LintJson(Struct):
    status: str
    schema_source: dict[str, str]
    query_path: str = maybe("file")
    queries_processed: Count = at(lambda report: len(report.queries))
    errors: Count = at(lambda report: report.count("error"))
    warnings: Count = at(lambda report: report.count("warning"))
    infos: Count = at(lambda report: report.count("info"))
    results: list[LintedQueryJson] = at("queries")
    findings: list[FindingJson]
