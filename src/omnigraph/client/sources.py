"""Files of JSON lines, as the bytes that a server is sent."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.client.refusals import only_default
from omnigraph.errors import InputError, UsageError

if TYPE_CHECKING:
    from omnigraph.pipeline.load.inputs import Sources

PIECE_BYTES = 1024 * 1024
_SUFFIXES = (".jsonl", ".ndjson", ".json")
_HINT = "a server takes files of JSON lines; export them as such, or load with --store"


@dataclass
class RecordFiles:
    """Files whose lines are sent one after the other."""

    files: Sequence[Path]
    _lines: list[int] = field(default_factory=list)
    """Of each file that was sent."""

    def pieces(self) -> Iterator[bytes]:
        """Their bytes, anew at each call."""
        self._lines.clear()
        for file in self.files:
            self._lines.append(0)
            for piece in _pieces(file):
                self._lines[-1] += piece.count(b"\n")
                yield piece

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors of the block name the files and their lines, instead of those of the body that the server was sent."""
        try:
            yield
        except InputError as error:
            if error.line is not None:
                error.file, error.line = self._place(error.line)
            for member in ("rejects", "problems"):
                if hasattr(error, member):
                    setattr(error, member, tuple(self._renamed(each) for each in getattr(error, member)))
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


def record_files(
    sources: Sources, *, type: str | None, format: str | None, encoding: str | None, delimiter: str | None
) -> RecordFiles:
    """The files to send. UsageError for what is not a file of JSON lines."""
    only_default("type", type, None, _HINT)
    only_default("delimiter", delimiter, None, _HINT)
    if format not in (None, "jsonl"):
        raise UsageError(f"a server takes no {format}", hint=_HINT)
    if encoding is not None and encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
        raise UsageError(f"a server takes UTF-8, not {encoding}", hint=_HINT)
    return RecordFiles(_files(sources, any_name=format is not None))


def _files(sources: Sources, *, any_name: bool) -> list[Path]:
    named = [sources] if isinstance(sources, str | Path) else sources
    if not isinstance(named, list | tuple) or not all(isinstance(each, str | Path) for each in named):
        raise UsageError("a served graph takes no data frames", hint=_HINT)
    files: list[Path] = []
    for each in named:
        found = _found(str(each))
        if not found:
            raise UsageError(f"nothing to load at {each}")
        wrong = [file for file in found if not any_name and file.suffix.lower() not in _SUFFIXES]
        if wrong:
            raise UsageError(f"{wrong[0]} is not a file of JSON lines", hint=_HINT)
        files += found
    return files


def _found(source: str) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        return sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith((".", "_")))
    if path.is_file():
        return [path]
    return [Path(each) for each in sorted(glob.glob(source)) if Path(each).is_file()]


def _pieces(file: Path) -> Iterator[bytes]:
    """The bytes of a file; its last line ends, so that the next file begins a new one."""
    last = b"\n"
    try:
        with file.open("rb") as content:
            while piece := content.read(PIECE_BYTES):
                yield piece
                last = piece[-1:]
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    if last != b"\n":
        yield b"\n"
