"""Changes of a diff, of a commit and of a feed, and the baseline from which a feed continues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from omnigraph.history.values import Commit, to_microseconds
from omnigraph.values.arrow import Entity
from omnigraph.values.json_values import json_value
from omnigraph.wire.members import JsonObject, present

if TYPE_CHECKING:
    from omnigraph.changes.baseline import Baseline
    from omnigraph.changes.entity_changes import EntityChange, TypeChanges
    from omnigraph.changes.feed import CommitChanges, CommitPage, FeedPage


def change_json(change: EntityChange) -> JsonObject:
    """{kind, type: {id, name}, id, op, before?, after?}, each image {properties, endpoints?}."""
    return present(
        {
            "kind": change.kind,
            "type": {"id": change.type_id, "name": change.type_name},
            "id": change.id,
            "op": change.op,
            "before": image_json(change.kind, change.before),
            "after": image_json(change.kind, change.after),
        }
    )


def image_json(kind: str, entity: Entity | None) -> JsonObject | None:
    """{properties, endpoints?}; None for an entity that does not exist."""
    if entity is None:
        return None
    value = json_value(entity)
    ends = ("from", "to") if kind == "edge" else ()
    image = {"properties": {name: item for name, item in value.items() if name not in ("id", *ends)}}
    return image | ({"endpoints": {end: value[end] for end in ends}} if ends else {})


def diff_json(a: str, b: str, changes: Iterable[EntityChange]) -> JsonObject:
    return {"from": a, "to": b, "changes": [change_json(change) for change in changes]}


def counts_json(counts: TypeChanges) -> JsonObject:
    """{kind, type, inserts, updates, deletes}."""
    return {
        "kind": counts.kind,
        "type": counts.type_name,
        "inserts": counts.inserts,
        "updates": counts.updates,
        "deletes": counts.deletes,
    }


def commit_page_json(page: CommitPage) -> JsonObject:
    """{cause, schema_steps?, changes, next_page_token?}."""
    return present({**_block(page), "next_page_token": page.next_page_token})


def feed_json(page: FeedPage) -> JsonObject:
    """{blocks: [{cause, schema_steps?, changes}], next_page_token?, cursor?, caught_up?}."""
    return present(
        {
            "blocks": [_block(block) for block in page.blocks],
            "next_page_token": page.next_page_token,
            "cursor": page.cursor,
            "caught_up": page.caught_up,
        }
    )


def _block(block: CommitChanges) -> JsonObject:
    """The changes of one commit; steps of a schema change are as in a plan."""
    from omnigraph.language.schema.migration_steps import step_json

    return present(
        {
            "cause": _cause(block.commit),
            "schema_steps": [step_json(step) for step in block.schema_steps] or None,
            "changes": [change_json(change) for change in block.changes],
        }
    )


def _cause(commit: Commit) -> JsonObject:
    """The commit behind changes."""
    return present(
        {
            "graph_commit_id": commit.id,
            "parent_commit_id": commit.parent and commit.parent.id,
            "merged_parent_commit_id": commit.merged and commit.merged.id,
            "authored_branch": commit.ref.branch,
            "authored_at": to_microseconds(commit.at),
            "actor_id": commit.actor,
        }
    )


def baseline_json(baseline: Baseline) -> JsonObject:
    """{entities, snapshot_commit_id, resume_cursor}."""
    return {
        "entities": baseline.entities,
        "snapshot_commit_id": baseline.snapshot_commit_id,
        "resume_cursor": baseline.resume_cursor,
    }
