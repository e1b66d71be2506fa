"""A graph that a server serves: the methods of a graph that was opened, over HTTP."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from omnigraph.client import decoding
from omnigraph.client.branches import RemoteBranches, RemoteTags
from omnigraph.client.calling import checked_methods
from omnigraph.client.connection import ARROW, NDJSON, Connection, Reply
from omnigraph.client.problems import placed_in
from omnigraph.client.refusals import ENGINE, PROPERTIES, REFUSED, no_actor, not_served, only_default
from omnigraph.client.results import served_result
from omnigraph.client.sources import RecordFiles, UploadedFiles, are_lines, files_of, frame_files
from omnigraph.client.state import (
    COMMIT_HEADER,
    RemoteState,
    is_replayed,
    params_json,
    without_nulls,
    write_headers,
)
from omnigraph.client.stored_queries import RemoteStoredQueries
from omnigraph.client.streams import write_baseline, write_export
from omnigraph.client.upkeep import UpkeepMethods
from omnigraph.errors import BranchNotFound, NotFound, UsageError
from omnigraph.graph.arguments import checked
from omnigraph.graph.snapshots import GraphSnapshot, TypeState
from omnigraph.graph.texts import read_source
from omnigraph.history import MAIN, Commit, Once
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.lint import LintReport, lint_queries

if TYPE_CHECKING:
    from omnigraph.changes import Baseline, CommitPage, EntityChange, FeedPage, TypeChanges
    from omnigraph.changes.entity_changes import EntityKind
    from omnigraph.deadlines import Cancellation
    from omnigraph.maintenance.indexes import IndexState
    from omnigraph.pipeline.choices import FileFormat, LoadMode
    from omnigraph.pipeline.engines import Engine
    from omnigraph.pipeline.evolve.apply import SchemaReceipt
    from omnigraph.pipeline.load.inputs import Sources
    from omnigraph.pipeline.load.receipt import LoadReceipt
    from omnigraph.pipeline.progress import Status
    from omnigraph.read import Blob, EntityVersion, Explanation, Result
    from omnigraph.values.entities import Entity
    from omnigraph.write import Receipt

MAX_COMMITS = 128
"""Commits that a poll of changes covers."""


@checked
def connect(url: str, *, graph: str, token: str | None = None, timeout: float = 120.0) -> RemoteGraph:
    """A graph of a server. Nothing is sent before the first call.

    `token` says who you are; without it, the server must be open. `timeout` is how many seconds the server may take to answer
    once it is asked. What is served has the methods of `Graph`; [client](client.md) says which, and what is different.

    >>> served = og.connect("http://localhost:8080", graph="people", token="a-token")
    >>> assert served.uri == "http://localhost:8080/graphs/people"
    """
    return RemoteGraph(Connection(url, token, timeout=timeout), graph)


@checked_methods
class RemoteGraph(UpkeepMethods):
    """A graph of a server. Safe to share between threads.

    It has the methods of a graph that was opened, and gives the same values and raises the same errors; what takes storage is
    refused with UsageError, and says so. Reads are repeated when the server does not answer; so are writes, which carry a key
    under which the server makes them once. The actor of what it writes is that of the token.
    """

    def __init__(self, connection: Connection, graph: str) -> None:
        self._state = RemoteState(connection, graph)

    def __repr__(self) -> str:
        return f"<RemoteGraph {self.uri}>"

    def __enter__(self) -> RemoteGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        reason = REFUSED.get(name)
        if reason is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        if name in PROPERTIES:
            raise not_served(name, reason)

        def refused(*_arguments: Any, **_options: Any) -> Any:
            raise not_served(name, reason)

        return refused

    def close(self) -> None:
        """Close the connections to the server."""
        self._state.connection.close()

    @property
    def uri(self) -> str:
        """The address of the graph on its server."""
        return self._state.uri

    @property
    def schema(self) -> Catalog:
        """The schema at the head of main."""
        return self._state.catalog(MAIN)

    @property
    def branches(self) -> RemoteBranches:
        """Make, list, delete and merge branches."""
        return RemoteBranches(self._state)

    @property
    def tags(self) -> RemoteTags:
        """Names for commits."""
        return RemoteTags(self._state)

    @property
    def stored_queries(self) -> RemoteStoredQueries:
        """The queries that the server keeps: list them, and run one by its name."""
        return RemoteStoredQueries(self._state)

    # ------------------------------------------------------------ writing

    def mutate(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        once: Once | None = None,
    ) -> Receipt:
        """Run a mutation as one commit; the receipt names it, or None when nothing changed."""
        no_actor(actor)
        text, file = read_source(gq, ".gq")
        body = {"query": text, "name": name, "params": params_json(params), "branch": branch, "message": message}
        with placed_in(text, file):
            reply = self._state.write("/mutate", body, once, if_commit)
        return decoding.receipt(reply.json(), repeated=once is not None and is_replayed(reply.headers))

    def load(
        self,
        sources: Sources,
        *,
        mode: LoadMode,
        branch: str = MAIN,
        from_: str | None = None,
        new_branch: bool = False,
        type: str | None = None,
        format: str | None = None,
        reader_options: Mapping[str, str] | None = None,
        encoding: str | None = None,
        delimiter: str | None = None,
        quote: str | None = None,
        null: str | None = None,
        columns: Sequence[str] | None = None,
        date_format: str | None = None,
        time_format: str | None = None,
        map: Mapping[str, object] | str | Path | None = None,
        rejects: str | Path | None = None,
        engine: Engine = "auto",
        conf: Mapping[str, str] | None = None,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        once: Once | None = None,
        dry_run: bool = False,
        show_progress: bool = False,
        on_progress: Callable[[Status], None] | None = None,
    ) -> LoadReceipt:
        """Load files, folders, globs or DataFrames (`{"Person": people}`) as one commit, or nothing. Files are sent to the server
        as they are, DataFrames as Parquet."""
        no_actor(actor)
        only_default("new_branch", new_branch, False, "make the branch first, with branches.create")
        only_default("on_progress", on_progress, None, "a server says how far it is to those who start a job")
        only_default("map", map, None, "a server loads records that name their types and properties as the schema does")
        only_default(
            "reader_options",
            reader_options,
            None,
            "a server takes JSON lines, CSV and Parquet: load others with --store",
        )
        only_default("conf", conf, None, "a server has its own settings")
        only_default("dry_run", dry_run, False, "a server has no dry run of a load: open the graph itself")
        only_default("rejects", rejects, None, "a server refuses a load that has rejected records")
        for name, value in (
            ("quote", quote),
            ("null", null),
            ("columns", columns),
            ("date_format", date_format),
            ("time_format", time_format),
        ):
            only_default(name, value, None, "a server takes CSV as RFC 4180 has it: load other dialects with --store")
        headers = write_headers(once, if_commit)
        if message is not None:
            headers["Omnigraph-Message"] = _percent_encoded(message)
        query: dict[str, str | None] = {"branch": branch, "from": from_, "mode": mode}
        if isinstance(sources, Mapping):
            only_default("format", format, None, "DataFrames have none")
            with frame_files(sources, self._state.catalog(MAIN)) as files:
                reply = self._upload(UploadedFiles(files), query, headers)
        elif are_lines(files := files_of(sources), format, encoding) and type is None and delimiter is None:
            records = RecordFiles(files)
            with records.named():
                reply = self._state.connection.send(
                    "POST",
                    f"{self._state.path}/load/ndjson",
                    query=query,
                    content=records.pieces,
                    content_type=NDJSON,
                    headers=headers,
                )
        else:
            options = {"type": type, "format": format, "encoding": encoding, "delimiter": delimiter}
            reply = self._upload(UploadedFiles(files), query | options, headers)
        return decoding.load_receipt(reply.json(), repeated=once is not None and is_replayed(reply.headers))

    def _upload(self, form: UploadedFiles, query: Mapping[str, str | None], headers: Mapping[str, str]) -> Reply:
        path = f"{self._state.path}/load/files"
        with form.named():
            return self._state.connection.send(
                "POST", path, query=query, content=form.pieces, content_type=form.content_type, headers=headers
            )

    def apply_schema(
        self,
        schema: str | Path,
        *,
        branch: str = MAIN,
        with_: str | Path | None = None,
        allow_data_loss: bool = False,
        dry_run: bool = False,
        engine: Engine = "local",
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        show_progress: bool = False,
    ) -> SchemaReceipt:
        """Change main to another schema, as one commit, or nothing when there is nothing to change. `show_progress` does nothing:
        the server works."""
        no_actor(actor)
        only_default("branch", branch, MAIN, "a server changes the schema of main")
        only_default("with_", with_, None, "a server changes the schema alone")
        only_default("dry_run", dry_run, False, "a server changes the schema or refuses to")
        only_default("engine", engine, "local", ENGINE)
        text, file = read_source(schema, ".pg")
        body = {"schema_source": text, "allow_data_loss": allow_data_loss, "message": message}
        with placed_in(text, file):
            reply = self._state.write("/schema/apply", body, None, if_commit)
        return decoding.schema_receipt(reply.json(), text)

    # ------------------------------------------------------------ reading

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
        only_default("cancel", cancel, None, "give a timeout")
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
        """How a query would run on a branch: its steps as a tree, their access paths, and the rows that are expected."""
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
        """One node or edge by id; None when it is not there."""
        try:
            value = self._state.get("/entity", type=type, id=id, rev=self._state.at(revision, as_of)).json()
        except NotFound as error:
            if error.code != NotFound.code:
                raise
            return None
        return self._entity(value, value, value["graph_commit_id"])

    def _entity(self, named: Mapping[str, Any], state: Mapping[str, Any], commit: str) -> Entity:
        """An entity, with its Blobs, which a server gives by themselves."""
        kind, name, id = named["entity_kind"], named["type_name"], named["id"]
        catalog = self._state.catalog(commit)
        declared = (catalog.nodes if kind == "node" else catalog.edges).get(name)
        found = decoding.entity(state, declared, id)
        assert declared is not None, "decoding needs it"
        for property in declared.properties:
            if property in (state.get("blobs") or {}):
                found[property] = self.blob(f"{kind}:{name}", id, property, revision=commit).read()
            else:
                found.setdefault(property, None)
        return found

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
        """Write the graph, or some types of it, as JSON lines; the number of entities. It is written as it comes."""
        only_default("format", format, "jsonl", "write export_stream, which has CSV, Parquet and Arrow, to a file")
        only_default("engine", engine, "local", ENGINE)
        body = without_nulls({"snapshot": self._state.at(revision, as_of), "type_names": _listed(types)})
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
        """The same as bytes in chunks, as the server sends them."""
        body = without_nulls(
            {
                "snapshot": self._state.at(revision, as_of),
                "type_names": _listed(types),
                "format": None if format == "jsonl" else format,
            }
        )
        return self._streamed("/export", body)

    def _streamed(self, path: str, body: dict[str, Any]) -> Iterator[bytes]:
        with self._state.connection.stream("POST", self._state.path + path, body=body) as pieces:
            yield from pieces

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
        """Every declared index of a revision: how many rows it covers, how many a read still finds by scan, and why."""
        return decoding.indexes(self._state.get("/catalog", rev=self._state.at(revision, as_of)).json())

    def lint(self, gq: str | Path, *, revision: str = MAIN, as_of: str | dt.datetime | None = None) -> LintReport:
        """Check every query of a `.gq` text or file against the schema: mistakes, and advice."""
        text, file = read_source(gq, ".gq")
        return lint_queries(text, self._state.catalog(revision, as_of), file)

    # ------------------------------------------------------------ history

    def commits(
        self,
        revision: str = MAIN,
        *,
        as_of: str | dt.datetime | None = None,
        limit: int = 50,
        before: str | None = None,
        actor: str | None = None,
    ) -> list[Commit]:
        """The commits up to a revision, newest first; with `before`, those older than that commit."""
        if limit < 1:
            raise UsageError(f"a page has at least one commit, not {limit}")
        if as_of is None:
            try:
                return self._log(revision, limit, before, actor)
            except (BranchNotFound, UsageError):
                if revision == MAIN:
                    raise
        newest = self.commit(revision, as_of=as_of)
        if before is not None:
            return self._log(newest.ref.branch, limit, before, actor)
        first = [newest] if actor is None or newest.actor == actor else []
        rest = limit - len(first)
        return first + (self._log(newest.ref.branch, rest, newest.id, actor) if rest else [])

    def _log(self, branch: str, limit: int, before: str | None, actor: str | None) -> list[Commit]:
        found: list[Commit] = []
        while len(found) < limit:
            page = self._state.get(
                "/commits", branch=branch, limit=min(limit - len(found), 1_000), before=before, actor=actor
            ).json()
            found += [decoding.commit(commit) for commit in page["commits"]]
            before = page.get("next_page_token")
            if before is None:
                break
        return found

    def commit(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Commit:
        """The commit of a revision."""
        return self._state.commit(self._state.commit_id(revision, as_of))

    def history(
        self, type: str, id: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> list[EntityVersion]:
        """The versions of one entity on a branch, newest first."""
        from omnigraph.read import EntityVersion

        only_default("as_of", as_of, None, "a server tells the history of an entity on a branch")
        found: list[EntityVersion] = []
        token: str | None = None
        while True:
            try:
                page = self._state.get("/entity/history", type=type, id=id, branch=revision, page_token=token).json()
            except NotFound as error:
                if error.code != NotFound.code:
                    raise
                return found
            for version in page["versions"]:
                made = decoding.commit(version["commit"])
                value = None if version["op"] == "delete" else self._entity(page, version, made.id)
                found.append(EntityVersion(made, value))
            token = page.get("next_page_token")
            if token is None:
                return found

    # ------------------------------------------------------------ changes

    def diff(
        self,
        a: str,
        b: str,
        *,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        engine: Engine = "local",
    ) -> Iterator[EntityChange]:
        """What changed from one revision to another, entity by entity. A stream."""
        only_default("engine", engine, "local", ENGINE)
        wanted = None if ids is None else frozenset(ids)
        found = self._diff(a, b, _filters(types, kinds, ops))
        return (change for change in found if wanted is None or change.id in wanted)

    def diff_stat(
        self, a: str, b: str, *, types: Iterable[str] | None = None, kinds: Iterable[str] | None = None
    ) -> list[TypeChanges]:
        """How many entities of each type changed from one revision to another. Every change is asked for and counted."""
        from omnigraph.changes import TypeChanges

        counts: dict[tuple[EntityKind, str], Counter[str]] = {}
        for change in self._diff(a, b, _filters(types, kinds, None)):
            counts.setdefault((change.kind, change.type_name), Counter())[change.op] += 1
        return [
            TypeChanges(kind, name, count["insert"], count["update"], count["delete"])
            for (kind, name), count in sorted(counts.items(), key=lambda each: (each[0][0] == "edge", each[0][1]))
        ]

    def _diff(self, a: str, b: str, filters: dict[str, list[str] | None]) -> Iterator[EntityChange]:
        token: str | None = None
        while True:
            page = self._state.get("/diff", **{"from": a, "to": b}, page_token=token, **filters).json()
            schemas = self._schemas(page["from"], page["to"])
            yield from (decoding.change(change, schemas) for change in page["changes"])
            token = page.get("next_page_token")
            if token is None:
                return

    def _schemas(self, before: str | None, after: str) -> decoding.Schemas:
        return decoding.Schemas(self._state.catalog(after), lambda: self._state.catalog(before or after))

    def commit_changes(
        self,
        revision: str,
        *,
        limit: int = 1_000,
        page_token: str | None = None,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> CommitPage:
        """Exactly what a commit changed against its first parent, a page at a time."""
        of = self.commit(revision)
        value = self._state.get(
            f"/commits/{of.id}/changes", limit=limit, page_token=page_token, **_filters(types, kinds, ops)
        ).json()
        return decoding.commit_page(value, of, self._schemas(None if of.parent is None else of.parent.id, of.id))

    def changes(
        self,
        branch: str = MAIN,
        since: str | None = None,
        *,
        start: str | None = None,
        page_token: str | None = None,
        limit: int = 1_000,
        max_commits: int = MAX_COMMITS,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> FeedPage:
        """What the commits of a branch changed, in order: after a cursor, from a start, or the next page of a poll."""
        only_default("max_commits", max_commits, MAX_COMMITS, f"a poll of a server covers {MAX_COMMITS} commits")
        value = self._state.get(
            "/changes",
            branch=branch,
            cursor=since,
            start=start,
            page_token=page_token,
            limit=limit,
            **_filters(types, kinds, ops),
        ).json()
        blocks = []
        for block in value["blocks"]:
            id = block["cause"]["graph_commit_id"]
            schemas = self._schemas(block["cause"].get("parent_commit_id"), id)
            blocks.append(decoding.block(block, self._state.commit(id), schemas))
        return decoding.feed_page(value, blocks)

    def baseline(
        self,
        out: str | Path | IO[bytes],
        *,
        branch: str = MAIN,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        force: bool = False,
    ) -> Baseline:
        """The branch's head as JSON lines, and the cursor from which changes continue."""
        with self._state.connection.stream(
            "POST", f"{self._state.path}/changes/baseline", body=self._baseline_body(branch, types, kinds, ops)
        ) as pieces:
            return write_baseline(pieces, out, force=force)

    def baseline_stream(
        self,
        *,
        branch: str = MAIN,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> Iterator[bytes]:
        """A baseline as bytes in chunks, as the server sends them."""
        return self._streamed("/changes/baseline", self._baseline_body(branch, types, kinds, ops))

    def _baseline_body(
        self,
        branch: str,
        types: Iterable[str] | None,
        kinds: Iterable[str] | None,
        ops: Iterable[str] | None,
    ) -> dict[str, Any]:
        return without_nulls({"branch": branch, **_filters(types, kinds, ops)})


def _filters(
    types: Iterable[str] | None, kinds: Iterable[str] | None, ops: Iterable[str] | None
) -> dict[str, list[str] | None]:
    return {"type": _listed(types), "kind": _listed(kinds), "op": _listed(ops)}


def _listed(words: Iterable[str] | None) -> list[str] | None:
    return None if words is None else list(words)


def _percent_encoded(text: str) -> str:
    from urllib.parse import quote

    return quote(text)
