"""Streams of text, compressed as they are made for clients that can read that. What is held is what the codec holds."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from omnigraph._internal.lazy_imports import pa
from omnigraph.server.calls import HandlerResult

if TYPE_CHECKING:
    from omnigraph.read.result import Result


# Where writers of files put bytes that go on as a stream.


class ByteSink:
    """A file whose bytes are taken away."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """The last bytes are still to be taken."""

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


# Rows as an Arrow stream, for clients that ask for it.

ARROW = "application/vnd.apache.arrow.stream"
_ARROW_CODECS = {"lz4": "lz4", "zstd": "zstd"}
MAX_BATCH_ROWS = 65_536


def arrow_answer(result: Result, headers: Mapping[str, str]) -> HandlerResult:
    """The rows as they are, in pieces; their buffers are compressed if the client can read that."""
    return table_answer(result.to_arrow(), result.query_name, result.commit.id, headers)


def table_answer(
    table: pa.Table, name: str, commit: str, headers: Mapping[str, str], extra: Mapping[str, str] | None = None
) -> HandlerResult:
    """Rows of a query, or of a part of one."""
    known = {"Omnigraph-Query-Name": quote(name), "Omnigraph-Row-Count": str(table.num_rows), **(extra or {})}
    pieces = _pieces(table, codec_of(headers.get("accept-encoding", "")))
    return HandlerResult(pieces, media_type=ARROW, headers=known, commit=commit, rows=table.num_rows)


def codec_of(accepted: str) -> str | None:
    names = [name.partition(";")[0].strip().lower() for name in accepted.split(",")]
    return next((_ARROW_CODECS[name] for name in names if name in _ARROW_CODECS), None)


def _pieces(table: pa.Table, codec: str | None) -> Iterator[bytes]:
    """A message at a time: what was sent is not held."""
    sink = ByteSink()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), table.schema, options=options) as writer:
        yield sink.take()
        for batch in table.to_batches(max_chunksize=MAX_BATCH_ROWS):
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


GZIP_LEVEL = 1
"""The least work: a stream must not wait for its compression."""
_GZIP_FORMAT = 31


class _Codec(Protocol):
    def added(self, piece: bytes) -> bytes:
        """What is ready when this piece was added; it may be nothing."""

    def ended(self) -> bytes:
        """The rest."""


class _Gzip:
    def __init__(self) -> None:
        self._compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)

    def added(self, piece: bytes) -> bytes:
        return self._compressor.compress(piece)

    def ended(self) -> bytes:
        return self._compressor.flush()


class _Zstandard:
    def __init__(self) -> None:
        self._sink = ByteSink()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._sink, mode="w"), "zstd")

    def added(self, piece: bytes) -> bytes:
        self._stream.write(piece)
        return self._sink.take()

    def ended(self) -> bytes:
        self._stream.close()
        return self._sink.take()


_CODECS: Mapping[str, Callable[[], _Codec]] = {"zstd": _Zstandard, "gzip": _Gzip}
"""The better one first."""


def compressed(pieces: Iterator[bytes], headers: Mapping[str, str]) -> tuple[Iterator[bytes], dict[str, str]]:
    """The same stream as the client takes it, and the headers that say so."""
    name = chosen(headers.get("accept-encoding", ""))
    if name is None:
        return pieces, {"Vary": "Accept-Encoding"}
    return _through(_CODECS[name](), pieces), {"Vary": "Accept-Encoding", "Content-Encoding": name}


def chosen(accepted: str) -> str | None:
    """The coding that the client wants most; None for the bytes as they are."""
    weights: dict[str, float] = {}
    for item in accepted.split(","):
        name, *options = (part.strip().lower() for part in item.split(";"))
        qualities = [option[2:] for option in options if option.startswith("q=")]
        try:
            weights[name] = float(qualities[0]) if qualities else 1.0
        except ValueError:
            weights[name] = 0.0
    wanted = [name for name in _CODECS if 0.0 < weights.get(name, 0.0) >= weights.get("identity", 0.0)]
    return max(wanted, key=lambda name: weights[name], default=None)


def _through(codec: _Codec, pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        for piece in pieces:
            if ready := codec.added(piece):
                yield ready
        yield codec.ended()
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
