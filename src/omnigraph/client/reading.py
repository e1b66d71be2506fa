"""Reading a served graph: queries, entities, Blobs, exports."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import IO, TYPE_CHECKING, Any

from omnigraph.client import decoding
from omnigraph.client.connection import ARROW
from omnigraph.client.problems import placed_in
from omnigraph.client.refusals import ENGINE, only_default
from omnigraph.client.results import served_result
from omnigraph.client.state import COMMIT_HEADER, RemoteState, listed, params_json, without_nulls
from omnigraph.client.streams import write_export
from omnigraph.errors import NotFound
from omnigraph.graph.snapshots import GraphSnapshot, TypeState
from omnigraph.graph.texts import read_source
from omnigraph.history import MAIN
from omnigraph.language.query.lint import LintReport, lint_queries

if TYPE_CHECKING:
    from omnigraph.deadlines import Cancellation
    from omnigraph.maintenance.indexes import IndexState
    from omnigraph.pipeline.choices import FileFormat
    from omnigraph.pipeline.engines import Engine
    from omnigraph.read import Blob, EntityVersion, Explanation, Result
    from omnigraph.values.entities import Entity


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
            return decoding.explanation(self._state.read("/explain", body).json())

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
        from omnigraph.read import EntityVersion

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
                commit = decoding.commit(version["commit"])
                value = None if version["op"] == "delete" else self._entity(page, version, commit.id)
                versions.append(EntityVersion(commit, value))
            token = page.get("next_page_token")
            if token is None:
                return versions

    def blob(
        self, type: str, id: str, property: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> Blob:
        """A Blob of one entity: its size, a tag of its content, and its bytes, which are read as a whole."""
        import pyarrow as pa

        from omnigraph.read import Blob

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
        force: bool = False,
        engine: Engine = "local",
    ) -> int:
        """Write the graph, or some types of it, as JSON lines while they arrive; returns the number of entities."""
        only_default("format", format, "jsonl", "write export_stream, which has CSV, Parquet and Arrow, to a file")
        only_default("engine", engine, "local", ENGINE)
        body = without_nulls({"snapshot": self._state.at(revision, as_of), "type_names": listed(types)})
        with self._state.connection.stream("POST", f"{self._state.path}/export", body=body) as pieces:
            return write_export(pieces, target, force=force)

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
