"""JSON as found in the wild: lines, arrays and documents, nested; each record flat, as cells of text under dotted names.

Records are selected by their place: `comments[]` are the objects of the list `comments` of every document, `comments[].author`
the object `author` of each of these. `cities{}` are the members of the object `cities`, and `{}` those of the document itself; their
cell `{}` is the name of the member. If the items are no objects, the cell `.` is the item itself. The names of cells from the
enclosing record begin with `../`, and `#` is the number of the document, followed by the path to the record.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import RecordError, UnreadableInput, UsageError
from omnigraph.language.catalog import EntityType, id_of_members
from omnigraph.language.schema.constraints import did_you_mean
from omnigraph.records.rows import Reject
from omnigraph.values.arrow import OUTSIDE_NAMES
from omnigraph.values.columns import cell_value
from omnigraph.values.types import PropertyType, Scalar

# Converts cells as people write them to the cells that a load reads: yes and no, numbers with separators, dates in other orders.
#
# A format is `yes/no`, an example of a number (`1,234.5`, `1.234,5`, `1 234,5`, `1'234.5`), with the unit before or after it if the
# cells have one (`€1,234.5`, `1,234.5 %`), or a pattern of a date or an instant (`%d.%m.%Y %H:%M`, in UTC). A cell that is not in
# the format stays as it is, and is refused later like any cell of another type.

YES_NO = "yes/no"
NUMBERS = {"1,234.5": (",", "."), "1.234,5": (".", ","), "1 234,5": (" ", ","), "1'234.5": ("'", ".")}
"""The separator of thousands, and the one before decimals."""
_YES = ("yes", "y", "true", "t", "on", "1")
_NO = ("no", "n", "false", "f", "off", "0")
_SPACES = "[ \u00a0\u202f]"
FIRST_YEAR = 1000
"""A year with fewer digits is an abbreviation."""


@dataclass(frozen=True)
class NumberFormat:
    """How numbers are written: `style` is a key of `NUMBERS`. At most one unit, before or after the number, is removed."""

    style: str
    before: str = ""
    after: str = ""

    @staticmethod
    def of(format: str) -> NumberFormat | None:
        """None if the format is not that of a number."""
        for style in NUMBERS:
            before, example, after = format.partition(style)
            before, after = before.strip(), after.strip()
            if example and not (before and after) and not re.search("[0-9]", before + after):
                return NumberFormat(style, before, after)
        return None

    @property
    def pattern(self) -> str:
        """Matches every number in this format. A minus sign is before the unit or before the digits."""
        thousands, decimal = (_SPACES if sign == " " else re.escape(sign) for sign in NUMBERS[self.style])
        before, after = re.escape(self.before), re.escape(self.after)
        start = rf"(-?{before}{_SPACES}*|{before}{_SPACES}*-)" if before else "-?"
        end = rf"{_SPACES}*{after}" if after else ""
        return rf"^{start}([0-9]{{1,3}}({thousands}[0-9]{{3}})+|[0-9]+)({decimal}[0-9]+)?{end}$"

    def read(self, column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
        """The numbers in the form that every load reads."""
        thousands, decimal = NUMBERS[self.style]
        plain = column
        for unit in (self.before, self.after):
            plain = pc.replace_substring(plain, pattern=unit, replacement="") if unit else plain
        between = _SPACES if thousands == " " else f"{_SPACES}|{re.escape(thousands)}"
        plain = pc.replace_substring_regex(plain, pattern=between, replacement="")
        plain = plain if decimal == "." else pc.replace_substring(plain, pattern=decimal, replacement=".")
        return pc.if_else(pc.match_substring_regex(column, self.pattern), plain, column)


def check_format(format: str) -> None:
    """Raises UsageError unless it is a format of cells."""
    if format != YES_NO and NumberFormat.of(format) is None and not re.search("%[dmyYbBHM]", format):
        raise UsageError(
            f"'{format}' is not a format of cells",
            hint=f"give {YES_NO}, a number such as {', '.join(NUMBERS)} or 1,234.5 %, or a pattern such as %d.%m.%Y",
        )


def has_time(format: str) -> bool:
    return "%H" in format or "%I" in format


def read_cells(column: pa.ChunkedArray | pa.Array, format: str) -> pa.ChunkedArray | pa.Array:
    """Cells of text in a format as the cells that every load reads: `true`, `1234.5`, ISO dates and instants."""
    if format == YES_NO:
        return _booleans(column)
    if (numbers := NumberFormat.of(format)) is not None:
        return numbers.read(column)
    known = parsed(column, format)
    iso = "%Y-%m-%dT%H:%M:%SZ" if has_time(format) else "%Y-%m-%d"
    return pc.coalesce(pc.strftime(known, format=iso), column)


def parsed(column: pa.ChunkedArray | pa.Array, format: str) -> pa.ChunkedArray | pa.Array:
    """Instants in a pattern; null for cells that do not match, and for days that do not exist."""
    known = pc.strptime(column, format=format, unit="s", error_is_null=True).cast(pa.timestamp("s"))
    # The parser takes 31.02. for the third of March, and accepts 26 as a year.
    again = pc.equal(_plain(pc.strftime(known, format=format)), _plain(column))
    is_it = pc.and_(again, pc.greater_equal(pc.year(known), FIRST_YEAR))
    return pc.if_else(pc.fill_null(is_it, False), known, pa.scalar(None, pa.timestamp("s")))


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The cells in lower case, their numbers without leading zeros."""
    return pc.utf8_lower(pc.replace_substring_regex(column, pattern=r"\b0+([0-9])", replacement=r"\1"))


def _booleans(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    lower = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    yes, no = (pc.is_in(lower, value_set=pa.array(words)) for words in (_YES, _NO))
    return pc.if_else(yes, "true", pc.if_else(no, "false", column))


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


# The columns of a source as those of a type: picked, renamed, filtered, with lists and texts made from cells.
#
# A source may have columns without a name, or several with the same name: `column_names` makes them unique.


def column_names(header: list[str]) -> list[str]:
    """The columns of a source: `column 3` for one without a name, `name (2)` for the second one of a name."""
    names: dict[str, None] = {}
    for number, name in enumerate(header, 1):
        plain = name.strip() or f"column {number}"
        chosen, count = plain, 1
        while chosen in names:
            count += 1
            chosen = f"{plain} ({count})"
        names[chosen] = None
    return list(names)


@dataclass(frozen=True)
class Picked:
    """Which rows and columns of a source are entities of one type. Columns that are not named are left out."""

    columns: Mapping[str, str | tuple[str, ...]]
    """By property, or `id`, `from`, `to`: the column of the source; several for an id of a key with several members."""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Only rows that have one of these texts in a column."""
    separators: Mapping[str, str] = field(default_factory=dict)
    """By list property: what separates its items in a cell."""
    skip_empty: tuple[str, ...] = ()
    """Rows without a value for one of these are not entities of the type."""
    distinct: bool = False
    """Keep only the first of several rows with the same key."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """By property: how its cells are written (`cell_formats`)."""
    nulls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the name in `columns`: texts that mean null."""

    @property
    def sources(self) -> list[str]:
        """The columns of the source that are needed."""
        return list(
            dict.fromkeys([*(name for column in self.columns.values() for name in members_of(column)), *self.where])
        )

    @property
    def needs_whole_file(self) -> bool:
        """Whether the result for a row depends on the rows before it."""
        return self.distinct or NUMBER in self.sources

    def check(self, names: list[str], entity: EntityType) -> None:
        """Raises UnreadableInput if the source lacks a column."""
        missing = [name for name in self.sources if name not in names]
        if missing:
            shown = ", ".join(f"'{name}'" for name in missing)
            known = [name for name in names if name != NUMBER]
            raise UnreadableInput(
                f"there is no column {shown} for {entity.name}",
                type_name=entity.name,
                hint=did_you_mean(missing[0], known, f"the columns are: {', '.join(known)}"),
            )


def members_of(column: str | tuple[str, ...]) -> tuple[str, ...]:
    return (column,) if isinstance(column, str) else column


class Picker:
    """Applies a choice to the blocks of one source, one after the other."""

    def __init__(self, picked: Picked, entity: EntityType) -> None:
        self._picked = picked
        self._entity = entity
        self._seen: set[tuple[object, ...]] = set()
        self.names = list(picked.columns)

    def pick(self, table: pa.Table, lines: pa.Int64Array) -> tuple[pa.Table, pa.Int64Array]:
        """A block under the names of the type. The block's columns have the names of the source."""
        mask = self._mask(table)
        if mask is not None:
            table, lines = table.filter(mask), lines.filter(mask)
        columns = [self._column(name, self._raw(name, table)) for name in self._picked.columns]
        picked = pa.Table.from_arrays(columns, names=self.names)
        return self._first_of_each(picked, lines) if self._picked.distinct else (picked, lines)

    def _mask(self, table: pa.Table) -> pa.Array | None:
        masks = [
            pc.is_in(_text(table.column(name)), value_set=pa.array(texts, pa.string()))
            for name, texts in self._picked.where.items()
        ]
        for name in self._picked.skip_empty:
            held = _text(self._raw(name, table))
            masks.append(pc.fill_null(pc.greater(pc.utf8_length(held), 0), False))
        if not masks:
            return None
        mask = masks[0]
        for other in masks[1:]:
            mask = pc.and_(mask, other)
        return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask

    def _raw(self, name: str, table: pa.Table) -> pa.ChunkedArray:
        """The cells of a column, or of several columns as one id."""
        source = self._picked.columns[name]
        if not isinstance(source, str):
            rows = zip(*(self._cells(name, table.column(member)).to_pylist() for member in source), strict=True)
            return pa.chunked_array(
                [pa.array([None if None in row else id_of_members(row) for row in rows], pa.string())]
            )
        column = table.column(source)
        return self._cells(name, column) if name in self._picked.nulls else column

    def _cells(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Text, with null for the texts that mean it."""
        column = _text(column)
        means_null = pc.is_in(column, value_set=pa.array(self._picked.nulls.get(name, ()), pa.string()))
        return pc.if_else(means_null, pa.scalar(None, pa.string()), column)

    def _column(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if name in self._picked.formats:
            return read_cells(_text(column), self._picked.formats[name])
        property = self._entity.properties.get(name)
        if name in self._picked.separators and property is not None:
            separator = self._picked.separators[name]
            cells = [_list_cell(cell, separator, property.type) for cell in _text(column).to_pylist()]
            return pa.chunked_array([pa.array(cells, pa.string())])
        if property is None or (property.type.scalar is Scalar.STRING and not property.type.is_list):
            return _text(column)
        return column

    def _first_of_each(self, table: pa.Table, lines: pa.Int64Array) -> tuple[pa.Table, pa.Int64Array]:
        keys = [OUTSIDE_NAMES.get(name, name) for name in self._entity.key] or ["id"]
        rows = zip(*(table.column(name).to_pylist() for name in keys), strict=True)
        keep = []
        for row in rows:
            keep.append(row not in self._seen)
            self._seen.add(row)
        mask = pa.array(keep, pa.bool_())
        return table.filter(mask), lines.filter(mask)


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as text: as written in a cell, or as JSON for types without such a text."""
    if pa.types.is_string(column.type):
        return column
    try:
        return pc.cast(column, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def _list_cell(cell: str | None, separator: str, type: PropertyType) -> str | None:
    """Items in a cell as the JSON that the cell of a list holds."""
    if cell is None:
        return None
    item = PropertyType(type.scalar)
    return json.dumps([cell_value(text, item) for text in cell.split(separator)] if cell else [], ensure_ascii=False)
