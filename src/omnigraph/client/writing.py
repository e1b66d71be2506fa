"""Writing to a served graph: mutations, loads and schemas."""

from __future__ import annotations

import glob
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import pq
from omnigraph.api.writes import ServedLoad
from omnigraph.client import decoding
from omnigraph.client.connection import NDJSON, Reply, placed_in
from omnigraph.client.state import (
    ENGINE,
    SCHEMA_REFUSED,
    Refusing,
    RemoteState,
    checked_methods,
    is_replayed,
    no_actor,
    only_default,
    params_json,
    write_headers,
)
from omnigraph.errors import InputError, UsageError
from omnigraph.graph import loading
from omnigraph.graph.texts import read_source
from omnigraph.history.chain import MAIN
from omnigraph.history.write_keys import Once

if TYPE_CHECKING:
    from omnigraph.evolve.apply import SchemaReceipt
    from omnigraph.language.catalog import Catalog
    from omnigraph.load.inputs import Sources
    from omnigraph.load.options import LoadOptions
    from omnigraph.load.receipt import LoadReceipt
    from omnigraph.tasks.engines import Engine
    from omnigraph.tasks.progress import Status
    from omnigraph.write.receipt import Receipt


# The input of a load as bytes of a request: JSON lines in one body, or files as parts of a form.

PIECE_BYTES = 1024 * 1024
_SUFFIXES = (".jsonl", ".ndjson", ".json")


@dataclass
class RecordFiles:
    """Files of JSON lines, sent as one body."""

    files: Sequence[Path]
    _lines: list[int] = field(default_factory=list)
    """The number of lines of each file that was sent."""

    def pieces(self) -> Iterator[bytes]:
        """The bytes of all files; each call starts again."""
        self._lines.clear()
        for file in self.files:
            self._lines.append(0)
            for piece in _pieces(file):
                self._lines[-1] += piece.count(b"\n")
                yield piece

    @contextmanager
    def named(self) -> Iterator[None]:
        """Within the block, errors name the files and their lines instead of lines of the body."""
        try:
            yield
        except InputError as error:
            if error.line is not None:
                error.file, error.line = self._place(error.line)
            for member in ("rejects", "problems"):
                if hasattr(error, member):
                    setattr(error, member, tuple(self._renamed(name) for name in getattr(error, member)))
            raise

    def _renamed(self, problem: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(problem.get("line"), int):
            return problem
        file, line = self._place(problem["line"])
        return {**problem, "file": file, "line": line}

    def _place(self, line: int) -> tuple[str, int]:
        for file, count in zip(self.files, self._lines, strict=False):
            if line <= count:
                return str(file), line
            line -= count
        return str(self.files[-1]), line


@dataclass(frozen=True)
class UploadedFiles:
    """Files of any format, sent as the parts of a form."""

    files: Sequence[Path]
    boundary: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def content_type(self) -> str:
        return f"multipart/form-data; boundary={self.boundary}"

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the form; each call starts again."""
        for file in self.files:
            name = file.name.replace("\\", "_").replace('"', "_").replace("\r", "_").replace("\n", "_")
            head = f'--{self.boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            yield f"{head}Content-Type: application/octet-stream\r\n\r\n".encode()
            yield from _pieces(file, ends_line=False)
            yield b"\r\n"
        yield f"--{self.boundary}--\r\n".encode()

    @contextmanager
    def named(self) -> Iterator[None]:
        """Within the block, errors name the local paths of the files."""
        try:
            yield
        except InputError as error:
            error.file = self._place(error.file)
            for member in ("rejects", "problems"):
                if hasattr(error, member):
                    placed = [
                        {**refusal, "file": self._place(refusal.get("file"))} for refusal in getattr(error, member)
                    ]
                    setattr(error, member, tuple(placed))
            raise

    def _place(self, name: Any) -> Any:
        called = [file for file in self.files if file.name == name]
        return str(called[0]) if len(called) == 1 else name


def files_of(sources: Sources) -> list[Path]:
    """The files of paths, folders and globs. UsageError if nothing matches."""
    named = [sources] if isinstance(sources, str | Path) else sources
    if not isinstance(named, Iterable):
        raise UsageError(f"expected paths or DataFrames by type, got {named.__class__.__name__}")
    files: list[Path] = []
    for source in named:
        if not isinstance(source, str | Path):
            raise UsageError(f"expected a path, got {source.__class__.__name__}")
        if "://" in str(source):
            raise UsageError(
                f"{source} is not a file on this machine", hint="load addresses with --store, or as a job of the server"
            )
        matching = _found(str(source))
        if not matching:
            raise UsageError(f"nothing to load at {source}")
        files += matching
    return files


def are_lines(files: Sequence[Path], format: str | None, encoding: str | None) -> bool:
    """Whether all of them are JSON lines in UTF-8, which can be sent as one body."""
    is_utf8 = encoding is None or encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    return is_utf8 and (
        format == "jsonl" or (format is None and all(file.suffix.lower() in _SUFFIXES for file in files))
    )


@contextmanager
def frame_files(frames: Mapping[str, Any], catalog: Catalog) -> Iterator[list[Path]]:
    """Data frames by type as temporary Parquet files, each named after its type."""
    from omnigraph.load.inputs import Frame, table_key

    with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
        files = []
        for name, rows in frames.items():
            if not isinstance(name, str):
                raise UsageError(f"DataFrames must be given by the names of their types, got {name.__class__.__name__}")
            key = table_key(catalog, name)
            file = Path(folder) / f"{key.partition(':')[2]}.parquet"
            pq.write_table(Frame(key, rows).to_arrow(catalog.tables[key]), file)
            files.append(file)
        yield files


def _found(source: str) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        return sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith((".", "_")))
    if path.is_file():
        return [path]
    return [Path(name) for name in sorted(glob.glob(source)) if Path(name).is_file()]


def _pieces(file: Path, *, ends_line: bool = True) -> Iterator[bytes]:
    """The bytes of a file; with `ends_line`, a newline is added if the last line has none."""
    last = b"\n"
    try:
        with file.open("rb") as content:
            while piece := content.read(PIECE_BYTES):
                yield piece
                last = piece[-1:]
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    if ends_line and last != b"\n":
        yield b"\n"


SERVED_OPTIONS = frozenset(
    [
        "mode",
        "branch",
        "from_",
        "type",
        "format",
        "encoding",
        "delimiter",
        "missing",
        "engine",
        "actor",
        "message",
        "if_commit",
        "once",
    ]
)
"""What a load of a server takes. It is asked nothing of the engine: a server chooses for itself."""
_DIALECT = "a server takes CSV as RFC 4180 has it: load other dialects with --store"
REFUSED_OPTIONS: Mapping[str, str] = {
    "new_branch": "make the branch first, with branches.create",
    "map": "a server loads records that name their types and properties as the schema does",
    "reader_options": "a server takes JSON lines, CSV and Parquet: load others with --store",
    "conf": "a server has its own settings",
    "dry_run": "a server has no dry run of a load: open the graph itself",
    "rejects": "a server refuses a load that has rejected records",
    **dict.fromkeys(["quote", "null", "columns", "date_format", "time_format"], _DIALECT),
}
"""Why it does not take some others."""


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

    load = loading.load

    def _load(self, sources: Sources, options: LoadOptions, progress: bool | Callable[[Status], None]) -> LoadReceipt:
        """Files are sent to the server as they are, DataFrames as Parquet."""
        no_actor(options.actor)
        if callable(progress):
            only_default("progress", progress, False, "a server says how far it is to those who start a job")
        for option in fields(options):
            if option.init and option.name not in SERVED_OPTIONS:
                reason = REFUSED_OPTIONS.get(option.name, "open the graph itself, or load with --store")
                only_default(option.name, getattr(options, option.name), option.default, reason)
        headers = write_headers(options.once, options.if_commit)
        if options.message is not None:
            headers["Omnigraph-Message"] = _percent_encoded(options.message)
        query: dict[str, str | None] = {"branch": options.branch, "from": options.from_, "mode": options.mode}
        if options.missing != "refuse":
            query["missing"] = options.missing
        type, format, encoding, delimiter = options.type, options.format, options.encoding, options.delimiter
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
            query |= {"type": type, "format": format, "encoding": encoding, "delimiter": delimiter}
            reply = self._upload(UploadedFiles(files), query, headers)
        return ServedLoad.from_json(reply.json(), repeated=options.once is not None and is_replayed(reply.headers))

    def _upload(self, form: UploadedFiles, query: Mapping[str, str | None], headers: Mapping[str, str]) -> Reply:
        path = f"{self._state.path}/load/files"
        with form.named():
            return self._state.connection.send(
                "POST", path, query=query, content=form.pieces, content_type=form.content_type, headers=headers
            )


def _percent_encoded(text: str) -> str:
    from urllib.parse import quote

    return quote(text)


@checked_methods
class RemoteSchema(Refusing):
    """The schema of a served graph.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served.schema, og.types.RemoteSchema)
    """

    _refused = SCHEMA_REFUSED

    def __init__(self, state: RemoteState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<schema of {self._state.uri}>"

    @property
    def catalog(self) -> Catalog:
        """The schema at the head of main."""
        return self._state.catalog(MAIN)

    def apply(
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
        progress: bool = False,
    ) -> SchemaReceipt:
        """Change main to another schema, as one commit; no commit if nothing changes. `progress` does nothing: the server
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
