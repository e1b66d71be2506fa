"""A graph batch (JSON lines of nodes and edges) as typed rows: by columns if possible, line by line if needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import InputError, RecordError, UsageError
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, NodeType
from omnigraph.records.ids import FreshIds
from omnigraph.records.json_columns import GatheredRows, TypeColumns
from omnigraph.records.rows import (
    DELETE_FLAG,
    DELETE_FLAG_HINT,
    ENCODING_HINT,
    WHOLE,
    NamedRows,
    RecordForm,
    Reject,
    Row,
    TypedRows,
    edge_row,
    named_id,
    node_row,
    partial_row,
    refuse_unknown,
    refuse_unknown_properties,
)
from omnigraph.values.columns import Doubtful

# One line of a graph batch, read strictly: every refusal says why. Slow and complete; `json_columns` is the fast way.

_MEMBERS = frozenset({"type", "edge", "from", "to", "from_type", "to_type", "data"})


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
        name = _name(record, "edge")
        edge = catalog.edges.get(name)
        if edge is None and name in catalog.families:
            edge = _member(record, name, catalog)
        elif "from_type" in record or "to_type" in record:
            raise RecordError(f"'from_type' and 'to_type' are for edges between interfaces; {name} is none")
        if edge is None:
            raise _unknown_type(record["edge"], "edge", catalog)
        ends = {column: record[word] for column, word in (("src", "from"), ("dst", "to")) if word in record}
        return LineRecord(edge, data, ends, is_deletion)
    node = catalog.nodes.get(_name(record, "type"))
    if node is None:
        raise _unknown_type(record["type"], "node", catalog)
    for name in ("from", "to", "from_type", "to_type"):
        if name in record:
            raise RecordError(f"'{name}' is for edges only")
    return LineRecord(node, data, {}, is_deletion)


def _member(record: Mapping[str, Any], name: str, catalog: Catalog) -> EdgeType:
    """The edge type of a record of an edge between interfaces."""
    try:
        return catalog.member(name, record.get("from_type"), record.get("to_type"))
    except UsageError as error:
        raise RecordError(str(error), hint=error.hint) from None


def _member_hint(name: str) -> str:
    if name == DELETE_FLAG:
        return DELETE_FLAG_HINT
    return "a record has type or edge, from, to and data; an edge between interfaces also from_type and to_type"


def _unknown_type(name: str, kind: str, catalog: Catalog) -> RecordError:
    if kind == "node" and name in catalog.edges:
        return RecordError(f"{name} is an edge type: its records have 'edge', not 'type'")
    if kind == "edge" and name in catalog.nodes:
        return RecordError(f"{name} is a node type: its records have 'type', not 'edge'")
    types = catalog.nodes if kind == "node" else {**catalog.edges, **catalog.families}
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


_MIN_HALVES = 256
"""Below twice this many lines, doubtful lines are no longer searched for by halving."""
_FLAG = f'"{DELETE_FLAG}"'.encode()
_MAX_MISSES = 3
"""A type whose blocks were doubtful this many times in a row is read line by line from then on."""


class GraphBatchReader:
    """Reads blocks of whole lines. `rejects` grows; yielded rows are typed, but their rules are not checked yet."""

    def __init__(self, catalog: Catalog, fresh: FreshIds, form: RecordForm = WHOLE) -> None:
        self.catalog = catalog
        self.fresh = fresh
        self.form = form
        self.rejects: list[Reject] = []
        self._types = [TypeColumns(catalog, entity, fresh, form) for entity in catalog.tables.values()]
        self._misses: dict[str, int] = {}
        self._with_wrong_lines: set[str] = set()

    def read(self, block: bytes, first_line: int) -> Iterator[TypedRows | NamedRows]:
        """The rows of a block whose first line has this number. Rows of one type come together."""
        texts = _split(block)
        numbers = pa.array(np.arange(first_line, first_line + len(texts), dtype=np.int64))
        if self.form.has_flag and _FLAG in block:
            flagged = pc.match_substring(texts, _FLAG)
            yield from self._one_by_one(texts.filter(flagged), numbers.filter(flagged))
            texts, numbers = texts.filter(pc.invert(flagged)), numbers.filter(pc.invert(flagged))
        for columns in list(self._types):
            if not len(texts):
                return
            mask = self._is_of(columns, texts)
            hits = pc.sum(mask).as_py() or 0
            if not hits:
                continue
            self._types.remove(columns)
            self._types.insert(0, columns)
            if hits == len(texts):
                yield from self._columns(columns, texts, numbers)
                return
            yield from self._columns(columns, texts.filter(mask), numbers.filter(mask))
            rest = pc.invert(mask)
            texts, numbers = texts.filter(rest), numbers.filter(rest)
        yield from self._one_by_one(texts, numbers)

    def _is_of(self, columns: TypeColumns, texts: pa.Array) -> pa.Array:
        """Lines that begin like this type's and end with a closing brace: safe to pass to the column parser."""
        if self._misses.get(columns.entity.table_key, 0) >= _MAX_MISSES:
            return pc.equal(pc.binary_length(texts), -1)
        tight, spaced = columns.prefixes()
        begins = pc.or_(pc.starts_with(texts, pattern=tight), pc.starts_with(texts, pattern=spaced))
        return pc.and_(begins, pc.ends_with(texts, pattern="}\n"))

    def _columns(self, columns: TypeColumns, texts: pa.Array, numbers: pa.Array) -> Iterator[TypedRows | NamedRows]:
        key = columns.entity.table_key
        # Wrong records rarely come alone, so the next block is not tried as a whole first.
        rows = None if key in self._with_wrong_lines else self._try(columns, texts, numbers)
        if rows is None:
            plain = columns.plain_lines(texts)
            hits = pc.sum(plain).as_py() or 0
            if hits < len(texts):
                self._with_wrong_lines.add(key)
                rest = pc.invert(plain)
                yield from self._one_by_one(texts.filter(rest), numbers.filter(rest))
                texts, numbers = texts.filter(plain), numbers.filter(plain)
            else:
                self._with_wrong_lines.discard(key)
            rows = self._try(columns, texts, numbers) if hits else None
        if rows is not None:
            self._misses[key] = 0
            yield rows
        elif len(texts):
            self._misses[key] = self._misses.get(key, 0) + 1
            yield from self._halves(columns, texts, numbers)

    def _halves(self, columns: TypeColumns, texts: pa.Array, numbers: pa.Array) -> Iterator[TypedRows | NamedRows]:
        """A doubtful run: a good half is read by columns, the other one halved again; two doubtful halves are read line by
        line."""
        if len(texts) < 2 * _MIN_HALVES:
            yield from self._one_by_one(texts, numbers)
            return
        middle = len(texts) // 2
        halves = [(texts[:middle], numbers[:middle]), (texts[middle:], numbers[middle:])]
        read = [self._try(columns, *half) for half in halves]
        if read[0] is None and read[1] is None:
            yield from self._one_by_one(texts, numbers)
            return
        for rows, half in zip(read, halves, strict=True):
            if rows is None:
                yield from self._halves(columns, *half)
            else:
                yield rows

    def _try(self, columns: TypeColumns, texts: pa.Array, numbers: pa.Array) -> TypedRows | NamedRows | None:
        try:
            return columns.read(_joined(texts), numbers)
        except Doubtful:
            return None

    def _one_by_one(self, texts: pa.Array, numbers: pa.Array) -> Iterator[TypedRows | NamedRows]:
        gathered: dict[str, GatheredRows] = {}
        for text, number in zip(texts.to_pylist(), numbers.to_pylist(), strict=True):
            stripped = text.strip(b" \t\r\n")
            if not stripped:
                continue
            try:
                record = parsed_line(stripped, self.catalog, self.form)
                key = record.entity.table_key
                if key not in gathered:
                    gathered[key] = GatheredRows(record.entity, self.form)
                self._gather(gathered[key], record, number)
            except InputError as error:
                self.rejects.append(Reject.of(number, error, stripped.decode("utf-8", "replace")))
        for rows in gathered.values():
            yield from rows.typed()

    def _gather(self, rows: GatheredRows, record: LineRecord, number: int) -> None:
        if self.form.kind == "name" or record.is_deletion:
            rows.name(record.id(self.catalog), number)
        elif self.form.kind == "partial":
            rows.add_partial(*record.partial_row(self.catalog), number)
        else:
            row = record.row(self.catalog, partial(self.fresh.for_row, number))
            rows.add(row, number, has_id=record.has_explicit_id)


def _split(block: bytes) -> pa.Array:
    """The lines of a block, each with its newline, without copying them."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if not block.endswith(b"\n"):
        block += b"\n"
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block)])


def _joined(texts: Any) -> bytes:
    """The bytes of consecutive entries of a binary array."""
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)
    first, last = int(offsets[texts.offset]), int(offsets[texts.offset + len(texts)])
    return bytes(texts.buffers()[2][first:last])
