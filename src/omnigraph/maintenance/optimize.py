"""Maintenance of a branch: fragments rewritten, indexes completed, published as one commit that changes no row."""

from __future__ import annotations

from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.history import Commit, PublishPlan, TableChange, TableState, check_attribution
from omnigraph.maintenance.indexes import index_specs
from omnigraph.tables import Staged
from omnigraph.views import Repository, View
from omnigraph.write.publishing import publish

MAX_ATTEMPTS = 5


def maintain(repository: Repository, branch: str, *, rewrite: bool, actor: str | None = None) -> Commit | None:
    """Done again from the new head when somebody writes to one of the tables meanwhile."""
    check_attribution(actor)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        entry, view = repository.head(branch)
        staged = {key: found for key in view.catalog.tables if (found := _maintained(view, key, rewrite))}
        if not staged:
            return None
        repository.tables.sync([version for versions in staged.values() for version in versions])
        plan = PublishPlan(
            commit_id=repository.history.new_id(),
            branch=branch,
            incarnation=entry.incarnation,
            base=view.snapshot.commit.ref,
            schema=view.snapshot.schema,
            changes=tuple(_change(view, key, versions[-1]) for key, versions in staged.items()),
            kind="optimize",
            actor=actor,
        )
        try:
            return publish(repository.history, plan)
        except ExpectedVersionMismatch:
            if attempt == MAX_ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _maintained(view: View, key: str, rewrite: bool) -> list[Staged]:
    """The versions made for one table, each on top of the one before it; [] when nothing was to do."""
    table = view.table(key)
    if table is None or not table.rows:
        return []
    tables = view.repository.tables
    made: list[Staged] = []
    if rewrite and (rewritten := tables.stage_rewrite(table)):
        made.append(rewritten)
        table = tables.open(table.path, rewritten.version)
    if indexed := tables.stage_index(table, index_specs(view.entity(key))):
        made.append(indexed)
    return made


def _change(view: View, key: str, staged: Staged) -> TableChange:
    before = view.state(key)
    assert before is not None, "a table that was maintained has a state"
    after = TableState(before.path, staged.version, before.generation + 1, staged.rows, staged.digest)
    return TableChange(key, "strict", before, after, {})
