"""The rows themselves: that they can be read, that they keep every rule of their schema, and that indexes answer as scans do.

The rules are those of every write (`omnigraph.rules`): the whole snapshot is checked as if one write had put all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import Damaged, StorageDenied, StorageTransient
from omnigraph.history.values import Snapshot, TableState
from omnigraph.load.checks import CheckTask, run_checks
from omnigraph.load.keyed_rows import CUT_ROWS, Source
from omnigraph.maintenance.verify.files import FilesReport, RetainedCommit
from omnigraph.maintenance.verify.findings import LOST_DATA, Finding, FindingKind, newest_of
from omnigraph.rules.check import Check, Need, Violation
from omnigraph.rules.endpoints import EndpointCheck
from omnigraph.rules.keys import KeyCheck
from omnigraph.rules.planning import Change, plan_checks
from omnigraph.snapshot import Repository, View
from omnigraph.tables.lost_rows import rows_with, without_addresses
from omnigraph.tables.staging import Staged
from omnigraph.tables.table import Table
from omnigraph.tables.verifying import index_fault, index_names
from omnigraph.tasks.runner import Runner
from omnigraph.tasks.target import Address, TableVersion, Target

# Values that a commit lost and its files still hold: the merge or the load that made it left out a column of a property.

BRING_BACK = "'omnigraph repair --deep --yes' brings them back, in a new commit"


@dataclass(frozen=True)
class LostValues:
    """Values that the head of a branch lacks, of one type. `commits`: those that lost them."""

    key: str
    commits: tuple[str, ...]
    rows: int
    properties: tuple[str, ...]

    def finding(self) -> Finding:
        name = self.key.partition(":")[2]
        lost = ", ".join(f"{name}.{property}" for property in self.properties)
        problem = f"{self.rows} entities lack a value of {lost} that commit {self.commits[0]} lost"
        count, commits = len(self.commits), newest_of(self.commits)
        return Finding("lost_values", "type", name, problem, BRING_BACK, commits, count, (name,), self.rows)


States = Mapping[str, Sequence[tuple[str, TableState]]]
"""By the path of a table: its states in the commits of a branch, each with the oldest commit that has it, oldest first."""


def states_by_path(commits: Iterable[RetainedCommit]) -> States:
    by_path: dict[str, dict[tuple[str, int], tuple[str, TableState]]] = {}
    for commit in commits:
        for state in commit.tables.values():
            if state is not None:
                by_path.setdefault(state.path, {}).setdefault((state.path, state.version), (commit.ref.id, state))
    return {path: list(states.values()) for path, states in by_path.items()}


def lost_values(repository: Repository, head: Snapshot, states: States) -> Iterator[LostValues]:
    """What the commits of a branch lost and its head does not have."""
    view = repository.view(head)
    tables = {key: view.table(key) for key in view.catalog.tables} if view.catalog.is_evolved else {}
    for key, table in tables.items():
        if table is None:
            continue
        rows, commits, properties = 0, dict[str, None](), dict[str, None]()
        for commit, values in _lost(repository, table, states):
            if gained := rows_with(table, values).num_rows:
                rows += gained
                commits[commit] = None
                properties |= dict.fromkeys(values.column_names[1:])
        if rows:
            yield LostValues(key, tuple(commits), rows, tuple(properties))


def with_lost_values(repository: Repository, head: Snapshot, key: str, states: States) -> list[Staged]:
    """Versions of a type's table with what the commits of a branch lost; the last has all of it."""
    view, staged = repository.view(head), list[Staged]()
    table = view.table(key)
    assert table is not None, "a type without rows has lost none"
    for _, values in _lost(repository, table, states):
        rows = rows_with(table, values)
        if rows.num_rows:
            restored, addresses = without_addresses(rows)
            staged.append(repository.tables.stage(table, rows=restored, remove=addresses, fold=False))
            table = view.staged(key, staged[-1].path, staged[-1].version)
    return staged


def _lost(repository: Repository, head: Table, states: States) -> Iterator[tuple[str, pa.Table]]:
    """The values that commits lost, as the head's schema has them, with the oldest commit that did. Each file counts once."""
    seen = set[tuple[str, ...]]()
    for commit, state in states.get(head.path, ()):
        try:
            table = repository.tables.open(state.path, state.version, state.digest, layout=head.layout)
            for files, values in repository.tables.lost_values(table):
                if files not in seen:
                    seen.add(files)
                    yield commit, values
        except Damaged:
            continue  # It has a finding of its own.


CORRECT = "correct the rows with a mutation, or export the type, correct it, and load it with --mode overwrite"
RENUMBER = "'omnigraph repair --deep --yes' gives new ids to all of them but the first"
REBUILD = "'omnigraph repair --deep --yes' rebuilds it"


@dataclass
class RowsReport:
    """`stale`: indexes that do not answer as scans do, by the state of their table."""

    findings: list[Finding] = field(default_factory=list)
    rows: int = 0
    stale: dict[TableState, list[str]] = field(default_factory=dict)
    repeated: set[TableState | None] = field(default_factory=set)
    """States of tables in which rows have equal ids."""


def verify_rows(
    repository: Repository, snapshots: Sequence[Snapshot], files: FilesReport, runner: Runner
) -> RowsReport:
    """Of these snapshots. Tables and indexes whose files are damaged are left out: what they hold cannot be told."""
    lost = files.lost
    report = RowsReport()
    uses: dict[TableState, tuple[str, str]] = {}
    for snapshot in snapshots:
        for key, state in snapshot.tables.items():
            if state not in lost:
                uses.setdefault(state, (key, snapshot.commit.id))
    unreadable = _read_all(Address.of_graph(repository), uses, runner, report)
    _check_rules(repository, snapshots, lost | unreadable, runner, report)
    _check_indexes(Address.of_graph(repository), uses, unreadable, files.damaged.keys(), runner, report)
    return report


# ---------------------------------------------------------------- reading


@dataclass(frozen=True)
class FragmentsTask:
    address: Address
    place: TableVersion
    fragments: tuple[int, ...]
    rows: int


def read_rows(task: FragmentsTask) -> str | None:
    """Read every value; what is wrong, if something is."""
    try:
        table = task.address.open(task.place)
        rows = sum(batch.num_rows for batch in table.scan(fragments=task.fragments))
    except (StorageTransient, StorageDenied):
        raise
    except Exception as error:  # Lance says of damaged data whatever it stumbled over.
        return f"rows cannot be read ({type(error).__name__}: {_words(error)})"
    return None if rows == task.rows else f"{rows} rows can be read where {task.rows} should be"


def _read_all(
    address: Address, uses: Mapping[TableState, tuple[str, str]], runner: Runner, report: RowsReport
) -> set[TableState]:
    """States that cannot be read in full."""
    tasks: list[tuple[TableState, FragmentsTask]] = []
    for state in uses:
        place = TableVersion(state.path, state.version)
        held: list[int] = []
        rows = 0
        for fragment in address.tables.open(state.path, state.version, state.digest).fragments:
            if held and rows + fragment.rows > CUT_ROWS:
                tasks.append((state, FragmentsTask(address, place, tuple(held), rows)))
                held, rows = [], 0
            held.append(fragment.id)
            rows += fragment.rows
        if held:
            tasks.append((state, FragmentsTask(address, place, tuple(held), rows)))
        report.rows += state.rows
    unreadable: set[TableState] = set()
    answers = runner.map("rows", read_rows, [task for _, task in tasks])
    for (state, task), problem in zip(tasks, answers, strict=True):
        if problem is not None:
            key, commit = uses[state]
            unreadable.add(state)
            name = key.partition(":")[2]
            report.findings.append(
                Finding("unreadable", "type", name, problem, LOST_DATA, (commit,), 1, (name,), task.rows)
            )
    return unreadable


# ---------------------------------------------------------------- rules


def _check_rules(
    repository: Repository, snapshots: Sequence[Snapshot], lost: set[TableState], runner: Runner, report: RowsReport
) -> None:
    tasks: dict[object, tuple[CheckTask, str, TableState | None]] = {}
    for snapshot in snapshots:
        view = repository.view(snapshot)
        changes = {key: Change(replaces=True) for key in view.catalog.tables if view.rows(key)}
        for number, check in enumerate(plan_checks(view.catalog, changes)):
            needs = (*check.own, *check.others, *check.details)
            if lost & {state for need in needs if (state := view.state(need.table)) is not None}:
                continue
            sources = {need: whole_table(view, need) for need in needs}
            task = CheckTask(Target.of(repository, view), check, sources)
            # Branches share tables: the same check of the same rows is made once.
            same = (snapshot.schema, tuple(changes), number, tuple(sources.values()))
            tasks.setdefault(same, (task, snapshot.commit.id, view.state(check.table)))
    reports = run_checks("rules", [task for task, _, _ in tasks.values()], runner)
    for (task, commit, state), answer in zip(tasks.values(), reports, strict=True):
        if answer.violations:
            report.findings.append(_broken(task.check, answer.violations, commit))
            if isinstance(task.check, KeyCheck):
                report.repeated.add(state)


def whole_table(view: View, need: Need) -> tuple[Source, ...]:
    """All rows are new, and there are no others."""
    state = view.state(need.table)
    if state is None or not state.rows or need.state in ("lost", "staying"):
        return ()
    return (Source.of(need, TableVersion.of_state(state, view.layout(need.table)), state.rows),)


def _broken(check: Check, violations: Sequence[Violation], commit: str) -> Finding:
    first = min(violations, key=lambda violation: violation.id)
    name = check.table.partition(":")[2]
    kind: FindingKind = "broken_rule"
    problem, action = str(check.error(first).message), CORRECT
    if isinstance(check, KeyCheck):
        is_keyed = bool(check.entity.key)
        action = CORRECT if is_keyed else RENUMBER
        kind, problem = "duplicate_id", f"several rows have the id '{first.id}'"
    elif isinstance(check, EndpointCheck):
        kind = "missing_end"
    if len(violations) > 1:
        problem += f", and {len(violations) - 1} more like this"
    ids = tuple(sorted({violation.id for violation in violations}))
    return Finding(kind, "type", name, problem, action, (commit,), 1, (name,), None, ids)


# ---------------------------------------------------------------- indexes


@dataclass(frozen=True)
class IndexTask:
    address: Address
    place: TableVersion
    name: str


def check_index(task: IndexTask) -> str | None:
    try:
        return index_fault(task.address.open(task.place), task.name)
    except (StorageTransient, StorageDenied):
        raise
    except Exception as error:  # As above.
        return f"it cannot be asked ({type(error).__name__}: {_words(error)})"


def _check_indexes(
    address: Address,
    uses: Mapping[TableState, tuple[str, str]],
    unreadable: set[TableState],
    damaged: Collection[str],
    runner: Runner,
    report: RowsReport,
) -> None:
    tasks: list[tuple[TableState, IndexTask]] = []
    for state in _in_order(uses.keys() - unreadable):
        table = address.tables.open(state.path, state.version, state.digest)
        place = TableVersion.of(table)
        hurt = {key.rsplit("/", 1)[1] for key in damaged if key.startswith(f"{state.path}/_indices/")}
        tasks += [
            (state, IndexTask(address, place, name))
            for name, segments in index_names(table).items()
            if hurt.isdisjoint(segments)
        ]
    for (state, task), problem in zip(tasks, runner.map("indexes", check_index, [t for _, t in tasks]), strict=True):
        if problem is not None:
            key, commit = uses[state]
            name = key.partition(":")[2]
            report.stale.setdefault(state, []).append(task.name)
            message = f"the index {task.name} is stale: {problem}"
            report.findings.append(Finding("stale_index", "type", name, message, REBUILD, (commit,), 1, (name,)))


def _in_order(states: Iterable[TableState]) -> list[TableState]:
    return sorted(states, key=lambda state: (state.path, state.version))


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
