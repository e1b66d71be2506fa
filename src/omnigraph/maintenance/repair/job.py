"""Repair: what follows from the rest is rebuilt, what is lost is named, and a branch can go on without it.

Objects of history are rebuilt to the bytes that they had. Everything else is a new commit: indexes built again, a branch set to
its newest intact commit, or the head of a branch without the rows whose files are lost. Nothing is done unless it is asked for.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from omnigraph.errors import BranchNotFound, Damaged, HistoryGap, UsageError
from omnigraph.history.chain import MAIN, check_branch_name
from omnigraph.history.plan import check_attribution
from omnigraph.history.rebuilding import Rebuilder
from omnigraph.history.values import CommitRef, Snapshot
from omnigraph.maintenance.repair.commits import (
    RepairCommit,
    drop_lost,
    has_own_ids,
    rebuild_indexes,
    renumber_rows,
    reset_to,
    restore_values,
)
from omnigraph.maintenance.verify.findings import Finding, RepairReport, RepairStep
from omnigraph.maintenance.verify.job import Verification
from omnigraph.maintenance.verify.rows import LostValues
from omnigraph.snapshot import Repository
from omnigraph.tasks.engines import Engine, Lost, make_runner
from omnigraph.tasks.progress import Silent, progress_for
from omnigraph.tasks.runner import Runner

REBUILT = ("segment", "ancestry", "write_keys", "watermark", "entry")


def repair(
    repository: Repository,
    branch: str = MAIN,
    *,
    lost: Lost = "report",
    deep: bool = False,
    yes: bool = False,
    actor: str | None = None,
    engine: Engine = "local",
    show_progress: bool = False,
) -> RepairReport:
    """Verify everything, and do what can be done about it; without `yes`, only say what that would be. BranchNotFound when there
    is no such branch."""
    check_attribution(actor)
    check_branch_name(branch)
    if lost not in get_args(Lost):
        raise UsageError(f"{lost!r} is not a way to treat what is lost", hint='lost="report", "reset" or "drop"')
    shown = progress_for(sys.stderr) if show_progress else Silent()
    try:
        runner = make_runner(engine, repository.store.uri, shown, "repair")
        with contextlib.suppress(Damaged):
            repository.history.chain.head(branch)
        job = RepairJob.of(repository, runner, deep, actor)
        return job.run(branch, lost) if yes else job.outline(branch, lost)
    finally:
        shown.close()


@dataclass
class RepairJob:
    repository: Repository
    runner: Runner
    deep: bool
    actor: str | None
    seen: Verification
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, repository: Repository, runner: Runner, deep: bool, actor: str | None) -> RepairJob:
        seen = Verification(repository, runner)
        return cls(repository, runner, deep, actor, seen, seen.run(MAIN, all=True, deep=deep).findings)

    def outline(self, branch: str, lost: Lost) -> RepairReport:
        """What a repair would do. Nothing is changed."""
        rebuilt = dict(self._objects())
        steps = [_rebuilt(key) for key in rebuilt]
        concerned = set(rebuilt)
        if lost != "report" and (step := self._lost_step(branch, lost)) is not None:
            steps.append(step)
            concerned |= {finding.object for finding in self.findings if finding.rows is not None}
        for name, keys in self._repeated_ids():
            steps.append(_renumbered(name, keys))
            concerned |= {key.partition(":")[2] for key in keys}
        for name, indexes in self._damaged_indexes():
            steps.append(_indexed(name, indexes))
            concerned |= {finding.object for finding in self.findings if finding.object_kind == "index"}
            concerned |= {finding.object for finding in self.findings if finding.kind == "stale_index"}
        steps += [_restored(name, values) for name, values in self.seen.lost.items() if values]
        remaining = tuple(
            finding for finding in self.findings if finding.object not in concerned and finding.kind != "lost_values"
        )
        return RepairReport(False, tuple(steps), self.findings, remaining)

    def run(self, branch: str, lost: Lost) -> RepairReport:
        steps: list[RepairStep] = []
        for key, data in self._objects():
            self.repository.store.put(key, data)
            steps.append(_rebuilt(key))
        if lost != "report" and (step := self._lost_step(branch, lost)) is not None:
            repair = self._publish_lost(branch, lost)
            steps.append(replace(step, action=repair.action, commit=repair.commit))
        for name, keys in self._repeated_ids():
            renumbering = renumber_rows(self.repository, name, keys, self.runner, self.actor)
            step = _renumbered(name, keys)
            steps.append(replace(step, action=renumbering.action, commit=renumbering.commit))
        for name, indexes in self._damaged_indexes():
            commit = rebuild_indexes(self.repository, name, indexes, self.actor)
            steps.append(replace(_indexed(name, indexes), commit=commit))
        for name, values in self.seen.lost.items():
            if values:
                keys = [lost.key for lost in values]
                commit = restore_values(self.repository, name, keys, self.seen.states(name), self.actor)
                steps.append(replace(_restored(name, values), commit=commit))
        remaining = self.findings
        if steps:
            remaining = Verification(self.repository, self.runner).run(MAIN, all=True, deep=self.deep).findings
        return RepairReport(True, tuple(steps), self.findings, remaining)

    # ------------------------------------------------------------ what follows from the rest

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        """Damaged objects of history, with the bytes that they had."""
        wanted = [finding.object for finding in self.findings if finding.object_kind in REBUILT and finding.is_damage]
        if not wanted:
            return
        rebuilder = Rebuilder(self.repository.history)
        for key in wanted:
            data = rebuilder.object(key)
            if data is not None:
                yield key, data

    def _damaged_indexes(self) -> Iterator[tuple[str, dict[str, set[str]]]]:
        """For each living branch whose head has damaged indexes: their segments or names, by type."""
        damaged = {finding.object for finding in self.findings if finding.object_kind == "index"}
        if not damaged and not self.seen.rows.stale:
            return
        for name in self.repository.history.chain.branches():
            try:
                entry, view = self.repository.head(name)
            except (BranchNotFound, Damaged):
                continue
            by_table: dict[str, set[str]] = {}
            for key, state in entry.head.tables.items():
                if state in self.seen.files.lost or key not in view.catalog.tables:
                    continue
                names = {
                    folder.rsplit("/", 1)[1] for folder in self.repository.files_of(state).indexes if folder in damaged
                } | set(self.seen.rows.stale.get(state, ()))
                if names:
                    by_table[key] = names
            if by_table:
                yield name, by_table

    def _repeated_ids(self) -> Iterator[tuple[str, list[str]]]:
        """For each living branch in whose head rows have equal ids: the types of these, if their ids are not derived from keys."""
        for name in self.repository.history.chain.branches() if self.seen.rows.repeated else ():
            try:
                entry, view = self.repository.head(name)
            except (BranchNotFound, Damaged):
                continue
            states = entry.head.tables.items()
            keys = [key for key, state in states if state in self.seen.rows.repeated and has_own_ids(view, key)]
            if keys:
                yield name, sorted(keys)

    # ------------------------------------------------------------ what is lost

    def _lost_step(self, branch: str, lost: Lost) -> RepairStep | None:
        """What would be done about a branch whose head cannot be read in full; None when it can."""
        head = self._head(branch)
        if head is not None and not self._is_hurt(head):
            return None
        if lost == "drop":
            if head is None:
                raise UsageError(
                    f"the head of branch '{branch}' cannot be read at all",
                    hint='set it back with lost="reset"',
                )
            return RepairStep(
                "drop_rows",
                branch,
                f"commit the head of {branch} without the rows whose files are lost, and their edges",
            )
        intact = self._newest_intact(branch)
        at = intact.commit.at.strftime("%Y-%m-%d %H:%M:%S")
        return RepairStep(
            "reset_branch", branch, f"set {branch} to its newest intact commit {intact.commit.id} of {at}"
        )

    def _publish_lost(self, branch: str, lost: Lost) -> RepairCommit:
        head = self._head(branch)
        if lost == "drop" and head is not None:
            return drop_lost(self.repository, branch, head, self.seen.files, self.actor)
        return reset_to(self.repository, branch, self._newest_intact(branch), head, self.actor)

    def _head(self, branch: str) -> Snapshot | None:
        """None when the newest entry cannot be read. BranchNotFound when there is no such branch."""
        try:
            return self.repository.history.chain.head(branch).head
        except Damaged:
            return None

    def _is_hurt(self, snapshot: Snapshot) -> bool:
        lost = {finding.object for finding in self.findings if finding.object_kind == "schema"}
        states = self.seen.files.lost
        return f"schemas/{snapshot.schema}.json" in lost or any(state in states for state in snapshot.tables.values())

    def _newest_intact(self, branch: str) -> Snapshot:
        """The newest commit of the branch, or of the one it was made from, whose entry and tables can all be read."""
        for ref in self._commits_of(branch):
            try:
                snapshot = self.repository.history.revisions.snapshot(ref)
            except (Damaged, HistoryGap):
                continue
            if not self._is_hurt(snapshot):
                return snapshot
        raise UsageError(
            f"branch '{branch}' has no commit that can be read in full",
            hint='restore its files from a backup, or go on without the lost rows: lost="drop"',
        )

    def _commits_of(self, branch: str) -> Iterator[CommitRef]:
        """The commits in the chain of a branch, newest first, then those that it inherited, by the newest log that can be read."""
        yield from reversed(self.seen.chains.get(branch, []))
        history = self.repository.history
        for position in reversed(history.chain.positions(branch)):
            with contextlib.suppress(Damaged):
                entry = history.chain.read(branch, position)
                yield from (commit.ref for commit in history.log.walk(entry) if commit.ref.branch != branch)
                return


def _rebuilt(key: str) -> RepairStep:
    return RepairStep("rebuild_object", key, f"write {key} again, from the rest of history")


def _restored(branch: str, values: Sequence[LostValues]) -> RepairStep:
    rows = ", ".join(f"{lost.rows} entities of {lost.key.partition(':')[2]}" for lost in values)
    return RepairStep("restore_values", branch, f"bring back lost values of {rows}, at the head of {branch}")


def _renumbered(branch: str, keys: list[str]) -> RepairStep:
    types = ", ".join(key.partition(":")[2] for key in keys)
    return RepairStep(
        "renumber_rows", branch, f"give new ids to rows of {types} whose ids others have, at the head of {branch}"
    )


def _indexed(branch: str, indexes: dict[str, set[str]]) -> RepairStep:
    types = ", ".join(sorted(key.partition(":")[2] for key in indexes))
    return RepairStep("rebuild_indexes", branch, f"build the damaged indexes of {types} again, at the head of {branch}")
