"""Do the rows of a branch satisfy a schema that is stricter than theirs? The rules of `rules/`, over whole tables.

Only what a step is about is looked at: the columns of one rule, read as the new schema sees them, by tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from omnigraph.errors import SchemaChangeRefused
from omnigraph.history import Snapshot
from omnigraph.language.catalog import Catalog, Constraint, EntityType
from omnigraph.language.schema.migration import MigrationPlan
from omnigraph.language.schema.migration_steps import (
    AddConstraint,
    AddProperty,
    ChangeCardinality,
    MigrationStep,
    NarrowEnum,
    RequireProperty,
    WidenProperty,
)
from omnigraph.pipeline.load.checks import CheckReport, CheckTask, by_fragments, run_checks
from omnigraph.pipeline.load.keyed_rows import Source
from omnigraph.pipeline.progress import Progress
from omnigraph.pipeline.runner import LocalRunner, Runner
from omnigraph.pipeline.target import TableVersion, Target
from omnigraph.rules import Check, Need
from omnigraph.rules.cardinality import CardinalityCheck
from omnigraph.rules.uniqueness import UniqueCheck
from omnigraph.rules.values import ValueCheck, check_of, exactness
from omnigraph.tables import Layout
from omnigraph.views import View

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
        return (Source(place, need.columns, need.by[0], state.rows),)


def _of_property(entity: EntityType, name: str, *, requires: bool) -> ValueCheck:
    """Only whether a property is there, or only whether it is one of the words."""
    property = entity.properties[name]
    type = replace(property.type, enum=()) if requires else replace(property.type, nullable=True)
    return ValueCheck(replace(entity, properties={name: replace(property, type=type)}, constraints=()))
