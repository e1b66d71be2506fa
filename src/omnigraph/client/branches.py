"""The branches and tags of a served graph."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.client import decoding
from omnigraph.client.calling import checked_methods
from omnigraph.client.connection import segment
from omnigraph.client.refusals import ENGINE, no_actor, only_default
from omnigraph.client.state import COMMIT_HEADER, RemoteState, without_nulls
from omnigraph.errors import MergeConflicts
from omnigraph.graph.branches import Branch
from omnigraph.graph.distances import Distance
from omnigraph.graph.tags import Tag
from omnigraph.history import MAIN

if TYPE_CHECKING:
    from omnigraph.merge import By, MergeResult, Resolution, Strategy
    from omnigraph.pipeline.engines import Engine


@checked_methods
class RemoteBranches:
    """The branches of a served graph.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served.branches, og.RemoteBranches)
    """

    def __init__(self, state: RemoteState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<branches of {self._state.uri}>"

    def create(self, name: str, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Branch:
        """Create a branch at any revision: another branch's head, a tag, a commit, `branch~N`, a time."""
        body = without_nulls({"name": name, "from": self._state.at(revision, as_of)})
        reply = self._state.connection.send("POST", f"{self._state.path}/branches", body=body, repeat="unsent")
        return Branch(name, self._state.commit(reply.headers[COMMIT_HEADER]))

    def list(self) -> list[Branch]:
        """The branches, main first, then by name."""
        details = self._state.get("/branches", detail=True).json()["details"]
        branches = [Branch(detail["name"], decoding.commit(detail["head"])) for detail in details]
        return sorted(branches, key=lambda branch: (branch.name != MAIN, branch.name))

    def distances(self) -> dict[str, Distance]:
        """By branch: how many commits it has that main does not have, and the reverse."""
        details = self._state.get("/branches", detail=True).json()["details"]
        return {detail["name"]: Distance(detail["ahead"], detail["behind"]) for detail in details}

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a branch. BranchNotMerged if it has commits that no other branch or tag reaches, unless `force`."""
        path = f"{self._state.path}/branches/{segment(name)}"
        self._state.connection.send("DELETE", path, query={"force": force}, repeat="unsent")

    def exists(self, name: str) -> bool:
        """Whether there is such a branch now."""
        return name in self._state.get("/branches").json()["branches"]

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        strategy: Strategy = "fail",
        by: By = "row",
        dry_run: bool = False,
        delete_branch: bool = False,
        actor: str | None = None,
        message: str | None = None,
        resolutions: Sequence[Resolution] = (),
        expect: tuple[str, str] | None = None,
        engine: Engine = "local",
    ) -> MergeResult:
        """Bring a branch's changes into another, as one commit with two parents. MergeConflicts, with every conflict, if the
        branches contradict each other."""
        from omnigraph.merge.resolutions import check_resolutions

        no_actor(actor)
        only_default("engine", engine, "local", ENGINE)
        body = {
            "source": source,
            "target": into,
            "strategy": strategy,
            "by": by,
            "dry_run": dry_run,
            "delete_branch": delete_branch,
            "message": message,
            "resolutions": [check_resolution.to_json() for check_resolution in check_resolutions(resolutions)] or None,
            "expect": None if expect is None else {"source": expect[0], "target": expect[1]},
        }
        path = f"{self._state.path}/branches/merge"
        try:
            value = self._state.connection.send("POST", path, body=without_nulls(body), repeat="unsent").json()
        except MergeConflicts as error:
            self._type_values(error, into)
            raise
        has_values = any(conflict.get("properties") for conflict in value.get("conflicts", ()))
        return decoding.merge_result(value, self._state.catalog(into) if has_values else None)

    def _type_values(self, error: MergeConflicts, target: str) -> None:
        """Convert the values in conflict to the types that the target's schema declares."""
        if any(conflict.properties for conflict in error.conflicts):
            catalog = self._state.catalog(target)
            error.conflicts = tuple(
                decoding.merge_conflict(conflict.to_json(), catalog) for conflict in error.conflicts
            )


@checked_methods
class RemoteTags:
    """The tags of a served graph.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served.tags, og.RemoteTags)
    """

    def __init__(self, state: RemoteState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<tags of {self._state.uri}>"

    def create(self, name: str, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Tag:
        """Name the commit of a revision. AlreadyExists if a branch or another tag has the name."""
        body = {"name": name, "at": self._state.at(revision, as_of) or MAIN}
        reply = self._state.connection.send("POST", f"{self._state.path}/tags", body=body, repeat="unsent")
        return self._tag(reply.json())

    def list(self) -> list[Tag]:
        """The tags, by name."""
        return [self._tag(tag) for tag in self._state.get("/tags").json()["tags"]]

    def delete(self, name: str) -> None:
        """Remove a tag; its commit stays."""
        self._state.connection.send("DELETE", f"{self._state.path}/tags/{segment(name)}", repeat="unsent")

    def _tag(self, value: dict[str, Any]) -> Tag:
        return Tag(value["name"], self._state.commit(value["graph_commit_id"]))
