"""Commits, snapshots, tags, prepared writes, and the version of the program."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.api.structs import Count, EntityKind, Microseconds, Struct, at, maybe
from omnigraph.features import FORMAT
from omnigraph.version import VERSION

if TYPE_CHECKING:
    from omnigraph.history.values import Commit

UNKNOWN_POSITION = -1
"""A server does not reveal the position of a commit in the chain."""


def _branch(commit: Commit) -> str | None:
    """None stands for main."""
    return None if commit.ref.branch == "main" else commit.ref.branch


class CommitJson(Struct, of="Commit", brief=True):
    graph_commit_id: str = at("ref.id")
    graph_branch: str | None = at(_branch)
    graph_version: Count = at("ref.seq")
    parent_commit_id: str | None = at(lambda commit: commit.parent and commit.parent.id)
    merged_parent_commit_id: str | None = at(lambda commit: commit.merged and commit.merged.id)
    actor_id: str | None = at("actor")
    created_at: Microseconds = at("_at_us")
    kind: str
    message: str = maybe()


class ServedCommit(
    CommitJson, component="Commit", nulls=True, brief=True, renamed={"graph_version": "graph_manifest_version"}
):
    kind: str = maybe()

    @classmethod
    def from_json(cls, members: Mapping[str, Any], /, **_extra: Any) -> Commit:
        """A server gives only the ids of the parents."""
        from omnigraph.history.chain import MAIN
        from omnigraph.history.values import Commit, CommitRef

        def named(id: str, branch: str, seq: int) -> CommitRef:
            return CommitRef(id, branch, "", seq, UNKNOWN_POSITION)

        seq = members["graph_manifest_version"]
        parents = [members.get("parent_commit_id"), members.get("merged_parent_commit_id")]
        return Commit(
            ref=named(members["graph_commit_id"], members.get("graph_branch") or MAIN, seq),
            parents=tuple(named(id, "", UNKNOWN_POSITION if at else seq - 1) for at, id in enumerate(parents) if id),
            kind=members.get("kind", "mutation"),
            _at_us=members["created_at"],
            actor=members.get("actor_id"),
            message=members.get("message"),
        )


class TableJson(Struct):
    entity_kind: str = at("kind")
    type_name: str = at("name")
    table_path: str = at("path")
    table_version: Count = at("version")
    entity_count: Count = at("entities")


class SnapshotJson(Struct):
    revision: str
    graph_commit_id: str = at("commit.id")
    graph_version: Count = at("commit.ref.seq")
    format: int = at(lambda _: FORMAT)
    tables: list[TableJson] = at("types")


class ServedTable(Struct, nulls=True):
    entity_kind: EntityKind = at("kind")
    type_name: str = at("name")
    dataset_path: str = at("path")
    published_dataset_version: Count = at("version")
    native_dataset_branch: str | None = at(lambda _: None)
    entity_count: Count = at("entities")


class ServedSnapshot(Struct, component="Snapshot"):
    graph_branch: str
    graph_manifest_version: Count = at("commit.ref.seq")
    internal_schema_version: int = at(lambda _: FORMAT)
    graph_commit_id: str = maybe("commit.id")
    datasets: list[ServedTable] = at("types")


class TagJson(Struct, component="Tag"):
    name: str
    graph_commit_id: str = at("head.id")
    graph_branch: str = at("head.ref.branch")


def _microseconds(at: dt.datetime) -> int:
    from omnigraph.history.values import to_microseconds

    return to_microseconds(at)


def _instant(microseconds: int) -> dt.datetime:
    from omnigraph.history.values import from_microseconds

    return from_microseconds(microseconds)


PreparedState = Literal["resumable", "published", "moot", "provisional", "damaged"]


class PreparedJson(Struct, of="PreparedWrite", nulls=True):
    graph_commit_id: str = at("commit_id")
    branch: str | None
    kind: str | None
    prepared_at: int = at("at", _microseconds, _instant)
    total_entities: Count
    actor_id: str | None = at("actor")
    state: PreparedState


class VersionJson(Struct):
    """The program's version and the storage format that it writes."""

    omnigraph: str = at(lambda _: VERSION)
    format: int = at(lambda _: FORMAT)
