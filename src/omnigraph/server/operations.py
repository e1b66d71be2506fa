"""The routes as the tools of agents see them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from omnigraph.mcp.tools import Schema, ToolOperation
from omnigraph.server.components import COMPONENTS
from omnigraph.server.route import JSON, Route
from omnigraph.server.routes import ROUTES

_SEGMENT = re.compile(r"\{(\w+)\}")
_REFERENCE = "#/components/schemas/"


def operations(routes: Iterable[Route] = ROUTES) -> dict[str, ToolOperation]:
    """Every route by its operationId."""
    return {route.operation_id: _operation(route) for route in routes}


def _operation(route: Route) -> ToolOperation:
    in_path = tuple(name for name in _SEGMENT.findall(route.path) if name != "graph_id")
    parameters = {parameter.name: parameter for parameter in route.parameters if parameter.place == "query"}
    body: Schema = {}
    if route.body is not None and route.body.component is not None:
        body = COMPONENTS[route.body.component]
    members: dict[str, Schema] = {name: {"type": "string"} for name in in_path}
    for name, declared in parameters.items():
        schema = {"type": "array", "items": declared.schema} if declared.repeated else dict(declared.schema)
        members[name] = _complete(schema | ({"description": declared.description} if declared.description else {}))
    members |= {name: _complete(schema) for name, schema in body.get("properties", {}).items()}
    required = {
        *in_path,
        *body.get("required", ()),
        *(name for name, parameter in parameters.items() if parameter.required),
    }
    answer = route.responses.get(200)
    shape = (
        None
        if answer is None or answer.component is None or answer.media_type != JSON
        else COMPONENTS[answer.component]
    )
    return ToolOperation(
        id=route.operation_id,
        method=route.method,
        path=route.path,
        action=route.action,
        in_path=in_path,
        in_query=tuple(parameters),
        in_body=tuple(body.get("properties", ())),
        members=members,
        required=frozenset(required),
        repeated=frozenset(name for name, parameter in parameters.items() if parameter.repeated),
        takes_key=route.takes_write_headers,
        answer=None if shape is None else _complete(shape),
    )


def _complete(schema: Schema) -> Schema:
    """A schema with every shape that it names put in its place."""
    return {name: _resolved(value) for name, value in _deep(schema).items()}


def _deep(schema: Schema) -> Schema:
    reference = schema.get("$ref")
    return schema if reference is None else COMPONENTS[reference.removeprefix(_REFERENCE)]


def _resolved(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _resolved(item) for name, item in _deep(value).items()}
    return [_resolved(item) for item in value] if isinstance(value, list) else value
