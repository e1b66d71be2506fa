"""JSON as found in the wild: lines, arrays and documents, nested; each record flat, as cells of text under dotted names.

Records are selected by their place: `comments[]` are the objects of the list `comments` of every document, `comments[].author`
the object `author` of each of these. The names of cells from the enclosing record begin with `../`, and `#` is the number of the
document, followed by the path to the record.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any

from omnigraph.errors import RecordError, UnreadableInput
from omnigraph.records.typed import Reject

NUMBER = "#"
PARENT = "../"
ITEMS = "[]"
"""Suffix of the name of a list whose items are meant."""
MAX_DEPTH = 100

Cells = dict[str, str | None]


def documents(file: IO[bytes], rejects: list[Reject]) -> Iterator[tuple[int, object]]:
    """Every document of a file with its line, or with its number in an array. Raises UnreadableInput if it is not JSON.

    An array, or a document over several lines, is held in memory whole.
    """
    start = file.readline().removeprefix(codecs.BOM_UTF8)
    while start and not start.strip():
        start = file.readline()
    if not start:
        return
    if not start.lstrip().startswith(b"[") and _parsed(start) is not _NOTHING:
        yield from _lines(start, file, rejects)
        return
    whole = _parsed(start + file.read())
    if whole is _NOTHING:
        raise UnreadableInput(
            "neither a JSON document nor JSON lines", line=1, hint="write one JSON value, or one record per line"
        )
    yield from enumerate(whole, 1) if isinstance(whole, list) else [(1, whole)]


_NOTHING = object()


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING


def _lines(first: bytes, file: IO[bytes], rejects: list[Reject]) -> Iterator[tuple[int, object]]:
    number, line = 1, first
    while line:
        if line.strip():
            value = _parsed(line)
            if value is _NOTHING:
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                rejects.append(Reject.of(number, RecordError("not a JSON record", hint="one record per line"), text))
            else:
                yield number, value
        number, line = number + 1, file.readline()


def records_at(document: object, number: int, place: str) -> Iterator[Cells]:
    """The records at a place of a document, flat. Only objects are records."""
    steps = place.split(".") if place else []
    yield from _below(document, str(number), {}, steps)


def _below(value: object, number: str, parent: Cells, steps: list[str]) -> Iterator[Cells]:
    if not isinstance(value, Mapping):
        return
    cells = {**flat(value), NUMBER: number, **{PARENT + name: cell for name, cell in parent.items()}}
    if not steps:
        yield cells
        return
    step, rest = steps[0], steps[1:]
    name = step.removesuffix(ITEMS)
    member = value.get(name)
    if not step.endswith(ITEMS):
        yield from _below(member, f"{number}/{name}", cells, rest)
    elif isinstance(member, list):
        for index, item in enumerate(member):
            yield from _below(item, f"{number}/{name}/{index}", cells, rest)


def flat(record: Mapping[str, Any]) -> Cells:
    """The members of an object, and of the objects in it, as cells; the first wins if two have the same dotted name."""
    cells: Cells = {}
    _add(cells, "", record, 0)
    return cells


def _add(cells: Cells, prefix: str, record: Mapping[str, Any], depth: int) -> None:
    for name, value in record.items():
        if isinstance(value, Mapping) and value and depth < MAX_DEPTH:
            _add(cells, f"{prefix}{name}.", value, depth + 1)
        else:
            cells.setdefault(prefix + name, cell_of(value))


def cell_of(value: object) -> str | None:
    """A JSON value as a CSV cell."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
