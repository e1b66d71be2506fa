"""The plan of a write: what it changes and what it relied on. A plain value, made against one pinned snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from omnigraph.history.encoding import entry_from_json, entry_to_json
from omnigraph.history.values import (
    CommitKind,
    CommitRef,
    Entry,
    Snapshot,
    TableState,
    WriteKey,
    decode_ref,
    encode_ref,
)

ChangeMode = Literal["insert", "upsert", "strict", "merge", "rewrite"]
""""rewrite" stores the same rows in another way, and can be put on whatever others make of the table."""


@dataclass(frozen=True)
class TableChange:
    """One table's new state. `staged` is the writer's own note of what it staged, for putting it elsewhere."""

    key: str
    mode: ChangeMode
    base: TableState | None
    state: TableState | None
    staged: Mapping[str, Any] = field(default_factory=dict)

    @property
    def noted(self) -> TableState | None:
        """The version that the loader's note names: it holds the new rows alone, from which they are put on a newer head."""
        if "version" not in self.staged:
            return None
        return TableState(self.staged["path"], self.staged["version"], 0, self.staged["rows"])

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "mode": self.mode,
            "base": self.base and self.base.to_json(),
            "state": self.state and self.state.to_json(),
            "staged": dict(self.staged),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableChange:
        return cls(
            value["key"],
            value["mode"],
            value["base"] and TableState.from_json(value["base"]),
            value["state"] and TableState.from_json(value["state"]),
            value["staged"],
        )


LONG_AGO = float("-inf")


@dataclass
class PublishPlan:
    """Everything a publish needs; a value that can be stored and published by another process. Nobody changes one: it is not frozen
    because every small write makes one, and the fields of a frozen one are set four times as slowly.

    `reads` names tables whose rows the plan relied on (endpoints, incident edges): it is checked again when they move.
    """

    commit_id: str
    branch: str
    incarnation: str
    base: CommitRef
    schema: str
    changes: tuple[TableChange, ...]
    reads: tuple[str, ...] = ()
    read_states: Mapping[str, TableState | None] = field(default_factory=dict)
    kind: CommitKind = "mutation"
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    once: WriteKey | None = None
    """A write that the branch has a commit of already, under this key, is answered with that."""
    merged: CommitRef | None = None
    new_schema: str | None = None
    """The schema after this commit, when it changes."""
    opening: Entry | None = None
    """The entry that makes the branch, as it stands without this plan's commit. It is used if the branch is not there when the
    plan is published; one that is there by then is written like any other, unless it has to be a `new_branch`."""
    new_branch: bool = False
    unsynced: tuple[str, ...] = field(default=(), compare=False)
    """Local files that the plan names and that must be durable before it may be seen. Not stored: what is stored is durable."""
    staged_since: float | None = field(default=None, compare=False)
    """By this process's clock: nothing that the plan names, and neither a commit nor the plan as it is stored does, is older.
    None: it was staged just now."""
    kept_since: float | None = field(default=None, compare=False)
    """By this process's clock: the plan was stored as a prepared one, which protects what it names. None: it is not prepared;
    LONG_AGO: by somebody else, and it may be removed any time."""

    def bases(self) -> dict[str, TableState | None]:
        """Each table that the plan changes or has read, as the plan knows it."""
        read = {key: self.read_states.get(key) for key in self.reads}
        return read | {change.key: change.base for change in self.changes}

    @property
    def has_inline_rows(self) -> bool:
        """Whether a state that the plan names has rows in commits."""
        states = [*self.bases().values(), *(change.state for change in self.changes)]
        states += [] if self.opening is None else self.opening.before.tables.values()
        return any(state is not None and state.inline for state in states)

    def staged(self, changes: tuple[TableChange, ...], unsynced: tuple[str, ...]) -> PublishPlan:
        """The plan with what was staged for it. Made for every attempt of every small write, so nothing is checked again."""
        plan = object.__new__(PublishPlan)
        plan.__dict__.update(self.__dict__, changes=changes, unsynced=unsynced)
        return plan

    def on(self, snapshot: Snapshot) -> PublishPlan:
        """The plan as one that was made, and checked, on this snapshot."""
        states = {key: snapshot.table(key) for key in self.reads}
        return replace(self, base=snapshot.commit.ref, schema=snapshot.schema, read_states=states)

    def to_json(self) -> dict[str, Any]:
        value = {
            **{name: getattr(self, name) for name in (*_REQUIRED, *_OPTIONAL)},
            "base": encode_ref(self.base),
            "changes": [change.to_json() for change in self.changes],
            "reads": list(self.reads),
            "read_states": {key: state and state.to_json() for key, state in self.read_states.items()},
            "merged": self.merged and encode_ref(self.merged),
            "opening": self.opening and entry_to_json(self.opening),
            "once": self.once and self.once.to_json(),
        }
        return {name: member for name, member in value.items() if member not in (None, False)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PublishPlan:
        merged, opening, once = value.get("merged"), value.get("opening"), value.get("once")
        return cls(
            **{name: value[name] for name in _REQUIRED},
            **{name: value[name] for name in _OPTIONAL if name in value},
            base=decode_ref(value["base"]),
            changes=tuple(TableChange.from_json(change) for change in value["changes"]),
            reads=tuple(value["reads"]),
            read_states={key: state and TableState.from_json(state) for key, state in value["read_states"].items()},
            merged=merged and decode_ref(merged),
            opening=opening and entry_from_json(opening),
            once=once and WriteKey.from_json(once),
        )


_REQUIRED = ("commit_id", "branch", "incarnation", "schema", "kind")
_OPTIONAL = ("actor", "message", "if_commit", "new_schema", "new_branch")
"""Members that are stored as they are, and those of them that may be absent."""
