"""Checks the headers of a request, and makes those of every response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers

from omnigraph.errors import LimitExceeded, OriginRefused, UnsupportedMediaType, UsageError
from omnigraph.server.route import JSON, Route
from omnigraph.server.settings import Limits, ServerSettings

IF_HEAD = "omnigraph-if-graph-commit"
KEY = re.compile(r"[\x21-\x7e]{1,128}")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_COMMIT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

EVERY_ANSWER: Mapping[str, str] = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

REQUEST_HEADERS = (
    "Authorization",
    "Content-Type",
    "If-Match",
    "If-None-Match",
    "Idempotency-Key",
    "Omnigraph-If-Graph-Commit",
    "Omnigraph-Message",
    "X-Request-Id",
    "traceparent",
)
EXPOSED_HEADERS = (
    "X-Request-Id",
    "Omnigraph-Graph-Commit",
    "ETag",
    "Retry-After",
    "Omnigraph-Snapshot-Id",
    "Content-Range",
    "Accept-Ranges",
)


PREFLIGHT: Mapping[str, str] = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE, HEAD",
    "Access-Control-Allow-Headers": ", ".join(REQUEST_HEADERS),
    "Access-Control-Max-Age": "600",
}


def is_preflight(method: str, headers: Headers, settings: ServerSettings) -> bool:
    """Whether this is the preflight request of a browser for a page of an allowed site."""
    is_allowed = headers.get("origin") in settings.cors_origins
    return method == "OPTIONS" and is_allowed and "access-control-request-method" in headers


def cors_headers(headers: Headers, settings: ServerSettings) -> dict[str, str]:
    """The headers that let a page of an allowed site read the response. Browser credentials are never accepted."""
    if not settings.cors_origins:
        return {}
    origin = headers.get("origin")
    if origin not in settings.cors_origins:
        return {"Vary": "Origin"}
    return {
        "Vary": "Origin",
        "Access-Control-Allow-Origin": str(origin),
        "Access-Control-Expose-Headers": ", ".join(EXPOSED_HEADERS),
    }


def given_request_id(headers: Headers) -> str | None:
    """The client's request id, if it is valid."""
    wanted = headers.get("x-request-id", "")
    return wanted if _REQUEST_ID.fullmatch(wanted) else None


def check_origin(method: str, headers: Headers, settings: ServerSettings, scheme: str) -> None:
    """Raises OriginRefused for a host name that is not the server's, and for a write from a page of another site. `scheme` is that of
    the connection; a proxy that does TLS says what the client's was."""
    hosts = headers.getlist("host")
    if len(hosts) > 1:
        raise UsageError("the request has several Host headers")
    host = "".join(hosts)
    name = _host_name(host)
    if name not in _LOOPBACK and name not in settings.hosts:
        raise OriginRefused(f"this server is not called '{name[:100]}'", hint="start it with --host NAME")
    origin = headers.get("origin")
    if method in _SAFE_METHODS or origin is None or origin in settings.cors_origins:
        return
    if origin != f"{headers.get('x-forwarded-proto', scheme)}://{host}":
        raise OriginRefused("a page of another site may not write here", hint="start the server with --cors ORIGIN")


def _host_name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def expected_head(route: Route, headers: Headers) -> str | None:
    """The commit that the branch must have as its head: Omnigraph-If-Graph-Commit if the route requires it, If-Match on any write."""
    values = headers.getlist(IF_HEAD)
    if values and not route.needs_head:
        raise UsageError(
            "Omnigraph-If-Graph-Commit is not for this route", hint="use the route that ends in /if-graph-commit"
        )
    if route.needs_head:
        if len(values) != 1 or not _COMMIT_ID.fullmatch(values[0]):
            raise UsageError("Omnigraph-If-Graph-Commit must be given once, and be a bare commit id")
        return values[0]
    tags = headers.getlist("if-match") if route.is_write else []
    if not tags:
        return None
    if len(tags) != 1 or not (
        tags[0].startswith('"') and tags[0].endswith('"') and _COMMIT_ID.fullmatch(tags[0][1:-1])
    ):
        raise UsageError('If-Match must be given once, as a commit id in double quotes: "01J..."')
    return tags[0][1:-1]


def idempotency_key(route: Route, headers: Headers) -> str | None:
    values = headers.getlist("idempotency-key")
    if not values or not route.takes_write_headers:
        return None
    if len(values) != 1 or not KEY.fullmatch(values[0]):
        raise UsageError("Idempotency-Key must be given once, as 1 to 128 visible ASCII characters")
    return values[0]


def commit_message(route: Route, headers: Headers, limits: Limits) -> str | None:
    """Omnigraph-Message, percent-encoded UTF-8."""
    message = headers.get("omnigraph-message")
    if message is None or not route.takes_write_headers:
        return None
    try:
        data = unquote_to_bytes(message.encode("latin-1"))
        text = data.decode("utf-8")
    except UnicodeError:
        raise UsageError("Omnigraph-Message is not percent-encoded UTF-8") from None
    if len(data) > limits.message_bytes:
        raise LimitExceeded(
            f"the message has {len(data)} bytes", resource="message_bytes", limit=limits.message_bytes, actual=len(data)
        )
    return text


def check_content_type(route: Route, headers: Headers, *, has_body: bool) -> None:
    """Raises UnsupportedMediaType unless the body has the route's media type and is not compressed."""
    assert route.body is not None, "a route with a body"
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("a compressed body is not taken", hint="send it as it is")
    content_type = headers.get("content-type")
    if content_type is None and not has_body:
        return
    media_type, _, options = (content_type or "").partition(";")
    charset = re.search(r"charset=\"?([^\s;\"]+)", options, re.IGNORECASE)
    if media_type.strip().lower() != route.body.media_type or (charset and charset[1].lower() not in ("utf-8", "utf8")):
        raise UnsupportedMediaType(
            f"expected a body of type {route.body.media_type}", hint=f"send Content-Type: {route.body.media_type}"
        )


def declared_size(headers: Headers) -> int | None:
    """Content-Length, if there is one."""
    length = headers.get("content-length")
    return int(length) if length is not None and length.isdigit() and len(length) <= 18 else None


def fits_tag(headers: Headers, etag: str) -> bool:
    """Whether If-None-Match names this state, so that the client already has it."""
    header = headers.get("if-none-match")
    if header is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return "*" in tags or f'"{etag}"' in tags


def accepts(headers: Headers, media_type: str) -> bool:
    """Whether the client prefers this media type to JSON: it accepts only this type, or gives it a higher quality."""
    accepted = headers.get("accept", "").lower()
    if media_type not in accepted:
        return False
    quality: dict[str, float] = {}
    for item in accepted.split(","):
        name, *options = (part.strip() for part in item.split(";"))
        weights = [option[2:] for option in options if option.startswith("q=")]
        try:
            quality[name] = float(weights[0]) if weights else 1.0
        except ValueError:
            quality[name] = 0.0
    wanted = quality.get(media_type, 0.0)
    other = max(quality.get(JSON, 0.0), quality.get("*/*", 0.0), quality.get("application/*", 0.0))
    return wanted > other
