"""docs/http.md: the routes, the shapes and the errors, from the tables that the server itself uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.server.components import COMPONENTS
from omnigraph.server.openapi import CONTRACT_VERSION, STATUS_TEXTS
from omnigraph.server.problems import TABLE
from omnigraph.server.route import NOTHING, Route
from omnigraph.server.routes import ROUTES

_TAGS = {
    "contract": "Routes that clients of the contract know",
    "ours": "Further routes",
}
_INTRODUCTION = f"""# The HTTP interface

Generated from the server's own tables. [server.md](server.md) says how to run a server; `docs/openapi.json` is this page for programs.
The contract's version is {CONTRACT_VERSION}.

Bodies are JSON in UTF-8. Integers beyond 2^53 - 1, NaN and infinities are text; dates and instants are ISO text. A name in braces is
one percent-encoded segment of the path: the branch `review/1` is `review%2F1`. `?` marks what may be left out, `*` what may be repeated.

Every route except the open ones needs `Authorization: Bearer TOKEN`. The actor comes from the token and from nothing else.
"""
_HEADERS = """## Headers

| of a request | |
|---|---|
| `Authorization: Bearer TOKEN` | identifies the actor |
| `Omnigraph-If-Graph-Commit: ID` | on the routes that end in `/if-graph-commit`, and only there: the write is made if the branch is at this commit, otherwise 412 |
| `If-Match: "ID"` | the same, on every write |
| `If-None-Match: "TAG"` | on a GET that gave an `ETag`: 304 if nothing has changed |
| `Idempotency-Key: KEY` | on every write, 1 to 128 visible ASCII characters: see [server.md](server.md#a-write-that-is-sent-again) |
| `Omnigraph-Message: TEXT` | on every write: the commit's message, percent-encoded UTF-8, up to 1,024 bytes; also a member of the body |
| `Accept-Encoding: zstd, gzip` | text exports and baselines are compressed on the fly |
| `X-Request-Id: ID` | used if it is 1 to 128 of `A-Z a-z 0-9 . _ -`, otherwise replaced by a generated one |
| `traceparent` | the trace that the request belongs to |

| of an answer | |
|---|---|
| `X-Request-Id` | always |
| `Omnigraph-Graph-Commit` | the commit that was read or made; a write that changes nothing names none |
| `ETag` | the commit id of the branch's state |
| `Server-Timing` | milliseconds for each part of the work |
| `Idempotent-Replayed: true` | the write was made by an earlier request |
| `Deprecation`, `Link` | the route has a successor |
| `Retry-After` | seconds, with 429, 503 and a lost race (409) |
"""


def http_reference() -> str:
    lines = [_INTRODUCTION, _HEADERS]
    for tag, title in _TAGS.items():
        lines += [f"## {title}", "", *_routes(tag), ""]
    lines += ["## Shapes", "", "```text", *_shapes(), "```", "", *_errors()]
    return "\n".join(lines) + "\n"


def _routes(tag: str) -> Iterator[str]:
    yield "| route | action | takes | gives | other statuses |"
    yield "|---|---|---|---|---|"
    for route in ROUTES:
        if route.tag == tag:
            cells = (_name(route), f"`{route.action}`" if route.action else "open", _taken(route), _returned(route))
            yield f"| {' | '.join(cells)} | {' '.join(map(str, route.statuses))} |"


def _name(route: Route) -> str:
    notes = f" Deprecated: use `{route.successor}`." if route.successor else ""
    return f"`{route.method} {route.path}`<br>{route.summary}{notes}"


def _taken(route: Route) -> str:
    parts = [
        f"`{parameter.name}{'' if parameter.required else '?'}{'*' if parameter.repeated else ''}`"
        for parameter in route.parameters
        if parameter.place == "query"
    ]
    if route.body is not None:
        parts.append(route.body.component or f"`{route.body.media_type}`")
    return ", ".join(parts) or "–"


def _returned(route: Route) -> str:
    shown = []
    for status, answer in route.responses.items():
        what = answer.component or ("nothing" if answer.media_type == NOTHING else f"`{answer.media_type}`")
        shown.append(what if status == 200 else f"{status}: {what}")
    return ", ".join(shown)


def _shapes() -> Iterator[str]:
    for name, schema in COMPONENTS.items():
        yield f"{name} = {_written(schema)}"


def _written(schema: dict[str, Any]) -> str:
    """A schema as people write it: `{name, other?: text|null}`."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return "|".join(_written(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return "|".join("null" if value is None else f'"{value}"' for value in schema["enum"])
    kinds = schema.get("type", [])
    return "|".join(_written_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)) or "any"


def _written_kind(kind: str, schema: dict[str, Any]) -> str:
    if kind == "array":
        return f"[{_written(schema.get('items', {}))}]"
    if kind == "object" and schema.get("properties"):
        required = schema.get("required", ())
        members = (
            f"{name}{'' if name in required else '?'}: {_written(member)}"
            for name, member in schema["properties"].items()
        )
        return "{" + ", ".join(members) + "}"
    return {"string": "text", "integer": "int", "boolean": "bool"}.get(kind, kind)


def _errors() -> Iterator[str]:
    yield "## Errors"
    yield ""
    yield "The body is `Error`. `problem.code` is the code of [errors.md](errors.md). If several rows apply, the most specific one counts."
    yield ""
    yield "| error (`problem.code`) | status | `code` |"
    yield "|---|---|---|"
    for kind, row in TABLE.items():
        yield f"| `{kind.code}` | {row.status} | {'' if row.code is None else f'`{row.code}`'} |"
    yield ""
    yield "| status | |"
    yield "|---|---|"
    for status, text in STATUS_TEXTS.items():
        yield f"| {status} | {text} |"
