"""What a load cannot take: files that cannot be read, and records that are refused or set aside."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import RejectedRecords, UnreadableInput
from omnigraph.language.catalog import Catalog
from omnigraph.load.files import InputFile
from omnigraph.load.inputs import Frame, LoadInputs, Split
from omnigraph.load.reading import ReadReport, SplitReport, stored_reject
from omnigraph.load.receipt import LoadRefusal
from omnigraph.load.refusals import MAX_EXAMPLES
from omnigraph.load.text import TextOptions
from omnigraph.records.rows import Reject
from omnigraph.storage.outputs import OutputFile, output_at
from omnigraph.storage.store import Store

# What a load asks for, to tell a repeated load from another one under the same write key.
#
# Names and places of files do not count, what they hold does: a retried task may have fetched them again. Files of up to
# MAX_BYTES in all are compared whole; of more, their sizes and pieces spread evenly over them. A table in memory is compared
# whole. The rows of a Spark DataFrame are recomputed each time they are looked at: its columns are compared.

MICRO_BATCH = "micro-batch"
"""What a batch of a stream asks for. Spark gives a batch that it tries again the same rows; a query that was changed meanwhile
must be able to go on."""
MAX_BYTES = 256 * 1024 * 1024
PIECE_BYTES = 1024 * 1024
MIN_PIECES = 2


def request_of(inputs: LoadInputs, catalog: Catalog, mode: str) -> list[object]:
    """The load as values that JSON can tell."""
    splits = {(split.file.address, split.source): split for split in inputs.splits}
    sizes = {split.file.address: split.file.size for split in inputs.splits}
    total = sum(sizes.values())
    files = [
        [
            split.format,
            split.key,
            split.text.encoding,
            split.text.delimiter,
            *([] if split.text.of_csv == TextOptions().of_csv else [list(split.text.of_csv)]),
            *_mapped(split),
            _file_digest(split.file, total),
        ]
        for split in splits.values()
    ]
    frames = [[frame.key or "", _frame_digest(frame, catalog)] for frame in inputs.frames]
    return ["load", mode, sorted(files, key=repr), sorted(frames)]


def _mapped(split: Split) -> list[object]:
    """What a map says of a file."""
    if split.source is not None:
        return [{name: value for name, value in split.source.to_json().items() if name != "file"}]
    return [dict(split.names)] if split.names else []


def _file_digest(file: InputFile, total: int) -> str:
    digest = hashlib.sha256(str(file.size).encode())
    for start, size in _pieces(file.size, total):
        with file.open(start) as stream:
            while size > 0 and (block := stream.read(min(size, PIECE_BYTES))):
                digest.update(block)
                size -= len(block)
    return digest.hexdigest()


def _pieces(size: int, total: int) -> Iterable[tuple[int, int]]:
    """The pieces of a file to compare, as offset and length: its share of MAX_BYTES, spread evenly, both ends included."""
    share = MAX_BYTES * size // max(total, 1)
    if total <= MAX_BYTES or size <= MIN_PIECES * PIECE_BYTES:
        return [(0, size)]
    count = max(MIN_PIECES, share // PIECE_BYTES)
    return [((size - PIECE_BYTES) * number // (count - 1), PIECE_BYTES) for number in range(count)]


def _frame_digest(frame: Frame, catalog: Catalog) -> str:
    if frame.is_spark or frame.rows is None or frame.key is None:
        return "" if frame.rows is None else str(frame.rows.schema.simpleString())
    table = frame.to_arrow(catalog.tables[frame.key]).combine_chunks()
    digest = hashlib.sha256()
    with pa.ipc.new_stream(pa.PythonFile(_Sink(digest), mode="w"), table.schema.remove_metadata()) as writer:
        writer.write_table(table.replace_schema_metadata())
    return digest.hexdigest()


class _Sink:
    """A file that only feeds a digest."""

    closed = False

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: Any) -> int:
        self._digest.update(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.closed = True


MAX_SHOWN = 100
MAX_ROW_SHOWN = 300
"""Characters of a row that has no line, and is named by its content."""


@dataclass(frozen=True)
class Origin:
    """Where the lines of a split are: in which file, and after how many lines of it. None: lines have no numbers."""

    file: str
    lines_before: int | None

    def line(self, line: int | None) -> int | None:
        return line + self.lines_before if line and self.lines_before is not None else None

    def place(self, line: int | None) -> str:
        at = self.line(line)
        return f"{self.file}:{at}" if at else self.file


def origins(inputs: LoadInputs, report: ReadReport) -> dict[int, Origin]:
    """By the index of the split, or of the data frame."""
    if inputs.frames:
        return {
            number: Origin(frame.name, 0 if frame.has_row_numbers else None)
            for number, frame in enumerate(inputs.frames)
        }
    lines = {split.index: split.lines for split in report.splits}
    by_place: dict[int, Origin] = {}
    before = 0
    for split in inputs.splits:
        before = 0 if split.start == 0 else before
        by_place[split.index] = Origin(split.file.name, before)
        before += lines[split.index]
    return by_place


def refuse_unreadable(report: ReadReport, origins: Mapping[int, Origin]) -> None:
    """UnreadableInput when there is a file that cannot be read; it names the first ones."""
    problems: dict[str, UnreadableInput] = {}
    for split in report.splits:
        origin = origins[split.index]
        if split.problem is not None and origin.file not in problems:
            split.problem.line = origin.line(split.problem.line)
            problems[origin.file] = split.problem
    if not problems:
        return
    file, first = next(iter(problems.items()))
    listed = [
        {"file": name, "line": problem.line, "reason": problem.message, "hint": problem.hint}
        for name, problem in problems.items()
    ]
    raise UnreadableInput(
        first.message,
        file=file,
        line=first.line,
        type_name=first.type_name,
        problems=listed[:MAX_SHOWN],
        total=len(listed),
        hint=first.hint,
    )


def refuse_rejected(report: ReadReport, origins: Mapping[int, Origin]) -> None:
    """RejectedRecords when there is a record that may not be written; it names the first ones."""
    total = sum(split.rejected for split in report.splits)
    if not total:
        return
    sample = [_located(reject.to_json(), origins[split.index]) for split in report.splits for reject in split.sample][
        :MAX_SHOWN
    ]
    first = sample[0]
    row = "" if first["record"] is None else f"{first['record'][:MAX_ROW_SHOWN]}: "
    place = f"{first['file']}:{first['line']}: " if first["line"] else f"{first['file']}: {row}"
    count = "1 record was rejected" if total == 1 else f"{total} records were rejected; the first"
    way_on = "nothing was written; correct them, or set them aside with rejects='FILE'"
    raise RejectedRecords(
        f"{count}: {place}{first['reason']}",
        rejects=sample,
        total=total,
        hint=f"{first['hint']}; {way_on}" if "hint" in first else way_on,
    )


def rejected_by_reason(report: ReadReport, origins: Mapping[int, Origin]) -> list[LoadRefusal]:
    """What every rejected record was rejected for, what is most frequent first."""
    by_reason: dict[tuple[object, ...], LoadRefusal] = {}
    for split in report.splits:
        for same in split.reasons:
            first = same.examples[0]
            places = tuple(origins[split.index].place(reject.line) for reject in same.examples)
            known = by_reason.get(same.reason)
            by_reason[same.reason] = (
                LoadRefusal(first.code, first.reason, same.count, first.type_name, first.property, places)
                if known is None
                else replace(known, count=known.count + same.count, places=(known.places + places)[:MAX_EXAMPLES])
            )
    return sorted(by_reason.values(), key=lambda refusal: -refusal.count)


class RejectsFile:
    """The file for rejected records. It must not exist, unless it is to be replaced, and appears only when there are any."""

    def __init__(self, path: str | Path, options: Mapping[str, str], store: Store, *, replace: bool) -> None:
        self._output: OutputFile = output_at(path, options)
        self._output.check(replace=replace)
        self._replace = replace
        self._store = store
        self._is_written = False

    def write(
        self, report: ReadReport, origins: Mapping[int, Origin], skipped: Sequence[tuple[int, Reject]] = ()
    ) -> None:
        """Set every rejected record aside. `skipped`: others, with their split. The file has its name after `finish`."""
        if skipped or any(split.rejected for split in report.splits):
            self._is_written = True
            with self._output.open() as out:
                for split in report.splits:
                    origin = origins[split.index]
                    file = json.dumps(origin.file, ensure_ascii=False).encode("utf-8", "replace")
                    for number, details in self._rejects_of(split):
                        line = json.dumps(origin.line(number)).encode()
                        out.write(b'{"file": %s, "line": %s, %s' % (file, line, details))
                for index, reject in skipped:
                    out.write(
                        json.dumps(_located(reject.to_json(), origins[index]), ensure_ascii=False).encode() + b"\n"
                    )

    def _rejects_of(self, split: SplitReport) -> Iterator[tuple[int, bytes]]:
        """The line of each, and the rest of what is said of it."""
        if split.stored is None:
            stored = [stored_reject(reject) for reject in split.sample]
        else:
            stored = self._store.get(split.stored).splitlines(keepends=True)
        for text in stored:
            number, _, details = text.partition(b" ")
            yield int(number), details

    def finish(self) -> None:
        if self._is_written:
            self._output.finish(replace=self._replace)

    def discard(self) -> None:
        """Remove what `finish` did not name."""
        self._output.discard()


@contextlib.contextmanager
def rejects_file(
    path: str | Path | None, options: Mapping[str, str], store: Store, *, replace: bool
) -> Iterator[RejectsFile | None]:
    """The file at `path` (None: rejected records refuse the load). AlreadyExists when there is one, unless it is to be replaced."""
    file = None if path is None else RejectsFile(path, options, store, replace=replace)
    try:
        yield file
    finally:
        if file is not None:
            file.discard()


def _located(reject: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
    """A reject as the user gets it."""
    value = {
        "file": origin.file,
        "line": origin.line(reject["line"]),
        "reason": reject["reason"],
        "code": reject["code"],
        "record": reject["record"],
    }
    return value if reject["hint"] is None else {**value, "hint": reject["hint"]}
