"""The JSON shapes of commands, in the words of the documented interface. What is not there is left out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from omnigraph.history import MAIN, Commit
from omnigraph.views import View


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
            "created_at": commit.at,
            "kind": commit.kind,
            "message": commit.message,
        }
    )


def time_text(at_us: int) -> str:
    return dt.datetime.fromtimestamp(at_us / 1_000_000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def snapshot_shape(branch: str, view: View, format: int) -> dict[str, Any]:
    entries = []
    for key, entity in view.catalog.tables.items():
        state = view.state(key)
        entries.append(
            {
                "entity_kind": key.partition(":")[0],
                "type_name": entity.name,
                "table_path": view.path(key),
                "table_version": state.generation if state else 0,
                "entity_count": state.rows if state else 0,
            }
        )
    commit = view.snapshot.commit
    return {
        "graph_branch": branch,
        "graph_commit_id": commit.id,
        "graph_version": commit.ref.seq,
        "format": format,
        "tables": entries,
    }
