"""Pieces of JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
ANY_OBJECT: Schema = {"type": "object"}
MICROSECONDS: Schema = {"type": "integer", "description": "Microseconds since 1970, UTC."}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def enum(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    if isinstance(schema.get("type"), str):
        or_null = {**schema, "type": [schema["type"], "null"]}
        return {**or_null, "enum": [*schema["enum"], None]} if "enum" in schema else or_null
    return {"anyOf": [schema, {"type": "null"}]}


def shape(
    required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, *, closed: bool = False
) -> Schema:
    """An object: members that are always there, and those that may be left out. A closed one has no others."""
    schema: Schema = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False} if closed else schema
