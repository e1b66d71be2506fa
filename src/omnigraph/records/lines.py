"""One line of a graph batch, read strictly: every refusal says why. Slow and complete; `json_columns` is the fast way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from omnigraph.errors import RecordError
from omnigraph.language.catalog import Catalog
from omnigraph.records.rows import Row, edge_row, node_row
from omnigraph.records.typed import ENCODING_HINT

_MEMBERS = frozenset({"type", "edge", "from", "to", "data"})


def record_row(line: bytes, catalog: Catalog, new_id: Callable[[], str]) -> tuple[str, Row, bool]:
    """The table key, the row, and whether the record gave an id itself. Raises an InputError."""
    record = _object(line)
    for name in record:
        if name not in _MEMBERS:
            raise RecordError(f"unknown member '{name}'", hint="a record has type or edge, from, to and data")
    if ("type" in record) == ("edge" in record):
        raise RecordError("a record needs exactly one of 'type' and 'edge'")
    data = record.get("data", {})
    if not isinstance(data, dict):
        raise RecordError("'data' must be an object")
    has_explicit_id = data.get("id") is not None
    if "edge" in record:
        edge = catalog.edges.get(_name(record, "edge"))
        if edge is None:
            raise RecordError(f"unknown edge type '{record['edge']}'", hint=_types_hint(catalog.edges))
        return (
            edge.table_key,
            edge_row(catalog, edge, record.get("from"), record.get("to"), data, new_id),
            has_explicit_id,
        )
    for name in ("from", "to"):
        if name in record:
            raise RecordError(f"'{name}' is for edges only")
    node = catalog.nodes.get(_name(record, "type"))
    if node is None:
        raise RecordError(f"unknown node type '{record['type']}'", hint=_types_hint(catalog.nodes))
    return node.table_key, node_row(node, data, new_id), has_explicit_id


def _types_hint(types: Mapping[str, Any]) -> str:
    return f"the schema has: {', '.join(sorted(types)) or 'none'}"


def _name(record: Mapping[str, Any], member: str) -> str:
    name = record[member]
    if not isinstance(name, str):
        raise RecordError(f"'{member}' must be the name of a type")
    return name


def _object(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_members, parse_constant=_refuse_constant, parse_float=_number)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        said = f"not valid UTF-8: byte 0x{line[error.start]:02x} at column {error.start + 1}"
        raise RecordError(said, hint=ENCODING_HINT) from None
    except UnicodeEncodeError:
        raise RecordError("a text holds half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise RecordError(f"not valid JSON: {error.msg.removesuffix(' at')} at column {error.colno}") from None
    except RecursionError:
        raise RecordError("not valid JSON: nested too deeply") from None
    except RecordError:
        raise
    except ValueError:  # Python refuses to read thousands of digits.
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
