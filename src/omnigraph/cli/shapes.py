"""The JSON shapes of commands, in the words of the documented interface. What is not there is left out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.history import MAIN, Commit

if TYPE_CHECKING:
    from omnigraph.graph import GraphSnapshot


def present(value: Mapping[str, Any]) -> dict[str, Any]:
    """Without the members that are null."""
    return {name: item for name, item in value.items() if item is not None}


def commit_shape(commit: Commit) -> dict[str, Any]:
    return present(
        {
            "graph_commit_id": commit.id,
            "graph_branch": None if commit.ref.branch == MAIN else commit.ref.branch,
            "graph_version": commit.ref.seq,
            "parent_commit_id": commit.parent and commit.parent.id,
            "merged_parent_commit_id": commit.merged and commit.merged.id,
            "actor_id": commit.actor,
            "created_at": commit.at_us,
            "kind": commit.kind,
            "message": commit.message,
        }
    )


def time_text(at: dt.datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")


def snapshot_shape(revision: str, snapshot: GraphSnapshot, format: int) -> dict[str, Any]:
    return {
        "revision": revision,
        "graph_commit_id": snapshot.commit.id,
        "graph_version": snapshot.commit.ref.seq,
        "format": format,
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
