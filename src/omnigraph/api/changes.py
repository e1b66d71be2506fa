"""Changes of a diff, of a commit and of a feed, and the baseline from which a feed continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from omnigraph.api.structs import As, Count, EntityKind, JsonObject, Microseconds, Struct, at, maybe, ref, unless_empty

if TYPE_CHECKING:
    from omnigraph.values.arrow import Entity

ChangeOp: TypeAlias = Annotated[str, As(ref("ChangeOpOutput"))]


class EndsJson(Struct, renamed={"from_": "from"}):
    from_: str = at("from")
    to: str


class ImageJson(Struct, component="ChangeImage"):
    properties: Any
    endpoints: EndsJson = maybe()


def image_json(kind: str, entity: Entity | None) -> JsonObject | None:
    """None for an entity that does not exist."""
    from omnigraph.values.json_values import json_value

    if entity is None:
        return None
    value = json_value(entity)
    ends = ("from", "to") if kind == "edge" else ()
    image = {"properties": {name: item for name, item in value.items() if name not in ("id", *ends)}}
    return image | ({"endpoints": {end: value[end] for end in ends}} if ends else {})


def image_of(side: str, kind: str = "kind") -> Callable[[Any], JsonObject | None]:
    """Reads the image of one side from what has several."""
    return lambda change: image_json(getattr(change, kind), getattr(change, side))


class TypeJson(Struct):
    id: str = at("type_id")
    name: str = at("type_name")


class ChangeJson(Struct, component="ChangeItem"):
    kind: EntityKind
    type: TypeJson = at(lambda change: change)
    id: str
    op: ChangeOp
    before: ImageJson = maybe(image_of("before"))
    after: ImageJson = maybe(image_of("after"))


class DiffJson(Struct, renamed={"from_": "from"}):
    from_: str
    to: str
    changes: list[ChangeJson]


class CountsJson(Struct):
    kind: str
    type: str = at("type_name")
    inserts: Count
    updates: Count
    deletes: Count


class CauseJson(Struct, component="Cause"):
    """The commit behind changes."""

    graph_commit_id: str = at("id")
    parent_commit_id: str = maybe(lambda commit: commit.parent and commit.parent.id)
    merged_parent_commit_id: str = maybe(lambda commit: commit.merged and commit.merged.id)
    authored_branch: str = at("ref.branch")
    authored_at: Microseconds = at("_at_us")
    actor_id: str = maybe("actor")


def steps_json(steps: tuple[Any, ...]) -> list[JsonObject]:
    """The steps of a schema change, as in a plan."""
    from omnigraph.language.schema.migration_steps import step_json

    return [step_json(step) for step in steps]


def steps_value(steps: list[JsonObject]) -> tuple[Any, ...]:
    from omnigraph.language.schema.migration_steps import step_from_json

    return tuple(step_from_json(step) for step in steps)


class BlockJson(Struct):
    """The changes of one commit in a feed."""

    cause: CauseJson = at("commit")
    schema_steps: list[Any] = unless_empty("schema_steps", steps_json, steps_value)
    changes: list[ChangeJson]


class CommitChangesJson(Struct, component="CommitChanges"):
    cause: CauseJson = at("commit")
    next_page_token: str = maybe()
    schema_steps: list[Any] = unless_empty("schema_steps", steps_json, steps_value)
    changes: list[ChangeJson]


class FeedJson(Struct, component="ChangeFeed"):
    blocks: list[BlockJson]
    next_page_token: str = maybe()
    cursor: str = maybe()
    caught_up: bool = maybe()


class BaselineJson(Struct):
    entities: Count
    snapshot_commit_id: str
    resume_cursor: str
