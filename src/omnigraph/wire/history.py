"""Commits, snapshots, tags and prepared writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.features import FORMAT
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit, to_microseconds
from omnigraph.wire.members import JsonObject, present

if TYPE_CHECKING:
    from omnigraph.graph.branches import Tag
    from omnigraph.graph.maintenance import PreparedWrite
    from omnigraph.graph.reading import GraphSnapshot


def commit_json(commit: Commit) -> JsonObject:
    """{graph_commit_id, graph_branch?, graph_version, parent_commit_id?, merged_parent_commit_id?, actor_id?, created_at,
    kind, message?}; no branch is main, and the time is in microseconds."""
    return present(
        {
            "graph_commit_id": commit.id,
            "graph_branch": None if commit.ref.branch == MAIN else commit.ref.branch,
            "graph_version": commit.ref.seq,
            "parent_commit_id": commit.parent and commit.parent.id,
            "merged_parent_commit_id": commit.merged and commit.merged.id,
            "actor_id": commit.actor,
            "created_at": to_microseconds(commit.at),
            "kind": commit.kind,
            "message": commit.message,
        }
    )


def snapshot_json(revision: str, snapshot: GraphSnapshot) -> JsonObject:
    """{revision, graph_commit_id, graph_version, format, tables: [{entity_kind, type_name, table_path, table_version,
    entity_count}]}."""
    return {
        "revision": revision,
        "graph_commit_id": snapshot.commit.id,
        "graph_version": snapshot.commit.ref.seq,
        "format": FORMAT,
        "tables": [
            {
                "entity_kind": type.kind,
                "type_name": type.name,
                "table_path": type.path,
                "table_version": type.version,
                "entity_count": type.entities,
            }
            for type in snapshot.types
        ],
    }


def tag_json(tag: Tag) -> JsonObject:
    """{name, graph_commit_id, graph_branch}."""
    return {"name": tag.name, "graph_commit_id": tag.head.id, "graph_branch": tag.head.ref.branch}


def prepared_json(write: PreparedWrite) -> JsonObject:
    """{graph_commit_id, branch, kind, prepared_at, total_entities, actor_id, state}; the time is in microseconds."""
    return {
        "graph_commit_id": write.commit_id,
        "branch": write.branch,
        "kind": write.kind,
        "prepared_at": to_microseconds(write.at),
        "total_entities": write.total_entities,
        "actor_id": write.actor,
        "state": write.state,
    }
