"""The values of history: what a commit object holds. All frozen; all read and written as JSON.

An *entry* is one object of a branch's chain: the snapshot before it, and the commits it adds (one, or several that were
published together). A branch that was deleted and made again is a new *incarnation* of its name, so an old commit of it
is never mistaken for a new one. `seq` counts commits along first parents, across branches.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from omnigraph.history.times import from_microseconds

FORMAT = 1

CommitKind = Literal["init", "mutation", "load", "merge", "schema", "optimize"]


@dataclass(frozen=True)
class TableState:
    """One table as a snapshot sees it: `version` is the stored version, `generation` the small number shown to users."""

    path: str
    version: int
    generation: int
    rows: int

    def to_json(self) -> list[Any]:
        return [self.path, self.version, self.generation, self.rows]

    @classmethod
    def from_json(cls, value: list[Any]) -> TableState:
        return cls(*value)


@dataclass(frozen=True)
class CommitRef:
    """Where a commit is: enough to read it with one request."""

    id: str
    branch: str
    incarnation: str
    seq: int
    position: int

    def to_json(self) -> list[Any]:
        return [self.id, self.branch, self.incarnation, self.seq, self.position]

    @classmethod
    def from_json(cls, value: list[Any]) -> CommitRef:
        return cls(*value)


@dataclass(frozen=True)
class Commit:
    """A commit record. `at_us`, in microseconds since the epoch, grows along a branch."""

    ref: CommitRef
    parents: tuple[CommitRef, ...]
    kind: CommitKind
    at_us: int
    actor: str | None = None
    message: str | None = None

    @property
    def id(self) -> str:
        return self.ref.id

    @property
    def at(self) -> dt.datetime:
        """When it was made, in UTC."""
        return from_microseconds(self.at_us)

    @property
    def parent(self) -> CommitRef | None:
        return self.parents[0] if self.parents else None

    @property
    def merged(self) -> CommitRef | None:
        """The second parent of a merge."""
        return self.parents[1] if len(self.parents) > 1 else None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "ref": self.ref.to_json(),
            "parents": [parent.to_json() for parent in self.parents],
            "kind": self.kind,
            "at": self.at_us,
        }
        if self.actor is not None:
            value["actor"] = self.actor
        if self.message is not None:
            value["message"] = self.message
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Commit:
        return cls(
            CommitRef.from_json(value["ref"]),
            tuple(CommitRef.from_json(parent) for parent in value["parents"]),
            value["kind"],
            value["at"],
            value.get("actor"),
            value.get("message"),
        )


@dataclass(frozen=True)
class Snapshot:
    """One state of the whole graph: every table at a version, and the schema that describes them."""

    commit: Commit
    schema: str
    tables: Mapping[str, TableState]

    def table(self, key: str) -> TableState | None:
        """None: the type has no rows yet, and no table."""
        return self.tables.get(key)


@dataclass(frozen=True)
class CommitStep:
    """What one commit of an entry changed: tables that are new or moved (None: dropped), and the schema after it."""

    commit: Commit
    schema: str
    tables: Mapping[str, TableState | None]

    def to_json(self) -> dict[str, Any]:
        return {
            "commit": self.commit.to_json(),
            "schema": self.schema,
            "tables": {key: state and state.to_json() for key, state in sorted(self.tables.items())},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CommitStep:
        tables = {key: state and TableState.from_json(state) for key, state in value["tables"].items()}
        return cls(Commit.from_json(value["commit"]), value["schema"], tables)


@dataclass(frozen=True)
class Segment:
    """A rolled-up run of older commit records, and what it holds, so that a search opens only the right ones."""

    key: str
    level: int
    count: int
    first_seq: int
    last_seq: int
    min_id: str
    max_id: str
    first_at: int
    last_at: int

    def to_json(self) -> list[Any]:
        return list(self.__dict__.values())

    @classmethod
    def from_json(cls, value: list[Any]) -> Segment:
        return cls(*value)


@dataclass(frozen=True)
class Ancestry:
    """Every incarnation reachable from a commit, with the highest `seq` reached on it: `covers` is "is an ancestor of".

    An incarnation is a chain, so what is reachable on it is always a prefix. Beyond ANCESTRY_INLINE incarnations the older part is
    stored apart under `stored` and `reached` holds only what changed since.
    """

    reached: Mapping[str, int] = field(default_factory=dict)
    stored: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"reached": dict(sorted(self.reached.items())), "stored": self.stored}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Ancestry:
        return cls(value["reached"], value["stored"])


Op = Literal["commit", "create", "delete"]


@dataclass(frozen=True)
class Entry:
    """One object of a branch's chain. `before` is the snapshot it starts from, `steps` the commits it adds.

    "create" opens an incarnation of the branch at `before` (a commit of another branch); "delete" closes it; both add no commit.
    """

    id: str
    op: Op
    branch: str
    incarnation: str
    position: int
    before: Snapshot
    steps: tuple[CommitStep, ...]
    ancestry: Ancestry
    tail: tuple[Commit, ...] = ()
    """Recent commit records before this entry, oldest first, beyond what `segments` hold."""
    segments: tuple[Segment, ...] = ()

    @property
    def alive(self) -> bool:
        return self.op != "delete"

    @property
    def head(self) -> Snapshot:
        return self.snapshots()[-1] if self.steps else self.before

    def snapshots(self) -> tuple[Snapshot, ...]:
        """The snapshot after each commit of this entry."""
        result = []
        current = self.before
        for step in self.steps:
            current = apply_step(current, step)
            result.append(current)
        return tuple(result)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "id": self.id,
            "op": self.op,
            "branch": self.branch,
            "incarnation": self.incarnation,
            "position": self.position,
            "schema": self.before.schema,
            "tables": {key: state.to_json() for key, state in sorted(self.before.tables.items())},
            "base": self.before.commit.to_json(),
            "steps": [step.to_json() for step in self.steps],
            "ancestry": self.ancestry.to_json(),
            "tail": [commit.to_json() for commit in self.tail],
            "segments": [segment.to_json() for segment in self.segments],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Entry:
        before = Snapshot(
            Commit.from_json(value["base"]),
            value["schema"],
            {key: TableState.from_json(state) for key, state in value["tables"].items()},
        )
        return cls(
            id=value["id"],
            op=value["op"],
            branch=value["branch"],
            incarnation=value["incarnation"],
            position=value["position"],
            before=before,
            steps=tuple(CommitStep.from_json(step) for step in value["steps"]),
            ancestry=Ancestry.from_json(value["ancestry"]),
            tail=tuple(Commit.from_json(commit) for commit in value["tail"]),
            segments=tuple(Segment.from_json(segment) for segment in value["segments"]),
        )


def apply_step(snapshot: Snapshot, step: CommitStep) -> Snapshot:
    tables = dict(snapshot.tables)
    for key, state in step.tables.items():
        if state is None:
            tables.pop(key, None)
        else:
            tables[key] = state
    return Snapshot(step.commit, step.schema, tables)
