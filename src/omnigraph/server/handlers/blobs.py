"""Blobs: bytes by range, with tags."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from starlette.datastructures import Headers

from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.problems import BlobChanged, RangeNotSatisfiable
from omnigraph.server.route import BYTES

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@handles("cluster_getBlob", "cluster_headBlob")
def get_blob(call: RouteCall) -> HandlerResult:
    query, headers = call.query, call.request.headers
    blob = call.graph.blob(
        f"{query['entity']}:{query['type']}", query["id"], query["property"], revision=call.revision()
    )
    witness = hashlib.sha256(f"{call.of_graph.id}\0{blob.commit.id}".encode()).hexdigest()[:32]
    known = {
        "ETag": f'"{blob.etag}"',
        "Accept-Ranges": "bytes",
        "Omnigraph-Snapshot-Id": witness,
        "Content-Length": str(blob.size),
    }
    _check_if_match(headers, blob.etag)
    if _has_tag(headers.get("if-none-match"), blob.etag, weak=True):
        return HandlerResult(
            b"", 304, BYTES, {name: value for name, value in known.items() if name != "Content-Length"}
        )
    if call.request.method == "HEAD":
        return HandlerResult(iter(()), 200, BYTES, known, commit=blob.commit.id)
    part = _part(headers, blob.size, blob.etag)
    if part is None:
        return HandlerResult(blob.pieces(), 200, BYTES, known, commit=blob.commit.id)
    known |= {"Content-Range": f"bytes {part.start}-{part.end}/{blob.size}", "Content-Length": str(part.length)}
    return HandlerResult(blob.pieces(part.start, part.length), 206, BYTES, known, commit=blob.commit.id)


@dataclass(frozen=True)
class ByteRange:
    """The first and the last byte."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start + 1


def _check_if_match(headers: Headers, etag: str) -> None:
    if_match = headers.get("if-match")
    if if_match is not None and not _has_tag(if_match, etag, weak=False):
        raise BlobChanged("the Blob is not what If-Match names")


def _has_tag(header: str | None, etag: str, *, weak: bool) -> bool:
    if header is None:
        return False
    tags = {tag.strip() for tag in header.split(",")}
    if weak:
        tags = {tag.removeprefix("W/") for tag in tags}
    return "*" in tags or f'"{etag}"' in tags


def _part(headers: Headers, size: int, etag: str) -> ByteRange | None:
    """The range that is asked for; None for the whole. What is malformed, several, or for another state asks for the whole."""
    parsed = _RANGE.fullmatch(headers.get("range", "").replace(" ", ""))
    condition = headers.get("if-range")
    if parsed is None or parsed[0] == "bytes=-" or (condition is not None and condition != f'"{etag}"'):
        return None
    first, last = parsed[1], parsed[2]
    if first and last and int(last) < int(first):
        return None
    if not first:
        start, end = max(size - int(last), 0), size - 1
        if not int(last):
            start = size
    else:
        start, end = int(first), min(int(last), size - 1) if last else size - 1
    if start >= size:
        raise RangeNotSatisfiable(start, int(last) if last else size, size)
    return ByteRange(start, end)
