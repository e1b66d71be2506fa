"""A tool for each stored query: its parameters are the tool's arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.mcp.operations import Schema

_SCALARS: Mapping[str, Schema] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "bigint": {"type": "string", "pattern": r"^-?\d+$"},
    "float": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "blob": {"type": "string", "contentEncoding": "base64"},
}
_BASE64 = "base64:"
PLACES = ("branch", "snapshot")
"""Arguments in addition to the parameters, unless a parameter has the name."""


@dataclass(frozen=True)
class StoredTool:
    """One stored query under the name of its tool."""

    name: str
    query: str
    is_mutation: bool
    description: str
    parameters: tuple[Mapping[str, Any], ...]

    @property
    def places(self) -> tuple[str, ...]:
        """The arguments that say where it runs: for a mutation, a branch only."""
        taken = {parameter["name"] for parameter in self.parameters}
        return tuple(name for name in PLACES[: 1 if self.is_mutation else 2] if name not in taken)

    def input_schemas(self) -> dict[str, Schema]:
        """The schemas of the parameters, by name."""
        return {parameter["name"]: parameter_schema(parameter) for parameter in self.parameters}

    @property
    def required(self) -> list[str]:
        return [parameter["name"] for parameter in self.parameters if not parameter["nullable"]]

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the parameters, as the query takes them."""
        kinds = {parameter["name"]: parameter for parameter in self.parameters}
        return {name: _value(kinds[name], value) for name, value in arguments.items() if name in kinds}


def stored_tools(queries: Sequence[Mapping[str, Any]], taken: Collection[str]) -> list[StoredTool]:
    """A tool for each stored query; one with the name of another tool is called `q_<name>`."""
    used = set(taken) | {query["name"] for query in queries if query["name"] not in taken}
    tools = []
    for stored in sorted(queries, key=lambda query: str(query["name"])):
        name = stored["name"]
        if name in taken:
            while name in used:
                name = f"q_{name}"
            used.add(name)
        texts = [stored.get("description"), stored.get("instruction")]
        description = "\n\n".join(text for text in texts if text)
        default = f"The stored {'mutation' if stored['mutation'] else 'query'} '{stored['name']}'."
        tools.append(
            StoredTool(name, stored["name"], stored["mutation"], description or default, tuple(stored["params"]))
        )
    return tools


def parameter_schema(parameter: Mapping[str, Any]) -> Schema:
    """The JSON schema of the values that a parameter takes."""
    kind = parameter["kind"]
    if kind == "vector":
        length = parameter["vector_dim"]
        schema: Schema = {"type": "array", "items": {"type": "number"}, "minItems": length, "maxItems": length}
    elif kind == "list":
        schema = {"type": "array", "items": _SCALARS[parameter["item_kind"]]}
    else:
        schema = _SCALARS[kind]
    return {**schema, "type": [schema["type"], "null"]} if parameter["nullable"] else schema


def _value(parameter: Mapping[str, Any], value: Any) -> Any:
    """The value of a parameter. A tool takes bytes as plain base64; a query needs the prefix that says so."""
    if "blob" not in (parameter["kind"], parameter.get("item_kind")):
        return value
    if isinstance(value, list):
        return [_value(parameter, item) for item in value]
    is_bare = isinstance(value, str) and not value.startswith(_BASE64)
    return _BASE64 + value if is_bare else value
