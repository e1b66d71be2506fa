"""Answers of a server as the library's values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from omnigraph.changes.baseline import Baseline
from omnigraph.changes.entity_changes import EntityChange
from omnigraph.changes.feed import CommitChanges, CommitPage, FeedPage
from omnigraph.errors import ServerUnavailable
from omnigraph.evolve.apply import SchemaReceipt
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit, CommitRef
from omnigraph.indexing.indexes import IndexState
from omnigraph.language.catalog import Catalog, EntityType
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.merging import SchemaConflict, SchemaLine
from omnigraph.language.schema.migration import MigrationPlan
from omnigraph.language.schema.migration_steps import step_from_json
from omnigraph.load.receipt import LoadCounts, LoadReceipt, MissingNodes
from omnigraph.merge.conflicts import NO_VALUE, MergeConflict, PropertyConflict
from omnigraph.merge.three_way import MergeResult, TypeSummary
from omnigraph.read.explaining import Explanation, InputColumns
from omnigraph.read.steps import Step
from omnigraph.read.strategies.strategy import InputChoice
from omnigraph.storage.outputs import Target, outputs
from omnigraph.values.arrow import Entity, with_zone
from omnigraph.values.json_values import Unfit, typed_value
from omnigraph.write.receipt import Receipt, TypeCounts

UNKNOWN_POSITION = -1
"""A server does not reveal the position of a commit in the chain."""

Json = Mapping[str, Any]


def commit(value: Json) -> Commit:
    """A commit. A server gives only the ids of its parents."""
    seq = value["graph_manifest_version"]
    parents = [value.get("parent_commit_id"), value.get("merged_parent_commit_id")]
    return Commit(
        ref=_ref(value["graph_commit_id"], value.get("graph_branch") or MAIN, seq),
        parents=tuple(_ref(id, "", seq - 1 if at == 0 else UNKNOWN_POSITION) for at, id in enumerate(parents) if id),
        kind=value.get("kind", "mutation"),
        _at_us=value["created_at"],
        actor=value.get("actor_id"),
        message=value.get("message"),
    )


def _ref(id: str, branch: str, seq: int) -> CommitRef:
    return CommitRef(id, branch, "", seq, UNKNOWN_POSITION)


def optional_commit(value: Json | None) -> Commit | None:
    return None if value is None else commit(value)


def receipt(value: Json, *, repeated: bool) -> Receipt:
    types = {key: TypeCounts(**counts) for key, counts in value["types"].items()}
    commit = optional_commit(value["commit"])
    return Receipt(value["branch"], commit, types, value["actor_id"], value["query_name"], repeated)


def load_receipt(value: Json, *, repeated: bool) -> LoadReceipt:
    types = {
        f"{kind}:{counts['name']}": LoadCounts(
            counts["inserted"], counts["updated"], counts["unchanged"], counts["deleted"]
        )
        for kind, member in (("node", "nodes"), ("edge", "edges"))
        for counts in value[member]
    }
    return LoadReceipt(
        branch=value["branch"],
        mode=value["mode"],
        types=types,
        commit=optional_commit(value["commit"]),
        actor=value["actor_id"],
        base_branch=value["base_branch"],
        branch_created=value["branch_created"],
        repeated=repeated,
        rejected=value.get("rejected", 0),
        missing=tuple(MissingNodes(**{**gap, "examples": tuple(gap["examples"])}) for gap in value.get("missing", ())),
        skipped={f"edge:{edge['name']}": edge["skipped"] for edge in value["edges"] if "skipped" in edge},
        stubs={f"node:{node['name']}": node["stubs"] for node in value["nodes"] if "stubs" in node},
        duplicates={f"edge:{edge['name']}": edge["duplicates"] for edge in value["edges"] if "duplicates" in edge},
        without_adjacency={
            f"{kind}:{counts['name']}": counts["without_adjacency"]
            for kind, member in (("node", "nodes"), ("edge", "edges"))
            for counts in value[member]
            if "without_adjacency" in counts
        },
    )


def schema_receipt(value: Json, source: str) -> SchemaReceipt:
    """`source` is the text of the schema that was applied."""
    plan = MigrationPlan(tuple(step_from_json(step) for step in value["steps"]), compile_schema(source))
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
    return tuple(step_from_json(step) for step in value.get("schema_steps", ()))


def baseline(value: Json, entities: int) -> Baseline:
    return Baseline(entities, value["snapshot_commit_id"], value["resume_cursor"])


def explanation(value: Json) -> Explanation:
    return Explanation(
        value["graph_commit_id"],
        value["keys"],
        tuple(
            InputColumns(input["name"], tuple(input["tables"]), tuple(input["columns"]), input["filter"])
            for input in value["inputs"]
        ),
        tuple(
            InputChoice(access["input"], access["path"], access["rows"], access["estimate"], access["expected"])
            for access in value["access"]
        ),
        value["sql"],
        tuple(_step(step) for step in value["steps"]),
    )


def _step(value: Json) -> Step:
    seconds = None if value["ms"] is None else value["ms"] / 1_000
    return Step(
        value["depth"], value["step"], value["access"], value["expected"], value["rows"], seconds, value["note"]
    )


# ---------------------------------------------------------------- merges


def merge_result(value: Json, catalog: Catalog | None = None) -> MergeResult:
    return MergeResult(
        source=value["source"],
        target=value["target"],
        outcome=value["outcome"],
        commit=optional_commit(value.get("commit")),
        bases=tuple(value.get("bases") or value.get("base", ())),
        types={key: TypeSummary(**counts) for key, counts in value.get("changes", {}).items()},
        conflicts=tuple(merge_conflict(conflict, catalog) for conflict in value.get("conflicts", ())),
        dry_run=value.get("dry_run", False),
        hint=value.get("hint"),
        source_commit=value.get("source_commit", ""),
        target_commit=value.get("target_commit", ""),
        branch_deleted=value.get("branch_deleted"),
        branch_delete_error=value.get("branch_delete_error"),
        schema_conflicts=tuple(schema_conflict(conflict) for conflict in value.get("schema_conflicts", ())),
        schema_steps=_steps(value),
    )


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


def schema_conflict(value: Json) -> SchemaConflict:
    ours, theirs = (SchemaLine(**value[side]) if side in value else None for side in ("ours", "theirs"))
    return SchemaConflict(value["kind"], value["entity"], value["message"], ours, theirs)


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
