"""Results of queries that a server ran."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote

from omnigraph.client.connection import ARROW, Reply
from omnigraph.client.state import COMMIT_HEADER, RemoteState
from omnigraph.errors import ServerUnavailable
from omnigraph.history import Commit
from omnigraph.language.query.compiler import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read import Result, Timing

if TYPE_CHECKING:
    import pyarrow as pa

NAME_HEADER = "omnigraph-query-name"


class ServedResult(Result):
    """A result whose commit and columns are asked for when they are looked at."""

    def __init__(
        self, state: RemoteState, headers: Mapping[str, str], table: pa.Table, text: str, seconds: float
    ) -> None:
        engine_s = _server_seconds(headers.get("server-timing", ""))
        vars(self).update(
            _table=table,
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

    @cached_property
    def _plan(self) -> ReadPlan:
        """The query as the server compiled it: with the schema of the commit."""
        state: RemoteState = vars(self)["_state"]
        plan = compile_query(vars(self)["_text"], state.catalog(vars(self)["_commit_id"]), self.query_name)
        if not isinstance(plan, ReadPlan):
            raise ServerUnavailable(f"the server answered the mutation '{self.query_name}' with rows")
        return plan

    @property
    def query_name(self) -> str:
        """The name the query has in its text."""
        name: str = vars(self)["_name"]
        return name


def served_result(state: RemoteState, reply: Reply, text: str, seconds: float) -> Result:
    """The result in an Arrow stream."""
    import pyarrow as pa

    media_type = reply.headers.get("content-type", "").partition(";")[0]
    if media_type != ARROW:
        raise ServerUnavailable(f"the server answered a query with {media_type or 'nothing'}, not with Arrow")
    try:
        table = pa.ipc.open_stream(reply.data).read_all()
    except pa.ArrowInvalid as error:
        raise ServerUnavailable(f"the server's rows cannot be read: {error}") from None
    return ServedResult(state, reply.headers, table, text, seconds)


def _server_seconds(timing: str) -> float:
    """What the server says that running took."""
    for part in timing.split(","):
        name, _, duration = part.strip().partition(";dur=")
        if name == "run":
            try:
                return float(duration) / 1000
            except ValueError:
                return 0.0
    return 0.0
