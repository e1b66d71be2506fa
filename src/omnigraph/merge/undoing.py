"""Taking changes back, as new commits: what one commit did, or everything since a revision.

A revert is a three-way merge in which the base is the commit and the incoming side the state before it: what the commit did is done the
other way round, and what was changed since conflicts as in a merge. A reset gives a branch the tables and the schema of a
revision. Neither takes a commit away: a chain only grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.errors import Contention, ExpectedVersionMismatch, PreconditionFailed, UsageError
from omnigraph.history import Commit, CommitRef, Entry, PublishPlan, Snapshot, check_attribution
from omnigraph.language.catalog import dropped_names
from omnigraph.language.schema.merging import Strategy
from omnigraph.merge.bases import Bases, Differences
from omnigraph.merge.merge import MAX_ATTEMPTS, MergeAttempt, check_way, table_changes
from omnigraph.merge.resolutions import Resolution, check_resolutions
from omnigraph.merge.result import MergeResult
from omnigraph.merge.schemas import MergedSchema
from omnigraph.merge.three_way import By
from omnigraph.views import Repository, View, encode_catalog
from omnigraph.write.publishing import publish


def revert_commit(
    repository: Repository,
    reverted: Commit,
    branch: str,
    *,
    strategy: Strategy = "fail",
    by: By = "row",
    dry_run: bool = False,
    actor: str | None = None,
    message: str | None = None,
    resolutions: Sequence[Resolution] = (),
) -> MergeResult:
    """Take back what a commit changed, on the branch as it is now. Of a merge, that is what it changed against its first parent."""
    check_attribution(actor, message)
    check_way(strategy, by)
    decided = check_resolutions(resolutions)
    if reverted.parent is None:
        raise UsageError(f"commit {reverted.id} is the first of the graph: there is nothing before it")
    if reverted.kind == "optimize":
        raise UsageError(f"commit {reverted.id} changed how data is stored, not the data: there is nothing to revert")
    history = repository.history
    differences, since = Differences(), history.clock()
    said = message if message is not None else _message(reverted)
    with history.leases.hold(reverted.parent):
        before = history.revisions.entry_at(reverted.parent)
        for _ in range(MAX_ATTEMPTS):
            ours = history.chain.head(branch)
            attempt, trial = (
                _Revert(repository, reverted, before, ours, strategy, by, differences, since, decided) for _ in range(2)
            )
            try:
                expected = trial.run(dry_run=True, actor=actor, message=said)
                if dry_run or expected.outcome == "already_up_to_date":
                    return replace(expected, dry_run=dry_run)
                return attempt.run(dry_run=False, actor=actor, message=said)
            except ExpectedVersionMismatch:
                # Somebody committed to the branch meanwhile: revert on what is there now.
                continue
    raise Contention(f"branch '{branch}' moved {MAX_ATTEMPTS} times during the revert", hint="retry when it is quieter")


def _message(reverted: Commit) -> str:
    first = (reverted.message or "").partition("\n")[0]
    return f"revert of {reverted.id}" + (f": {first}" if first else "")


class _Revert(MergeAttempt):
    """One attempt, on a pinned head."""

    kind = "revert"

    def __init__(
        self,
        repository: Repository,
        reverted: Commit,
        before: Entry,
        target: Entry,
        strategy: Strategy,
        by: By,
        differences: Differences,
        since: float,
        resolutions: tuple[Resolution, ...],
    ) -> None:
        self.reverted = reverted
        super().__init__(repository, before, target, strategy, by, differences, since, resolutions, None)
        # What was dropped for good since is not taken over unseen: merging the schemas refuses it.
        dropped, known = ({*view.catalog.hard_dropped} for view in (self.target_view, self.source_view))
        self.is_fast_forward = self.is_fast_forward and dropped <= known

    @property
    def source_name(self) -> str:
        return f"before {self.reverted.id}"

    @property
    def schema_remedy(self) -> str:
        return (
            f"change what '{self.target.branch}' is to have with 'omnigraph schema apply' and 'omnigraph mutate'; "
            f"what was there before is in 'omnigraph branch create NAME --from {self.source.head.commit.id}'"
        )

    @property
    def merged(self) -> CommitRef | None:
        return None

    def _find_bases(self) -> Bases:
        snapshot = self.repository.history.revisions.snapshot(self.reverted.ref)
        return Bases((self.source, self.target), (self.reverted,), (self.repository.view(snapshot),))

    def run(self, *, dry_run: bool, actor: str | None, message: str | None) -> MergeResult:
        result = super().run(dry_run=dry_run, actor=actor, message=message)
        has_effect = result.types or result.schema_steps or result.conflicts or result.schema_conflicts
        return result if has_effect else self._result("already_up_to_date", dry_run=dry_run)


def reset_branch(
    repository: Repository, branch: str, to: Entry, *, actor: str | None = None, message: str | None = None
) -> Commit | None:
    """Give a branch the state of a revision, as a commit; None when it has it already.

    PreconditionFailed when somebody commits to the branch meanwhile: nobody agreed to take that back.
    """
    check_attribution(actor, message)
    history = repository.history
    since = history.clock()
    with history.leases.hold(to.head.commit.ref):
        head = history.chain.head(branch)
        wanted, target = repository.view(to.head), repository.view(head.head)
        schema = _schema_for(target, wanted)
        changes = table_changes(target, schema, wanted.snapshot.tables)
        if not changes and schema.hash == target.snapshot.schema:
            return None
        if schema.hash != wanted.snapshot.schema:
            history.schemas.put(encode_catalog(schema.catalog))
        plan = PublishPlan(
            commit_id=history.new_id(),
            branch=branch,
            incarnation=head.incarnation,
            base=target.snapshot.commit.ref,
            schema=target.snapshot.schema,
            changes=changes,
            kind="reset",
            actor=actor,
            message=message if message is not None else f"reset to {to.head.commit.id}",
            new_schema=schema.hash if schema.hash != target.snapshot.schema else None,
            staged_since=since,
        )

        def refused(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
            raise PreconditionFailed(branch, plan.base.id, snapshot.commit.id)

        return publish(history, plan, refused)


def _schema_for(target: View, wanted: View) -> MergedSchema:
    """The schema of a state as a branch may have it, which knows what was dropped there for good. UsageError when it still
    declares some of that."""
    names = dropped_names(wanted.catalog, target.catalog)
    if names:
        commit = wanted.snapshot.commit
        raise UsageError(
            f"{names[0]} was dropped for good on this branch, and commit {commit.id} still has it",
            hint=f"a branch of its own may have it: omnigraph branch create NAME --from {commit.id}",
        )
    dropped = {*wanted.catalog.hard_dropped, *target.catalog.hard_dropped}
    if dropped == {*wanted.catalog.hard_dropped}:
        return MergedSchema(wanted.snapshot.schema, wanted.catalog)
    catalog = replace(wanted.catalog, hard_dropped=tuple(sorted(dropped)))
    return MergedSchema(wanted.repository.hold_catalog(catalog), catalog)
