"""JSON as found in the wild: lines, arrays and documents, nested; each record flat, as cells of text under dotted names.

Records are selected by their place: `comments[]` are the objects of the list `comments` of every document, `comments[].author`
the object `author` of each of these. `cities{}` are the members of the object `cities`, and `{}` those of the document itself; their
cell `{}` is the name of the member. If the items are no objects, the cell `.` is the item itself. The names of cells from the
enclosing record begin with `../`, and `#` is the number of the document, followed by the path to the record.
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
MEMBERS = "{}"
"""Suffix of the name of an object whose members are meant, and the cell with the name of such a member."""
VALUE = "."
"""The cell of a record that is no object."""
MAX_DEPTH = 100
MAX_MEMBERS = 1_000
"""Members of objects that are remembered, to say what a wrong name may have meant."""

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


class Place:
    """The records at a place of documents, flat. Objects are records; with `has_values`, other values too (no lists), as a record
    with one cell, VALUE."""

    def __init__(self, path: str, *, has_values: bool = False) -> None:
        self.path = path
        self._steps = path.split(".") if path else []
        self._has_values = has_values
        self._members: list[dict[str, None]] = [{} for _ in self._steps]
        """For each step, the members of the objects that it was looked for in."""

    def records(self, document: object, number: int) -> Iterator[Cells]:
        yield from self._below(document, str(number), {}, 0)

    def missing(self) -> tuple[str, tuple[str, ...]] | None:
        """The first step that no object had, and the members that there were; None if every step was found, or never looked for."""
        for step, members in zip(self._steps, self._members, strict=True):
            if members and _name_of(step) not in members:
                return _name_of(step), tuple(members)
        return None

    def _below(self, value: object, number: str, parent: Cells, depth: int) -> Iterator[Cells]:
        above = {NUMBER: number, **{PARENT + name: cell for name, cell in parent.items()}}
        yield from self._records(value, number, above, depth)

    def _records(self, value: object, number: str, above: Cells, depth: int) -> Iterator[Cells]:
        is_record = depth == len(self._steps)
        if not isinstance(value, Mapping):
            if is_record and self._has_values and value is not None and not isinstance(value, list):
                yield {VALUE: cell_of(value), **above}
            return
        if is_record:
            yield {**flat(value), **above}
            return
        step = self._steps[depth]
        name = _name_of(step)
        if step.endswith(MEMBERS):
            yield from self._members_of(value, name, number, above, depth)
            return
        cells = {**flat(value), **above}
        self._note(value, name, depth)
        member = value.get(name)
        if not step.endswith(ITEMS):
            yield from self._below(member, f"{number}/{name}", cells, depth + 1)
        elif isinstance(member, list):
            for index, item in enumerate(member):
                yield from self._below(item, f"{number}/{name}/{index}", cells, depth + 1)

    def _members_of(
        self, value: Mapping[str, Any], name: str, number: str, above: Cells, depth: int
    ) -> Iterator[Cells]:
        """The records under each member of the object `name`, or of the document. None of them has the others as cells: there may be
        millions."""
        cells: Cells = {}
        held: object = value
        if name:
            self._note(value, name, depth)
            cells, held = flat({other: inner for other, inner in value.items() if other != name}), value.get(name)
        outer = {PARENT + other: cell for other, cell in {**cells, **above}.items()}
        for key, item in held.items() if isinstance(held, Mapping) else ():
            id = f"{number}/{name}/{key}" if name else f"{number}/{key}"
            yield from self._records(item, id, {MEMBERS: key, NUMBER: id, **outer}, depth + 1)

    def _note(self, value: Mapping[str, Any], name: str, depth: int) -> None:
        if len(self._members[depth]) < MAX_MEMBERS or name in value:
            self._members[depth].update(dict.fromkeys(value))


def _name_of(step: str) -> str:
    return step.removesuffix(ITEMS).removesuffix(MEMBERS)


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
