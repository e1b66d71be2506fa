"""Results of queries that a server ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote

from omnigraph.client.connection import ARROW, Reply
from omnigraph.client.state import COMMIT_HEADER, RemoteState
from omnigraph.errors import ServerUnavailable, UsageError
from omnigraph.history import Commit
from omnigraph.language.query.compiler import compile_query
from omnigraph.language.query.plan import ColumnKind, ReadPlan, ResultColumn
from omnigraph.read import Result, Timing

if TYPE_CHECKING:
    import pyarrow as pa

NAME_HEADER = "omnigraph-query-name"


class ServedResult(Result):
    """A result whose commit and columns are fetched on first use."""

    def __init__(
        self, state: RemoteState, headers: Mapping[str, str], table: pa.Table, text: str, seconds: float
    ) -> None:
        engine_s = _server_seconds(headers.get("server-timing", ""))
        vars(self).update(
            _content=table,
            timing=Timing(0.0, engine_s, max(seconds, engine_s)),
            _state=state,
            _commit_id=headers[COMMIT_HEADER],
            _name=unquote(headers[NAME_HEADER]),
            _text=text,
        )

    @cached_property
    def commit(self) -> Commit:
        """The commit that was read."""
        state: RemoteState = vars(self)["_state"]
        return state.commit(vars(self)["_commit_id"])

    @property
    def commit_id(self) -> str:
        """The id of the commit that was read."""
        id: str = vars(self)["_commit_id"]
        return id

    @cached_property
    def _plan(self) -> ReadPlan:
        """The plan of the query under the schema of the commit, as on the server."""
        state: RemoteState = vars(self)["_state"]
        plan = compile_query(vars(self)["_text"], state.catalog(vars(self)["_commit_id"]), self.query_name)
        if not isinstance(plan, ReadPlan):
            raise ServerUnavailable(f"the server answered the mutation '{self.query_name}' with rows")
        return plan

    @property
    def query_name(self) -> str:
        """The name of the query in its text."""
        name: str = vars(self)["_name"]
        return name


class StoredResult(ServedResult):
    """The result of a stored query, whose text only the server has: its columns are described by the rows."""

    @cached_property
    def columns(self) -> tuple[ResultColumn, ...]:
        """Name and kind of each column."""
        return tuple(_column(field) for field in self._table.schema)

    @cached_property
    def _plan(self) -> ReadPlan:
        raise UsageError(
            "the result of a stored query cannot be shown as a graph: its pattern stays on the server",
            hint="run the text of the query with query",
        )


def served_result(state: RemoteState, reply: Reply, text: str, seconds: float) -> Result:
    """The result in an Arrow stream."""
    return ServedResult(state, reply.headers, _rows(reply), text, seconds)


def stored_result(state: RemoteState, reply: Reply, seconds: float) -> Result:
    """Like `served_result`, for a stored query, whose text is not known here."""
    return StoredResult(state, reply.headers, _rows(reply), "", seconds)


def _rows(reply: Reply) -> pa.Table:
    import pyarrow as pa

    media_type = reply.headers.get("content-type", "").partition(";")[0]
    if media_type != ARROW:
        raise ServerUnavailable(f"the server answered a query with {media_type or 'nothing'}, not with Arrow")
    try:
        return pa.ipc.open_stream(reply.data).read_all()
    except pa.ArrowInvalid as error:
        raise ServerUnavailable(f"the server's rows cannot be read: {error}") from None


def _column(field: pa.Field) -> ResultColumn:
    type = field.type
    kind = _kind(type)
    item = _kind(type.value_type) if kind == "list" else None
    return ResultColumn(field.name, kind, field.nullable, item, type.list_size if kind == "vector" else None)


def _kind(type: pa.DataType) -> ColumnKind:
    from pyarrow import types as pt

    kinds: tuple[tuple[Callable[[pa.DataType], bool], ColumnKind], ...] = (
        (pt.is_string, "string"),
        (pt.is_boolean, "bool"),
        (lambda type: pt.is_integer(type) and type.bit_width <= 32, "int"),
        (pt.is_integer, "bigint"),
        (pt.is_floating, "float"),
        (pt.is_date, "date"),
        (pt.is_timestamp, "datetime"),
        (pt.is_large_binary, "blob"),
        (pt.is_fixed_size_list, "vector"),
        (pt.is_list, "list"),
    )
    return next((kind for fits, kind in kinds if fits(type)), "object")


def _server_seconds(timing: str) -> float:
    """The running time that the server reports."""
    for part in timing.split(","):
        name, _, duration = part.strip().partition(";dur=")
        if name == "run":
            try:
                return float(duration) / 1000
            except ValueError:
                return 0.0
    return 0.0
