"""Layouts that other graph databases import and export: headers of Neo4j's importer, and folders of Kuzu."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.errors import UsageError
from omnigraph.pipeline.infer.columns import Column
from omnigraph.pipeline.infer.found_tables import FoundTable, stem_of

_FIELD = re.compile(r"^(?P<name>[^:]*):(?P<kind>[A-Za-z_]+)(\((?P<space>[^)]*)\))?(?P<array>\[\])?(\{.*\})?$")
_ENDS = ("START_ID", "END_ID")
_SEPARATOR = ";"
_IGNORED = "IGNORE"


@dataclass(frozen=True)
class _Field:
    name: str
    kind: str
    space: str
    is_array: bool


def _fields(table: FoundTable) -> dict[str, _Field]:
    """The columns of a table that are written as Neo4j's importer wants them."""
    found = {}
    for column in table.columns:
        match = _FIELD.match(column)
        if match is not None:
            kind = match["kind"].upper() if match["kind"].upper() in _SPECIAL else match["kind"]
            found[column] = _Field(match["name"], kind, match["space"] or "", match["array"] is not None)
    return found


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
    found = []
    for label, texts in by_first.items():
        part = _only(plain, {label_column: tuple(texts)}, [(text or "") in texts for text in labels])
        if any(text == "" for text in texts):
            part.where = {} if len(by_first) == 1 else part.where
        part.label = label
        if any(_SEPARATOR in text for text in texts):
            part.columns[label_column] = replace_column(part.columns[label_column], _SEPARATOR)
            part.left_out.discard(label_column)
            part.names[label_column] = "labels"
        found.append(part)
    return found


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
    found = []
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
        found.append(part)
    return found


def _labels_of(ids: list[str], nodes: Sequence[FoundTable], table: FoundTable, column: str) -> list[str]:
    """The label of the node that each id names. UsageError for an id of no node."""
    by_id = {id: node.label for node in nodes for id in node.columns[node.key[0]].texts.to_pylist()}
    missing = next((id for id in ids if id not in by_id), None)
    if missing is not None:
        raise UsageError(
            f"'{missing}' in '{column}' of {table.origin} is the id of no node",
            hint="correct it, check the id spaces in the headers, or look at more rows with --sample",
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
        if field.is_array:
            copy.columns[column] = replace_column(copy.columns[column], _SEPARATOR)
    return copy


def replace_column(column: Column, separator: str) -> Column:
    return Column(column.name, column.values, is_text=column.is_text, separator=separator)


def _only(table: FoundTable, where: Mapping[str, tuple[str, ...]], mask: list[bool]) -> FoundTable:
    import pyarrow as pa

    keep = pa.array(mask, pa.bool_())
    columns = {
        name: Column(name, column.values.filter(keep), is_text=column.is_text, separator=column.separator)
        for name, column in table.columns.items()
    }
    left_out, names = set(table.left_out), dict(table.names)
    return replace(table, columns=columns, rows=sum(mask), where=dict(where), left_out=left_out, names=names)


# ---------------------------------------------------------------- Kuzu

_NODE_TABLE = re.compile(r"CREATE\s+NODE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?`?(\w+)`?\s*\((.*?)\)\s*;", re.I | re.S)
_REL_TABLE = re.compile(r"CREATE\s+REL\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?`?(\w+)`?\s*\((.*?)\)\s*;", re.I | re.S)
_PRIMARY = re.compile(r"PRIMARY\s+KEY\s*\(\s*`?(\w+)`?\s*\)", re.I)
_FROM_TO = re.compile(r"FROM\s+`?(\w+)`?\s+TO\s+`?(\w+)`?", re.I)
_COPY = re.compile(r"COPY\s+`?(\w+)`?(?:\s*\([^)]*\))?\s+FROM\s+['\"]([^'\"]+)['\"]", re.I)


def from_kuzu(tables: Sequence[FoundTable], schema: str, copy: str) -> list[FoundTable]:
    """Tables of a folder with Kuzu's `schema.cypher` (and `copy.cypher`) as it declares them: the first two columns of a
    relationship table are its ends."""
    label_of = {path.rsplit("/", 1)[-1].lower(): label for label, path in _COPY.findall(copy)}
    keys = {name: _PRIMARY.search(body) for name, body in _NODE_TABLE.findall(schema)}
    ends = {name: _FROM_TO.search(body) for name, body in _REL_TABLE.findall(schema)}
    by_lower = {name.lower(): name for name in (*keys, *ends)}
    found = []
    for table in tables:
        name = label_of.get(table.file.rsplit("/", 1)[-1].lower()) or by_lower.get(table.label.lower())
        key, pair = keys.get(name or ""), ends.get(name or "")
        table = replace(table, label=name or table.label)
        columns = list(table.columns)
        if key is not None and key[1] in columns:
            table.key = (key[1],)
        if pair is not None and len(columns) > 1:
            table.ends = (columns[0], columns[1])
            table.references = {columns[0]: pair[1], columns[1]: pair[2]}
        found.append(table)
    return found
