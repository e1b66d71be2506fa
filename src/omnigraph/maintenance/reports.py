"""Reports: what cleanup removes, what keeps the rest, and how much storage the types of a graph take."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.errors import UsageError
from omnigraph.history.values import TableState
from omnigraph.indexing.indexes import IndexState, index_specs, index_state, why_pending
from omnigraph.indexing.kinds import Kind, is_first_version, kind_of, table_of
from omnigraph.language.catalog import EntityType
from omnigraph.maintenance.cleanup import Cleaner, GraphObjects, Survey, Totals
from omnigraph.maintenance.reachable import RetentionPolicy, entry_snapshots, index_folder
from omnigraph.snapshot import Repository, View, table_path
from omnigraph.storage.store import ObjectInfo, Store
from omnigraph.tables.indexes import coverage
from omnigraph.tables.staging import deleted_rows
from omnigraph.tables.table import Table
from omnigraph.tables.verifying import TableFiles
from omnigraph.tasks.runner import IN_PROCESS, Workers

# The shape of a table: how its rows are stored, and what its indexes cover.


@dataclass(frozen=True)
class PendingIndex:
    """An index that does not cover every row yet, and why; reads scan the other rows.

    >>> for table in g.maintenance.optimize(dry_run=True).tables:
    ...     for index in table.before.pending:
    ...         print(table.table_key, index.column, index.rows, index.reason)
    """

    column: str
    kind: str
    rows: int
    reason: str


@dataclass(frozen=True)
class TableShape:
    """How the rows of a type are stored.

    >>> shapes = {table.table_key: table.before for table in g.maintenance.optimize(dry_run=True).tables}
    >>> assert shapes["node:Person"].fragments >= 1
    """

    rows: int
    fragments: int
    deleted_rows: int
    """Rows that are still in files but deleted."""
    bytes: int
    indexes: int
    pending: tuple[PendingIndex, ...]


def shape_of(entity: EntityType, table: Table) -> TableShape:
    states = coverage(table, index_specs(entity)).values()
    pending = [
        PendingIndex(
            state.spec.column,
            state.spec.kind,
            state.pending_rows,
            why_pending(table, state),
        )
        for state in states
        if state.pending_rows
    ]
    return TableShape(
        rows=table.rows,
        fragments=len(table.fragments),
        deleted_rows=deleted_rows(table),
        bytes=sum(fragment.bytes for fragment in table.fragments),
        indexes=len(states),
        pending=tuple(pending),
    )


_DURATION = re.compile(r"([0-9]{1,9})\s*([smhdw]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def parse_duration(text: str) -> float:
    """A duration in seconds, from "90s", "30m", "12h", "7d", "4w" or a number of seconds."""
    parsed = _DURATION.fullmatch(text.strip().lower())
    if parsed is None:
        raise UsageError(f"'{text}' is not a duration", hint="write 30m, 12h, 7d or 4w, or 0")
    return float(int(parsed[1]) * _UNITS[parsed[2]])


@dataclass(frozen=True)
class KeptBy:
    """What one branch or tag keeps, and how much of it nothing else keeps: deleting it and running cleanup frees that much.

    >>> [main] = [kept for kept in g.maintenance.storage().kept if kept.name == "branch main"]
    >>> assert main.commits >= 1
    """

    name: str
    commits: int
    files_alone: int
    bytes_alone: int


@dataclass(frozen=True)
class CleanupReport:
    """What a cleanup removed or, as a dry run, would remove: files and bytes by kind.

    `waiting` is what nothing needs and is too young to be removed; `watermarks` gives, for each branch that lost commits, the
    position from which it keeps them; `foreign` are files that are not the graph's own, and were left alone.

    >>> report = g.maintenance.cleanup(keep=10, dry_run=True)
    >>> assert report.files == sum(totals.files for totals in report.removed.values())
    """

    is_dry_run: bool
    removed: Mapping[Kind, Totals]
    waiting: Totals
    watermarks: Mapping[str, int]
    kept: tuple[KeptBy, ...]
    foreign: tuple[str, ...]

    @property
    def files(self) -> int:
        """Of all kinds."""
        return sum(totals.files for totals in self.removed.values())

    @property
    def bytes(self) -> int:
        """Of all kinds."""
        return sum(totals.bytes for totals in self.removed.values())

    def __repr__(self) -> str:
        word = "would remove" if self.is_dry_run else "removed"
        return f"<CleanupReport: {word} {self.files} files, {self.bytes} bytes>"


@dataclass(frozen=True)
class TypeStorage:
    """How much storage one type takes. `live_bytes` are those of the branch's head, `history_bytes` those that other kept commits
    need in addition, `adjacency_bytes` those of files that only make reads faster, `reclaimable_bytes` those that nothing needs.

    >>> person = next(each for each in g.maintenance.storage().types if each.type == "node:Person")
    >>> assert person.rows >= 3
    """

    type: str
    rows: int
    fragments: int
    deleted_rows: int
    live_bytes: int
    history_bytes: int
    adjacency_bytes: int
    reclaimable_bytes: int
    indexes: tuple[IndexState, ...]


@dataclass(frozen=True)
class StorageReport:
    """How much storage a graph takes: its types at one branch, and what each branch and tag alone keeps.

    >>> assert g.maintenance.storage().reclaimable_bytes >= 0
    """

    branch: str
    types: tuple[TypeStorage, ...]
    kept: tuple[KeptBy, ...]
    history_objects: Totals
    """Entries, segments of the log and other small objects."""
    held_bytes: int
    """How many bytes this process caches in memory to answer faster: adjacency, keys, often-used columns."""

    @property
    def reclaimable_bytes(self) -> int:
        """Of all types."""
        return sum(type_.reclaimable_bytes for type_ in self.types)

    def __repr__(self) -> str:
        return f"<StorageReport of {self.branch}: {len(self.types)} types, {self.reclaimable_bytes} bytes reclaimable>"


@dataclass(frozen=True)
class RepositoryTables:
    """The tables of an opened graph, as cleanup sees them."""

    repository: Repository

    @property
    def has_files(self) -> bool:
        return self.repository.tables.has_files

    def files_of(self, state: TableState) -> TableFiles:
        return self.repository.files_of(state)

    def table_paths(self, schema: str) -> set[str]:
        return {table_path(entity) for entity in self.repository.catalog(schema).tables.values()}


@dataclass(frozen=True)
class OpenedStore:
    """The store of a graph that this process has open."""

    repository: Repository

    @property
    def store(self) -> Store:
        return self.repository.store


def cleaner_of(repository: Repository, place: GraphObjects | None = None, workers: Workers = IN_PROCESS) -> Cleaner:
    """The cleaner of a graph. `place` is where tasks that run elsewhere find it."""
    return Cleaner(repository.history, place or OpenedStore(repository), RepositoryTables(repository), workers)


def clean_up(cleaner: Cleaner, policy: RetentionPolicy, *, dry_run: bool) -> CleanupReport:
    """Remove what the policy does not keep; with `dry_run`, only say what that is."""
    survey = cleaner.survey(policy, read_only=dry_run)
    kept = kept_by(cleaner, survey)
    removed = _would_remove(survey) if dry_run else cleaner.sweep(survey)
    waiting = Totals()
    for info in survey.young:
        waiting += Totals(1, info.size)
    return CleanupReport(
        dry_run,
        {kind: totals for kind, totals in removed.items() if totals.files},
        waiting,
        {branch: max(positions) + 1 for branch, positions in survey.doomed.items()},
        kept,
        survey.foreign,
    )


def _would_remove(survey: Survey) -> dict[Kind, Totals]:
    removed: dict[Kind, Totals] = defaultdict(Totals)
    entries = [survey.chains[branch][position] for branch, gone in survey.doomed.items() for position in gone]
    for info in (*entries, *survey.garbage):
        kind = kind_of(info.key)
        assert kind is not None, "only what has a kind is garbage"
        removed[kind] += Totals(1, info.size)
    for _ in survey.expired:
        removed["prepared"] += Totals(1, 0)
    for info in survey.temporary:
        removed["staging"] += Totals(1, info.size)
    return removed


# ---------------------------------------------------------------- what keeps what


def kept_by(cleaner: Cleaner, survey: Survey) -> tuple[KeptBy, ...]:
    """Everything that keeps commits (branches, tags, running and prepared writes, later merges), with the files that it alone
    keeps."""
    keepers_of: dict[str, set[str]] = defaultdict(set)
    commits: dict[str, int] = defaultdict(int)
    for place, keepers in survey.retained.keepers.items():
        entry = cleaner.entries.get(place)
        if entry is None:
            continue
        for keeper in keepers:
            commits[keeper] += len(entry.steps)
        for snapshot in entry_snapshots(entry):
            for state in snapshot.tables.values():
                files = survey.reach.states.get(state)
                if files is not None:
                    for key in (*files.keys, *files.indexes):
                        keepers_of[key] |= keepers
    sizes = _sizes(survey)
    alone: dict[str, Totals] = defaultdict(Totals)
    for key, keepers in keepers_of.items():
        if len(keepers) == 1:
            (keeper,) = keepers
            alone[keeper] += sizes[key]
    return tuple(KeptBy(name, commits[name], alone[name].files, alone[name].bytes) for name in sorted(commits))


def _sizes(survey: Survey) -> dict[str, Totals]:
    """The size of each file, and of each folder of an index segment."""
    sizes: dict[str, Totals] = defaultdict(Totals)
    for info in survey.listed:
        sizes[index_folder(info.key) or info.key] += Totals(1, info.size)
    return sizes


# ---------------------------------------------------------------- storage


def storage_of(cleaner: Cleaner, view: View, branch: str) -> StorageReport:
    survey = cleaner.survey(RetentionPolicy(), read_only=True)
    sizes = _sizes(survey)
    bytes_in: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, totals in sizes.items():
        table = table_of(key)
        if table is not None and kind_of(f"{key}/x" if key in survey.reach.folders else key) is not None:
            bytes_in[table][key] += totals.bytes
    held = view.repository.tables.held_bytes
    types = tuple(_type_storage(view, key, survey, bytes_in) for key in sorted(view.catalog.tables))
    return StorageReport(branch, types, kept_by(cleaner, survey), _history_objects(survey), held)


def _type_storage(view: View, key: str, survey: Survey, bytes_in: Mapping[str, Mapping[str, int]]) -> TypeStorage:
    state, table = view.state(key), view.table(key)
    files = None if state is None else survey.reach.states.get(state)
    live = set() if files is None else {*files.keys, *files.indexes}
    live_bytes = history_bytes = adjacency_bytes = reclaimable = 0
    for name, size in bytes_in.get(view.path(key), {}).items():
        if name in live or is_first_version(name):
            live_bytes += size
        elif name in survey.reach.objects and kind_of(name) == "adjacency":
            adjacency_bytes += size
        elif name in survey.reach.objects or name in survey.reach.folders:
            history_bytes += size
        else:
            reclaimable += size
    return TypeStorage(
        key,
        view.rows(key),
        0 if table is None else len(table.fragments),
        0 if table is None else deleted_rows(table),
        live_bytes,
        history_bytes,
        adjacency_bytes,
        reclaimable,
        tuple(index_state(view, [key])),
    )


def _history_objects(survey: Survey) -> Totals:
    totals = Totals()
    entries: Iterable[ObjectInfo] = (info for chain in survey.chains.values() for info in chain.values())
    for info in (*entries, *(info for info in survey.listed if kind_of(info.key) == "log")):
        totals += Totals(1, info.size)
    return totals
