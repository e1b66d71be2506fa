"""The studio: the page, its files, and the headers that keep it to this server."""

from __future__ import annotations

from omnigraph.errors import RouteNotFound
from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.studio.assets import PAGE, Asset, assets

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
