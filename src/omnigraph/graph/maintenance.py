"""Maintenance: indexes, compaction, verification, repair and cleanup."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import CommitNotFound, Damaged
from omnigraph.graph.access import MAINTENANCE, RECOVERY, Caller, public_api
from omnigraph.history.chain import MAIN
from omnigraph.history.history import History
from omnigraph.history.plan import DamagedPlan, PreparedPlan, check_attribution
from omnigraph.history.values import Commit, CommitKind, from_microseconds
from omnigraph.snapshot import Repository
from omnigraph.tasks.engines import Engine, make_workers

if TYPE_CHECKING:
    from omnigraph.maintenance.optimize import OptimizeReport
    from omnigraph.maintenance.reports import CleanupReport, StorageReport
    from omnigraph.maintenance.verify.findings import RepairReport, VerifyReport
    from omnigraph.tasks.engines import Lost as Lost


# Writes that were interrupted between staging and publishing: loads, so far.

PreparedState = Literal["resumable", "published", "moot", "provisional", "damaged"]


@dataclass(frozen=True)
class PreparedWrite:
    """A write whose data is staged and whose commit is not published. `at` is when staging ended, `actor` who began it.

    `state` is "resumable"; or "published", if only the note of it is left; "moot", if its branch was deleted since; "provisional",
    if its writer has not made sure yet that its data is safe from cleanup; or "damaged", if its file cannot be read: then its
    branch and kind are not known.

    >>> assert [write.commit_id for write in g.recovery.list() if write.branch == "main"] == []
    """

    commit_id: str
    branch: str | None
    kind: CommitKind | None
    at: dt.datetime
    total_entities: int
    actor: str | None = None
    state: PreparedState = "resumable"

    def __repr__(self) -> str:
        if self.state == "damaged":
            return f"<prepared write {self.commit_id}: damaged>"
        return f"<prepared {self.kind} {self.commit_id} on {self.branch}: {self.total_entities} entities>"


def _prepared(history: History, prepared: PreparedPlan | DamagedPlan) -> PreparedWrite:
    if isinstance(prepared, DamagedPlan):
        return PreparedWrite(prepared.commit_id, None, None, from_microseconds(prepared.written_at), 0, state="damaged")
    plan, entities = prepared.plan, prepared.receipt["total_entities"]
    at, state = from_microseconds(prepared.prepared_at), _state(history, prepared)
    return PreparedWrite(plan.commit_id, plan.branch, plan.kind, at, entities, plan.actor, state)


def _state(history: History, prepared: PreparedPlan) -> PreparedState:
    if prepared.provisional:
        return "provisional"
    plan = prepared.plan
    with contextlib.suppress(CommitNotFound):
        history.revisions.find(plan.commit_id)
        return "published"
    newest = history.chain.newest(plan.branch)
    is_same = newest is not None and newest.alive and newest.incarnation == plan.incarnation
    return "resumable" if is_same or plan.opening is not None else "moot"


@public_api
class GraphRecovery:
    """Prepared writes. Opening a graph does not look for them, and nothing depends on them.

    >>> assert g.recovery.list() == []
    """

    _asks = RECOVERY

    def __init__(self, repository: Repository, caller: Caller | None = None) -> None:
        self._repository = repository
        self._caller = caller

    def __repr__(self) -> str:
        return f"<prepared writes of {self._repository.store.uri}>"

    def list(self) -> list[PreparedWrite]:
        """The prepared writes, oldest first.

        >>> for write in g.recovery.list():
        ...     print(write.branch, write.at, write.total_entities)
        """
        history = self._repository.history
        return [_prepared(history, prepared) for prepared in history.recovery.list()]

    def resume(self, commit_id: str, *, actor: str | None = None, engine: Engine = "local") -> Commit:
        """Publish what was staged; if it was published already, the commit is the same. With `actor`, the commit is that actor's,
        and its message says who had prepared it. A large load is checked again and indexed by `engine`, if others committed since.

        >>> for write in g.recovery.list():
        ...     g.recovery.resume(write.commit_id)
        """
        from omnigraph.load.rebasing import resume

        check_attribution(actor)
        return resume(self._repository, commit_id, actor, engine)

    def discard(self, commit_id: str) -> None:
        """Discard a prepared write; it is never published.

        >>> for write in g.recovery.list():
        ...     g.recovery.discard(write.commit_id)
        """
        with contextlib.suppress(Damaged):  # A plan that cannot be read can still be discarded.
            self._repository.history.recovery.get(commit_id)
        self._repository.history.recovery.remove(commit_id)


@public_api
class GraphMaintenance:
    """What keeps a graph fast, intact and small.

    >>> assert g.maintenance.verify().is_whole
    """

    _asks = MAINTENANCE

    def __init__(self, repository: Repository, caller: Caller | None = None) -> None:
        self._repository = repository
        self._caller = caller

    def __repr__(self) -> str:
        return f"<maintenance of {self._repository.store.uri}>"

    def ensure_indexes(self, branch: str = MAIN, *, actor: str | None = None) -> Commit | None:
        """Make every declared index cover every row, as one commit; None if they do already.

        >>> g.maintenance.ensure_indexes()
        >>> assert g.maintenance.ensure_indexes() is None
        """
        from omnigraph.maintenance.optimize import maintain

        return maintain(self._repository, branch, rewrite=False, actor=actor).commit

    def optimize(
        self,
        branch: str = MAIN,
        *,
        dry_run: bool = False,
        engine: Engine = "local",
        actor: str | None = None,
        progress: bool = False,
    ) -> OptimizeReport:
        """Compact tables, sort edges by their source and bring indexes up to date, as one commit if there is anything to do.

        The data stays as it is: the commit's diff is empty. It gets published even if writers never pause. With an engine on Spark,
        large tables are written and indexed by Spark's workers. `dry_run` only says what would be done, and why.

        >>> report = g.maintenance.optimize(dry_run=True)
        >>> assert report.tables[0].actions
        >>> assert g.maintenance.optimize(actor="ada").commit.kind == "optimize"
        """
        from omnigraph.maintenance.optimize import maintain
        from omnigraph.tasks.progress import shown_on

        with shown_on(sys.stderr, progress) as shown:
            return maintain(
                self._repository,
                branch,
                rewrite=True,
                dry_run=dry_run,
                actor=actor,
                workers=make_workers(engine, self._repository.store.uri, shown),
            )

    def verify(
        self,
        revision: str | None = None,
        *,
        as_of: str | dt.datetime | None = None,
        all: bool = False,
        deep: bool = False,
        engine: Engine = "local",
        progress: bool = False,
    ) -> VerifyReport:
        """Whether the graph is intact: every retained commit of a branch (main) can be read, and every file that it needs exists,
        with its size and its digest. Of another revision, or a branch `as_of` a time, only that commit is checked; `all` checks
        every branch, every tag and every prepared load.

        With `deep` the rows are read too, at the heads of the branches and at the tags, or at the revision: their number,
        every rule of the schema, and whether indexes answer as scans do.

        >>> report = g.maintenance.verify(deep=True)
        >>> assert report.is_whole, report.findings
        """
        from omnigraph.maintenance.verify.job import verify

        if as_of is not None:
            revision = self._repository.history.revisions.commit(revision or MAIN, as_of).id
        return verify(self._repository, revision=revision, all=all, deep=deep, engine=engine, show_progress=progress)

    def repair(
        self,
        branch: str = MAIN,
        *,
        lost: Lost = "report",
        deep: bool = False,
        dry_run: bool = True,
        actor: str | None = None,
        engine: Engine = "local",
        progress: bool = False,
    ) -> RepairReport:
        """Look for damage everywhere and repair what can be repaired; with `dry_run`, as by default, only report what would be done.

        Segments of the log, stored ancestries and watermarks are written again; damaged indexes are built again at the heads
        of branches (with `deep`, stale ones too). What is lost is reported. If the head of `branch` cannot be read in full,
        `lost="reset"` sets it to its newest intact commit, as a new commit, and `lost="drop"` commits it without the rows whose
        files are lost and without the edges that start or end at them.

        >>> report = g.maintenance.repair()
        >>> assert report.is_whole and report.steps == ()
        """
        from omnigraph.maintenance.repair.job import repair

        return repair(
            self._repository,
            branch,
            lost=lost,
            deep=deep,
            yes=not dry_run,
            actor=actor,
            engine=engine,
            show_progress=progress,
        )

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: str | float | dt.timedelta | None = None,
        branches: Sequence[str] | None = None,
        dry_run: bool = False,
        engine: Engine = "local",
        progress: bool = False,
    ) -> CleanupReport:
        """Remove files that nothing keeps. With `dry_run` nothing is removed.

        A branch keeps its `keep` newest commits and those younger than `older_than` ("30m", "12h", "7d", "4w", seconds): with
        one of the two, nothing else; with neither, all of them. Heads, tagged commits and commits that later merges need
        are kept whatever the policy. `branches` limits the policy to some; the others keep all their commits. What deleted
        branches and interrupted writes left behind is removed too. Nothing is removed that was superseded, or staged, within the
        last hour. A commit that was removed can no longer be read (HistoryGap); its record stays in the log.

        >>> report = g.maintenance.cleanup(keep=10, older_than="7d")
        >>> assert g.maintenance.verify(all=True).is_whole
        """
        from omnigraph.maintenance.cleanup_job import cleanup

        return cleanup(
            self._repository,
            keep=keep,
            older_than=older_than,
            branches=branches,
            dry_run=dry_run,
            engine=engine,
            show_progress=progress,
        )

    def storage(self, branch: str = MAIN) -> StorageReport:
        """How much storage each type takes at the head of a branch, how much older commits need in addition, how much cleanup
        could reclaim, and how much each branch and tag alone keeps.

        >>> for each in g.maintenance.storage().types:
        ...     print(each.type, each.rows, each.live_bytes, each.reclaimable_bytes)
        """
        from omnigraph.maintenance.cleanup_job import storage

        return storage(self._repository, branch)
