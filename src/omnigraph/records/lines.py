"""One line of a graph batch, read strictly: every refusal says why. Slow and complete; `json_columns` is the fast way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from omnigraph.errors import RecordError
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, NodeType
from omnigraph.records.rows import (
    Row,
    edge_row,
    named_id,
    node_row,
    partial_row,
    refuse_unknown,
    refuse_unknown_properties,
)
from omnigraph.records.typed import DELETE_FLAG, DELETE_FLAG_HINT, ENCODING_HINT, WHOLE, RecordForm

_MEMBERS = frozenset({"type", "edge", "from", "to", "data"})


@dataclass(frozen=True)
class LineRecord:
    """A line as written: its type, the members of `data`, and for an edge `src` and `dst` if they are given."""

    entity: EntityType
    data: dict[str, Any]
    ends: Mapping[str, Any]
    is_deletion: bool

    @property
    def has_explicit_id(self) -> bool:
        return self.data.get("id") is not None

    def row(self, catalog: Catalog, new_id: Callable[[], str]) -> Row:
        """A whole entity. Raises an InputError."""
        if isinstance(self.entity, EdgeType):
            source, target = self.ends.get("src"), self.ends.get("dst")
            return edge_row(catalog, self.entity, source, target, self.data, new_id, names_refused=False)
        assert isinstance(self.entity, NodeType)
        return node_row(self.entity, self.data, new_id, names_refused=False)

    def partial_row(self, catalog: Catalog) -> tuple[Row, frozenset[str]]:
        """Part of an entity, and its columns. Raises an InputError."""
        for name in ("src", "dst"):
            if name in self.data:
                refuse_unknown(self.entity, [name])
        return partial_row(catalog, self.entity, {**self.data, **self.ends})

    def id(self, catalog: Catalog) -> str:
        """The id of the entity that it names. Raises an InputError."""
        refuse_unknown_properties(self.entity, self.data)
        return named_id(catalog, self.entity, {**self.data, **self.ends})


def parsed_line(line: bytes, catalog: Catalog, form: RecordForm = WHOLE) -> LineRecord:
    """Raises an InputError if the line is not a record of the graph."""
    record = _object(line)
    for name in record:
        if name not in _MEMBERS and not (name == DELETE_FLAG and form.has_flag):
            raise RecordError(f"unknown member '{name}'", hint=_member_hint(name))
    if ("type" in record) == ("edge" in record):
        raise RecordError("a record needs exactly one of 'type' and 'edge'")
    data = record.get("data", {})
    if not isinstance(data, dict):
        raise RecordError("'data' must be an object")
    is_deletion = record.get(DELETE_FLAG, False)
    if not isinstance(is_deletion, bool):
        raise RecordError(f"'{DELETE_FLAG}' must be true or false")
    if "edge" in record:
        edge = catalog.edges.get(_name(record, "edge"))
        if edge is None:
            raise _unknown_type(record["edge"], "edge", catalog)
        ends = {column: record[word] for column, word in (("src", "from"), ("dst", "to")) if word in record}
        return LineRecord(edge, data, ends, is_deletion)
    node = catalog.nodes.get(_name(record, "type"))
    if node is None:
        raise _unknown_type(record["type"], "node", catalog)
    for name in ("from", "to"):
        if name in record:
            raise RecordError(f"'{name}' is for edges only")
    return LineRecord(node, data, {}, is_deletion)


def _member_hint(name: str) -> str:
    if name == DELETE_FLAG:
        return DELETE_FLAG_HINT
    return "a record has type or edge, from, to and data"


def _unknown_type(name: str, kind: str, catalog: Catalog) -> RecordError:
    if kind == "node" and name in catalog.edges:
        return RecordError(f"{name} is an edge type: its records have 'edge', not 'type'")
    if kind == "edge" and name in catalog.nodes:
        return RecordError(f"{name} is a node type: its records have 'type', not 'edge'")
    types = catalog.nodes if kind == "node" else catalog.edges
    return RecordError(f"unknown {kind} type '{name}'", hint=f"the schema has: {', '.join(sorted(types)) or 'none'}")


def _name(record: Mapping[str, Any], member: str) -> str:
    name = record[member]
    if not isinstance(name, str):
        raise RecordError(f"'{member}' must be the name of a type")
    return name


def _object(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode("utf-8")
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        message = f"not valid UTF-8: byte 0x{line[error.start]:02x} at column {error.start + 1}"
        raise RecordError(message, hint=ENCODING_HINT) from None
    except UnicodeEncodeError:
        raise RecordError("a text contains half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise RecordError(f"not valid JSON: {error.msg.removesuffix(' at')} at column {error.colno}") from None
    except RecursionError:
        raise RecordError("not valid JSON: nested too deeply") from None
    except RecordError:
        raise
    except ValueError:  # Python refuses to convert thousands of digits.
        raise RecordError("a number is out of range: it has thousands of digits") from None
    if not isinstance(value, dict):
        raise RecordError("a record must be a JSON object")
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise RecordError(f"duplicate member '{name}'")
            seen.add(name)
    return members


def _refuse_constant(word: str) -> NoReturn:
    raise RecordError(f"not valid JSON: {word} is not a number")


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise RecordError(f"number {text} is out of range")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_refuse_constant, parse_float=_number)
"""Made once: `json.loads` would make one for each line."""
