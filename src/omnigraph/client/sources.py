"""The input of a load as bytes of a request: JSON lines in one body, or files as parts of a form."""

from __future__ import annotations

import glob
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InputError, UsageError

if TYPE_CHECKING:
    from omnigraph.language.catalog import Catalog
    from omnigraph.pipeline.load.inputs import Sources

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
    import pyarrow.parquet as pq

    from omnigraph.pipeline.load.inputs import Frame, table_key

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
