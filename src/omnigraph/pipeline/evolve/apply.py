"""A schema change as one commit: the plan on the newest head, the checks it needs, the schema object, the entry.

No row is read for a step that any rows satisfy, and none is written, except the edges of a type that gets a key: the new schema
says where the values of each property are stored. Whoever commits meanwhile is no reason to fail. If a table that was checked moved, it is checked again; if the
schema moved, the change is planned again on it, and is refused only if the plan is another one by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from omnigraph.errors import Contention, ExpectedVersionMismatch, PreconditionFailed, SchemaChangeRefused
from omnigraph.history import SCHEMA, Commit, Entry, PublishPlan, TableChange, check_attribution
from omnigraph.language.catalog import Catalog
from omnigraph.language.schema.migration import MigrationPlan, plan_migration
from omnigraph.pipeline.evolve.migrating import Migrated, Migration, migrate, under, with_keys
from omnigraph.pipeline.evolve.validation import Validation
from omnigraph.pipeline.progress import Progress, Silent
from omnigraph.pipeline.runner import Runner
from omnigraph.views import Repository, View, encode_catalog
from omnigraph.write.publishing import publish

MAX_ATTEMPTS = 16


@dataclass(frozen=True)
class SchemaReceipt:
    """What a schema change did: its plan, and the commit, which is None when nothing was to change or nothing was meant to.

    >>> receipt = g.apply_schema(SCHEMA, dry_run=True)
    >>> assert (receipt.commit, receipt.plan.is_empty) == (None, True)
    """

    branch: str
    plan: MigrationPlan
    commit: Commit | None


@dataclass(frozen=True)
class SchemaChange:
    """A schema that is wanted, and mutations that go with it."""

    text: str
    file: str | None
    allow_data_loss: bool
    migration: Migration | None = None

    def plan(self, catalog: Catalog) -> MigrationPlan:
        return plan_migration(catalog, self.text, self.file, allow_data_loss=self.allow_data_loss)


def apply_schema(
    repository: Repository,
    change: SchemaChange,
    branch: str,
    runner: Callable[[], Runner],
    *,
    progress: Progress | None = None,
    dry_run: bool = False,
    actor: str | None = None,
    message: str | None = None,
    if_commit: str | None = None,
) -> SchemaReceipt:
    """Publish the change, or raise what speaks against it. `runner` makes who runs tasks, if there are many rows. With
    `dry_run` everything is checked and nothing is committed."""
    check_attribution(actor, message)
    lines: list[str] | None = None
    planned_on = 0
    for _ in range(MAX_ATTEMPTS):
        entry, view = repository.head(branch)
        if if_commit is not None and view.snapshot.commit.id != if_commit:
            raise PreconditionFailed(branch, if_commit, view.snapshot.commit.id)
        plan = change.plan(view.catalog)
        if lines is not None and plan.lines() != lines and not plan.is_empty:
            reason = f"it would mean something else now: {'; '.join(plan.lines())}"
            raise ExpectedVersionMismatch(SCHEMA, planned_on, view.snapshot.commit.ref.seq, reason=reason)
        lines, planned_on = plan.lines(), view.snapshot.commit.ref.seq
        _refuse_unsupported(plan)
        if plan.is_empty:
            return SchemaReceipt(branch, plan, None)
        done = _migrated(view, entry, plan, change.migration)
        read = Validation(view, plan, runner, done.snapshot, progress or Silent()).run()
        if dry_run:
            return SchemaReceipt(branch, plan, None)
        if change.migration is not None:
            read = tuple(sorted(view.snapshot.tables))  # It may have looked at any of them.
        prepared = _prepared(view, entry, plan, read, with_keys(repository, done, view.catalog))
        try:
            named = replace(prepared, actor=actor, message=message, if_commit=if_commit)
            return SchemaReceipt(branch, plan, publish(repository.history, named))
        except ExpectedVersionMismatch:
            continue
    raise Contention(
        f"branch '{branch}' moved {MAX_ATTEMPTS} times while its schema was changed",
        hint="retry; many writers are at work",
    )


def _migrated(view: View, entry: Entry, plan: MigrationPlan, migration: Migration | None) -> Migrated:
    if migration is not None:
        return migrate(view, entry, plan.catalog, migration)
    return Migrated(under(view, plan.catalog, view.repository.hold_catalog(plan.catalog)))


def _refuse_unsupported(plan: MigrationPlan) -> None:
    refused = [step for step in plan.steps if step.effect == "refused"]
    if refused:
        raise SchemaChangeRefused([step.line() for step in refused])


def _prepared(view: View, entry: Entry, plan: MigrationPlan, read: tuple[str, ...], done: Migrated) -> PublishPlan:
    """The commit. It relies on the rows that were read, and moves the tables of renamed and dropped types."""
    history, before = view.repository.history, view.snapshot
    changed = [key for key in {*before.tables, *done.snapshot.tables} if before.table(key) != done.snapshot.table(key)]
    return PublishPlan(
        commit_id=history.new_id(),
        branch=entry.branch,
        incarnation=entry.incarnation,
        base=before.commit.ref,
        schema=before.schema,
        changes=tuple(
            TableChange(key, "strict", before.table(key), done.snapshot.table(key)) for key in sorted(changed)
        ),
        reads=read,
        read_states={key: before.table(key) for key in read},
        kind="schema",
        new_schema=history.schemas.put(encode_catalog(plan.catalog)),
        unsynced=done.unsynced,
    )
