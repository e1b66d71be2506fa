"""The studio: the page, its files, and the headers that keep it to this server."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from omnigraph.errors import RouteNotFound
from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
PAGE_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
FILE_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable"}
"""A file's name changes with its content."""


@handles("getStudio")
def page(call: RouteCall) -> HandlerResult:
    return _answer(call, assets()[PAGE], PAGE_HEADERS)


@handles("getStudioFile")
def file(call: RouteCall) -> HandlerResult:
    asset = assets().get(call.path["file"])
    if asset is None or call.path["file"] == PAGE:
        raise RouteNotFound("there is nothing at this path")
    return _answer(call, asset, FILE_HEADERS)


def _answer(call: RouteCall, asset: Asset, headers: dict[str, str]) -> HandlerResult:
    is_compressed = "gzip" in call.request.headers.get("accept-encoding", "")
    encoding = {"Content-Encoding": "gzip"} if is_compressed else {}
    return HandlerResult(
        asset.compressed if is_compressed else asset.data,
        media_type=asset.media_type,
        headers={**headers, **encoding, "Vary": "Accept-Encoding"},
        etag=asset.digest,
    )


# The files of the page, read and compressed once.


PAGE = "index.html"
_NOT_SERVED = ("BUILD.json",)


@dataclass(frozen=True)
class Asset:
    """One file. `digest` names its content."""

    data: bytes
    compressed: bytes
    media_type: str
    digest: str


@cache
def assets() -> Mapping[str, Asset]:
    """The files by name."""
    folder = files("omnigraph.studio").joinpath("dist")
    entries = [entry for entry in folder.iterdir() if entry.name not in _NOT_SERVED]
    return {entry.name: _asset(entry.name, entry.read_bytes()) for entry in entries}


def _asset(name: str, data: bytes) -> Asset:
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
    return Asset(data, gzip.compress(data, 9, mtime=0), media_type, hashlib.sha256(data).hexdigest()[:32])


_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
"""Not the table of the system, which may say anything."""
