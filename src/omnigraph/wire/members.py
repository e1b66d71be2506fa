"""The members of a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]


def present(members: Mapping[str, Any]) -> JsonObject:
    """The object without the members that are null."""
    return {name: value for name, value in members.items() if value is not None}
