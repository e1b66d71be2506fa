"""The layout of Neo4j's importer: headers that say what each column is, in the file or in one of their own."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import UsageError
from omnigraph.infer.columns import SampledColumn
from omnigraph.infer.found_tables import FoundTable, stem_of
from omnigraph.load.files import InputFile
from omnigraph.values.types import Scalar

_FIELD = re.compile(r"^(?P<name>[^:]*):(?P<kind>[A-Za-z_]+)(\((?P<space>[^)]*)\))?(?P<array>\[\])?(\{.*\})?$")
_ENDS = ("START_ID", "END_ID")
_SEPARATOR = ";"
_IGNORED = "IGNORE"
MAX_HEADER_BYTES = 64 * 1024


@dataclass(frozen=True)
class _Field:
    name: str
    kind: str
    space: str
    is_array: bool


def _fields(table: FoundTable) -> dict[str, _Field]:
    """The columns of a table that are written as Neo4j's importer wants them."""
    fields = {}
    for column in table.columns:
        match = _FIELD.match(column)
        if match is not None:
            kind = match["kind"].upper() if match["kind"].upper() in _SPECIAL else match["kind"]
            fields[column] = _Field(match["name"], kind, match["space"] or "", match["array"] is not None)
    return fields


_SPECIAL = frozenset(["ID", "LABEL", "TYPE", _IGNORED, *_ENDS])


def from_neo4j(tables: Sequence[FoundTable]) -> list[FoundTable]:
    """Tables with a header of Neo4j's importer as tables of one label or type each; the others as they are."""
    fields = {id(table): _fields(table) for table in tables}
    nodes: dict[str, list[FoundTable]] = {}
    result: list[FoundTable] = []
    for table in tables:
        kinds = {field.kind for field in fields[id(table)].values()}
        if "ID" in kinds:
            for node in _node_tables(table, fields[id(table)]):
                space = next(field.space for field in fields[id(table)].values() if field.kind == "ID")
                nodes.setdefault(space, []).append(node)
                result.append(node)
        elif not kinds.issuperset(_ENDS):
            result.append(table)
    for table in tables:
        if {field.kind for field in fields[id(table)].values()}.issuperset(_ENDS):
            result += _edge_tables(table, fields[id(table)], nodes)
    return result


def _node_tables(table: FoundTable, fields: Mapping[str, _Field]) -> list[FoundTable]:
    id_column = next(name for name, field in fields.items() if field.kind == "ID")
    label_column = next((name for name, field in fields.items() if field.kind == "LABEL"), None)
    plain = _typed(table, fields)
    plain.key = (id_column,)
    if not fields[id_column].name:
        plain.names[id_column] = "key"
    if label_column is None:
        return [plain]
    labels = table.columns[label_column].values.to_pylist()
    by_first: dict[str, list[str]] = {}
    for text in dict.fromkeys(labels):
        by_first.setdefault((text or "").split(_SEPARATOR)[0] or stem_of(table.file), []).append(text or "")
    tables = []
    for label, texts in by_first.items():
        part = _only(plain, {label_column: tuple(texts)}, [(text or "") in texts for text in labels])
        if any(text == "" for text in texts):
            part.where = {} if len(by_first) == 1 else part.where
        part.label = label
        if any(_SEPARATOR in text for text in texts):
            part.columns[label_column] = declared_column(part.columns[label_column], Scalar.STRING, _SEPARATOR)
            part.left_out.discard(label_column)
            part.names[label_column] = "labels"
        tables.append(part)
    return tables


def _edge_tables(
    table: FoundTable, fields: Mapping[str, _Field], nodes: Mapping[str, Sequence[FoundTable]]
) -> list[FoundTable]:
    start, end = (next(name for name, field in fields.items() if field.kind == kind) for kind in _ENDS)
    type_column = next((name for name, field in fields.items() if field.kind == "TYPE"), None)
    plain = _typed(table, fields)
    types = table.columns[type_column].values.to_pylist() if type_column else [None] * table.rows
    sides = [
        _labels_of(table.columns[name].values.to_pylist(), nodes.get(fields[name].space, ()), table, name)
        for name in (start, end)
    ]
    rows = list(zip(types, *sides, strict=True))
    pairs = {text: {row[1:] for row in rows if row[0] == text} for text in dict.fromkeys(types)}
    tables = []
    for text, first, second in dict.fromkeys(rows):
        mask = [row == (text, first, second) for row in rows]
        where: dict[str, tuple[str, ...]] = {} if type_column is None or text is None else {type_column: (text,)}
        label = text or stem_of(table.file)
        if len(pairs[text]) > 1:
            # One type of relationships between several pairs of labels: an edge type for each pair, told apart by its ends.
            for name in (start, end):
                held = table.columns[name].values.to_pylist()
                where[name] = tuple(dict.fromkeys(id for id, is_in in zip(held, mask, strict=True) if is_in))
            label = f"{first} {label} {second}"
        part = _only(plain, where, mask)
        part.label, part.ends = label, (start, end)
        part.references = {start: first, end: second}
        tables.append(part)
    return tables


def _labels_of(ids: list[str], nodes: Sequence[FoundTable], table: FoundTable, column: str) -> list[str]:
    """The label of the node that each id names. UsageError for an id of no node."""
    by_id = {id: node.label for node in nodes for id in node.columns[node.key[0]].texts.to_pylist()}
    missing = next((id for id in ids if id not in by_id), None)
    if missing is not None:
        raise UsageError(
            f"'{missing}' in '{column}' of {table.origin} is the id of no node",
            hint="correct it, check the id spaces in the headers, or look at more rows with sample=",
        )
    return [by_id[id] for id in ids]


def _typed(table: FoundTable, fields: Mapping[str, _Field]) -> FoundTable:
    """The table with properties named and listed as its header says."""
    copy = replace(table, columns=dict(table.columns), left_out=set(), names={}, references={})
    for column, field in fields.items():
        if field.kind in (_IGNORED, "LABEL", "TYPE", *_ENDS):
            copy.left_out.add(column)
        elif field.name:
            copy.names[column] = re.sub(r"[^A-Za-z0-9_]", "_", field.name[:1].lower() + field.name[1:])
        declared = KINDS.get(field.kind.lower())
        if field.is_array or declared is not None:
            copy.columns[column] = declared_column(
                table.columns[column], declared, _SEPARATOR if field.is_array else None
            )
    return copy


KINDS = {
    **dict.fromkeys(
        ["byte", "short", "int", "integer", "long", "int64", "int32", "int16", "int8", "serial"], Scalar.I64
    ),
    **dict.fromkeys(["float", "double"], Scalar.F64),
    **dict.fromkeys(["boolean", "bool"], Scalar.BOOL),
    **dict.fromkeys(["datetime", "localdatetime", "timestamp"], Scalar.DATETIME),
    **dict.fromkeys(["string", "char", "point", "time", "localtime", "duration", "uuid", "interval"], Scalar.STRING),
    "date": Scalar.DATE,
}
"""What the types of Neo4j's importer, and of Kuzu, are here."""


def declared_column(column: SampledColumn, declared: Scalar | None, separator: str | None) -> SampledColumn:
    return SampledColumn(column.name, column.values, is_text=column.is_text, separator=separator, declared=declared)


def _only(table: FoundTable, where: Mapping[str, tuple[str, ...]], mask: list[bool]) -> FoundTable:
    keep = pa.array(mask, pa.bool_())
    columns = {name: column.with_values(column.values.filter(keep)) for name, column in table.columns.items()}
    left_out, names = set(table.left_out), dict(table.names)
    # A property that none of these has is one of the others.
    left_out |= {
        name for name, column in columns.items() if not len(column.present) and len(table.columns[name].present)
    }
    return replace(table, columns=columns, rows=sum(mask), where=dict(where), left_out=left_out, names=names)


# ---------------------------------------------------------------- headers in files of their own

_HEADER = re.compile(r"[-_. ]*header[-_. ]*", re.IGNORECASE)
_PART = re.compile(r"[-_. ]*(part)?[-_. ]*[0-9]*$", re.IGNORECASE)


def separate_headers(files: Sequence[InputFile]) -> tuple[list[InputFile], dict[str, tuple[str, ...]]]:
    """The files without those that are only a header, such as `movies-header.csv` for `movies.csv` or `movies-part1.csv`; and the
    columns of each file that has its header elsewhere."""
    headers: dict[tuple[str, str], tuple[str, ...]] = {}
    for file in files:
        if _HEADER.search(file.stem) and file.suffix == ".csv" and (columns := _lone_header(file)) is not None:
            headers[_folder_of(file), _HEADER.sub("", file.stem).lower()] = columns
    by_file: dict[str, tuple[str, ...]] = {}
    kept = []
    for file in files:
        stem = file.stem.lower()
        if _HEADER.search(stem) and (_folder_of(file), _HEADER.sub("", stem)) in headers:
            continue
        kept.append(file)
        for name in (stem, _PART.sub("", stem)):
            if (columns_of := headers.get((_folder_of(file), name))) is not None and file.suffix == ".csv":
                by_file[file.address] = columns_of
    return kept, by_file


def _folder_of(file: InputFile) -> str:
    return file.address.rpartition("/")[0]


def _lone_header(file: InputFile) -> tuple[str, ...] | None:
    """The columns in a file of one line that Neo4j's importer takes for a header."""
    with file.open() as stream:
        lines = stream.read(MAX_HEADER_BYTES).decode("utf-8-sig", "replace").splitlines()
    columns = next(csv.reader(lines[:1]), [])
    is_header = any((match := _FIELD.match(column)) and match["kind"].upper() in ("ID", *_ENDS) for column in columns)
    return tuple(columns) if is_header and not any(line.strip() for line in lines[1:]) else None


# Folders of Kuzu: `schema.cypher` declares tables, `copy.cypher` says which files hold them, with or without a header.

FILES = ("schema.cypher", "copy.cypher")
_TABLE = re.compile(
    r"CREATE\s+(NODE|REL)\s+TABLE\s+(?:GROUP\s+)?(?:IF\s+NOT\s+EXISTS\s+)?`?(\w+)`?\s*\((.*?)\)\s*(?:WITH[^;]*)?;",
    re.I | re.S,
)
_PRIMARY = re.compile(r"PRIMARY\s+KEY\s*\(\s*`?(\w+)`?\s*\)", re.I)
_COLUMN_KEY = re.compile(r"`?(\w+)`?\s+\S+\s+PRIMARY\s+KEY", re.I)
_FROM_TO = re.compile(r"FROM\s+`?(\w+)`?\s+TO\s+`?(\w+)`?", re.I)
_COPY = re.compile(r"COPY\s+`?(\w+)`?(?:\s*\(([^)]*)\))?\s+FROM\s+['\"]([^'\"]+)['\"]\s*(\([^)]*\))?", re.I)
_COLUMN = re.compile(r"^`?(\w+)`?\s+([A-Za-z0-9_]+)")
_WORDS = frozenset(["primary", "from", "one_one", "many_one", "one_many", "many_many"])
_HEADER_CELL = re.compile(r"^(from|to|src|dst|source|target|start|end|id|.*_id)$", re.I)


@dataclass(frozen=True)
class _Table:
    name: str
    key: str | None
    pairs: tuple[tuple[str, str], ...]
    types: Mapping[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        """In the order in which a file without a header has them."""
        return (*(("from", "to") if self.pairs else ()), *self.types)


@dataclass(frozen=True)
class Kuzu:
    """What a folder declares. `names`: the table of a file; `has_header`, where `copy.cypher` says it."""

    tables: Mapping[str, _Table]
    names: Mapping[str, str]
    has_header: Mapping[str, bool]
    listed: Mapping[str, tuple[str, ...]]
    ends: Mapping[str, tuple[str, str]]
    """Of a file of relationships between several pairs of tables: which pair."""

    @classmethod
    def of(cls, schema: str, copy: str) -> Kuzu:
        tables = {name: _table(kind.upper(), name, body) for kind, name, body in _TABLE.findall(schema)}
        names, has_header, listed, ends = {}, {}, {}, {}
        for name, columns, path, options in _COPY.findall(copy):
            file = path.rsplit("/", 1)[-1].lower()
            names[file] = name
            if option := re.search(r"header\s*=\s*(true|false)", options, re.I):
                has_header[file] = option[1].lower() == "true"
            option = re.search(r"from\s*=\s*['\"](\w+)['\"].*?to\s*=\s*['\"](\w+)['\"]", options, re.I | re.S)
            if option is not None:
                ends[file] = (option[1], option[2])
            if columns.strip():
                first = ("from", "to") if name in tables and tables[name].pairs else ()
                listed[file] = (*first, *(column.strip(" `") for column in columns.split(",")))
        return cls(tables, names, has_header, listed, ends)

    def table_of(self, file: str, label: str) -> _Table | None:
        name = self.names.get(file.rsplit("/", 1)[-1].lower())
        by_lower = {name.lower(): name for name in self.tables}
        return self.tables.get(name or by_lower.get(label.lower(), ""))

    def headers(self, files: Sequence[InputFile]) -> dict[str, tuple[str, ...]]:
        """The columns of the CSV files that have no header, by address."""
        headers = {}
        for file in files:
            table, name = self.table_of(file.address, file.stem), file.address.rsplit("/", 1)[-1].lower()
            if table is None or file.suffix != ".csv":
                continue
            with file.open() as stream:
                first = stream.readline(MAX_HEADER_BYTES).decode("utf-8-sig", "replace")
            cells = next(csv.reader([first]), [])
            if not self.has_header.get(name, _is_header(cells, table)):
                columns = self.listed.get(name, table.columns)
                headers[file.address] = (
                    columns if len(columns) == len(cells) else (*columns, *map(str, range(len(columns), len(cells))))
                )
        return headers

    def declared(self, tables: Sequence[FoundTable]) -> list[FoundTable]:
        """The tables as the schema declares them: the first two columns of a relationship table are its ends."""
        statements = []
        for table in tables:
            declared = self.table_of(table.file, table.label)
            if declared is None:
                statements.append(table)
                continue
            table = replace(table, label=declared.name, columns=dict(table.columns))
            columns = list(table.columns)
            for column, type in declared.types.items():
                if (
                    column in table.columns
                    and table.columns[column].is_text
                    and (scalar := KINDS.get(type)) is not None
                ):
                    table.columns[column] = declared_column(table.columns[column], scalar, None)
            if declared.key in columns:
                table.key = (str(declared.key),)
            if declared.pairs and len(columns) > 1:
                table.ends = (columns[0], columns[1])
                pair = self.ends.get(table.file.rsplit("/", 1)[-1].lower(), declared.pairs[0])
                table.references = dict(zip(table.ends, pair, strict=True))
            statements.append(table)
        return statements


def _table(kind: str, name: str, body: str) -> _Table:
    key = _PRIMARY.search(body) or _COLUMN_KEY.search(body)
    types = {}
    for part in re.split(r",(?![^(]*\))", body):
        column = _COLUMN.match(part.strip())
        if column is not None and column[1].lower() not in _WORDS:
            types[column[1]] = column[2].lower() if "[" not in part else ""
    return _Table(name, None if key is None else key[1], tuple(_FROM_TO.findall(body)) if kind == "REL" else (), types)


def _is_header(cells: Sequence[str], table: _Table) -> bool:
    names = {column.lower() for column in table.types}
    if table.pairs:
        return len(cells) > 1 and (
            all(map(_HEADER_CELL.match, cells[:2])) or bool(names & {cell.lower() for cell in cells[2:]})
        )
    return {cell.strip().lower() for cell in cells} <= names
