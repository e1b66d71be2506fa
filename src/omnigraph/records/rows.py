"""Typed rows: the columns of a node or edge, filled from named values. A row has every column; an absent one is null or its
@default. Rules about the values (required, enum, range ...) are checked later, in their own order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import InputError, RecordError
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, NodeType, Property, derived_id, referenced_id
from omnigraph.language.projection import arrow_schema
from omnigraph.values.arrow import OUTSIDE_NAMES
from omnigraph.values.json_values import Unfit, shown, typed_value
from omnigraph.values.types import PropertyType, Scalar

# What reading a source gives: typed rows of one table with the line of each, and refused records.

ENCODING_HINT = "pass the file's encoding, for example encoding='latin-1'"
MAX_RECORD_SHOWN = 2_000
"""How many characters of a refused record a report keeps."""


DELETE_FLAG = "_delete"
"""The column, or the member of a record, that says whether the entity is to be deleted."""
DELETE_FLAG_HINT = f"'{DELETE_FLAG}' is for the modes merge and patch"


@dataclass(frozen=True)
class RecordForm:
    """What the records of a source are: whole entities, parts of them (columns that are left out stay as they are), or only names
    of entities. `has_flag`: a record may say by DELETE_FLAG that it only names an entity to be deleted."""

    kind: Literal["whole", "partial", "name"]
    has_flag: bool = False


WHOLE = RecordForm("whole")


@dataclass(frozen=True)
class TypedRows:
    """Rows of one table. `lines` has the line (or row number) of each in its source; `explicit_ids`: how many ids the source
    gave.

    Required columns may have nulls: that is a rule of the data, checked with the other rules. `has_value`: for every column but
    the id, which rows give a value (or a null) there; None if all rows do, everywhere.
    """

    key: str
    rows: pa.Table
    lines: pa.Int64Array
    explicit_ids: int
    has_value: pa.Table | None = None


@dataclass(frozen=True)
class NamedRows:
    """Entities of one table that are to be deleted, by id."""

    key: str
    ids: pa.StringArray
    lines: pa.Int64Array


@dataclass(frozen=True)
class Reject:
    """A record that may not be written, and why. `line` counts from 1 in its source (0: the source has no lines)."""

    line: int
    code: str
    reason: str
    record: str
    hint: str | None = None
    type_name: str | None = None
    property: str | None = None

    @classmethod
    def of(cls, line: int, error: InputError, record: str) -> Reject:
        shown = record[:MAX_RECORD_SHOWN]
        return cls(line, error.code, error.message, shown, error.hint, error.type_name, error.property)

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def open_schema(entity: EntityType) -> pa.Schema:
    """The table's schema with every column nullable: rows have it before their rules are checked."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(entity)])


SYSTEM_FIELDS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version", "_tombstone"}
)

Row = dict[str, Any]

_TEXT = PropertyType(Scalar.STRING)


def node_row(
    node: NodeType, data: Mapping[str, object], new_id: Callable[[], str], *, names_refused: bool = True
) -> Row:
    """A keyed node's id is derived; an explicit one must be equal. An unkeyed node's id is given or new."""
    row = _properties(node, data, names_refused)
    explicit = _explicit_id(node, data)
    if not node.key:
        return {"id": explicit or new_id(), **row}
    return {"id": _derived_id(node, row, explicit), **row}


def _derived_id(entity: EntityType, values: Mapping[str, object], explicit: str | None) -> str:
    derived = derived_id(entity, values)
    if explicit is not None and explicit != derived:
        raise RecordError(
            f"id '{explicit}' of {entity.name} does not match its key: expected '{derived}'",
            type_name=entity.name,
            property="id",
            entity_id=explicit,
        )
    return derived


def edge_row(
    catalog: Catalog,
    edge: EdgeType,
    source: object,
    target: object,
    data: Mapping[str, object],
    new_id: Callable[[], str],
    *,
    names_refused: bool = True,
) -> Row:
    """A keyed edge's id is derived; any other is given in `data` or new. Its ends are node ids, in which a date of a key may be ISO
    text."""
    ends = _ends(catalog, edge, {"src": source, "dst": target})
    row = {**ends, **_properties(edge, data, names_refused)}
    explicit = _explicit_id(edge, data)
    return {"id": _derived_id(edge, row, explicit) if edge.key else explicit or new_id(), **row}


def _ends(catalog: Catalog, edge: EdgeType, references: Mapping[str, object]) -> Row:
    ends: Row = {}
    for column, word, node in catalog.ends(edge):
        if column not in references:
            continue
        reference = referenced_id(node, references[column])
        if not isinstance(reference, str) or not reference:
            raise RecordError(
                f"{edge.name} needs '{word}', the id of a node; got {shown(references[column])}",
                type_name=edge.name,
                property=word,
            )
        ends[column] = _text(edge, word, reference)
    return ends


def named_id(catalog: Catalog, entity: EntityType, data: Mapping[str, object]) -> str:
    """The id of the entity that a record names, by its id or by its whole key. The ends of an edge are `src` and `dst` in `data`."""
    explicit = _explicit_id(entity, data)
    members = {name: data[name] for name in entity.key if data.get(name) is not None}
    if members:
        values = _ends(catalog, entity, members) if isinstance(entity, EdgeType) else {}
        for name in members.keys() - values.keys():
            values[name] = property_value(entity, entity.properties[name], members[name])
        return _derived_id(entity, values, explicit)
    if explicit is None:
        raise RecordError(
            f"the record names no {entity.name}: it needs {wanted_name(entity)}", type_name=entity.name, property="id"
        )
    return explicit


def wanted_name(entity: EntityType) -> str:
    """What a record needs in order to name an existing entity."""
    names = [repr(OUTSIDE_NAMES.get(name, name)) for name in entity.key]
    return f"{' and '.join(names)} or 'id'" if names else "'id'"


def partial_row(catalog: Catalog, entity: EntityType, data: Mapping[str, object]) -> tuple[Row, frozenset[str]]:
    """The values that a record gives to an entity, and in which columns. What identifies an entity cannot become null: a null in
    its key, or at an end of an edge (`src`, `dst` in `data`), counts as left out."""
    ends = {name: data[name] for name in ("src", "dst") if name in data and isinstance(entity, EdgeType)}
    own = {name: value for name, value in data.items() if name not in ends}
    refuse_unknown_properties(entity, own)
    names = {name for name, value in own.items() if name != "id" and (value is not None or name not in entity.key)}
    row: Row = {"id": named_id(catalog, entity, data)}
    if isinstance(entity, EdgeType):
        row |= _ends(catalog, entity, {name: value for name, value in ends.items() if value is not None})
    for name in names:
        row[name] = property_value(entity, entity.properties[name], own[name], row["id"])
    return row, frozenset(row) - {"id"}


def _explicit_id(entity: EntityType, data: Mapping[str, object]) -> str | None:
    id = data.get("id")
    if id is None:
        return None
    if not isinstance(id, str):
        raise RecordError(f"id of {entity.name} expects String, got {shown(id)}", type_name=entity.name, property="id")
    if not id:
        hint = "give a text, or leave the id out"
        raise RecordError(f"id of {entity.name} is empty", type_name=entity.name, property="id", hint=hint)
    return _text(entity, "id", id)


def _text(entity: EntityType, name: str, value: str) -> str:
    try:
        typed_value(value, _TEXT)
    except Unfit as unfit:
        raise RecordError(unfit.about(f"'{name}' of {entity.name}"), type_name=entity.name, property=name) from None
    return value


def _properties(entity: EntityType, data: Mapping[str, object], names_refused: bool) -> Row:
    """`names_refused`: whether an error has the id of the entity. A load identifies records by their lines instead."""
    refuse_unknown_properties(entity, data)
    try:
        return {name: _typed(entity, property, data) for name, property in entity.properties.items()}
    except RecordError as error:
        if names_refused:
            error.entity_id = _id_in(entity, data)
        raise


def refuse_unknown_properties(entity: EntityType, data: Mapping[str, object]) -> None:
    """Raises RecordError if a record has members that the type does not have."""
    unknown = [name for name in data if name not in entity.properties and name != "id"]
    if unknown:
        refuse_unknown(entity, unknown)


def refuse_unknown(entity: EntityType, names: Sequence[str]) -> NoReturn:
    """Refuse names that the type does not have, or that are reserved."""
    for name in names:
        if name in SYSTEM_FIELDS or name in ("src", "dst"):
            raise RecordError(f"'{name}' is reserved and cannot be given", type_name=entity.name, property=name)
    shown = ", ".join(f"'{name}'" for name in names)
    raise RecordError(
        f"unknown propert{'y' if len(names) == 1 else 'ies'} {shown} on {entity.name}",
        type_name=entity.name,
        property=names[0],
        hint=f"{entity.name} has: {', '.join(entity.properties) or 'no properties'}",
    )


def _typed(entity: EntityType, property: Property, data: Mapping[str, object]) -> object:
    value = data.get(property.name)
    if value is None and property.name not in data:
        value = property.default
    return property_value(entity, property, value)


def property_value(entity: EntityType, property: Property, value: object, entity_id: str | None = None) -> object:
    """One value as its column holds it. Raises RecordError if it does not fit."""
    try:
        return typed_value(value, property.type)
    except Unfit as unfit:
        raise RecordError(
            unfit.about(f"{entity.name}.{property.name}"),
            type_name=entity.name,
            property=property.name,
            entity_id=entity_id,
            value=value,
        ) from None


def _id_in(entity: EntityType, data: Mapping[str, object]) -> str | None:
    """The id of a refused record, as far as it is known."""
    if entity.key:
        try:
            return derived_id(entity, {name: typed_value(data.get(name), entity.key_type(name)) for name in entity.key})
        except (InputError, Unfit):
            return None
    id = data.get("id")
    return id if isinstance(id, str) else None
