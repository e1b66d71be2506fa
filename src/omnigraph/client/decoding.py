"""Answers of a server as the library's values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from omnigraph.api.changes import steps_value
from omnigraph.api.history import ServedCommit
from omnigraph.api.writes import MergeReview, ServedMerge, ServedReceipt
from omnigraph.changes.entity_changes import EntityChange
from omnigraph.changes.feed import Baseline, CommitChanges, CommitPage, FeedPage
from omnigraph.errors import ServerUnavailable
from omnigraph.evolve.apply import SchemaReceipt
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit
from omnigraph.indexing.indexes import IndexState
from omnigraph.language.catalog import Catalog, EntityType
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.migration import MigrationPlan
from omnigraph.merge.conflicts import NO_VALUE, MergeConflict, PropertyConflict
from omnigraph.merge.three_way import MergeResult
from omnigraph.storage.outputs import Target, outputs
from omnigraph.values.arrow import Entity, with_zone
from omnigraph.values.json_values import Unfit, typed_value
from omnigraph.write.receipt import Receipt

Json = Mapping[str, Any]


def optional_commit(value: Json | None) -> Commit | None:
    return None if value is None else ServedCommit.from_json(value)


def receipt(value: Json, *, repeated: bool) -> Receipt:
    receipt: Receipt = ServedReceipt.from_json(value, repeated=repeated)
    return receipt


def schema_receipt(value: Json, source: str) -> SchemaReceipt:
    """`source` is the text of the schema that was applied."""
    plan = MigrationPlan(steps_value(value["steps"]), compile_schema(source))
    return SchemaReceipt(MAIN, plan, optional_commit(value.get("commit")))


def indexes(catalog: Json) -> list[IndexState]:
    """The indexes of a catalog, in the library's order: edges first. The ends of an edge are the columns src and dst."""
    columns = {"from": "src", "to": "dst"}
    return [
        IndexState(
            f"{kind}:{declared['name']}",
            columns.get(index["property"], index["property"]) if kind == "edge" else index["property"],
            index["kind"],
            index["covered_rows"],
            index["pending_rows"],
            index.get("reason"),
        )
        for kind, member in (("edge", "edges"), ("node", "nodes"))
        for declared in sorted(catalog[member], key=lambda item: item["name"])
        for index in declared["indexes"]
    ]


# ---------------------------------------------------------------- entities and changes


def entity(value: Json, declared: EntityType | None, id: str) -> Entity:
    """An image {properties, endpoints?} as an entity, with values of the types that the schema declares."""
    if declared is None:
        raise ServerUnavailable("the server answered with an entity of a type that its schema does not have")
    typed = {name: property_value(declared, name, item) for name, item in value["properties"].items()}
    return untyped_entity({**value, "properties": typed}, id)


def untyped_entity(value: Json, id: str) -> Entity:
    """Like `entity`, with the values as they are in JSON."""
    return {"id": id, **(value.get("endpoints") or {}), **value["properties"]}


def property_value(declared: EntityType, name: str, value: Any) -> Any:
    property = declared.properties.get(name)
    if property is None:
        return value
    try:
        return with_zone(typed_value(value, property.type))
    except Unfit as unfit:
        raise ServerUnavailable(f"the server's value does not fit: {unfit.about(f'{declared.name}.{name}')}") from None


@dataclass(frozen=True)
class ChangeSchemas:
    """The schemas before and after some changes. The one before is fetched only if the one after lacks a declaration."""

    after: Catalog
    before: Callable[[], Catalog]

    def declared(self, kind: str, name: str, properties: Iterable[str]) -> EntityType | None:
        """The declaration of a type that has these properties."""
        declared = _type_in(self.after, kind, name)
        if declared is None or not declared.properties.keys() >= set(properties):
            return _type_in(self.before(), kind, name) or declared
        return declared


def _type_in(catalog: Catalog, kind: str, name: str) -> EntityType | None:
    return catalog.nodes.get(name) if kind == "node" else catalog.edges.get(name)


def change(value: Json, schemas: ChangeSchemas) -> EntityChange:
    kind, name, id = value["kind"], value["type"]["name"], value["id"]

    def image(side: str) -> Entity | None:
        if side not in value:
            return None
        return entity(value[side], schemas.declared(kind, name, value[side]["properties"]), id)

    return EntityChange(kind, name, value["type"]["id"], id, value["op"], image("before"), image("after"))


def commit_page(value: Json, of: Commit, schemas: ChangeSchemas) -> CommitPage:
    return CommitPage(of, _changes(value, schemas), value.get("next_page_token"), schema_steps=_steps(value))


def feed_page(value: Json, blocks: Iterable[CommitChanges]) -> FeedPage:
    return FeedPage(tuple(blocks), value.get("next_page_token"), value.get("cursor"), value.get("caught_up"))


def block(value: Json, of: Commit, schemas: ChangeSchemas) -> CommitChanges:
    return CommitChanges(of, _changes(value, schemas), schema_steps=_steps(value))


def _changes(value: Json, schemas: ChangeSchemas) -> tuple[EntityChange, ...]:
    return tuple(change(item, schemas) for item in value["changes"])


def _steps(value: Json) -> tuple[Any, ...]:
    return steps_value(value.get("schema_steps", []))


def baseline(value: Json, entities: int) -> Baseline:
    return Baseline(entities, value["snapshot_commit_id"], value["resume_cursor"])


# ---------------------------------------------------------------- merges


def merge_result(value: Json, catalog: Catalog | None = None) -> MergeResult:
    struct = MergeReview if "base" in value else ServedMerge
    result: MergeResult = struct.from_json(
        value,
        bases=tuple(value.get("bases") or value.get("base", ())),
        conflicts=tuple(merge_conflict(conflict, catalog) for conflict in value.get("conflicts", ())),
    )
    return result


def merge_conflict(value: Json, catalog: Catalog | None = None) -> MergeConflict:
    """A conflict. With a catalog, values have the declared types; without one, they are as in JSON."""
    kind, name = value["entity_kind"], value["type_name"]
    types: Mapping[str, EntityType] = (
        {} if catalog is None else cast("Mapping[str, EntityType]", catalog.nodes if kind == "node" else catalog.edges)
    )
    properties = tuple(_property_conflict(property, types.get(name)) for property in value.get("properties", ()))
    images = {
        side: untyped_entity(value[side], value["entity_id"])
        if catalog is None
        else entity(value[side], types.get(name), value["entity_id"])
        for side in ("base", "ours", "theirs")
        if side in value
    }
    return MergeConflict(kind, name, value.get("entity_id"), value["kind"], value["message"], properties, **images)


def _property_conflict(value: Json, declared: EntityType | None) -> PropertyConflict:
    sides = {}
    for side in ("base", "ours", "theirs"):
        if side not in value:
            sides[side] = NO_VALUE
        else:
            sides[side] = value[side] if declared is None else property_value(declared, value["name"], value[side])
    return PropertyConflict(value["name"], **sides)


# Answers that are written to a file as they arrive. The file appears once it is complete.

MAX_LAST_LINE = 64 * 1024


def write_export(pieces: Iterator[bytes], target: Target, *, overwrite: bool) -> int:
    """Write an export; returns the number of lines."""
    lines = 0
    with outputs([target], {}, replace=overwrite) as (file,), file.open() as out:
        for piece in pieces:
            out.write(piece)
            lines += piece.count(b"\n")
    return lines


def write_baseline(pieces: Iterator[bytes], target: Target, *, overwrite: bool) -> Baseline:
    """Write a baseline and return what its last line says. ServerUnavailable if that line is missing."""
    lines = 0
    tail = b""
    with outputs([target], {}, replace=overwrite) as (file,), file.open() as out:
        for piece in pieces:
            out.write(piece)
            lines += piece.count(b"\n")
            tail = (tail + piece)[-MAX_LAST_LINE:]
        return baseline(_last(tail), lines - 1)


def _last(tail: bytes) -> dict[str, str]:
    try:
        last: dict[str, str] = json.loads(tail.splitlines()[-1])["baseline"]
        return last
    except (IndexError, KeyError, TypeError, ValueError):
        raise ServerUnavailable("the baseline broke off before its last line") from None
