"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from omnigraph.server.components import COMPONENTS
from omnigraph.server.json_schemas import TEXT, array, ref
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
