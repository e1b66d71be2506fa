"""Cleanup: mark from what is kept, then delete what is not, in the order that `history.retention` explains.

The graph is examined twice. The first survey finds what nothing keeps and changes nothing: it is all that a dry run does. Then
the watermarks and the cutoff are raised and every branch gets a fence. The second survey finds what is kept since, and only what
neither of them keeps is deleted: entries first, so that a reader that misses a file finds that its commit was removed.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import Damaged, ObjectMissing, StoragePermanent
from omnigraph.features import check_writable
from omnigraph.history.history import History
from omnigraph.history.plan import PreparedPlan, recovery_key
from omnigraph.history.retention import GRACE_S, LEASES
from omnigraph.history.values import Entry, TableState
from omnigraph.indexing.adjacency import needed_adjacency
from omnigraph.indexing.kinds import Kind, is_first_version, kind_of, table_of
from omnigraph.maintenance.reachable import (
    READ_THREADS,
    Chains,
    Reachable,
    References,
    Retained,
    RetentionPolicy,
    listed_chains,
    side_by_side,
)
from omnigraph.storage.local import LocalStore
from omnigraph.storage.store import ObjectInfo, Store
from omnigraph.tables.verifying import TableFiles
from omnigraph.tasks.runner import IN_PROCESS, Workers

PREPARED_AGE_S = 7 * 24 * 3600.0
"""A prepared plan that was not resumed for this long is discarded."""
DELETE_BATCH = 1_000
"""How many objects S3 deletes with one request."""
SCRATCH_FOLDERS = ("history", "staging", LEASES)


_UNREADABLE = (Damaged, StoragePermanent)


class GraphObjects(Protocol):
    """Where the objects of a graph are, for tasks that may run elsewhere."""

    @property
    def store(self) -> Store: ...


class TableFacts(Protocol):
    """What cleanup needs to know about tables."""

    @property
    def has_files(self) -> bool:
        """Whether they are stored as files with the other objects of the graph."""

    def files_of(self, state: TableState) -> TableFiles: ...

    def table_paths(self, schema: str) -> set[str]:
        """The folders of all tables that a schema declares, whether they exist or not."""


@dataclass(frozen=True)
class Survey:
    """What the first survey of the graph found. Nothing was changed."""

    policy: RetentionPolicy
    now: float
    cutoff: float
    chains: Chains
    references: References
    expired: tuple[PreparedPlan, ...]
    retained: Retained
    reach: Reachable
    doomed: Mapping[str, tuple[int, ...]]
    listed: tuple[ObjectInfo, ...]
    """Every object in the folders that cleanup examines, except the chains."""
    garbage: tuple[ObjectInfo, ...]
    """Those of `listed` that nothing needs and that are old enough."""
    young: tuple[ObjectInfo, ...]
    """Files and entries that nothing seems to need, but that are too young to be sure."""
    foreign: tuple[str, ...]
    """Keys of objects that are not the graph's, judging by their names."""
    temporary: tuple[ObjectInfo, ...]


@dataclass(frozen=True)
class Totals:
    """A number of files, and their total size in bytes.

    >>> assert g.maintenance.storage().history_objects.files >= 1
    """

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True)
class ListTask:
    place: GraphObjects
    folder: str


def list_folder(task: ListTask) -> list[ObjectInfo]:
    return task.place.store.list(task.folder)


@dataclass(frozen=True)
class DeleteTask:
    place: GraphObjects
    keys: tuple[str, ...]


def delete_batch(task: DeleteTask) -> int:
    task.place.store.delete_many(task.keys)
    reach(Failpoint.SWEEP_AFTER_DELETE)
    return len(task.keys)


@dataclass
class Cleaner:
    """One cleanup of one graph. Any number may run at once, on any number of machines: each deletes only what nothing keeps."""

    history: History
    place: GraphObjects
    tables: TableFacts
    workers: Workers = IN_PROCESS
    threads: int = READ_THREADS
    entries: dict[tuple[str, int], Entry] = field(default_factory=dict)
    """The entries that were read. They never change."""
    strays: set[tuple[str, int]] = field(default_factory=set)
    """Entries of writers that came too late, whose files are gone: nothing needs them."""

    # ------------------------------------------------------------ surveying

    def survey(self, policy: RetentionPolicy, *, read_only: bool = False) -> Survey:
        """Find what nothing keeps. Asking the store's clock means to write an object. If it is `read_only`, the clock of this machine
        is taken: good enough for a report, and never for a deletion."""
        history = self.history
        now = history.wall_clock() if read_only else history.retention.store_now()
        chains = listed_chains(history.store.list("branches"))
        listed = self._listed()
        references, expired = self._references(now)
        cutoff = min([now - GRACE_S, *(lease.since for lease in references.leases)])
        retained = Retained(history, policy, chains, now, cutoff)
        retained.add(references)
        retained.add_recent(self._read(retained.newest_since_cutoff()))
        doomed = {branch: tuple(positions) for branch in chains if (positions := retained.doomed(branch))}
        reach = Reachable(self.tables.files_of, self.threads)
        self._mark(reach, chains, doomed, references)
        reach.objects |= needed_adjacency(self.place.store, [info.key for info in listed], reach.needs)
        needed_tables = self._declared_tables(reach)
        garbage: list[ObjectInfo] = []
        young = [chains[branch][position] for branch in chains for position in retained.young(branch)]
        foreign: list[str] = []
        for info in listed:
            if kind_of(info.key) is None:
                foreign.append(info.key)
            elif not _is_needed(info.key, reach, needed_tables):
                (garbage if info.modified.timestamp() < cutoff else young).append(info)
        for branch, position in sorted(self.strays):
            info = chains[branch][position]
            (garbage if info.modified.timestamp() < cutoff else young).append(info)
        return Survey(
            policy,
            now,
            cutoff,
            chains,
            references,
            expired,
            retained,
            reach,
            doomed,
            tuple(listed),
            tuple(garbage),
            tuple(young),
            tuple(foreign),
            self._temporary(cutoff),
        )

    def _listed(self) -> list[ObjectInfo]:
        folders = [*SCRATCH_FOLDERS]
        if self.tables.has_files:
            folders += [
                f"{kind}/{name}" for kind in ("nodes", "edges") for name in self.history.store.list_folders(kind)
            ]
        tasks = [ListTask(self.place, folder) for folder in folders]
        return [info for infos in self.workers.map("list", list_folder, tasks) for info in infos]

    def _temporary(self, cutoff: float) -> tuple[ObjectInfo, ...]:
        store = self.place.store
        if not isinstance(store, LocalStore):
            return ()
        return tuple(info for info in store.list_temporary() if info.modified.timestamp() < cutoff)

    def _references(self, now: float) -> tuple[References, tuple[PreparedPlan, ...]]:
        """What keeps commits now, and the prepared plans that have expired."""
        history = self.history
        newest = {name: history.chain.newest(name) for name in history.chain.branches()}
        plans: list[PreparedPlan] = []
        expired: list[PreparedPlan] = []
        for info in history.store.list("recovery"):
            # It may be published or discarded meanwhile. One that is damaged cannot be published, so it needs nothing.
            with contextlib.suppress(ObjectMissing, Damaged):
                prepared = history.recovery.read(info.key)
                is_old = now - info.modified.timestamp() >= PREPARED_AGE_S
                (expired if is_old else plans).append(prepared)
        return References(
            {name: entry for name, entry in newest.items() if entry is not None},
            history.tags.list(),
            tuple(plans),
            tuple(history.leases.living(now)),
        ), tuple(expired)

    def _mark(
        self, reach: Reachable, chains: Chains, doomed: Mapping[str, Iterable[int]], references: References
    ) -> None:
        """Mark everything that is needed by entries that stay and by prepared plans."""
        places = [
            (branch, position)
            for branch, positions in chains.items()
            for position in sorted(set(positions) - set(doomed.get(branch, ())))
        ]
        entries = [*self._read(places), *references.newest.values()]
        try:
            reach.add_entries(entries)
        except _UNREADABLE:
            for entry in entries:
                self._mark_entry(reach, entry)
        for prepared in references.plans:
            try:
                reach.add_plan(prepared.plan)
            except _UNREADABLE:
                if self.history.retention.is_prepared(prepared.commit_id):
                    raise

    def _mark_entry(self, reach: Reachable, entry: Entry) -> None:
        """Another cleanup may have removed the entry, and then its files, since it was read; or its writer came too late. Any other
        entry must be readable: without its manifests it is not known what it needs."""
        try:
            reach.add_entries([entry])
        except _UNREADABLE:
            chain = self.history.chain
            if chain.find(entry.branch, entry.position) is None:
                return
            if not chain.is_stray(entry):
                raise
            self.strays.add((entry.branch, entry.position))

    def _read(self, places: Sequence[tuple[str, int]]) -> list[Entry]:
        """The entries at these positions. One that is missing was removed by another cleanup, and needs nothing."""
        unread = [place for place in places if place not in self.entries]
        entries = side_by_side(lambda place: self.history.chain.find(*place), unread, self.threads)
        self.entries |= {place: entry for place, entry in zip(unread, entries, strict=True) if entry is not None}
        return [self.entries[place] for place in places if place in self.entries]

    def _declared_tables(self, reach: Reachable) -> set[str]:
        """The tables of every schema that is kept: a writer may be about to write their first rows."""
        schemas = {key.removeprefix("schemas/").removesuffix(".json") for key in reach.objects if key[:8] == "schemas/"}
        return {path for schema in schemas for path in self.tables.table_paths(schema)}

    # ------------------------------------------------------------ deleting

    def sweep(self, survey: Survey) -> dict[Kind, Totals]:
        """Delete what a survey found, except what is kept since; returns how much of each kind was deleted."""
        retention = self.history.retention
        removed: dict[Kind, Totals] = defaultdict(Totals)
        if not (survey.doomed or survey.garbage or survey.expired or survey.temporary):
            return removed
        check_writable(self.history.identity.write_features, "this graph")
        for branch in survey.doomed:
            check_writable(survey.references.newest[branch].write_features, f"branch '{branch}'")
        for branch, positions in survey.doomed.items():
            retention.raise_watermark(branch, max(positions) + 1)
        if survey.garbage or survey.expired:
            self._fence_writers_off(survey, removed)
        entries, garbage = self._unneeded(survey)
        self._delete("delete commits", [info.key for info in entries])
        reach(Failpoint.SWEEP_AFTER_ENTRIES)
        self._delete("delete files", [info.key for info in garbage])
        store = self.place.store
        if isinstance(store, LocalStore):
            store.delete_temporary(survey.temporary)
        for info in (*entries, *garbage):
            kind = kind_of(info.key)
            assert kind is not None, "only what has a kind is deleted"
            removed[kind] += Totals(1, info.size)
        for info in survey.temporary:
            removed["staging"] += Totals(1, info.size)
        return removed

    def _fence_writers_off(self, survey: Survey, removed: dict[Kind, Totals]) -> None:
        """From here on, nothing that was staged before the cutoff can be published, unless it is published or kept already."""
        retention = self.history.retention
        retention.raise_cutoff(survey.cutoff)
        for prepared in survey.expired:
            self.history.store.delete(recovery_key(prepared.commit_id))
            removed["prepared"] += Totals(1, 0)
            if prepared.plan.opening is not None:
                retention.fence_opening(prepared.plan.opening)
        for branch in self.history.chain.branches():
            retention.fence(branch)

    def _unneeded(self, survey: Survey) -> tuple[list[ObjectInfo], list[ObjectInfo]]:
        """The second survey, after the fences: what the first one found and nothing needs even now."""
        references, _ = self._references(survey.now)
        retained = survey.retained
        retained.add(references)
        # What was published since the first survey is younger than the cutoff, and stays.
        chains = listed_chains(self.history.store.list("branches"))
        published = [
            (branch, place)
            for branch in chains
            for place in chains[branch].keys() - survey.chains.get(branch, {}).keys()
        ]
        retained.add_recent(self._read(published))
        kept = retained.keepers.keys() | retained.recent
        doomed = {
            branch: [position for position in positions if (branch, position) not in kept]
            for branch, positions in survey.doomed.items()
        }
        self._mark(survey.reach, chains, doomed, references)
        needed_tables = self._declared_tables(survey.reach)
        entries = [survey.chains[branch][position] for branch, positions in doomed.items() for position in positions]
        garbage = [info for info in survey.garbage if not _is_needed(info.key, survey.reach, needed_tables)]
        return entries, garbage

    def _delete(self, stage: str, keys: Sequence[str]) -> None:
        tasks = [
            DeleteTask(self.place, tuple(keys[start : start + DELETE_BATCH]))
            for start in range(0, len(keys), DELETE_BATCH)
        ]
        self.workers.map(stage, delete_batch, tasks)


def _is_needed(key: str, reach: Reachable, tables: set[str]) -> bool:
    if reach.needs(key):
        return True
    return is_first_version(key) and table_of(key) in tables
