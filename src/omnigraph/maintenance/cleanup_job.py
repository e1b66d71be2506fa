"""Cleanup and storage of an opened graph: in this process, or with listings and deletions as tasks on Spark."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from collections.abc import Sequence

from omnigraph.errors import BranchNotFound, BranchReplaced, UsageError
from omnigraph.maintenance.optimize import maintain
from omnigraph.maintenance.reachable import RetentionPolicy
from omnigraph.maintenance.reports import CleanupReport, StorageReport, clean_up, cleaner_of, parse_duration, storage_of
from omnigraph.snapshot import Repository
from omnigraph.tasks.engines import Engine, make_runner
from omnigraph.tasks.progress import Silent, progress_for
from omnigraph.tasks.runner import LocalRunner, Workers
from omnigraph.tasks.target import Address


def cleanup(
    repository: Repository,
    *,
    keep: int | None,
    older_than: str | float | dt.timedelta | None,
    branches: Sequence[str] | None,
    dry_run: bool,
    engine: Engine = "local",
    show_progress: bool = False,
) -> CleanupReport:
    policy = RetentionPolicy(_checked_keep(keep), _seconds(older_than), _checked_branches(repository, branches))
    shown = progress_for(sys.stderr) if show_progress else Silent()
    try:
        runner = make_runner(engine, repository.store.uri, shown, "cleanup")
        place = None if isinstance(runner, LocalRunner) else Address.of_graph(repository)
        if policy.older_than == 0 and not dry_run:
            _purge(repository, policy, runner)
        return clean_up(cleaner_of(repository, place, runner), policy, dry_run=dry_run)
    finally:
        shown.close()


def _purge(repository: Repository, policy: RetentionPolicy, workers: Workers) -> None:
    """A branch that keeps nothing of its past keeps no deleted rows either, which lie in files beside others that it needs."""
    for entry in repository.history.branches.list():
        if policy.concerns(entry.branch):
            with contextlib.suppress(BranchNotFound, BranchReplaced):  # Deleted meanwhile.
                maintain(repository, entry.branch, rewrite=True, purge=True, workers=workers)


def storage(repository: Repository, branch: str) -> StorageReport:
    _, view = repository.head(branch)
    return storage_of(cleaner_of(repository, None, LocalRunner()), view, branch)


def _checked_keep(keep: int | None) -> int | None:
    if keep is not None and keep < 1:
        raise UsageError(f"keep must be at least 1, not {keep}", hint="the newest commit of a branch is always kept")
    return keep


def _seconds(older_than: str | float | dt.timedelta | None) -> float | None:
    if older_than is None:
        return None
    if isinstance(older_than, str):
        return parse_duration(older_than)
    seconds = older_than.total_seconds() if isinstance(older_than, dt.timedelta) else float(older_than)
    if not seconds >= 0:
        raise UsageError(f"older_than must be a time span, not {older_than}", hint="write '7d', or 0")
    return seconds


def _checked_branches(repository: Repository, branches: Sequence[str] | None) -> frozenset[str] | None:
    if branches is None:
        return None
    known = set(repository.history.chain.branches())
    for name in branches:
        if name not in known:
            raise BranchNotFound(f"branch '{name}' does not exist", hint="see 'omnigraph branch list'")
    return frozenset(branches)
