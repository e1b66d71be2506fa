"""What a load asks for, to tell a repeated load from another one under the same write key.

Names and places of files do not count, what they hold does: a retried task may have fetched them again. Files of up to
MAX_BYTES in all are compared whole; of more, their sizes and pieces spread evenly over them. A table in memory is compared
whole. The rows of a Spark DataFrame are recomputed each time they are looked at: its columns are compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from omnigraph.language.catalog import Catalog
from omnigraph.pipeline.load.files import InputFile
from omnigraph.pipeline.load.inputs import Frame, LoadInputs, Split
from omnigraph.pipeline.load.text import TextOptions

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
    import pyarrow as pa

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
