"""Schemas: checking queries against them, comparing and changing them."""

from __future__ import annotations

import datetime as dt
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.graph.boundary import names_damage
from omnigraph.graph.state import GraphState
from omnigraph.graph.texts import read_source
from omnigraph.history import MAIN
from omnigraph.pipeline.engines import Engine, runner_of

if TYPE_CHECKING:
    from omnigraph.language.query.lint import LintReport
    from omnigraph.language.schema.migration import MigrationPlan
    from omnigraph.pipeline.evolve.apply import SchemaReceipt
    from omnigraph.pipeline.evolve.queries import BrokenQuery


@names_damage
class SchemaMethods(GraphState):
    """The methods of a graph that compare, check and change schemas."""

    def lint(self, gq: str | Path, *, revision: str = MAIN, as_of: str | dt.datetime | None = None) -> LintReport:
        """Check every query of a `.gq` text or file against the schema: mistakes, and advice.

        >>> assert g.lint("people.gq").status == "ok"
        """
        from omnigraph.language.query.lint import lint_queries

        text, file = read_source(gq, ".gq")
        return lint_queries(text, self._view(revision, as_of).catalog, file)

    def plan_schema(
        self,
        schema: str | Path,
        *,
        branch: str = MAIN,
        with_: str | Path | None = None,
        allow_data_loss: bool = False,
    ) -> MigrationPlan:
        """What changing a branch to another schema would do, step by step. Nothing is changed.

        `with_` and `allow_data_loss` are as in `apply_schema`; mutations that do not fit the new schema are refused. Rows are not
        checked: see `apply_schema(..., dry_run=True)`.

        >>> plan = g.plan_schema(SCHEMA + "node Team { name: String @key }")
        >>> assert plan.lines() == ["add node type 'Team'"]
        """
        from omnigraph.pipeline.evolve.apply import SchemaChange
        from omnigraph.pipeline.evolve.migrating import Migration, check_migration

        text, file = read_source(schema, ".pg")
        before = self._repository.head(branch)[1].catalog
        plan = SchemaChange(text, file, allow_data_loss).plan(before)
        if with_ is not None:
            check_migration(before, plan.catalog, Migration(*read_source(with_, ".gq")))
        return plan

    def broken_queries(self, schema: str | Path, queries: str | Path, *, branch: str = MAIN) -> tuple[BrokenQuery, ...]:
        """Which queries of a folder of `.gq` files, or of one file, changing a branch to another schema would break.

        >>> assert g.broken_queries(SCHEMA, ".") == ()
        """
        from omnigraph.pipeline.evolve.queries import broken_queries

        plan = self.plan_schema(schema, branch=branch)
        return broken_queries(self._repository.head(branch)[1].catalog, plan.catalog, Path(queries))

    def diff_schema(self, a: str, b: str | Path) -> MigrationPlan:
        """The steps from the schema of one revision to that of another, or to a `.pg` file.

        >>> assert g.diff_schema("main", "inbox").lines() == []
        """
        from omnigraph.language.schema.migration import MigrationPlan, compare_catalogs, plan_migration

        before = self._repository.resolve(a).catalog
        if isinstance(b, Path) or b.endswith(".pg"):
            text, file = read_source(b, ".pg")
            return plan_migration(before, text, file)
        after = self._repository.resolve(b).catalog
        return MigrationPlan(compare_catalogs(before, after), after)

    def apply_schema(
        self,
        schema: str | Path,
        *,
        branch: str = MAIN,
        with_: str | Path | None = None,
        allow_data_loss: bool = False,
        dry_run: bool = False,
        engine: Engine = "local",
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        show_progress: bool = False,
    ) -> SchemaReceipt:
        """Change a branch to another schema, as one commit; no commit if nothing changes. SchemaChangeRefused if a step is not
        possible, or if entities prevent it, with these entities. With `dry_run` this is only checked. `with_` are mutations (a
        `.gq` text or file) that run in the same commit, under the new schema; they can read the properties and types that it
        drops. `allow_data_loss` permits hard drops, after which no read of the branch sees the values, and rounding of numbers
        that are too long for F64.

        >>> receipt = g.apply_schema(SCHEMA.replace("age: I32?", "age: I64?"), branch="inbox")
        >>> assert receipt.commit.kind == "schema"
        """
        from omnigraph.pipeline.evolve.apply import SchemaChange, apply_schema
        from omnigraph.pipeline.evolve.migrating import Migration
        from omnigraph.pipeline.progress import shown_on

        text, file = read_source(schema, ".pg")
        migration = None if with_ is None else Migration(*read_source(with_, ".gq"))
        with shown_on(sys.stderr, show_progress) as progress:
            return apply_schema(
                self._repository,
                SchemaChange(text, file, allow_data_loss, migration),
                branch,
                partial(runner_of, engine, self.uri, progress),
                progress=progress,
                dry_run=dry_run,
                actor=actor,
                message=message,
                if_commit=if_commit,
            )
