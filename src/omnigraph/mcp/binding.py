"""A tool bound to its operation: how it is described to an agent, and the request that a call makes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import UsageError
from omnigraph.mcp.tools import MAX_ROWS, Schema, StoredTool, ToolFacts, ToolOperation

IF_COMMIT = "if_graph_commit"
KEY = "idempotency_key"
LIMIT = "limit"
CAMEL = re.compile(r"(?<!^)(?=[A-Z])")

_OWN: Mapping[str, Schema] = {
    IF_COMMIT: {"type": "string", "description": "Only if the branch is at this commit."},
    KEY: {
        "type": "string",
        "minLength": 1,
        "maxLength": 128,
        "description": "Repeated with the same key and the same arguments, the write is not made again.",
    },
    LIMIT: {
        "type": "integer",
        "minimum": 1,
        "default": MAX_ROWS,
        "description": "At most this many in the answer, which has at most 64 KiB.",
    },
}


@dataclass(frozen=True)
class ToolRequest:
    """The request to the server that a call of a tool makes."""

    operation: ToolOperation
    arguments: Mapping[str, Any]
    headers: Mapping[str, str]
    limit: int


@dataclass(frozen=True)
class BoundTool:
    """A tool that can be called."""

    name: str
    description: str
    hint: str
    operation: ToolOperation
    schemas: Mapping[str, Schema]
    required: tuple[str, ...]
    facts: ToolFacts | None = None
    stored: StoredTool | None = None
    if_commit: ToolOperation | None = None

    @property
    def rows(self) -> str | None:
        return "rows" if self.facts is None else self.facts.rows

    @property
    def is_paged(self) -> bool:
        return self.facts is not None and self.facts.is_paged

    @property
    def input_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": dict(self.schemas), "additionalProperties": False}
        return {**schema, "required": list(self.required)} if self.required else schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of the operation's answer. An answer that is shortened also has `truncated`."""
        answer = self.operation.answer
        return None if answer is None else {"type": "object", **answer}

    def request(self, spelled: Mapping[str, Any]) -> ToolRequest:
        """The request for the given arguments. UsageError if one is unknown, missing or not valid."""
        arguments = self._named(spelled)
        limit, key, head = (
            None if name in self._parameters else arguments.pop(name, None) for name in (LIMIT, KEY, IF_COMMIT)
        )
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            raise UsageError(f"'{LIMIT}' must be a positive integer")
        headers = {}
        operation = self.operation
        if key is not None:
            headers["Idempotency-Key"] = _header(KEY, key)
        if head is not None and self.if_commit is not None:
            operation = self.if_commit
            headers["Omnigraph-If-Graph-Commit"] = _header(IF_COMMIT, head)
        if self.is_paged:
            arguments[LIMIT] = limit or MAX_ROWS
        return ToolRequest(operation, self._placed(arguments), headers, limit or MAX_ROWS)

    @property
    def _parameters(self) -> frozenset[str]:
        """The parameters of a stored query, which take precedence over arguments of the same name."""
        return frozenset() if self.stored is None else frozenset(self.stored.input_schemas())

    def _named(self, spelled: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name; commitId means commit_id. null is the same as leaving one out, except for a parameter of a
        stored query."""
        arguments: dict[str, Any] = {}
        for word, value in spelled.items():
            name = word if word in self.schemas else CAMEL.sub("_", word).lower()
            if name not in self.schemas:
                raise UsageError(f"'{self.name}' takes no '{word}'", hint=f"it takes: {', '.join(self.schemas)}")
            if name in arguments:
                raise UsageError(f"'{name}' is given twice")
            if value is not None or name in self._parameters:
                arguments[name] = value
        missing = [name for name in self.required if name not in arguments]
        if missing:
            raise UsageError(f"'{self.name}' needs '{missing[0]}'")
        return arguments

    def _placed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self.stored is not None:
            places = {name: arguments[name] for name in self.stored.places if name in arguments}
            return {"name": self.stored.query, "params": self.stored.values(arguments), **places,
                    "expect_mutation": self.stored.is_mutation}  # fmt: skip
        assert self.facts is not None
        renamed = {self.facts.renamed.get(name, name): value for name, value in arguments.items()}
        return {**renamed, **self.facts.fixed}


def _header(name: str, value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]{1,128}", value):
        raise UsageError(f"'{name}' must be 1 to 128 visible ASCII characters")
    return value


def bind(facts: Iterable[ToolFacts], operations: Mapping[str, ToolOperation]) -> list[BoundTool]:
    """The tools, in the given order."""
    bound = []
    for fact in facts:
        operation = operations[fact.operation]
        names = [(name, fact.renamed.get(name, name)) for name in fact.arguments]
        schemas = {name: operation.members[member] for name, member in names}
        required = tuple(name for name, member in names if member in operation.required)
        schemas |= _own_arguments(
            has_key=fact.hint != "reads" and operation.takes_key,
            has_condition=fact.if_commit is not None,
            has_limit=fact.rows is not None,
        )
        condition = None if fact.if_commit is None else operations[fact.if_commit]
        bound.append(
            BoundTool(fact.name, fact.description, fact.hint, operation, schemas, required, fact, if_commit=condition)
        )
    return bound


INVOKE = "cluster_invoke_query"
INVOKE_IF = "cluster_invoke_query_if_graph_commit"


def bind_stored(tool: StoredTool, operations: Mapping[str, ToolOperation]) -> BoundTool:
    hint = "destroys" if tool.is_mutation else "reads"
    operation = operations[INVOKE]
    schemas = {name: operation.members[name] for name in tool.places}
    schemas |= _own_arguments(has_key=tool.is_mutation, has_condition=tool.is_mutation, has_limit=not tool.is_mutation)
    schemas |= tool.input_schemas()
    condition = operations[INVOKE_IF] if tool.is_mutation else None
    return BoundTool(tool.name, tool.description, hint, operation, schemas, tuple(tool.required), None, tool, condition)


def _own_arguments(*, has_key: bool, has_condition: bool, has_limit: bool) -> dict[str, Schema]:
    names = [IF_COMMIT] * has_condition + [KEY] * has_key + [LIMIT] * has_limit
    return {name: _OWN[name] for name in names}
