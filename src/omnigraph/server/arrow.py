"""Rows as an Arrow stream, for clients that ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from omnigraph.server.calls import HandlerResult
from omnigraph.server.sinks import ByteSink

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.read import Result

ARROW = "application/vnd.apache.arrow.stream"
_CODECS = {"lz4": "lz4", "zstd": "zstd"}
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
    return next((_CODECS[name] for name in names if name in _CODECS), None)


def _pieces(table: pa.Table, codec: str | None) -> Iterator[bytes]:
    """A message at a time: what was sent is not held."""
    import pyarrow as pa

    sink = ByteSink()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), table.schema, options=options) as writer:
        yield sink.take()
        for batch in table.to_batches(max_chunksize=MAX_BATCH_ROWS):
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()
