"""What writes change: receipts, loads, merges, schemas, results of algorithms."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from omnigraph.api.changes import ImageJson, image_of, steps_json, steps_value
from omnigraph.api.history import CommitJson, ServedCommit
from omnigraph.api.structs import As, Count, EntityKind, JsonObject, Struct, at, maybe, ref, unless_empty

if TYPE_CHECKING:
    from omnigraph.load.receipt import LoadReceipt
    from omnigraph.merge.conflicts import MergeConflict
    from omnigraph.write.receipt import Receipt, TypeCounts


class TypeCountsJson(Struct, of="TypeCounts"):
    inserted: Count
    updated: Count
    deleted: Count
    replaced: Count


def _changed(receipt: Receipt) -> dict[str, TypeCounts]:
    return {key: counts for key, counts in sorted(receipt.types.items()) if counts.total}


class ReceiptJson(Struct):
    branch: str
    query_name: str = maybe()
    affected_nodes: Count
    affected_edges: Count
    types: dict[str, TypeCountsJson] = at(_changed)
    actor_id: str = maybe("actor")
    commit: CommitJson = maybe()
    repeated: bool = unless_empty()


class ServedReceipt(Struct, of="Receipt", component="Change", nulls=True):
    branch: str
    query_name: str
    affected_nodes: Count
    affected_edges: Count
    actor_id: str | None = at("actor")
    commit: ServedCommit | None
    types: dict[str, TypeCountsJson] = maybe(_changed)


# Loads.


class LoadedJson(Struct):
    """What was loaded of one type."""

    name: str
    entities_loaded: Count
    inserted: Count = maybe()
    updated: Count = maybe()
    unchanged: Count = maybe()
    deleted: Count = maybe()
    duplicates: Count = maybe()
    skipped: Count = maybe()
    stubs: Count = maybe()
    without_adjacency: str = maybe()


_BY_TYPE = ("duplicates", "skipped", "stubs", "without_adjacency")
"""Members of a receipt by table key."""


def _loaded(receipt: LoadReceipt, kind: str) -> list[JsonObject]:
    return [
        {
            "name": key.removeprefix(f"{kind}:"),
            "entities_loaded": counts.loaded,
            **dataclasses.asdict(counts),
            **{name: getattr(receipt, name).get(key) for name in _BY_TYPE},
        }
        for key, counts in sorted(receipt.types.items())
        if key.startswith(f"{kind}:")
    ]


def _loaded_nodes(receipt: LoadReceipt) -> list[JsonObject]:
    return _loaded(receipt, "node")


def _loaded_edges(receipt: LoadReceipt) -> list[JsonObject]:
    return _loaded(receipt, "edge")


class MissingJson(Struct, of="MissingNodes"):
    edge: str
    end: str
    node: str
    edges: Count
    nodes: Count
    examples: list[str]


class StageJson(Struct):
    stage: str
    tasks: Count
    rows: Count
    seconds: float = at("seconds", lambda seconds: round(seconds, 3))
    rejected: Count
    shuffled_bytes: Count
    spilled_bytes: Count
    failed_tasks: Count


class RefusalJson(Struct):
    code: str
    message: str
    count: Count
    type_name: str = maybe()
    property: str = maybe()
    places: list[str]
    can_be_set_aside: bool


class LoadJson(Struct, brief=True):
    uri: str
    branch: str
    base_branch: str = maybe()
    branch_created: bool
    mode: str
    nodes: list[LoadedJson] = at(_loaded_nodes)
    edges: list[LoadedJson] = at(_loaded_edges)
    total_entities: Count
    inserted: Count = at("total.inserted")
    updated: Count = at("total.updated")
    unchanged: Count = at("total.unchanged")
    deleted: Count = at("total.deleted")
    rejected: Count = unless_empty()
    missing: list[MissingJson] = unless_empty()
    actor_id: str = maybe("actor")
    commit: CommitJson = maybe()
    repeated: bool = unless_empty()
    engine: str = maybe()
    seconds: float = maybe(lambda receipt: None if receipt.engine is None else round(receipt.seconds, 3))
    stages: list[StageJson] = unless_empty()
    dry_run: bool = unless_empty("is_dry_run")
    refusals: list[RefusalJson] = maybe(lambda receipt: receipt.refusals if receipt.is_dry_run else None)


class ServedLoad(Struct, of="LoadReceipt", component="Load", nulls=True):
    """`base_branch` repeats what was asked for, even when the branch was there."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: Annotated[str, As(ref("LoadMode"))]
    nodes: list[LoadedJson] = at(_loaded_nodes)
    edges: list[LoadedJson] = at(_loaded_edges)
    total_entities: Count
    actor_id: str | None = at("actor")
    commit: ServedCommit | None
    rejected: Count = unless_empty()
    missing: list[MissingJson] = unless_empty()

    @classmethod
    def in_short(cls, receipt: LoadReceipt, /, **extra: Any) -> JsonObject:
        """Without what became of the entities that were loaded."""
        shown = ("name", "entities_loaded", "skipped", "stubs")
        nodes, edges = (
            [{name: counts[name] for name in shown} for counts in _loaded(receipt, kind)] for kind in ("node", "edge")
        )
        return cls.to_json(receipt, nodes=nodes, edges=edges, **extra)

    @classmethod
    def from_json(cls, members: Mapping[str, Any], /, **extra: Any) -> LoadReceipt:
        from omnigraph.load.receipt import LoadCounts

        counted = {
            f"{kind}:{counts['name']}": counts
            for kind, member in (("node", "nodes"), ("edge", "edges"))
            for counts in members[member]
        }
        kept = [field.name for field in dataclasses.fields(LoadCounts)]
        types = {key: LoadCounts(**{name: counts[name] for name in kept}) for key, counts in counted.items()}
        by_type = {name: {key: counts[name] for key, counts in counted.items() if name in counts} for name in _BY_TYPE}
        receipt: LoadReceipt = super().from_json(members, types=types, **by_type, **extra)
        return receipt


class _Addressed(Struct):
    uri: str


class IngestJson(ServedLoad, _Addressed, component="Ingest", nulls=True):
    """A load that names the graph."""


class LoadExplanationJson(Struct):
    engine: str
    reason: str
    input_bytes: Count
    max_in_process_bytes: Count
    files: Count
    parallelism: Count = maybe()
    tasks: Count = maybe()
    task_bytes: Count = maybe()


class RunJson(Struct):
    """What an algorithm computed and wrote."""

    algorithm: str
    into: str
    nodes: Count = at("num_rows")
    steps: Count
    engine: str
    seconds: float
    snapshot: str = at("commit.id")
    load: Any


# Merges.


class TypeSummaryJson(Struct, of="TypeSummary"):
    way: str
    inserted: Count = maybe()
    updated: Count = maybe()
    deleted: Count = maybe()


class DiscardedJson(Struct):
    ours: list[str] = unless_empty()
    theirs: list[str] = unless_empty()


def _discarded(conflict: MergeConflict) -> dict[str, tuple[str, ...]] | None:
    sides: tuple[Literal["ours", "theirs"], ...] = ("ours", "theirs")
    return {side: names for side in sides if (names := conflict.discarded_by(side))} or None


def _properties(conflict: MergeConflict) -> list[Any]:
    return [property.to_json() for property in conflict.properties]


class ConflictJson(Struct, nulls=True):
    entity_kind: str
    type_name: str
    entity_id: str | None
    kind: str
    message: str
    properties: list[Any] = at(_properties)
    digest: str
    discarded_by: DiscardedJson = maybe(_discarded)


class ServedConflict(Struct, nulls=True):
    """As a reviewer needs it: with the entity as each side has it."""

    entity_kind: EntityKind
    type_name: str
    entity_id: str | None
    kind: Annotated[str, As(ref("MergeConflictKindOutput"))]
    message: str
    fields: list[str] = at(lambda conflict: [property.name for property in conflict.properties])
    properties: list[Any] = at(_properties)
    digest: str
    base: ImageJson = maybe(image_of("base", "entity_kind"))
    ours: ImageJson = maybe(image_of("ours", "entity_kind"))
    theirs: ImageJson = maybe(image_of("theirs", "entity_kind"))
    discarded_by: DiscardedJson = maybe(_discarded)


class SchemaLineJson(Struct, of="SchemaLine"):
    text: str
    line: Count


class SchemaConflictJson(Struct, of="SchemaConflict", in_full=False):
    kind: str
    entity: str
    message: str
    ours: SchemaLineJson = maybe()
    theirs: SchemaLineJson = maybe()


def _types(result: Any) -> dict[str, Any]:
    return dict(sorted(result.types.items()))


class MergeJson(Struct):
    source: str
    target: str
    outcome: str
    bases: list[str]
    source_commit: str
    target_commit: str
    changes: dict[str, TypeSummaryJson] = at(_types)
    conflicts: list[ConflictJson]
    schema_conflicts: list[SchemaConflictJson] = unless_empty()
    schema_steps: list[Any] = unless_empty("schema_steps", steps_json)
    actor_id: str = maybe(lambda result: result.commit and result.commit.actor)
    commit: CommitJson = maybe()
    dry_run: bool = unless_empty()
    hint: str = maybe()
    branch_deleted: bool = maybe()
    branch_delete_error: str = maybe()


class ServedMerge(Struct, of="MergeResult", component="Merge", nulls=True):
    source: str
    target: str
    outcome: Annotated[str, As(ref("BranchMergeOutcome"))]
    actor_id: str | None
    branch_deleted: bool = maybe()
    branch_delete_error: str = maybe()
    commit: ServedCommit = maybe()
    changes: dict[str, TypeSummaryJson] = unless_empty("types")
    bases: list[str] = maybe()
    source_commit: str = maybe()
    target_commit: str = maybe()
    schema_steps: list[Any] = unless_empty("schema_steps", steps_json, steps_value)

    DETAIL = ("bases", "source_commit", "target_commit", "schema_steps")
    """What only those who ask for full details are told."""


class MergeReview(Struct, of="MergeResult", component="MergeReview"):
    """What a merge would do."""

    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged", "conflicts"]
    dry_run: bool
    base: list[str] = at("bases")
    source_commit: str
    target_commit: str
    changes: dict[str, TypeSummaryJson] = at("types")
    conflicts: list[ServedConflict]
    schema_conflicts: list[SchemaConflictJson] = unless_empty()
    schema_steps: list[Any] = unless_empty("schema_steps", steps_json, steps_value)
    hint: str = maybe()


# Schemas: their text, and the plan of a change.


class SchemaJson(Struct, component="SchemaSource"):
    schema_source: str = at("source")
    hash: str = maybe()


class MigrationJson(Struct):
    supported: bool
    steps: list[Any] = at("steps", steps_json)


class SchemaReceiptJson(Struct):
    applied: bool = at(lambda receipt: receipt.commit is not None)
    supported: bool = at("plan.supported")
    steps: list[Any] = at("plan.steps", steps_json)
    commit: CommitJson = maybe()


class ServedSchemaReceipt(Struct, component="SchemaApply"):
    uri: str
    supported: bool = at("plan.supported")
    applied: bool = at(lambda receipt: receipt.commit is not None)
    step_count: Count = at(lambda receipt: len(receipt.plan.steps))
    graph_manifest_version: Count
    steps: list[Any] = at("plan.steps", steps_json)
    commit: ServedCommit | None = maybe()


class BrokenQueryJson(Struct):
    file: str
    query: str
    error: str
