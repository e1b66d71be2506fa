"""A schema change as one commit: the plan on the newest head, the checks it needs, the schema object, the entry.

No row is read for a step that any rows satisfy, and none is written, except the edges of a type that gets a key: the new schema
says where the values of each property are stored. Whoever commits meanwhile is no reason to fail. If a table that was checked moved, it is checked again; if the
schema moved, the change is planned again on it, and is refused only if the plan is another one by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from omnigraph.errors import ExpectedVersionMismatch, PreconditionFailed, SchemaChangeRefused
from omnigraph.evolve.migrating import Migrated, Migration, migrate, under, with_keys
from omnigraph.history.plan import PublishPlan, TableChange, check_attribution
from omnigraph.history.publish import SCHEMA
from omnigraph.history.values import Commit, Entry, Snapshot
from omnigraph.language.catalog import Catalog, Constraint, EntityType
from omnigraph.language.schema.migration import MigrationPlan, plan_migration
from omnigraph.language.schema.migration_steps import (
    AddConstraint,
    AddProperty,
    ChangeCardinality,
    MigrationStep,
    NarrowEnum,
    RequireProperty,
    WidenProperty,
)
from omnigraph.load.checks import CheckReport, CheckTask, by_fragments, run_checks
from omnigraph.load.keyed_rows import Source
from omnigraph.rules.cardinality import CardinalityCheck
from omnigraph.rules.check import Check, Need
from omnigraph.rules.values import UniqueCheck, ValueCheck, check_of, exactness
from omnigraph.snapshot import Repository, View, encode_catalog
from omnigraph.tables.layout import Layout
from omnigraph.tasks.progress import Progress, Silent
from omnigraph.tasks.runner import LocalRunner, Runner
from omnigraph.tasks.target import TableVersion, Target
from omnigraph.write.publishing import LostRace, on_newest_head, publish

# Do the rows of a branch satisfy a schema that is stricter than theirs? The rules of `rules/`, over whole tables.
#
# Only what a step is about is looked at: the columns of one rule, read as the new schema sees them, by tasks.

IN_PROCESS_ROWS = 1_000_000
"""Fewer rows than this are checked in this process, sooner than a job could start."""

Seen = Literal["before", "after"]
Violations = tuple[str, int, list[tuple[str, str]]]
"""A step in words, how many entities are in its way, and the first of them: id and what is wrong."""


@dataclass(frozen=True)
class _Question:
    """A check that a step asks for, over rows as the schema before or after it sees them."""

    step: MigrationStep
    check: Check
    seen: Seen = "after"


class Validation:
    """The checks that a plan asks for, over the rows of one view; `after` is its snapshot with the new schema's names."""

    def __init__(
        self, view: View, plan: MigrationPlan, runner: Callable[[], Runner], after: Snapshot, progress: Progress
    ) -> None:
        self.view = view
        self.after = after
        self.plan = plan
        self.runner = runner
        self.progress = progress
        self._keys = {entity.id: key for key, entity in view.catalog.tables.items()}

    def run(self) -> tuple[str, ...]:
        """The tables that were read, by their keys today. SchemaChangeRefused with the rows that are in the way."""
        questions = [
            question for step in self.plan.steps if step.effect == "validate" for question in self._questions(step)
        ]
        tasks = [(question, task) for question in questions for task in self._tasks(question)]
        broken = list(self._broken(tasks))
        if broken:
            raise SchemaChangeRefused([], broken)
        # A table without rows was looked at too: rows that come to it meanwhile have to be.
        needs = [need for question in questions for need in (*question.check.own, *question.check.others)]
        read = {need.table for need in needs}
        return tuple(sorted(key for table in read if (key := self._key(table)) is not None))

    def _broken(self, tasks: Sequence[tuple[_Question, CheckTask]]) -> Iterator[Violations]:
        if not tasks:
            return
        is_small = sum(task.rows for _, task in tasks) <= IN_PROCESS_ROWS
        runner = LocalRunner(self.progress) if is_small else self.runner()
        reports = run_checks("check rows", [task for _, task in tasks], runner)
        broken: dict[int, tuple[_Question, CheckReport]] = {}
        for (question, _), report in zip(tasks, reports, strict=True):
            broken.setdefault(id(question), (question, CheckReport()))[1].add(report)
        for question, report in broken.values():
            if report.count:
                first = sorted(report.violations, key=lambda violation: violation.id)
                shown = [(violation.id, question.check.error(violation).message) for violation in first]
                yield question.step.line(), report.count, shown

    # ------------------------------------------------------------ what to ask

    def _questions(self, step: MigrationStep) -> Iterator[_Question]:
        match step:
            case AddProperty() | RequireProperty() | NarrowEnum():
                entity = self._entity(self.plan.catalog, step.type_kind, step.type_name)
                yield _Question(
                    step, _of_property(entity, step.property_name, requires=not isinstance(step, NarrowEnum))
                )
            case WidenProperty():
                yield self._exact(step)
            case AddConstraint(constraint=Constraint(kind="unique" | "key" as kind, fields=fields)):
                entity = self._entity(self.plan.catalog, step.type_kind, step.type_name)
                yield _Question(step, UniqueCheck(entity, fields, declares_key=kind == "key"))
            case AddConstraint():
                entity = self._entity(self.plan.catalog, step.type_kind, step.type_name)
                yield _Question(step, check_of(entity, step.constraint))
            case ChangeCardinality():
                edge = self.plan.catalog.edges[step.name]
                yield _Question(step, CardinalityCheck(edge, gains=True, loses=True, sources=edge.min_out > 0))

    def _exact(self, step: WidenProperty) -> _Question:
        """Whole numbers beyond 2^53 are not all of them F64."""
        after = self._entity(self.plan.catalog, step.type_kind, step.type_name)
        before = next(entity for entity in self.view.catalog.tables.values() if entity.id == after.id)
        id = after.properties[step.property_name].id
        name = next(property.name for property in before.properties.values() if property.id == id)
        return _Question(step, exactness(before, name), "before")

    @staticmethod
    def _entity(catalog: Catalog, kind: str, name: str) -> EntityType:
        return catalog.nodes[name] if kind == "node" else catalog.edges[name]

    # ------------------------------------------------------------ where the rows are

    def _key(self, table: str) -> str | None:
        """The table of a type that has this key after the change, by its key today."""
        entity = self.plan.catalog.tables.get(table)
        return self._keys.get(entity.id) if entity is not None else table

    def _tasks(self, question: _Question) -> Iterator[CheckTask]:
        catalog = self.view.catalog if question.seen == "before" else self.plan.catalog
        target = replace(Target.of(self.view.repository, self.view), catalog=catalog)
        check = question.check
        needs = (*check.own, *check.others, *check.details)
        sources = {need: self._source(need, catalog, question.seen) for need in needs}
        task = CheckTask(target, check, sources, counts=True)
        if not task.rows:
            return
        if isinstance(check, ValueCheck):
            yield from by_fragments(task)
        else:
            yield task

    def _source(self, need: Need, catalog: Catalog, seen: Seen) -> tuple[Source, ...]:
        """All rows of a table are new to the rule: none is there before them, and none goes."""
        if need.state in ("staying", "lost"):
            return ()
        state = (self.view.snapshot if seen == "before" else self.after).table(need.table)
        if state is None or not state.rows:
            return ()
        place = TableVersion.of_state(state, Layout.of(catalog.tables[need.table]))
        return (Source.of(need, place, state.rows),)


def _of_property(entity: EntityType, name: str, *, requires: bool) -> ValueCheck:
    """Only whether a property is there, or only whether it is one of the words."""
    property = entity.properties[name]
    type = replace(property.type, enum=()) if requires else replace(property.type, nullable=True)
    return ValueCheck(replace(entity, properties={name: replace(property, type=type)}, constraints=()))


@dataclass(frozen=True)
class SchemaReceipt:
    """What a schema change did: its plan, and the commit, which is None when nothing was to change or nothing was meant to.

    >>> receipt = g.schema.apply(SCHEMA, dry_run=True)
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

    def attempt(head: tuple[Entry, View]) -> SchemaReceipt:
        nonlocal lines, planned_on
        entry, view = head
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
        except ExpectedVersionMismatch as lost:
            raise LostRace from lost

    return on_newest_head(repository.history, branch, partial(repository.head, branch), attempt)


def _migrated(view: View, entry: Entry, plan: MigrationPlan, migration: Migration | None) -> Migrated:
    if migration is not None:
        return migrate(view, entry, plan.catalog, migration)
    return Migrated(under(view, plan.catalog, view.repository.cache_catalog(plan.catalog)))


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
