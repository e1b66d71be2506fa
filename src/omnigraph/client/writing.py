"""Writing to a served graph: mutations, loads and schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.client import decoding
from omnigraph.client.connection import NDJSON, Reply
from omnigraph.client.problems import placed_in
from omnigraph.client.refusals import ENGINE, no_actor, only_default
from omnigraph.client.sources import RecordFiles, UploadedFiles, are_lines, files_of, frame_files
from omnigraph.client.state import (
    RemoteState,
    is_replayed,
    params_json,
    write_headers,
)
from omnigraph.graph.texts import read_source
from omnigraph.history import MAIN, Once

if TYPE_CHECKING:
    from omnigraph.pipeline.choices import LoadMode, Missing
    from omnigraph.pipeline.engines import Engine
    from omnigraph.pipeline.evolve.apply import SchemaReceipt
    from omnigraph.pipeline.load.inputs import Sources
    from omnigraph.pipeline.load.receipt import LoadReceipt
    from omnigraph.pipeline.progress import Status
    from omnigraph.write import Receipt


class RemoteWriteMethods:
    """The methods of a served graph that change it."""

    _state: RemoteState

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
        """Run a mutation as one commit; the receipt names it, or None if nothing changed."""
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
        missing: Missing = "refuse",
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
        if missing != "refuse":
            query["missing"] = missing
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
        """Change main to another schema, as one commit; no commit if nothing changes. `show_progress` does nothing: the server
        works."""
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


def _percent_encoded(text: str) -> str:
    from urllib.parse import quote

    return quote(text)
