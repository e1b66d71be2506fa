"""The files of tables: those that retained commits need, each looked at once, however many commits share it.

Presence and sizes come from one listing of the graph. Manifests are read, because they name the other files; on local disk the
content of every file is compared with the digest in its name.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest

from omnigraph.errors import Damaged, HistoryGap, ObjectMissing
from omnigraph.history.chain import Chain, key_of
from omnigraph.history.genesis import GRAPH_KEY
from omnigraph.history.history import new_ulid
from omnigraph.history.log import Log
from omnigraph.history.values import CommitRef, Entry, Snapshot, TableState
from omnigraph.maintenance.reachable import entry_snapshots, history_objects
from omnigraph.maintenance.verify.findings import Finding, FindingKind, action_for, newest_of, object_kind
from omnigraph.storage.store import ObjectInfo, Store
from omnigraph.tables.digests import version_file
from omnigraph.tables.store import sizes_in
from omnigraph.tables.verifying import MISSING, TableFile, foreign_file, size_fault
from omnigraph.tasks.runner import Runner
from omnigraph.tasks.target import Address

# Reading chains of commits: which table states each retained commit has, and which objects its entry names.
#
# Entries are read in ranges, each by a task. What is kept of them is what they changed, so that a long history with many
# tables stays small.

RANGE_ENTRIES = 256
"""Entries that one task reads."""


@dataclass(frozen=True)
class EntryRange:
    """A task: entries of one branch, oldest first."""

    address: Address
    branch: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class RetainedCommit:
    """A commit, and what is different in it from the one before it in its run; in the first of a run, everything."""

    ref: CommitRef
    tables: Mapping[str, TableState | None]
    starts_run: bool = False


@dataclass
class ChainFacts:
    """What some entries say. `named`: the objects they name, and of each branch the position of the newest entry that does."""

    commits: list[RetainedCommit] = field(default_factory=list)
    named: dict[str, dict[str, int]] = field(default_factory=dict)
    damage: list[Damaged] = field(default_factory=list)
    entries: int = 0

    def add(self, other: ChainFacts) -> None:
        self.commits += other.commits
        for name, places in other.named.items():
            for branch, position in places.items():
                self.name(name, branch, position)
        self.damage += other.damage
        self.entries += other.entries

    def name(self, name: str, branch: str, position: int) -> None:
        places = self.named.setdefault(name, {})
        places[branch] = max(position, places.get(branch, 0))

    def states(self) -> dict[TableState, str]:
        """Every state of a table that some commit has, with the key of its type."""
        return {state: key for commit in self.commits for key, state in commit.tables.items() if state is not None}

    def uses(self, wanted: set[TableState]) -> Iterator[tuple[CommitRef, str, TableState]]:
        """Each commit that has one of these states, with the type."""
        current: dict[str, TableState] = {}
        for commit in self.commits:
            if commit.starts_run:
                current = {}
            for key, state in commit.tables.items():
                current.pop(key, None)
                if state is not None and state in wanted:
                    current[key] = state
            for key, state in current.items():
                yield commit.ref, key, state


def ranges(address: Address, branch: str, positions: Sequence[int]) -> list[EntryRange]:
    return [
        EntryRange(address, branch, tuple(positions[start : start + RANGE_ENTRIES]))
        for start in range(0, len(positions), RANGE_ENTRIES)
    ]


def read_range(task: EntryRange) -> ChainFacts:
    store = task.address.store
    chain = Chain(store, Log(store, new_ulid), clock=time.time)
    facts = ChainFacts()
    before: Entry | None = None
    for position in task.positions:
        try:
            entry = chain.read(task.branch, position)
        except HistoryGap:
            before = None  # Swept meanwhile.
            continue
        except Damaged as damage:
            facts.damage.append(damage)
            before = None
            continue
        facts.entries += 1
        follows = before is not None and before.position + 1 == position and before.incarnation == entry.incarnation
        _note(facts, entry, follows)
        before = entry
    return facts


def _note(facts: ChainFacts, entry: Entry, follows: bool) -> None:
    shown = entry_snapshots(entry)
    for number, (snapshot, step) in enumerate(zip_longest(shown, entry.steps)):
        if step is None or (number == 0 and not follows):
            facts.commits.append(whole_commit(snapshot))
        else:
            facts.commits.append(RetainedCommit(step.commit.ref, step.tables))
    for name in history_objects(entry) - {GRAPH_KEY, key_of(entry.branch, entry.position)}:
        facts.name(name, entry.branch, entry.position)


def whole_commit(snapshot: Snapshot) -> RetainedCommit:
    return RetainedCommit(snapshot.commit.ref, dict(snapshot.tables), starts_run=True)


TASK_VERSIONS = 128
"""Versions whose manifests one task reads."""
TASK_BYTES = 256 * 1024 * 1024
TASK_FILES = 512
"""What one task reads to compare digests."""


@dataclass(frozen=True)
class VersionsTask:
    address: Address
    path: str
    states: tuple[TableState, ...]


@dataclass
class VersionsReport:
    """What versions need. `unreadable`: their manifests are damaged. `miscounted`: they have another number of rows."""

    files: dict[str, TableFile] = field(default_factory=dict)
    unreadable: list[tuple[TableState, Damaged]] = field(default_factory=list)
    miscounted: list[tuple[TableState, int]] = field(default_factory=list)


def read_versions(task: VersionsTask) -> VersionsReport:
    report = VersionsReport()
    known: dict[int, tuple[int, tuple[TableFile, ...]]] = {}
    for state in task.states:
        try:
            if state.version not in known:
                known[state.version] = task.address.tables.needed_files(state.path, state.version, state.digest)
            rows, files = known[state.version]
        except Damaged as damage:
            is_there = _now(task.address.store, damage.file)
            report.unreadable.append((state, damage if is_there else Damaged(damage.file, MISSING)))
            continue
        report.files.update((file.name, file) for file in files)
        if rows != state.stored_rows:
            report.miscounted.append((state, rows))
    return report


@dataclass(frozen=True)
class ContentsTask:
    address: Address
    path: str
    files: tuple[TableFile, ...]


def check_contents(task: ContentsTask) -> list[tuple[TableFile, str]]:
    checked = ((file, task.address.tables.content_fault(task.path, file)) for file in task.files)
    return [(file, fault) for file, fault in checked if fault is not None]


@dataclass
class FileFault:
    kind: FindingKind
    problem: str


@dataclass
class FilesReport:
    findings: list[Finding] = field(default_factory=list)
    damaged: dict[str, FileFault] = field(default_factory=dict)
    """Damaged files below manifests, by key."""
    lost: set[TableState] = field(default_factory=set)
    """States that cannot be read, or not in full."""
    files: int = 0
    bytes: int = 0


def verify_files(
    address: Address, facts: ChainFacts, listed: Mapping[str, Sequence[ObjectInfo]], store: Store, runner: Runner
) -> FilesReport:
    """`listed`: what lies in the folder of each table."""
    report = FilesReport()
    states = facts.states()
    by_path: dict[str, list[TableState]] = {}
    for state in sorted(states, key=lambda state: state.version):
        by_path.setdefault(state.path, []).append(state)
    sizes = {path: sizes_in(path, listed.get(path, ())) for path in by_path}
    tasks = [
        VersionsTask(address, path, tuple(some[start : start + TASK_VERSIONS]))
        for path, some in by_path.items()
        for start in range(0, len(some), TASK_VERSIONS)
    ]
    needed: dict[str, dict[str, TableFile]] = {path: {} for path in by_path}
    miscounted: list[tuple[TableState, int]] = []
    unreadable: list[tuple[TableState, Damaged]] = []
    for task, answer in zip(tasks, runner.map("versions", read_versions, tasks), strict=True):
        needed[task.path].update(answer.files)
        unreadable += answer.unreadable
        miscounted += answer.miscounted
    for path, files in needed.items():
        _check_sizes(path, files.values(), sizes[path], store, report)
    _check_contents(address, needed, sizes, runner, report)
    versions = {(state.path, state.version) for state in states}
    report.files = len(versions) + sum(map(len, needed.values()))
    report.bytes = sum(sizes[path].get(name, 0) for path, files in needed.items() for name in files)
    report.bytes += sum(sizes[path].get(version_file(version), 0) for path, version in versions)
    _name_losses(address, facts, unreadable, miscounted, report)
    return report


def _check_sizes(
    path: str, files: Iterable[TableFile], sizes: Mapping[str, int], store: Store, report: FilesReport
) -> None:
    for file in files:
        fault = size_fault(file, sizes.get(file.name))
        if fault is None:
            continue
        # The listing may be older than the commit: only what the store still says now counts.
        infos = _now(store, f"{path}/{file.name}", is_folder=file.kind == "index")
        size = sum(info.size for info in infos) if infos else None
        fault = size_fault(file, size)
        if fault is not None:
            report.damaged[f"{path}/{file.name}"] = FileFault("missing" if size is None else "size", fault)


def _now(store: Store, key: str, *, is_folder: bool = False) -> list[ObjectInfo]:
    if is_folder:
        return store.list(key)
    try:
        return [store.info(key)]
    except ObjectMissing:
        return []


def _check_contents(
    address: Address,
    needed: Mapping[str, Mapping[str, TableFile]],
    sizes: Mapping[str, Mapping[str, int]],
    runner: Runner,
    report: FilesReport,
) -> None:
    tasks: list[ContentsTask] = []
    for path, files in needed.items():
        held: list[TableFile] = []
        weight = 0
        for file in files.values():
            if file.digest is None or f"{path}/{file.name}" in report.damaged:
                continue
            held.append(file)
            weight += sizes[path].get(file.name, 0)
            if weight >= TASK_BYTES or len(held) >= TASK_FILES:
                tasks.append(ContentsTask(address, path, tuple(held)))
                held, weight = [], 0
        if held:
            tasks.append(ContentsTask(address, path, tuple(held)))
    for task, faults in zip(tasks, runner.map("contents", check_contents, tasks), strict=True):
        for file, problem in faults:
            kind: FindingKind = "missing" if problem == MISSING else "content"
            report.damaged[f"{task.path}/{file.name}"] = FileFault(kind, problem)


# ---------------------------------------------------------------- what is lost with them


def _name_losses(
    address: Address,
    facts: ChainFacts,
    unreadable: Sequence[tuple[TableState, Damaged]],
    miscounted: Sequence[tuple[TableState, int]],
    report: FilesReport,
) -> None:
    """Findings with the commits, types and rows that each damaged file takes away."""
    needing = _states_needing(address, facts, report)
    for state, damage in unreadable:
        report.damaged[damage.file] = FileFault("missing" if damage.what == MISSING else "content", damage.what)
        needing.setdefault(damage.file, {})[state] = state.rows
    wanted = {state for states in needing.values() for state in states} | {state for state, _ in miscounted}
    uses: dict[TableState, list[tuple[CommitRef, str]]] = {}
    for commit, key, state in facts.uses(wanted):
        uses.setdefault(state, []).append((commit, key))
    for file, fault in sorted(report.damaged.items()):
        states = needing.get(file, {})
        is_index = object_kind(file) == "index"
        report.findings.append(_finding(file, fault, states, uses, None if is_index else states))
        if not is_index:
            report.lost.update(states)
    for state, rows in miscounted:
        fault = FileFault("row_count", f"it has {rows} rows, and its commit says {state.stored_rows}")
        file = f"{state.path}/{version_file(state.version)}"
        report.findings.append(_finding(file, fault, {state: 0}, uses, None))


def _finding(
    file: str,
    fault: FileFault,
    states: Mapping[TableState, int],
    uses: Mapping[TableState, Sequence[tuple[CommitRef, str]]],
    rows: Mapping[TableState, int] | None,
) -> Finding:
    """`rows`: how many rows of each state cannot be read; None: all can."""
    named = [(commit, key, state) for state in states for commit, key in uses.get(state, ())]
    commits = {commit.id for commit, _, _ in named}
    newest = max(named, key=lambda use: (use[0].id, use[1]), default=None)
    return Finding(
        kind=fault.kind,
        object_kind=object_kind(file),
        object=file,
        problem=fault.problem,
        action=action_for(file),
        commits=newest_of(list(commits)),
        total_commits=len(commits),
        types=tuple(sorted({key.partition(":")[2] for _, key, _ in named})),
        rows=None if rows is None or newest is None else rows[newest[2]],
    )


def _states_needing(address: Address, facts: ChainFacts, report: FilesReport) -> dict[str, dict[TableState, int]]:
    """For each damaged file the states that need it, with the rows that they keep in it."""
    needing: dict[str, dict[TableState, int]] = {}
    paths = {"/".join(file.split("/")[:2]) for file in report.damaged}
    for state in facts.states():
        if state.path not in paths:
            continue
        for name, rows in address.tables.rows_by_file(state.path, state.version, state.digest).items():
            file = f"{state.path}/{name}"
            if file in report.damaged:
                needing.setdefault(file, {})[state] = rows
    return needing


def foreign_files(address: Address, listed: Mapping[str, Sequence[ObjectInfo]]) -> list[Finding]:
    """What another tool left in the folders of tables. It is never made part of the graph."""
    is_empty = address.tables.is_empty
    return [
        Finding("foreign", "other", info.key, problem, "look at it with the tool that made it, or remove it")
        for path, infos in sorted(listed.items())
        for info in infos
        if (problem := foreign_file(info.key.removeprefix(f"{path}/"), partial(is_empty, path))) is not None
    ]
