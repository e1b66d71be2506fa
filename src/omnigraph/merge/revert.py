"""Undoes changes with new commits: those of one commit (revert), or everything since a revision (reset).

A revert is a three-way merge whose base is the commit and whose incoming side is the state before it. The commit's changes are
reversed, and later changes conflict as in a merge. A reset gives a branch the tables and the schema of a revision. Neither removes
a commit: a chain only grows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from omnigraph.errors import PreconditionFailed, UsageError
from omnigraph.history.plan import PublishPlan, check_attribution
from omnigraph.history.values import Commit, Entry, Snapshot
from omnigraph.language.catalog import dropped_names
from omnigraph.merge.merge import MergeAttempt, MergeOptions, MergeSource, table_changes
from omnigraph.merge.schemas import Bases, Differences, MergedSchema
from omnigraph.merge.three_way import MergeResult
from omnigraph.snapshot import Repository, View, encode_catalog
from omnigraph.write.publishing import on_newest_head, publish


def revert_commit(repository: Repository, reverted: Commit, branch: str, options: MergeOptions) -> MergeResult:
    """Undo a commit's changes on the current head of a branch. For a merge, those are its changes against its first parent."""
    if reverted.parent is None:
        raise UsageError(f"commit {reverted.id} is the first of the graph: there is nothing before it")
    if reverted.kind == "optimize":
        raise UsageError(f"commit {reverted.id} changed how data is stored, not the data: there is nothing to revert")
    history = repository.history
    differences, since = Differences(), history.clock()
    if options.message is None:
        options = replace(options, message=_message(reverted))
    with history.leases.hold(reverted.parent):
        before = history.revisions.entry_at(reverted.parent)
        remedy = (
            f"change what '{branch}' is to have with 'omnigraph schema apply' and 'omnigraph mutate'; "
            f"what was there before is in 'omnigraph branch create NAME --from {before.head.commit.id}'"
        )
        incoming = MergeSource(before, f"before {reverted.id}", "revert", None, remedy)
        base = repository.view(history.revisions.snapshot(reverted.ref))

        def attempt(ours: Entry) -> MergeResult:
            bases = Bases((before, ours), (reverted,), (base,))
            return MergeAttempt(incoming, ours, bases, options, differences, since).run()

        return on_newest_head(history, branch, partial(history.chain.head, branch), attempt)


def _message(reverted: Commit) -> str:
    first = (reverted.message or "").partition("\n")[0]
    return f"revert of {reverted.id}" + (f": {first}" if first else "")


def reset_branch(
    repository: Repository, branch: str, to: Entry, *, actor: str | None = None, message: str | None = None
) -> Commit | None:
    """Give a branch the state of a revision, as a commit; None if it has that state already.

    Raises PreconditionFailed if another commit reaches the branch meanwhile: undoing that was not requested.
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
    """The schema to restore, which also records what the branch dropped for good. Raises UsageError if it still declares any of
    that."""
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
    return MergedSchema(wanted.repository.cache_catalog(catalog), catalog)
