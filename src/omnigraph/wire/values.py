"""Property values as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.values.json_values import json_value

if TYPE_CHECKING:
    from omnigraph.values.entities import JsonValue, Value


def value_json(value: Value) -> JsonValue:
    """Dates and instants as ISO text, bytes as base64, integers that a float cannot hold as text."""
    result: JsonValue = json_value(value)
    return result
