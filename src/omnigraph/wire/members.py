"""The members of a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from omnigraph.features import FORMAT
from omnigraph.values.json_values import json_value
from omnigraph.version import VERSION

if TYPE_CHECKING:
    from omnigraph.values.arrow import JsonValue, Value


# Property values as JSON.


def value_json(value: Value) -> JsonValue:
    """Dates and instants as ISO text, bytes as base64, integers that a float cannot hold as text."""
    result: JsonValue = json_value(value)
    return result


JsonObject: TypeAlias = dict[str, Any]


def present(members: Mapping[str, Any]) -> JsonObject:
    """The object without the members that are null."""
    return {name: value for name, value in members.items() if value is not None}


# The program's version and the storage format it writes.


def version_json() -> JsonObject:
    """{omnigraph, format}."""
    return {"omnigraph": VERSION, "format": FORMAT}
