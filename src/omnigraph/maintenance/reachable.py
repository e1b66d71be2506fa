"""Every object that kept commits need: the one definition that cleanup, verification and copies share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from omnigraph.history import Entry, PublishPlan, Snapshot, TableState
from omnigraph.history.chain import key_of
from omnigraph.history.genesis import GRAPH_KEY
from omnigraph.history.schemas import schema_key
from omnigraph.tables import TableFiles

READ_THREADS = 16
"""How many small objects are read at the same time."""

FilesOf = Callable[[TableState], TableFiles]
T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], values: Sequence[T], threads: int) -> list[R]:
    """The result of the function for each value, in order, with this many threads."""
    if threads == 1 or len(values) < 2:
        return [function(value) for value in values]
    with ThreadPoolExecutor(min(threads, len(values))) as pool:
        return list(pool.map(function, values))


def history_objects(entry: Entry) -> set[str]:
    """The objects other than tables that an entry needs, itself included: schemas, log, write keys, ancestry."""
    keys = {GRAPH_KEY, key_of(entry.branch, entry.position), *_named_objects(entry)}
    return keys | {schema_key(step.schema) for step in entry.steps}


def _named_objects(entry: Entry) -> Iterator[str]:
    yield schema_key(entry.before.schema)
    yield from (segment.key for segment in entry.segments)
    yield from (place.key for place in entry.key_objects)
    if entry.ancestry.stored is not None:
        yield entry.ancestry.stored


def entry_snapshots(entry: Entry) -> tuple[Snapshot, ...]:
    """The states that are kept with an entry: those of its commits or, if it has none, the state that it is based on.

    The state before its first commit belongs to the previous entry, and so does the last state of a deleted branch.
    """
    return entry.snapshots() or ((entry.before,) if entry.alive else ())


def plan_states(plan: PublishPlan) -> Iterator[tuple[str, TableState]]:
    """The states that publishing a prepared plan needs, with the keys of their types."""
    stated = [(change.key, change.state) for change in plan.changes] + list(plan.bases().items())
    stated += [(change.key, change.noted) for change in plan.changes]
    if plan.opening is not None:
        stated += plan.opening.before.tables.items()
    yield from ((key, state) for key, state in stated if state is not None)


@dataclass
class Reachable:
    """The objects that the added entries, states and plans need: they read no others.

    Keys are those of the graph's store. An object is needed if its key is in `objects`, or is in one of `folders` (index
    segments, whose files are not named in manifests). Each version of a table is opened once, however many commits have it, with
    one or two requests. Damaged if the manifest of a kept version cannot be read: then it is not known what is needed.
    """

    files_of: FilesOf
    threads: int = READ_THREADS
    objects: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    states: dict[TableState, TableFiles] = field(default_factory=dict)
    _versions: dict[tuple[str, int], TableFiles] = field(default_factory=dict)

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Add entries with the states of their commits; nothing, if a manifest of one of them cannot be read."""
        added = list(entries)
        snapshots = [snapshot for entry in added for snapshot in entry_snapshots(entry)]
        self.add_states(state for snapshot in snapshots for state in snapshot.tables.values())
        for entry in added:
            self.objects |= history_objects(entry)

    def add_plan(self, plan: PublishPlan) -> None:
        """Add what publishing a prepared plan needs: the versions it staged, the state and history of a branch that it creates,
        and the versions it is compared with in a rebase."""
        self.objects |= {schema_key(digest) for digest in (plan.schema, plan.new_schema) if digest is not None}
        if plan.opening is not None:
            self.objects.update(_named_objects(plan.opening))
        self.add_states(state for _, state in plan_states(plan))

    def add_states(self, states: Iterable[TableState]) -> None:
        new = [state for state in set(states) if state not in self.states]
        unread = {(state.path, state.version): state for state in new}
        unread = {version: state for version, state in unread.items() if version not in self._versions}
        for version, files in zip(
            unread, side_by_side(self.files_of, list(unread.values()), self.threads), strict=True
        ):
            self._versions[version] = files
            self.objects.update(files.keys)
            self.folders.update(files.indexes)
        for state in new:
            self.states[state] = self._versions[state.path, state.version]

    def needs(self, key: str) -> bool:
        return key in self.objects or (index_folder(key) or "") in self.folders


def index_folder(key: str) -> str | None:
    """The folder of the index segment that an object belongs to: `nodes/<table>/_indices/<uuid>`; None for any other."""
    parts = key.split("/", 4)
    return "/".join(parts[:4]) if len(parts) == 5 and parts[2] == "_indices" else None
