"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from omnigraph.api.structs import TEXT, array, ref
from omnigraph.server.components import COMPONENTS
from omnigraph.server.problems import TABLE
from omnigraph.server.route import EVENTS, JSON, NOTHING, PATH_PATTERNS, RequestParameter, Response, Route
from omnigraph.server.routes import ROUTES

CONTRACT_VERSION = "0.10.0"
"""What clients compare with their own version."""

SECURITY = "bearer_token"

STATUS_TEXTS = {
    302: "The Blob is elsewhere.",
    304: "The client already has the current state.",
    400: "The request is wrong.",
    401: "The token is missing or unknown.",
    403: "The policy does not allow the request.",
    404: "It does not exist, or the caller may not see it.",
    405: "The path does not accept this method.",
    406: "The client does not accept JSON.",
    409: "The request conflicts with the state of the graph, or with another write.",
    410: "Cleanup has removed what was asked for.",
    412: "The branch is not at the expected commit, or the Blob has changed.",
    413: "The request or its answer is too large.",
    415: "The content type of the body is not accepted.",
    416: "The range begins beyond the end.",
    422: "The idempotency key was used for another request.",
    429: "The actor has too many writes in flight.",
    500: "An internal error; the log has it under the request id.",
    503: "The store does not answer, or the server is stopping.",
}

_WRITE_HEADERS = (
    RequestParameter(
        "If-Match", place="header", description="The commit id that the branch must be at, in double quotes."
    ),
    RequestParameter(
        "Idempotency-Key", place="header", description="A write that comes again under its key changes nothing."
    ),
    RequestParameter("Omnigraph-Message", place="header", description="The commit's message, percent-encoded UTF-8."),
)


def openapi(*, is_open: bool = False, routes: Sequence[Route] = ROUTES) -> dict[str, Any]:
    """The document; of an open server, without security."""
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, is_open=is_open)
    components: dict[str, Any] = {"schemas": COMPONENTS}
    if not is_open:
        components["securitySchemes"] = {SECURITY: {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OmniGraph",
            "version": CONTRACT_VERSION,
            "description": "Typed property graphs that work like Git, over HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": components,
    }


def _operation(route: Route, *, is_open: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": {
            **{str(status): _response(route, answer) for status, answer in route.responses.items()},
            **{str(status): _error(route, status) for status in route.statuses if status not in route.responses},
        },
    }
    parameters = [*_path_parameters(route), *map(_parameter, route.parameters)]
    if route.takes_write_headers:
        own = {parameter.name for parameter in route.parameters}
        parameters += [_parameter(write_header) for write_header in _WRITE_HEADERS if write_header.name not in own]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        schema = TEXT if route.body.component is None else ref(route.body.component)
        operation["requestBody"] = {
            "required": route.body.is_required,
            "content": {route.body.media_type: {"schema": schema}},
        }
    if route.successor is not None:
        operation["deprecated"] = True
    if not route.is_open and not is_open:
        operation["security"] = [{SECURITY: []}]
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
        for name in re.findall(r"{(\w+)}", route.path)
    ]


def _path_schema(name: str) -> dict[str, Any]:
    return {"type": "string", "pattern": PATH_PATTERNS[name]}


def _parameter(parameter: RequestParameter) -> dict[str, Any]:
    schema = array(parameter.schema) if parameter.repeated else parameter.schema
    value: dict[str, Any] = {"name": parameter.name, "in": parameter.place, "schema": schema}
    if parameter.required:
        value["required"] = True
    if parameter.repeated:
        value |= {"style": "form", "explode": True}
    if parameter.description:
        value["description"] = parameter.description
    return value


def _response(route: Route, answer: Response) -> dict[str, Any]:
    value: dict[str, Any] = {"description": answer.description}
    if route.method == "HEAD" or answer.media_type == NOTHING:
        return value
    if answer.component is not None:
        value["content"] = {JSON: {"schema": ref(answer.component)}}
    elif answer.media_type == JSON:
        value["content"] = {JSON: {"schema": {"type": "object"}}}
    else:
        # Events have parts of their own, which are no text as a whole.
        value["content"] = {answer.media_type: {} if answer.media_type == EVENTS else {"schema": TEXT}}
    return value


def _error(route: Route, status: int) -> dict[str, Any]:
    value: dict[str, Any] = {"description": STATUS_TEXTS[status]}
    if status >= 400 and route.method != "HEAD":
        value["content"] = {JSON: {"schema": ref("Error")}}
    return value


def openapi_text(*, is_open: bool = False) -> str:
    return json.dumps(openapi(is_open=is_open), indent=1, ensure_ascii=False) + "\n"


# docs/reference/http.md: the routes, the shapes and the errors, from the tables that the server itself uses.

_TAGS = {
    "contract": "Routes that clients of the contract know",
    "extension": "Further routes",
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
| `Server-Timing` | milliseconds for each part of the work; `store`: the requests to the store, and the bytes |
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
