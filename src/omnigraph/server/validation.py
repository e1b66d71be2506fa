"""What a request carries, checked against the schemas of the table: UsageError with the place for anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph.api.structs import Schema
from omnigraph.errors import CommitNotFound, NotFound, UsageError
from omnigraph.server.components import COMPONENTS
from omnigraph.server.route import PATH_PATTERNS, RequestParameter, Route

_WORDS = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


def parse_json(data: bytes) -> Any:
    """The value; UsageError for what is not JSON in UTF-8, or nested too deeply to be read."""
    try:
        value = _DECODER.decode(data.decode("utf-8"))
        if b"\\ud" in data or b"\\uD" in data:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except UnicodeEncodeError:
        raise UsageError("the body has text with half of a surrogate pair, which has no UTF-8") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"the body is not UTF-8: byte {error.start + 1}") from None
    except RecursionError:
        raise UsageError("the body is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"the body is not JSON: {error}") from None


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def check(value: Any, schema: Schema, where: str) -> None:
    """UsageError unless the value is of the schema. `where` names the value."""
    if "$ref" in schema:
        schema = COMPONENTS[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        _check_alternatives(value, schema["anyOf"], where)
        return
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    kind = _kind_of(value)
    if kinds and kind not in kinds and not (kind == "integer" and "number" in kinds):
        wanted = " or ".join(_WORDS[kind] for kind in kinds)
        raise UsageError(f"{where} must be {wanted}, got {_WORDS[kind]}")
    if value is not None and "enum" in schema and value not in schema["enum"]:
        raise UsageError(f"{where} must be one of {', '.join(filter(None, schema['enum']))}, got {str(value)[:100]!r}")
    if kind == "integer" and value < schema.get("minimum", value):
        raise UsageError(f"{where} must be at least {schema['minimum']}, got {value}")
    if kind == "array" and "items" in schema:
        for index, item in enumerate(value):
            check(item, schema["items"], f"{where}[{index}]")
    if kind == "object":
        _check_members(value, schema, where)


def _check_alternatives(value: Any, schemas: Sequence[Schema], where: str) -> None:
    for schema in schemas[:-1]:
        try:
            check(value, schema, where)
            return
        except UsageError:
            if value is not None:
                raise
    check(value, schemas[-1], where)


def _check_members(value: Mapping[str, Any], schema: Schema, where: str) -> None:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            raise UsageError(f"{where} needs the member '{name}'")
    for name, member in value.items():
        if name in properties:
            check(member, properties[name], f"'{name}'" if where == BODY else f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            raise UsageError(f"{where} has an unknown member '{name}'", hint=f"it takes: {', '.join(properties)}")


BODY = "the body"


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def checked_body(route: Route, data: bytes) -> dict[str, Any]:
    """The members of a JSON body, under their proper names."""
    assert route.body is not None, "a route with a body"
    assert route.body.component is not None, "a route that takes JSON"
    if not data.strip() and not route.body.is_required:
        return {}
    value = parse_json(data)
    if isinstance(value, dict):
        for alias, name in route.body.aliases.items():
            if alias in value:
                if name in value:
                    raise UsageError(f"'{alias}' and '{name}' are the same member: give one of them")
                value[name] = value.pop(alias)
    check(value, COMPONENTS[route.body.component], BODY)
    # null is the same as leaving a member out.
    return trimmed(route, {name: member for name, member in value.items() if member is not None})


def checked_parameters(route: Route, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Query parameters by name: text, a number where the table says so, a tuple where it may be repeated."""
    known = {parameter.name: parameter for parameter in route.parameters if parameter.place == "query"}
    values: dict[str, Any] = {}
    for name, text in query:
        parameter = known.get(name)
        if parameter is None:
            if route.refuses_unknown_parameters:
                raise UsageError(f"unknown query parameter '{name}'", hint=f"it takes: {', '.join(known)}")
            continue
        value = _parameter_value(parameter, text)
        if parameter.repeated:
            values[name] = (*values.get(name, ()), value)
        elif name in values:
            raise UsageError(f"the query parameter '{name}' is given twice")
        else:
            values[name] = value
    for name, parameter in known.items():
        if parameter.required and name not in values:
            raise UsageError(f"the query parameter '{name}' is required")
    return trimmed(route, values)


def _parameter_value(parameter: RequestParameter, text: str) -> Any:
    where = f"the query parameter '{parameter.name}'"
    value: Any = text
    kind = parameter.schema.get("type")
    if kind == "integer":
        if not (text.isascii() and text.lstrip("-").isdigit() and len(text) <= 18):
            raise UsageError(f"{where} must be an integer, got {text[:100]!r}")
        value = int(text)
    elif kind == "boolean":
        if text not in ("1", "0", "true", "false"):
            raise UsageError(f"{where} must be true or false, got {text[:100]!r}")
        value = text in ("1", "true")
    check(value, parameter.schema, where)
    return value


def check_path(path: Mapping[str, str]) -> None:
    """NotFound for a value of a path parameter that nothing can have: no handler sees it."""
    for name, value in path.items():
        if not re.fullmatch(PATH_PATTERNS[name], value):
            kind = CommitNotFound if name == "commit_id" else NotFound
            raise kind(f"{name.replace('_', ' ')} '{value[:100]}' not found")


def trimmed(route: Route, values: dict[str, Any]) -> dict[str, Any]:
    """Branch names without space around them, so that no rule for `main` is passed by ` main`."""
    for name in route.branch_names:
        if isinstance(values.get(name), str):
            values[name] = values[name].strip()
    return values
