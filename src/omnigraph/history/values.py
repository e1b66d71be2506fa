"""The values of history, as stored in entries. All frozen; `encoding` turns them into bytes and back.

An *entry* is one object of a branch's chain: the snapshot before it, and the commits it adds (one, or several that were
published together). A branch that was deleted and created again is a new *incarnation* of its name, so an old commit of it is
never mistaken for a new one. `seq` counts commits along first parents, across branches.

`extra` holds members of a stored value that this version does not know: it ignores them, and keeps them wherever it writes
the same value again.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

from omnigraph._internal.caches import cached_property
from omnigraph.errors import UsageError
from omnigraph.values.inline_rows import NO_INLINE, Inline, inline_from_json
from omnigraph.values.json_text import stored_text

# Times: `datetime` in UTC for callers, whole microseconds since the epoch in records; and how much time has passed.

EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


def to_microseconds(time: dt.datetime) -> int:
    """Computed with integers: a float cannot represent today's instants to the microsecond."""
    return (time - EPOCH) // dt.timedelta(microseconds=1)


def from_microseconds(microseconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=microseconds)


def parse_time(text: str) -> dt.datetime | None:
    """An ISO 8601 date or time; without a zone it is UTC."""
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def time_of(as_of: str | dt.datetime) -> dt.datetime:
    """A time that a caller passed, as an instant; without a zone it is UTC."""
    time = parse_time(as_of) if isinstance(as_of, str) else as_of
    if not isinstance(time, dt.datetime):
        raise UsageError(f"{as_of!r} is not a time", hint="write 2026-07-01 or 2026-07-01T12:00:00Z")
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


uptime = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Seconds since the machine was started, including those in which it was suspended. Nobody can set this clock."""


class SteadyClock:
    """A clock for differences of times: between two calls, it advances by as much as the wall clock or the uptime, whichever says
    more, and never goes back.

    The wall clock may be set, and the uptime of a virtual machine may stand still while the machine is paused. Who believes that
    more time has passed than has only asks the store once more.
    """

    def __init__(self, wall: Callable[[], float], uptime: Callable[[], float]) -> None:
        self._sources = wall, uptime
        self._last = wall(), uptime()
        self._time = self._last[0]
        self._lock = threading.Lock()

    def __call__(self) -> float:
        wall, uptime = self._sources
        with self._lock:
            now = wall(), uptime()
            self._time += max(0.0, now[0] - self._last[0], now[1] - self._last[1])
            self._last = now
            return self._time


CommitKind = Literal["init", "mutation", "load", "merge", "schema", "optimize", "repair", "revert", "reset"]


Extra = Mapping[str, Any]


def others(value: Extra, known: frozenset[str]) -> Extra:
    """The members that this version does not know."""
    return {name: item for name, item in value.items() if name not in known} if value.keys() - known else {}


def member_texts(value: Mapping[str, Any]) -> list[str]:
    """Each member of an object as JSON."""
    return [f"{stored_text(name)}:{stored_text(item)}" for name, item in value.items()]


def new_incarnation(branch: str, position: int, entry_id: str) -> str:
    """The name of the incarnation of a branch that starts at a position of its chain."""
    return f"{branch}@{position}.{entry_id}"


def incarnation_start(incarnation: str) -> tuple[str, int]:
    """The branch and the position at which an incarnation starts."""
    branch, _, rest = incarnation.rpartition("@")
    return branch, int(rest.partition(".")[0])


@dataclass(frozen=True)
class TableState:
    """One table in a snapshot: `version` is the stored version, `generation` the small number shown to users.

    `digest` is that of the version's manifest, where it is known. `inline` is what small commits changed since that version was
    stored; `rows` is the number of rows of both together.
    """

    path: str
    version: int
    generation: int
    rows: int
    digest: str | None = None
    inline: Inline = field(default=NO_INLINE, repr=False, hash=False)
    extra: Extra = field(default_factory=dict, repr=False, hash=False)

    @property
    def stored_rows(self) -> int:
        """How many rows the stored version has by itself."""
        return self.rows - self.inline.row_count + self.inline.masked_count

    @property
    def content(self) -> tuple[str, int, Inline]:
        """Equal for two states with the same rows, stored in the same way."""
        return self.path, self.version, self.inline

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.text())
        return value

    def text(self, *, with_removed: bool = False) -> str:
        """The state as JSON; with `with_removed`, including the ids that its last change removed."""
        return self._as_text(with_removed=True) if with_removed else self._text

    @cached_property
    def _text(self) -> str:
        """Cached: every entry repeats the states of all tables, most of which have not changed since the previous one."""
        return self._as_text()

    def _as_text(self, *, with_removed: bool = False) -> str:
        """The version is text, because JSON readers of other languages do not keep integers of 64 bits."""
        members = [f'"path":{stored_text(self.path)},"version":"{self.version}"']
        members.append(f'"generation":{self.generation:d},"rows":{self.rows:d}')
        if self.digest is not None:
            members.append(f'"digest":{stored_text(self.digest)}')
        if self.inline:
            text = self.inline.text_with_removed() if with_removed else self.inline.text
            members.append(f'"inline":[{text}]')
        return f"{{{','.join([*members, *member_texts(self.extra)])}}}"

    @classmethod
    def from_json(cls, value: Mapping[str, Any], known: TableState | None = None) -> TableState:
        """`known`: an earlier state of the same table."""
        return cls(
            value["path"],
            int(value["version"]),
            value["generation"],
            value["rows"],
            value.get("digest"),
            inline_from_json(value.get("inline", ()), NO_INLINE if known is None else known.inline),
            others(value, _TABLE_STATE),
        )


_TABLE_STATE = frozenset({"path", "version", "generation", "rows", "digest", "inline"})


@dataclass(frozen=True)
class CommitRef:
    """Where a commit is: enough to read it with one request.

    >>> assert last.ref.seq == last.parent.seq + 1
    """

    id: str
    branch: str
    incarnation: str
    seq: int
    position: int

    @property
    def opens_branch(self) -> bool:
        """Whether the commit is in the entry that created its branch."""
        return incarnation_start(self.incarnation)[1] == self.position


def encode_ref(ref: CommitRef) -> dict[str, Any]:
    return {"id": ref.id, "incarnation": ref.incarnation, "seq": ref.seq, "position": ref.position}


def decode_ref(value: Mapping[str, Any]) -> CommitRef:
    incarnation = value["incarnation"]
    return CommitRef(value["id"], incarnation_start(incarnation)[0], incarnation, value["seq"], value["position"])


@dataclass(frozen=True)
class WriteKey:
    """The key under which a commit was made, as digests: of the key's text, or of an application whose sequence has this number;
    and of what was asked for."""

    name: str
    content: str
    number: int | None = None

    @property
    def id(self) -> str:
        """Identifies the key among all keys of a branch."""
        return self.name if self.number is None else f"{self.name}:{self.number}"

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"name": self.name, "content": self.content}
        return value if self.number is None else {**value, "number": self.number}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> WriteKey:
        return cls(value["name"], value["content"], value.get("number"))


@dataclass(frozen=True)
class Commit:
    """A commit record. Its time grows along a branch.

    >>> last = g.head()
    >>> assert (last.kind, last.ref.branch, last.parent.id) == ("mutation", "main", g.show("main~1").id)
    """

    ref: CommitRef
    parents: tuple[CommitRef, ...]
    kind: CommitKind
    _at_us: int
    """Microseconds since the epoch."""
    actor: str | None = None
    message: str | None = None
    _write_key: WriteKey | None = field(default=None, repr=False)
    _extra: Extra = field(default_factory=dict, repr=False, hash=False)
    _record_text: ClassVar[tuple[CommitRef | None, str] | None] = None
    """Of an instance: its record as JSON after the record of another commit (`encoding`)."""

    def __repr__(self) -> str:
        actor = "" if self.actor is None else f" by {self.actor}"
        return f"<Commit {self.id}: {self.kind} on {self.ref.branch}{actor} at {self.at:%Y-%m-%d %H:%M:%S}>"

    @property
    def id(self) -> str:
        """The commit's id, a ULID."""
        return self.ref.id

    @property
    def at(self) -> dt.datetime:
        """When it was made, in UTC."""
        return from_microseconds(self._at_us)

    @property
    def parent(self) -> CommitRef | None:
        """The commit before it; None for the first of a graph."""
        return self.parents[0] if self.parents else None

    @property
    def merged(self) -> CommitRef | None:
        """The second parent of a merge."""
        return self.parents[1] if len(self.parents) > 1 else None


@dataclass(frozen=True)
class Snapshot:
    """One state of the whole graph: every table at a version, and the schema that describes them."""

    commit: Commit
    schema: str
    tables: Mapping[str, TableState]

    def table(self, key: str) -> TableState | None:
        """The state of a table, or None if there is none: no row of the type was ever written."""
        return self.tables.get(key)


@dataclass(frozen=True)
class CommitStep:
    """What one commit of an entry changed: tables that are new or moved (None: dropped), and the schema after it."""

    commit: Commit
    schema: str
    tables: Mapping[str, TableState | None]

    @property
    def removed_ids(self) -> frozenset[str]:
        """Ids of rows that the step removed, if it lists them: only a small mutation does."""
        if self.commit.kind != "mutation":
            return frozenset()
        changes = [state.inline[-1] for state in self.tables.values() if state is not None and state.inline]
        return frozenset(id for change in changes for id in change.removed)


@dataclass(frozen=True)
class LogSegment:
    """A rolled-up run of older commit records, and the range that it covers, so that a search opens only the right segments."""

    id: str
    level: int
    first_seq: int
    last_seq: int
    min_id: str
    max_id: str
    first_at: int
    last_at: int
    extra: Extra = field(default_factory=dict, repr=False, hash=False)

    @property
    def key(self) -> str:
        return f"history/{self.id}.json"

    @cached_property
    def text(self) -> str:
        """As JSON."""
        value = {
            "id": self.id,
            "level": self.level,
            "seqs": [self.first_seq, self.last_seq],
            "ids": [self.min_id, self.max_id],
            "times": [self.first_at, self.last_at],
        }
        return stored_text({**value, **self.extra})


KEYS_SUFFIX = ".keys.json"


@dataclass(frozen=True)
class KeyObject:
    """A stored object of write keys, and the seq and time of the newest one."""

    id: str
    last_seq: int
    last_at: int
    extra: Extra = field(default_factory=dict, repr=False, hash=False)

    @property
    def key(self) -> str:
        return f"history/{self.id}{KEYS_SUFFIX}"


@dataclass(frozen=True)
class Ancestry:
    """Every incarnation that is reachable from a commit, with the highest `seq` reached on it.

    An incarnation is a chain, so what is reachable on it is always a prefix. Beyond ANCESTRY_INLINE incarnations the older part
    is a separate object, `stored`, and `reached` has only what changed since.
    """

    reached: Mapping[str, int] = field(default_factory=dict)
    stored: str | None = None


Op = Literal["commit", "create", "delete"]


@dataclass(frozen=True)
class Entry:
    """One object of a branch's chain. `before` is the snapshot it starts from, `steps` the commits it adds.

    "create" opens an incarnation of the branch at `before` (a commit of another branch), with or without commits of its own;
    "delete" closes it and adds none. A "commit" without any is a fence. `write_features` are the features that a writer needs to
    append to the chain.
    """

    id: str
    op: Op
    branch: str
    incarnation: str
    position: int
    before: Snapshot
    steps: tuple[CommitStep, ...]
    ancestry: Ancestry
    write_features: tuple[str, ...]
    tail: tuple[Commit, ...] = ()
    """Recent commit records before this entry, oldest first, that are not in `segments`."""
    segments: tuple[LogSegment, ...] = ()
    key_objects: tuple[KeyObject, ...] = ()
    """The objects with the write keys of commits before `tail`, oldest first."""

    @property
    def alive(self) -> bool:
        return self.op != "delete"

    @property
    def is_fence(self) -> bool:
        """Whether it adds nothing and only takes its position (`history.retention`)."""
        return self.op == "commit" and not self.steps

    @cached_property
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


def apply_step(snapshot: Snapshot, step: CommitStep) -> Snapshot:
    tables = {**snapshot.tables, **step.tables}
    return Snapshot(step.commit, step.schema, {key: state for key, state in tables.items() if state is not None})
