"""Verify: every retained commit can be read, every file is there with its size and digest, and on demand every row."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from omnigraph.errors import CommitNotFound, Damaged, HistoryGap, NotFound, ObjectMissing, UsageError
from omnigraph.history.chain import MAIN, position_of
from omnigraph.history.encoding import decode_records
from omnigraph.history.envelope import SchemaTexts, read_as, required, unseal
from omnigraph.history.history import History
from omnigraph.history.values import CommitRef, Snapshot
from omnigraph.history.write_keys import decode_keys
from omnigraph.indexing.adjacency import adjacency_fault
from omnigraph.indexing.kinds import kind_of
from omnigraph.language.catalog_json import catalog_from_json
from omnigraph.maintenance.reachable import plan_states
from omnigraph.maintenance.verify.files import (
    ChainFacts,
    FilesReport,
    RetainedCommit,
    foreign_files,
    ranges,
    read_range,
    verify_files,
    whole_commit,
)
from omnigraph.maintenance.verify.findings import Finding, VerifyReport, action_for, damaged_object, object_kind
from omnigraph.maintenance.verify.rows import LostValues, RowsReport, States, lost_values, states_by_path, verify_rows
from omnigraph.snapshot import Repository
from omnigraph.storage.store import ObjectInfo
from omnigraph.tables.adjacency.segment import is_there
from omnigraph.tables.verifying import MISSING
from omnigraph.tasks.engines import Engine, make_runner
from omnigraph.tasks.progress import Progress, Silent, progress_for
from omnigraph.tasks.runner import Runner
from omnigraph.tasks.target import Address

TASK_OBJECTS = 256
"""Objects that one task reads."""
OBJECT_SUFFIX = ".json"
OBJECT_FOLDERS = ("schemas/", "history/", "tags/", "recovery/", "retention/", "cutoffs/", "leases/")
TOP_LEVEL = frozenset(
    [
        "graph.json",
        "schemas",
        "branches",
        "history",
        "tags",
        "nodes",
        "edges",
        "recovery",
        "retention",
        "cutoffs",
        "leases",
        "staging",
    ]
)


def verify(
    repository: Repository,
    *,
    revision: str | None = None,
    all: bool = False,
    deep: bool = False,
    engine: Engine = "local",
    show_progress: bool = False,
    progress: Progress | None = None,
) -> VerifyReport:
    """Look at every retained commit of a branch (main), at the commit of another revision, or at all branches and tags.

    `deep` reads the rows too, at the heads of the branches and at the tags, or at the revision. A report, whatever is wrong:
    the only errors are those of the store itself.
    """
    if all and revision is not None:
        raise UsageError("all and revision exclude each other", hint="all means every branch and tag")
    shown = progress or (progress_for(sys.stderr) if show_progress else Silent())
    try:
        runner = make_runner(engine, repository.store.uri, shown, "verify")
        return Verification(repository, runner).run(revision or MAIN, all, deep)
    finally:
        shown.close()


@dataclass
class Verification:
    """One look at one graph. What lies in it is listed once, at the start."""

    repository: Repository
    runner: Runner
    facts: ChainFacts = field(default_factory=ChainFacts)
    findings: list[Finding] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    """What is looked at in depth."""
    files: FilesReport = field(default_factory=FilesReport)
    rows: RowsReport = field(default_factory=RowsReport)
    chains: dict[str, list[CommitRef]] = field(default_factory=dict)
    """The commits of each branch's chain, oldest first."""
    lost: dict[str, list[LostValues]] = field(default_factory=dict)
    """By branch: values that its head lacks and files of its commits hold."""
    objects: int = 0

    def __post_init__(self) -> None:
        self.address = Address.of_graph(self.repository)
        # In the order of keys entries come before tables: what a listed entry names is listed, or was swept.
        self.listed: dict[str, list[ObjectInfo]] = {}
        for info in self.repository.store.list(""):
            self.listed.setdefault("/".join(info.key.split("/")[:2]), []).append(info)

    @property
    def history(self) -> History:
        return self.repository.history

    def run(self, revision: str, all: bool, deep: bool) -> VerifyReport:
        if all:
            self._take_everything()
        elif self._is_branch(revision):
            self._take_chain(revision)
        else:
            self._take_commit(self.history.revisions.resolve(revision))
        self._check(self.facts.named)
        self.findings += [damaged_object(damage) for damage in self.facts.damage if self._is_needed(damage)]
        if self.repository.tables.has_files:
            self.files = verify_files(self.address, self.facts, self.listed, self.repository.store, self.runner)
            self.findings += self._still_retained(self.files.findings)
            self.findings += self._damaged_adjacency()
        if all:
            self.findings += self._foreign()
        if deep:
            self.rows = verify_rows(self.repository, self._readable(), self.files, self.runner)
            self.findings += self.rows.findings
            self.findings += self._lost_values()
        return VerifyReport(
            commits=len({commit.ref.id for commit in self.facts.commits}),
            objects=self.objects + self.facts.entries,
            files=self.files.files,
            bytes=self.files.bytes,
            rows=self.rows.rows,
            is_deep=deep,
            findings=tuple(self.findings),
        )

    def _lost_values(self) -> list[Finding]:
        """Of the heads of the branches that were looked at."""
        for head in self._readable():
            branch, chain = head.commit.ref.branch, self.chains.get(head.commit.ref.branch)
            if chain and head.commit.ref == chain[-1]:
                self.lost[branch] = list(lost_values(self.repository, head, self.states(branch)))
        return [lost.finding() for values in self.lost.values() for lost in values]

    def states(self, branch: str) -> States:
        """The states of tables in the commits of a branch."""
        return states_by_path(commit for commit in self.facts.commits if commit.ref.branch == branch)

    def _damaged_adjacency(self) -> list[Finding]:
        """Of the tables that were looked at."""
        store = self.repository.store
        keys = [
            info.key
            for path in sorted({state.path for state in self.facts.states()})
            for info in self.listed.get(path, ())
            if kind_of(info.key) == "adjacency"
        ]
        faults = ((key, adjacency_fault(store, key)) for key in keys)
        return [
            Finding("content", "adjacency", key, fault, action_for(key))
            for key, fault in faults
            if fault is not None and is_there(store, key)
        ]

    # ------------------------------------------------------------ what is looked at

    def _folder(self, name: str) -> list[ObjectInfo]:
        """The objects in a folder of history."""
        infos = (info for key, infos in self.listed.items() if key.startswith(f"{name}/") for info in infos)
        return [info for info in infos if info.key.endswith(OBJECT_SUFFIX)]

    def _branches(self) -> dict[str, str]:
        """The names that have a chain, with their folders."""
        return {unquote(key.split("/")[1]): key for key in self.listed if key.startswith("branches/")}

    def _is_branch(self, revision: str) -> bool:
        if revision not in self._branches():
            return False
        try:
            newest = self.history.chain.newest(revision)
        except Damaged:
            return True
        return newest is not None and newest.alive

    def _take_everything(self) -> None:
        for branch in sorted(self._branches()):
            self._take_chain(branch)
        for info in self._folder("tags"):
            self._take_tag(info.key)
        for info in self._folder("recovery"):
            self._take_plan(info.key)
        self._check(info.key for folder in ("retention", "cutoffs", "leases") for info in self._folder(folder))

    def _take_chain(self, branch: str) -> None:
        folder = self._branches()[branch]
        positions: set[int] = set()
        for info in self.listed[folder]:
            try:
                positions.add(position_of(info.key))
            except Damaged as damage:
                self.facts.damage.append(damage)
        kept = range(self.history.chain.floor(branch), max(positions, default=-1) + 1)
        tasks = ranges(self.address, branch, sorted({*positions, *kept}))
        for answer in self.runner.map(f"commits of {branch}", read_range, tasks):
            self.facts.add(answer)
            self.chains.setdefault(branch, []).extend(commit.ref for commit in answer.commits)
        try:
            newest = self.history.chain.newest(branch)
        except Damaged:
            return  # It is among the entries.
        if newest is not None and newest.alive:
            self.snapshots.append(newest.head)

    def _take_commit(self, snapshot: Snapshot) -> None:
        self.facts.commits.append(whole_commit(snapshot))
        ref = snapshot.commit.ref
        self.facts.name(f"schemas/{snapshot.schema}.json", ref.branch, ref.position)
        self.snapshots.append(snapshot)

    def _take_tag(self, key: str) -> None:
        name = _name(key)
        self.objects += 1
        try:
            ref = self.history.tags.find(name)
            if ref is not None:
                self._take_commit(self.history.revisions.snapshot(ref))
        except Damaged as damage:
            if damage.file not in {known.file for known in self.facts.damage}:
                self.facts.damage.append(damage)
        except (HistoryGap, CommitNotFound) as error:
            self.facts.damage.append(Damaged(key, f"the commit that it names is not there: {error.message}"))

    def _take_plan(self, key: str) -> None:
        """A prepared load needs what it staged, and what it was made on."""
        self.objects += 1
        try:
            plan = self.history.recovery.get(_name(key)).plan
        except NotFound:
            return  # Published or discarded meanwhile.
        except Damaged as damage:
            self.facts.damage.append(damage)
            return
        self.facts.commits += [
            RetainedCommit(plan.base, {key: state}, starts_run=True) for key, state in plan_states(plan)
        ]

    def _readable(self) -> list[Snapshot]:
        """The snapshots whose schema can be read, each once."""
        damaged = {finding.object for finding in self.findings if finding.object_kind == "schema"}
        known = {snapshot.commit.id: snapshot for snapshot in self.snapshots}
        return [snapshot for snapshot in known.values() if f"schemas/{snapshot.schema}.json" not in damaged]

    # ------------------------------------------------------------ objects

    def _check(self, keys: Iterable[str]) -> None:
        """Read objects of history and schemas."""
        wanted = [(key, self._needed_by(key)) for key in sorted(keys)]
        self.objects += len(wanted)
        tasks = [
            ObjectsTask(self.address, tuple(wanted[start : start + TASK_OBJECTS]))
            for start in range(0, len(wanted), TASK_OBJECTS)
        ]
        for damage in self.runner.map("objects", check_objects, tasks):
            self.facts.damage += damage

    def _needed_by(self, key: str) -> str | None:
        """An entry that names an object, in words; None when nobody misses it."""
        for branch, position in self.facts.named.get(key, {}).items():
            return f"entry {position} of branch '{branch}'"
        return None

    def _is_needed(self, damage: Damaged) -> bool:
        """False for an object that is gone because the entries that named it were swept meanwhile."""
        places = self.facts.named.get(damage.file)
        if damage.what != MISSING or places is None:
            return True
        return any(self._is_kept(branch, position) for branch, position in places.items())

    def _is_kept(self, branch: str, position: int) -> bool:
        """Whether an entry is part of its chain still: not removed by a cleanup, and not made by a writer that came after one."""
        chain = self.history.chain
        if position >= chain.floor(branch):
            return True
        entry = chain.find(branch, position)
        return entry is not None and not chain.is_stray(entry)

    def _still_retained(self, findings: Sequence[Finding]) -> list[Finding]:
        """Without what was swept while it was looked at: files that only commits needed which are gone now too."""
        if not any(finding.kind == "missing" for finding in findings):
            return list(findings)
        refs = {commit.ref.id: commit.ref for commit in self.facts.commits}
        return [
            finding
            for finding in findings
            if finding.kind != "missing"
            or any(self._is_kept(refs[commit].branch, refs[commit].position) for commit in finding.commits)
        ]

    def _foreign(self) -> list[Finding]:
        tables = {key: infos for key, infos in self.listed.items() if key.startswith(("nodes/", "edges/"))}
        others = [
            Finding("foreign", "other", info.key, "no file of a graph has this name", "remove it, or leave it alone")
            for key, infos in self.listed.items()
            for info in infos
            if key.partition("/")[0] not in TOP_LEVEL
            or (key.startswith(OBJECT_FOLDERS) and not info.key.endswith(OBJECT_SUFFIX))
        ]
        return [*foreign_files(self.address, tables), *others]


def _name(key: str) -> str:
    return unquote(key.rsplit("/", 1)[1].removesuffix(".json"))


@dataclass(frozen=True)
class ObjectsTask:
    """Objects, and who needs each: None when nobody misses one that is gone."""

    address: Address
    keys: tuple[tuple[str, str | None], ...]


def check_objects(task: ObjectsTask) -> list[Damaged]:
    store = task.address.store
    damage: list[Damaged] = []
    for key, needed_by in task.keys:
        affected = None if needed_by is None else f"{needed_by} needs it"
        try:
            match object_kind(key):
                case "schema":
                    schema = SchemaTexts(store).get(_name(key))
                    read_as(key, lambda data=schema: catalog_from_json(json.loads(data)), affected)  # type: ignore[misc]
                case "segment":
                    decode_records(required(store, key, str(affected)), key, affected)
                case "write_keys":
                    decode_keys(required(store, key, str(affected)), key, affected)
                case "ancestry":
                    value = unseal(key, required(store, key, str(affected)), affected)
                    read_as(key, lambda value=value: dict(value["reached"]), affected)  # type: ignore[misc]
                case _:
                    unseal(key, store.get(key), affected)
        except Damaged as found:
            damage.append(found)
        except ObjectMissing:
            if needed_by is not None:  # Otherwise it was replaced meanwhile.
                damage.append(Damaged(key, MISSING, affected=affected))
    return damage
