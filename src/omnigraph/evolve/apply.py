"""A schema change as one commit: the plan on the newest head, the checks it needs, the schema object, the entry.

No row is read for a step that any rows satisfy, and none is written, except the edges of a type that gets a key: the new schema
says where the values of each property are stored. Whoever commits meanwhile is no reason to fail. If a table that was checked moved, it is checked again; if the
schema moved, the change is planned again on it, and is refused only if the plan is another one by then.

Mutations may run with a schema change, in the same commit. They are compiled and run under the new schema with the properties and types
that it drops beside it, so that what is new can be filled with what goes. What they write has the new schema alone, and is checked by
its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from omnigraph.errors import ExpectedVersionMismatch, PreconditionFailed, SchemaChangeRefused, UsageError
from omnigraph.history.plan import PublishPlan, TableChange, check_attribution
from omnigraph.history.publish import SCHEMA
from omnigraph.history.values import Commit, Entry, Snapshot
from omnigraph.language.catalog import Catalog, Constraint, EntityType, Property, dropped_names, stored_columns
from omnigraph.language.catalog_json import catalog_hash
from omnigraph.language.projection import is_readable
from omnigraph.language.query.lint import lint_queries
from omnigraph.language.query.mutations import compile_queries
from omnigraph.language.query.plan import InsertMatches, MutationPlan
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
from omnigraph.read.execution import matched_rows
from omnigraph.rules.cardinality import CardinalityCheck
from omnigraph.rules.check import Check, Need
from omnigraph.rules.values import UniqueCheck, ValueCheck, check_of, exactness
from omnigraph.snapshot import Repository, View, encode_catalog
from omnigraph.tables.layout import Layout
from omnigraph.tasks.progress import Progress, Silent
from omnigraph.tasks.runner import LocalRunner, Runner
from omnigraph.tasks.target import TableVersion, Target
from omnigraph.write.constraints import check_deltas, stage_versions, write_rows
from omnigraph.write.group import GroupCommitter
from omnigraph.write.mutations import run_mutation
from omnigraph.write.publishing import LostRace, on_newest_head, publish
from omnigraph.write.rekeying import rekey, rekeyed_edges
from omnigraph.write.transaction import WriteTransaction

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


@dataclass(frozen=True)
class Migration:
    """The text of mutations without parameters, which run in their order."""

    text: str
    file: str | None = None


@dataclass(frozen=True)
class Migrated:
    """The snapshot with the new schema, and tables as the mutations left them; the files that must be durable."""

    snapshot: Snapshot
    unsynced: tuple[str, ...] = ()


def moved(snapshot: Snapshot, before: Catalog, after: Catalog) -> dict[str, TableChange]:
    """Tables whose type has another name in the schema after a change, or is gone, by key."""
    keys = {entity.id: key for key, entity in after.tables.items()}
    changes: dict[str, TableChange] = {}
    for key, entity in before.tables.items():
        state = snapshot.table(key)
        if state is not None and keys.get(entity.id) != key:
            changes[key] = TableChange(key, "strict", state, None)
    for key, entity in before.tables.items():
        now, state = keys.get(entity.id), snapshot.table(key)
        if state is not None and now is not None and now != key:
            changes[now] = TableChange(now, "strict", snapshot.table(now), state)
    return changes


def with_keys(repository: Repository, done: Migrated, before: Catalog) -> Migrated:
    """The same, with the ids of keys that the schema before did not have. No two edges have the same key."""
    view = repository.view(done.snapshot)
    rekeyed = {edge.table_key: rekey(view, edge) for edge in rekeyed_edges(before, view.catalog)}
    tables = {key: table for key, table in rekeyed.items() if table is not None}
    states = {**done.snapshot.tables, **{key: table.state for key, table in tables.items()}}
    unsynced = repository.tables.unsynced(table.staged for table in tables.values())
    return Migrated(replace(done.snapshot, tables=states), (*done.unsynced, *unsynced))


def under(view: View, after: Catalog, digest: str) -> Snapshot:
    """The snapshot of a view with its tables under the names of another schema."""
    tables = dict(view.snapshot.tables)
    for key, change in moved(view.snapshot, view.catalog, after).items():
        if change.state is None:
            tables.pop(key)
        else:
            tables[key] = change.state
    return replace(view.snapshot, schema=digest, tables=tables)


def migrate(view: View, entry: Entry, after: Catalog, migration: Migration) -> Migrated:
    """Run the mutations; their rows are staged, and nothing is visible yet."""
    repository = view.repository
    both = _with_dropped(view.catalog, after)
    reading = repository.view(under(view, both, repository.cache_catalog(both)))
    writing = repository.view(under(view, after, repository.cache_catalog(after)))
    transaction = WriteTransaction(repository, GroupCommitter(repository), entry.branch, at=(entry, reading))
    for plan in _mutations(after, both, migration):
        transaction.run(partial(run_mutation, plan=plan, parameters={}, reading=matched_rows))
    # A node that goes takes its edges with it, those of a type that is dropped anyway too.
    changed = transaction.deltas(lambda key: (writing if key in after.tables else reading).schema(key))
    deltas = {key: replace(delta, entity=after.tables[key]) for key, delta in changed.items() if key in after.tables}
    addresses = check_deltas(writing, deltas)
    staged = stage_versions(writing, deltas, addresses, write_rows(writing, deltas))
    tables = dict(writing.snapshot.tables)
    tables.update({change.key: change.state for change, _ in staged if change.state is not None})
    unsynced = repository.tables.unsynced(version for _, versions in staged for version in versions)
    return Migrated(replace(writing.snapshot, tables=tables), unsynced)


def check_migration(before: Catalog, after: Catalog, migration: Migration) -> None:
    """Raise what keeps the mutations from running with the change from one schema to the other. Rows are not looked at."""
    _mutations(after, _with_dropped(before, after), migration)


def _mutations(after: Catalog, both: Catalog, migration: Migration) -> list[MutationPlan]:
    plans = []
    for plan in compile_queries(migration.text, both, migration.file).values():
        if not isinstance(plan, MutationPlan):
            raise UsageError(f"'{plan.name}' is a read", hint="a migration consists of mutations")
        if plan.parameters:
            raise UsageError(f"'{plan.name}' has parameters", hint="write the values into the migration")
        for statement in plan.statements:
            insert = statement.insert if isinstance(statement, InsertMatches) else statement
            if insert.type_name not in after.nodes and insert.type_name not in after.edges:
                raise UsageError(
                    f"'{plan.name}' writes {insert.type_name}, which the change drops",
                    hint="what is dropped can be read in a `match`, and goes with the commit by itself",
                )
        plans.append(plan)
    return plans


def _with_dropped(before: Catalog, after: Catalog) -> Catalog:
    """The new schema, in which nothing is required yet, with the properties and types that it drops."""
    known = {entity.id: entity for entity in before.tables.values()}
    kept = {entity.id: entity.name for entity in after.tables.values()}
    words = {name.lower() for name in after.edges}

    def properties(entity: EntityType) -> dict[str, Property]:
        ids = {property.id for property in entity.properties.values()}
        properties = {name: _nullable(property) for name, property in entity.properties.items()}
        for name, property in known[entity.id].properties.items() if entity.id in known else ():
            if property.id not in ids and name not in properties:
                properties[name] = replace(_nullable(property), columns=stored_columns(property))
        return properties

    dropped = {
        node.name: replace(node, implements=())
        for node in before.nodes.values()
        if node.id not in kept and node.name not in after.nodes and node.name not in after.interfaces
    }
    nodes = {
        name: replace(node, properties=properties(node) | {key: node.properties[key] for key in node.key})
        for name, node in after.nodes.items()
    } | dropped
    edges = {
        name: replace(
            edge,
            properties=properties(edge) | {key: edge.properties[key] for key in edge.key if key in edge.properties},
        )
        for name, edge in after.edges.items()
    }
    for edge in before.edges.values():
        source, target = (kept.get(before.nodes[end].id, end) for end in (edge.source, edge.target))
        if edge.id not in kept and edge.name.lower() not in words and {source, target} <= nodes.keys():
            edges[edge.name] = replace(edge, source=source, target=target, min_out=0)
    both = replace(after, nodes=nodes, edges=edges, is_evolved=True)
    return replace(both, hash=catalog_hash(both))


def _nullable(property: Property) -> Property:
    return replace(property, type=replace(property.type, nullable=True))


# What a schema change means for queries: which of them it would break, and which old states can be asked through its names.


@dataclass(frozen=True)
class BrokenQuery:
    """A query that a schema allows and another does not.

    >>> broken = g.schema.broken_queries(SCHEMA.replace("age: I32?", "years: I32?"), "people.gq")[0]
    >>> assert (broken.file, "age" in broken.error) == ("people.gq", True)
    """

    file: str
    query: str
    error: str

    def __str__(self) -> str:
        return f"{self.file}: query {self.query}: {self.error}"


def broken_queries(before: Catalog, after: Catalog, folder: Path) -> tuple[BrokenQuery, ...]:
    """The queries of every .gq file below a folder (or of one file) that are right before a change and wrong after it."""
    broken = []
    for file in _files(folder):
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {file}: {error}") from None
        name = file.name if folder.is_file() else file.relative_to(folder).as_posix()
        known = {query.name: query.error for query in lint_queries(text, before, str(file)).queries}
        for query in lint_queries(text, after, str(file)).queries:
            if query.error is not None and known.get(query.name) is None:
                broken.append(BrokenQuery(name, query.name, query.error.message))
    return tuple(broken)


def _files(folder: Path) -> list[Path]:
    try:
        if folder.exists():
            return [folder] if folder.is_file() else sorted(folder.rglob("*.gq"))
        problem = f"{folder} does not exist"
    except (OSError, ValueError) as error:  # no system has such a path, or it may not be looked into
        problem = f"cannot read {str(folder)[:200]}: {error.strerror if isinstance(error, OSError) else error}"
    raise UsageError(problem, hint="name a folder of .gq files, or one of them")


def seen_through(old: View, schema_of: View) -> View:
    """An old state as a newer schema sees it: renamed, widened, with nulls and fills for what it did not have.

    UsageError where that is not total: a property that the newer schema requires, and that entities of the old state may lack;
    and for what was dropped for good before that state.
    """
    catalog = schema_of.catalog
    _refuse_dropped(old.catalog, catalog)
    before = {entity.id: entity for entity in old.catalog.tables.values()}
    for entity in catalog.tables.values():
        known = (
            {property.id: property for property in before[entity.id].properties.values()} if entity.id in before else {}
        )
        has_rows = entity.id in before and old.rows(before[entity.id].table_key) > 0
        for property in entity.properties.values() if has_rows else ():
            had = known.get(property.id)
            if had is not None and not is_readable(had, property):
                raise UsageError(
                    f"{entity.name}.{property.name} is {had.type} in that state, and not every value is {property.type}",
                    hint="ask with the schema of that state: leave the other schema out",
                )
            if property.is_required and (property.fill is None if had is None else not had.is_required):
                raise UsageError(
                    f"{entity.name}.{property.name} is required now, and entities of that state may lack it",
                    hint="ask with the schema of that state: leave the newer schema out",
                )
    return old.repository.view(under(old, catalog, schema_of.snapshot.schema))


def _refuse_dropped(state: Catalog, requested: Catalog) -> None:
    names = dropped_names(requested, state)
    if names:
        raise UsageError(
            f"{names[0]} was dropped for good before that state: its values are not read any more",
            hint="ask with the schema of that state, or for a commit before the drop",
        )
