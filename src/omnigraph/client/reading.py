"""Reading a served graph: queries, entities, Blobs, exports."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

from omnigraph._internal.lazy_imports import pa, pt
from omnigraph.api.history import ServedCommit
from omnigraph.api.reads import ServedExplanation
from omnigraph.client import decoding
from omnigraph.client.connection import ARROW, Reply, placed_in
from omnigraph.client.decoding import write_export
from omnigraph.client.state import COMMIT_HEADER, ENGINE, RemoteState, listed, only_default, params_json, without_nulls
from omnigraph.errors import NotFound, ServerUnavailable, UsageError
from omnigraph.graph.reading import GraphSnapshot, TypeState
from omnigraph.graph.texts import read_source
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit
from omnigraph.language.query.lint import LintReport, lint_queries
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import ColumnKind, ReadPlan, ResultColumn
from omnigraph.read.result import Result, Timing

if TYPE_CHECKING:
    from omnigraph._internal.deadlines import Cancellation
    from omnigraph.indexing.indexes import IndexState
    from omnigraph.read.entities import Blob
    from omnigraph.read.entity_history import EntityVersion
    from omnigraph.read.explaining import Explanation
    from omnigraph.read.result import Result
    from omnigraph.tasks.engines import Engine, FileFormat
    from omnigraph.values.arrow import Entity


# Results of queries that a server ran.

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


class RemoteReadMethods:
    """The methods of a served graph that read one snapshot."""

    _state: RemoteState

    def query(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        schema_of: str | None = None,
        engine: Engine = "local",
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> Result:
        """Run a read against one immutable snapshot; after `timeout` seconds it ends with QueryTimeout."""
        only_default("schema_of", schema_of, None, "a server asks through the snapshot's own schema")
        only_default("engine", engine, "local", ENGINE)
        only_default("cancel", cancel, None, "use timeout instead")
        text, file = read_source(gq, ".gq")
        at = self._state.at(revision, as_of)
        body = without_nulls({"query": text, "name": name, "params": params_json(params), "snapshot": at})
        path = f"{self._state.path}/query"
        started = perf_counter()
        with placed_in(text, file):
            reply = self._state.connection.send("POST", path, body=body, accept=ARROW, timeout=timeout)
        return served_result(self._state, reply, text, perf_counter() - started)

    def explain(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        analyze: bool = False,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> Explanation:
        """How a query would run on a branch: its steps as a tree, their access paths, and the expected numbers of rows."""
        only_default("as_of", as_of, None, "a server explains what a query would do at a branch's head")
        only_default("analyze", analyze, False, "run it with query: the result has its timing")
        only_default("timeout", timeout, None, "a server explains without running the query")
        only_default("cancel", cancel, None, "a server explains without running the query")
        text, file = read_source(gq, ".gq")
        body = {"query": text, "name": name, "params": params_json(params), "branch": revision}
        with placed_in(text, file):
            explanation: Explanation = ServedExplanation.from_json(self._state.read("/explain", body).json())
        return explanation

    def entity(
        self, type: str, id: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> Entity | None:
        """One node or edge by id; None if there is no such entity."""
        try:
            value = self._state.get("/entity", type=type, id=id, rev=self._state.at(revision, as_of)).json()
        except NotFound as error:
            if error.code != NotFound.code:
                raise
            return None
        return self._entity(value, value, value["graph_commit_id"])

    def _entity(self, named: Mapping[str, Any], state: Mapping[str, Any], commit: str) -> Entity:
        """An entity with its Blobs, each of which takes another request."""
        kind, name, id = named["entity_kind"], named["type_name"], named["id"]
        catalog = self._state.catalog(commit)
        declared = (catalog.nodes if kind == "node" else catalog.edges).get(name)
        entity = decoding.entity(state, declared, id)
        assert declared is not None, "decoding needs it"
        for property in declared.properties:
            if property in (state.get("blobs") or {}):
                entity[property] = self.blob(f"{kind}:{name}", id, property, revision=commit).read()
            else:
                entity.setdefault(property, None)
        return entity

    def history(
        self, type: str, id: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> list[EntityVersion]:
        """The versions of one entity on a branch, newest first."""
        from omnigraph.read.entity_history import EntityVersion

        only_default("as_of", as_of, None, "a server has the history of an entity on a branch only")
        versions: list[EntityVersion] = []
        token: str | None = None
        while True:
            try:
                page = self._state.get("/entity/history", type=type, id=id, branch=revision, page_token=token).json()
            except NotFound as error:
                if error.code != NotFound.code:
                    raise
                return versions
            for version in page["versions"]:
                commit = ServedCommit.from_json(version["commit"])
                value = None if version["op"] == "delete" else self._entity(page, version, commit.id)
                versions.append(EntityVersion(commit, value))
            token = page.get("next_page_token")
            if token is None:
                return versions

    def blob(
        self, type: str, id: str, property: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> Blob:
        """A Blob of one entity: its size, a tag of its content, and its bytes, which are read as a whole."""
        from omnigraph.read.entities import Blob

        kind, _, name = type.partition(":") if ":" in type else ("", "", type)
        if not kind:
            kind = "node" if name in self._state.catalog(revision, as_of).nodes else "edge"
        at = self._state.at(revision, as_of)
        reply = self._state.connection.send(
            "GET",
            f"{self._state.path}/blob",
            query={"entity": kind, "type": name, "id": id, "property": property, "snapshot": at},
            accept="*/*",
        )
        commit = self._state.commit(reply.headers[COMMIT_HEADER])
        return Blob(len(reply.data), reply.headers["etag"].strip('"'), commit, pa.py_buffer(reply.data))

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        types: Sequence[str] | None = None,
        format: FileFormat = "jsonl",
        overwrite: bool = False,
        engine: Engine = "local",
    ) -> int:
        """Write the graph, or some types of it, as JSON lines while they arrive; returns the number of entities."""
        only_default("format", format, "jsonl", "write export_stream, which has CSV, Parquet and Arrow, to a file")
        only_default("engine", engine, "local", ENGINE)
        body = without_nulls({"snapshot": self._state.at(revision, as_of), "type_names": listed(types)})
        with self._state.connection.stream("POST", f"{self._state.path}/export", body=body) as pieces:
            return write_export(pieces, target, overwrite=overwrite)

    def export_stream(
        self,
        *,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        types: Sequence[str] | None = None,
        format: str = "jsonl",
    ) -> Iterator[bytes]:
        """Like `export`, as bytes in chunks, as the server sends them."""
        body = without_nulls(
            {
                "snapshot": self._state.at(revision, as_of),
                "type_names": listed(types),
                "format": None if format == "jsonl" else format,
            }
        )
        return self._state.streamed("/export", body)

    def snapshot(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> GraphSnapshot:
        """The content of a revision: its commit, its schema, and the number of entities of each type."""
        value = self._state.get("/snapshot", snapshot=self._state.at(revision, as_of)).json()
        commit_id = value["graph_commit_id"]
        types = tuple(
            TypeState(
                dataset["entity_kind"],
                dataset["type_name"],
                dataset["entity_count"],
                dataset["published_dataset_version"],
                dataset["dataset_path"],
            )
            for dataset in value["datasets"]
        )
        return GraphSnapshot(self._state.commit(commit_id), self._state.catalog(commit_id), types)

    def indexes(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> list[IndexState]:
        """Every declared index of a revision: how many rows it covers, how many a read still has to scan, and why."""
        return decoding.indexes(self._state.get("/catalog", rev=self._state.at(revision, as_of)).json())

    def lint(self, gq: str | Path, *, revision: str = MAIN, as_of: str | dt.datetime | None = None) -> LintReport:
        """Check every query of a `.gq` text or file against the schema: mistakes, and advice."""
        text, file = read_source(gq, ".gq")
        return lint_queries(text, self._state.catalog(revision, as_of), file)
