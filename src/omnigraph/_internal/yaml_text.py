"""YAML files that people write, with the position of every value: no duplicate keys, no aliases, plain values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import ConfigurationError, Problem

MAX_BYTES = 4 << 20
MAX_DEPTH = 32

_MEANINGS = {
    "str": "a text",
    "int": "a whole number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
    "NoneType": "nothing",
    "float": "a number",
}


class Diagnostics:
    """What is wrong with a file, gathered while it is read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def add(self, code: str, message: str, node: Node | None = None) -> None:
        line, column = (node.line, node.column) if node is not None else (0, 0)
        self.problems.append(Problem(code, message, self.file, line, column))

    def raise_any(self) -> None:
        """Raises ConfigurationError if any problem was found."""
        if self.problems:
            raise ConfigurationError(self.problems)


@dataclass(frozen=True)
class Node:
    """A value and its position. The value of a mapping is a dict of nodes by key, that of a list a tuple of nodes."""

    value: Any
    line: int
    column: int

    def kind(self) -> str:
        name = type(self.value).__name__
        return _MEANINGS.get("list" if name == "tuple" else name, name)

    def keys(self) -> Mapping[str, Node]:
        return self.value if isinstance(self.value, dict) else {}

    def items(self) -> tuple[Node, ...]:
        return self.value if isinstance(self.value, tuple) else ()

    def plain(self) -> Any:
        """The value without positions."""
        match self.value:
            case dict():
                return {key: node.plain() for key, node in self.value.items()}
            case tuple():
                return [node.plain() for node in self.value]
        return self.value


def read_yaml(path: Path, diagnostics: Diagnostics, *, missing: str, invalid: str, duplicate: str) -> Node | None:
    """The document of a file; None if it cannot be read, with the problem added under one of the three codes."""
    try:
        data = path.read_bytes()
        text = data.decode()
    except OSError as error:
        diagnostics.add(missing, f"cannot read the file: {error.strerror}")
        return None
    except UnicodeDecodeError:
        diagnostics.add(invalid, "the file is not UTF-8")
        return None
    return parse_yaml(text, diagnostics, invalid=invalid, duplicate=duplicate)


def parse_yaml(text: str, diagnostics: Diagnostics, *, invalid: str, duplicate: str) -> Node | None:
    """The document of a text; None if it is not valid, with the problem added."""
    import yaml

    if len(text) > MAX_BYTES:
        diagnostics.add(invalid, f"the file is longer than {MAX_BYTES >> 20} MiB")
        return None
    before = len(diagnostics.problems)
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                diagnostics.add(invalid, "aliases (*name) are not allowed: write the value", _at(event))
                return None
            if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                depth += 1
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                diagnostics.add(invalid, f"the file is nested deeper than {MAX_DEPTH} levels", _at(event))
                return None
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = None if mark is None else Node(None, mark.line + 1, mark.column + 1)
        diagnostics.add(invalid, f"not YAML: {getattr(error, 'problem', None) or error}", place)
        return None
    if root is None:
        return Node(None, 1, 1)
    node = _node(root, diagnostics, invalid, duplicate)
    return node if len(diagnostics.problems) == before else None


def _at(event: Any) -> Node:
    return Node(None, event.start_mark.line + 1, event.start_mark.column + 1)


def _node(raw: Any, diagnostics: Diagnostics, invalid: str, duplicate: str) -> Node:
    import yaml

    place = (raw.start_mark.line + 1, raw.start_mark.column + 1)
    match raw:
        case yaml.MappingNode():
            mapping: dict[str, Node] = {}
            for key_node, value_node in raw.value:
                value = _node(value_node, diagnostics, invalid, duplicate)
                if not isinstance(key_node, yaml.ScalarNode):
                    diagnostics.add(invalid, "a key must be a text", _at(key_node))
                    continue
                if key_node.value in mapping:
                    diagnostics.add(duplicate, f"the key '{key_node.value}' is there twice", _at(key_node))
                mapping[key_node.value] = value
            return Node(mapping, *place)
        case yaml.SequenceNode():
            return Node(tuple(_node(item, diagnostics, invalid, duplicate) for item in raw.value), *place)
    return Node(_scalar(raw), *place)


def _scalar(raw: Any) -> str | int | bool | None:
    """Text, integers, booleans and null; whatever else YAML knows (dates, fractions) stays text."""
    match raw.tag.rpartition(":")[2]:
        case "int":
            return int(raw.value) if raw.value.lstrip("+-").isdigit() else str(raw.value)
        case "bool":
            return str(raw.value).lower() in ("true", "yes", "on")
        case "null":
            return None
    return str(raw.value)


def unknown_keys(node: Node, known: Iterator[str] | frozenset[str]) -> list[tuple[str, Node]]:
    """The keys of a mapping that are not known, with their values."""
    allowed = set(known)
    return [(key, value) for key, value in node.keys().items() if key not in allowed]
