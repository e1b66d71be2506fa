"""Reads: snapshot, schema, queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph._internal.deadlines import Deadline
from omnigraph.api.history import ServedSnapshot
from omnigraph.api.reads import ServedRead
from omnigraph.api.writes import SchemaJson
from omnigraph.errors import LimitExceeded
from omnigraph.server.bodies import ARROW, arrow_answer
from omnigraph.server.calls import HandlerResult, RouteCall, encoded, json_bytes
from omnigraph.server.handlers.binding import handles
from omnigraph.server.headers import accepts

if TYPE_CHECKING:
    from omnigraph.read.result import Result

PIECE_CELLS = 20_000
"""So much of an answer is encoded between two looks at the time."""
FEW_ROWS = 1_000
"""What has more is measured before its rows are made, which take several times the memory."""


@handles("cluster_getSnapshot")
def get_snapshot(call: RouteCall) -> HandlerResult:
    snapshot = call.graph.snapshot(call.revision())
    commit = snapshot.commit.id
    branch = snapshot.commit.ref.branch if "snapshot" in call.query else call.branch
    return HandlerResult(ServedSnapshot.to_json(snapshot, graph_branch=branch), commit=commit, etag=commit)


@handles("cluster_getSchema")
def get_schema(call: RouteCall) -> HandlerResult:
    snapshot = call.graph.snapshot(call.revision())
    commit = snapshot.commit.id
    value = SchemaJson.to_json(snapshot.schema)
    body = value if call.is_detailed else {"schema_source": value["schema_source"]}
    return HandlerResult(body, commit=commit, etag=commit)


@handles("cluster_query")
def query(call: RouteCall) -> HandlerResult:
    return run_query(call, call.body["query"], call.body.get("name"))


@handles("cluster_read")
def read(call: RouteCall) -> HandlerResult:
    return run_query(call, call.body["query_source"], call.body.get("query_name"), names_commit=False)


def run_query(call: RouteCall, text: str, name: str | None, *, names_commit: bool = True) -> HandlerResult:
    """The rows of a read, within the limits on its text, its time and its result."""
    limits = call.service.settings.limits
    deadline = Deadline(limits.query_seconds, cancellation=call.cancellation)
    check_text(call, text)
    with call.timed("run"):
        result = call.graph.query(
            text,
            call.body.get("params"),
            name=name,
            revision=call.revision(),
            timeout=limits.query_seconds,
            cancel=call.cancellation,
        )
    if accepts(call.request.headers, ARROW):
        with call.timed("encode"):
            return arrow_answer(result, call.request.headers)
    _check_size("rows", result.num_rows, limits.result_rows)
    if result.num_rows > FEW_ROWS:
        _check_size("bytes", result.to_arrow().nbytes, limits.result_bytes)
    snapshot = call.body.get("snapshot")
    with call.timed("encode"):
        target = {"branch": None if snapshot else call.branch, "snapshot": snapshot}
        commit = result.commit_id if names_commit else None
        without_rows = ServedRead.to_json(result, target=target, rows=[], graph_commit_id=commit)
        body = _with_rows(encoded(without_rows), result, deadline, limits.result_bytes)
    return HandlerResult(body, commit=result.commit.id, rows=result.num_rows)


def _with_rows(shape: bytes, result: Result, deadline: Deadline, limit: int) -> bytes:
    """The body with the rows in place of its empty list. They are made in pieces, so that the time limit, the size limit and a client
    that has gone end the work here too."""
    begin, rows, end = shape.partition(b'"rows":[')
    size, pieces = len(shape), []
    for piece in result._json_pieces(PIECE_CELLS):
        deadline.check()
        pieces.append(json_bytes(piece)[1:-1])
        size += len(pieces[-1]) + 1
        _check_size("bytes", size, limit)
    return b"".join((begin, rows, b",".join(pieces), end))


def check_text(call: RouteCall, text: str) -> None:
    """LimitExceeded for a query text that is too long."""
    limit, size = call.service.settings.limits.query_bytes, len(text.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise LimitExceeded(f"the query has {size} bytes", resource="query_bytes", limit=limit, actual=size)


def _check_size(unit: str, actual: int, limit: int) -> None:
    if actual > limit:
        raise LimitExceeded(
            f"the result has {actual} {unit}",
            resource=f"query_result_{unit}",
            limit=limit,
            actual=actual,
            hint="ask for less, ask for Arrow, or export",
        )
