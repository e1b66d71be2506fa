"""The plan of a write: what it changes and what it relied on. A plain value, made against one pinned snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import (
    Damaged,
    NotFound,
    ObjectMissing,
    OmnigraphError,
    StorageError,
    StorageTransient,
    UsageError,
)
from omnigraph.features import INLINE_ROWS, PROVISIONAL_PLANS, WRITE_KEYS
from omnigraph.history.encoding import entry_from_json, entry_to_json
from omnigraph.history.envelope import read_as, seal, unseal
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
from omnigraph.storage.store import Store

# Actor and message of a commit: texts that callers pass, checked where they enter.

MAX_ACTOR_LENGTH = 256
MAX_MESSAGE_BYTES = 64 * 1024


def check_attribution(actor: object, message: object = None) -> None:
    """UsageError unless these fit in a commit record: text of bounded length that can be encoded in UTF-8, or None."""
    if actor is not None:
        text = _text("actor", actor)
        if not 0 < len(text) <= MAX_ACTOR_LENGTH:
            hint = f"an actor is a name of 1 to {MAX_ACTOR_LENGTH} characters"
            raise UsageError(f"the actor has {len(text)} characters", hint=hint)
    if message is not None:
        size = len(_text("message", message).encode())
        if size > MAX_MESSAGE_BYTES:
            raise UsageError(f"the message has {size} bytes", hint=f"a message takes up to {MAX_MESSAGE_BYTES} bytes")


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"the {what} must be text, got {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the {what} cannot be encoded in UTF-8: character {error.start + 1} is half of a surrogate pair"
        ) from None
    return value


ChangeMode = Literal["insert", "upsert", "rerun", "strict", "merge", "rewrite"]
""""rerun" is the effect of statements that are run again if the table has changed. "rewrite" stores the same rows in another way,
and can be rebased on any change of the table."""


@dataclass(frozen=True)
class TableChange:
    """One table's new state. `staged` is the writer's own note of what it staged, for a rebase."""

    key: str
    mode: ChangeMode
    base: TableState | None
    state: TableState | None
    staged: Mapping[str, Any] = field(default_factory=dict)

    @property
    def noted(self) -> TableState | None:
        """The version that the loader's note names. It has only the new rows, from which they are added to a newer head."""
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
    """Everything a publish needs; a value that can be stored and published by another process. Never changed: it is not frozen
    only because every small write makes one, and setting the fields of a frozen dataclass takes four times as long.

    `reads` names tables whose rows the plan relied on (endpoints, incident edges): the plan is checked again if they have changed.
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
    """The write key: if the branch has a commit under it already, that commit is the answer."""
    merged: CommitRef | None = None
    new_schema: str | None = None
    """The schema after this commit, if it changes."""
    opening: Entry | None = None
    """The entry that creates the branch, without this plan's commit. It is used if the branch does not exist when the plan is
    published; a branch that exists by then is written to like any other, unless it must be a `new_branch`."""
    new_branch: bool = False
    unsynced: tuple[str, ...] = field(default=(), compare=False)
    """Local files that the plan names and that must be durable before it is visible. Not stored: the files of a stored plan are
    durable."""
    staged_since: float | None = field(default=None, compare=False)
    """By this process's clock: no file that only this plan names is older. None if it was staged just now."""
    kept_since: float | None = field(default=None, compare=False)
    """By this process's clock: when the plan was stored as a prepared plan, which protects what it names. None if it is not
    prepared; LONG_AGO if another process stored it, so that it may be removed at any time."""

    def bases(self) -> dict[str, TableState | None]:
        """The state of each table that the plan changes or has read, as the plan knows it."""
        read = {key: self.read_states.get(key) for key in self.reads}
        return read | {change.key: change.base for change in self.changes}

    @property
    def has_inline_rows(self) -> bool:
        """Whether a state that the plan names has inline rows."""
        states = [*self.bases().values(), *(change.state for change in self.changes)]
        states += [] if self.opening is None else self.opening.before.tables.values()
        return any(state is not None and state.inline for state in states)

    def staged(self, changes: tuple[TableChange, ...], unsynced: tuple[str, ...]) -> PublishPlan:
        """The plan with what was staged for it. Called for every attempt of every small write, so nothing is checked again."""
        plan = object.__new__(PublishPlan)
        plan.__dict__.update(self.__dict__, changes=changes, unsynced=unsynced)
        return plan

    def on(self, snapshot: Snapshot) -> PublishPlan:
        """The plan as if it was made and checked on this snapshot."""
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
"""Members that are stored unchanged; the optional ones may be absent."""


# Prepared plans of long writes: kept from the end of staging to the publish, so that a crash in between costs seconds.
#
# Opening a graph does not look for them. Publishing a plan twice is harmless: its commit id is looked up in the chain first.


@dataclass(frozen=True)
class PreparedPlan:
    """A stored plan, and the receipt that its writer would have returned."""

    plan: PublishPlan
    prepared_at: int
    receipt: Mapping[str, Any]
    provisional: bool = False
    """Whether its writer has not checked yet that the files it names exist."""

    @property
    def commit_id(self) -> str:
        return self.plan.commit_id


@dataclass(frozen=True)
class DamagedPlan:
    """A stored plan that cannot be read. It is never published, and protects nothing from cleanup."""

    commit_id: str
    written_at: int


class Recovery:
    def __init__(self, store: Store) -> None:
        self.store = store

    def keep(self, prepared: PreparedPlan, check: Callable[[], None]) -> None:
        """Store a plan, which from then on protects what it names from cleanup. Then `check` is called, which raises if a cleanup
        may have removed something before. Until it is checked, the plan is provisional and is not published by others."""
        key = recovery_key(prepared.commit_id)
        value = {
            "plan": prepared.plan.to_json(),
            "prepared_at": prepared.prepared_at,
            "receipt": dict(prepared.receipt),
        }
        features = [
            *([] if prepared.plan.once is None else [WRITE_KEYS]),
            *([INLINE_ROWS] if prepared.plan.has_inline_rows else []),
        ]
        self._put(key, seal({**value, "provisional": True}, (*features, PROVISIONAL_PLANS)))
        reach(Failpoint.RECOVERY_PLAN_PROVISIONAL)
        try:
            check()
        except OmnigraphError:
            with contextlib.suppress(StorageError):
                self.store.delete(key)
            raise
        self._put(key, seal(value, features))
        reach(Failpoint.RECOVERY_PLAN_WRITTEN)

    def _put(self, key: str, data: bytes) -> None:
        try:
            self.store.put(key, data)
        except StorageTransient as error:
            error.outcome = (
                "not_committed"  # Whether or not the plan is there: its writer publishes it only afterwards.
            )
            raise

    def remove(self, commit_id: str) -> None:
        reach(Failpoint.RECOVERY_BEFORE_REMOVE)
        self.store.delete(recovery_key(commit_id))

    def get(self, commit_id: str) -> PreparedPlan:
        try:
            return self.read(recovery_key(commit_id))
        except ObjectMissing:
            raise NotFound(
                f"there is no prepared write {commit_id}", hint="`omnigraph recovery` shows all of them"
            ) from None

    def read(self, key: str) -> PreparedPlan:
        """The prepared write stored under a key; ObjectMissing if there is none."""
        data = self.store.get(key)
        commit_id = key.rsplit("/", 1)[1].removesuffix(".json")
        affected = f"the prepared write cannot be resumed: 'omnigraph recovery {commit_id} --discard', and write again"
        value = unseal(key, data, affected)
        return read_as(
            key,
            lambda: PreparedPlan(
                PublishPlan.from_json(value["plan"]),
                value["prepared_at"],
                value["receipt"],
                value.get("provisional", False),
            ),
            affected,
        )

    def list(self) -> Sequence[PreparedPlan | DamagedPlan]:
        """The prepared writes, oldest first, and with them those whose file is damaged."""
        plans: dict[tuple[int, str], PreparedPlan | DamagedPlan] = {}
        for info in self.store.list("recovery"):
            commit_id = info.key.rsplit("/", 1)[1].removesuffix(".json")
            try:
                prepared = self.get(commit_id)
                plans[prepared.prepared_at, commit_id] = prepared
            except NotFound:  # Another process may publish and remove one of them meanwhile.
                continue
            except Damaged:
                written_at = int(info.modified.timestamp() * 1_000_000)
                plans[written_at, commit_id] = DamagedPlan(commit_id, written_at)
        return [plans[place] for place in sorted(plans)]


def recovery_key(commit_id: str) -> str:
    return f"recovery/{commit_id}.json"
