"""graph.json: a graph's identity, format and first commit. Written once by one create, never changed.

It is the only commit point of `init`. The first entry of main is derived from it, so an init that died right after it loses
nothing: the next process that opens the graph writes that entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import AlreadyExists, GraphNotFound, ObjectExists, ObjectMissing, StorageError, StorageTransient
from omnigraph.history.chain import CREATE_ATTEMPTS, MAIN, key_of
from omnigraph.history.encoding import encode_entry
from omnigraph.history.envelope import read_as, seal, unseal
from omnigraph.history.values import Ancestry, Commit, CommitRef, CommitStep, Entry, Snapshot, new_incarnation
from omnigraph.storage.store import Store

GRAPH_KEY = "graph.json"


@dataclass(frozen=True)
class Identity:
    """`write_features` are the features that a writer of the graph needs."""

    graph_id: str
    created_at: int
    schema: str
    first_commit: str
    actor: str | None = None
    write_features: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"write_features": list(self.write_features)} if self.write_features else {}
        value |= {"graph_id": self.graph_id, "created_at": self.created_at, "schema": self.schema}
        value["first_commit"] = self.first_commit
        if self.actor is not None:
            value["actor"] = self.actor
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Identity:
        return cls(
            graph_id=value["graph_id"],
            created_at=value["created_at"],
            schema=value["schema"],
            first_commit=value["first_commit"],
            actor=value.get("actor"),
            write_features=tuple(value.get("write_features", ())),
        )


def create_graph(
    store: Store, schema: str, *, new_id: Callable[[], str], clock_us: Callable[[], int], actor: str | None = None
) -> Identity:
    """Create the graph. The schema object must be stored already. AlreadyExists if there is a graph."""
    identity = Identity(new_id(), clock_us(), schema, new_id(), actor)
    reach(Failpoint.INIT_BEFORE_GRAPH_JSON)
    try:
        store.create(GRAPH_KEY, seal(identity.to_json()))
    except StorageError as error:
        try:
            existing = read_identity(store)
        except (GraphNotFound, StorageError):
            raise error from None  # nothing was written, as far as can be seen: the caller may try again
        if existing != identity:
            raise AlreadyExists(
                f"there is a graph at {store.uri} already", hint="open it, or choose another place"
            ) from None
    reach(Failpoint.INIT_BEFORE_FIRST_COMMIT)
    ensure_first_entry(store, identity)
    return identity


def read_identity(store: Store) -> Identity:
    """The identity of a graph. GraphNotFound if there is none; UnsupportedFormat if it needs features that this version does not
    have."""
    affected = "the graph cannot be opened"
    try:
        value = unseal(GRAPH_KEY, store.get(GRAPH_KEY), affected)
    except ObjectMissing:
        raise GraphNotFound(
            f"there is no graph at {store.uri}", hint="check the address, or make a graph with init"
        ) from None
    return read_as(GRAPH_KEY, lambda: Identity.from_json(value), affected)


def ensure_first_entry(store: Store, identity: Identity) -> None:
    """Write the first entry of main unless it exists. Its bytes are always the same, so a request can be repeated."""
    data = encode_entry(first_entry(identity))
    for attempt in range(CREATE_ATTEMPTS):
        try:
            store.create(key_of(MAIN, 0), data)
            return
        except ObjectExists:
            return
        except StorageTransient:
            if attempt == CREATE_ATTEMPTS - 1:
                raise


def first_entry(identity: Identity) -> Entry:
    incarnation = new_incarnation(MAIN, 0, identity.first_commit)
    ref = CommitRef(identity.first_commit, MAIN, incarnation, 0, 0)
    commit = Commit(ref, (), "init", identity.created_at, identity.actor)
    snapshot = Snapshot(commit, identity.schema, {})
    return Entry(
        id=identity.first_commit,
        op="commit",
        branch=MAIN,
        incarnation=incarnation,
        position=0,
        before=snapshot,
        steps=(CommitStep(commit, identity.schema, {}),),
        ancestry=Ancestry({incarnation: 0}),
        write_features=identity.write_features,
    )
