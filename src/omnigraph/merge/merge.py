"""Merging a branch into another: a base, three outcomes, one commit with two parents, or conflicts and nothing else.

    already_up_to_date   the target has the source's head already: nothing is published
    fast_forward         the target is where the branches parted: its tables become the source's
    merged               both moved: each type is merged by the three-way rule

A fast-forward is a commit too, with two parents: the target's chain is its own, and the log shows that a merge took
place. With strategy "ours" the target wins where both sides changed the same thing, with "theirs" the source; neither
settles a rule that the merged whole breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from typing import Any

from omnigraph.changes.diff import same_state
from omnigraph.errors import (
    Contention,
    ExpectedVersionMismatch,
    OmnigraphError,
    SchemaBoundary,
    UsageError,
)
from omnigraph.failpoints import Failpoint, reach
from omnigraph.history import Commit, Entry, PublishPlan, Snapshot, TableChange, TableState, check_attribution
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.language.projection import by_id, has_columns_of, kind_of, project
from omnigraph.merge.bases import Differences, find_bases, state_of, type_rows
from omnigraph.merge.branch_changes import BranchChanges
from omnigraph.merge.checks import violations
from omnigraph.merge.conflicts import MergeConflict, Sides, with_values
from omnigraph.merge.result import MergeResult, TypeSummary, conflict_error, conflict_hint
from omnigraph.merge.staging import stage_merge
from omnigraph.merge.three_way import By, Strategy
from omnigraph.merge.type_merge import MergeRule, TypeMerge, merge_type
from omnigraph.tables import Staged
from omnigraph.views import Repository, View
from omnigraph.workers import IN_PROCESS, Workers
from omnigraph.write.publishing import publish

MAX_ATTEMPTS = 32
STAGING_THREADS = 8


def merge_branches(
    repository: Repository,
    source: str,
    into: str,
    *,
    strategy: Strategy = "fail",
    by: By = "row",
    dry_run: bool = False,
    delete_branch: bool = False,
    actor: str | None = None,
    message: str | None = None,
    workers: Workers = IN_PROCESS,
) -> MergeResult:
    """Merge the head that `source` has now. A commit that gets to the target first is merged with, not overwritten."""
    check_attribution(actor, message)
    if source == into:
        raise UsageError("a branch cannot be merged into itself")
    if strategy not in ("fail", "ours", "theirs") or by not in ("row", "property"):
        raise UsageError(f"no merge by '{by}' with strategy '{strategy}'", hint="fail, ours or theirs; row or property")
    differences = Differences(workers)
    since = repository.history.clock()
    theirs = repository.history.chain.head(source)
    with repository.history.leases.hold(theirs.head.commit.ref):
        for _ in range(MAX_ATTEMPTS):
            ours = repository.history.chain.head(into)
            attempt = _Attempt(repository, theirs, ours, strategy, by, differences, since)
            try:
                result = attempt.run(dry_run=dry_run, actor=actor, message=message)
            except ExpectedVersionMismatch:
                # Somebody committed to the target meanwhile: merge again, with what is there now.
                continue
            return _with_branch_deleted(repository, result, theirs) if delete_branch and not dry_run else result
    raise Contention(f"branch '{into}' moved {MAX_ATTEMPTS} times during the merge", hint="retry when it is quieter")


def _with_branch_deleted(repository: Repository, result: MergeResult, source: Entry) -> MergeResult:
    """The merge stands, whatever becomes of the deletion; a source that has moved since is kept."""
    reach(Failpoint.MERGE_BEFORE_BRANCH_DELETE)
    try:
        repository.history.branches.delete(source.branch, at=source.head.commit, force=True)
    except OmnigraphError as error:
        return replace(result, branch_deleted=False, branch_delete_error=error.message)
    return replace(result, branch_deleted=True)


class _Attempt:
    """One merge of two pinned heads: what the *incoming* branch changed is put on the tables of the *current* one. That is
    the target, unless the source alone changed the schema."""

    def __init__(
        self,
        repository: Repository,
        source: Entry,
        target: Entry,
        strategy: Strategy,
        by: By,
        differences: Differences,
        since: float,
    ) -> None:
        self.repository = repository
        self.source, self.target = source, target
        self.strategy, self.by = strategy, by
        self.source_view, self.target_view = repository.view(source.head), repository.view(target.head)
        self.bases = find_bases(repository, source, target)
        self.differences = differences
        self.since = since
        self.is_fast_forward = target.head.commit.id in {commit.id for commit in self.bases.commits}
        self._merges: dict[int, TypeMerge] = {}

    def run(self, *, dry_run: bool, actor: str | None, message: str | None) -> MergeResult:
        base_ids = tuple(commit.id for commit in self.bases.commits)
        if self.source.head.commit.id in base_ids:
            return MergeResult(self.source.branch, self.target.branch, "already_up_to_date", None, base_ids)
        if self.is_fast_forward:
            return self._fast_forward(dry_run=dry_run, actor=actor, message=message)
        self._choose_sides()
        conflicts = self._conflicts()
        if conflicts and not dry_run:
            raise conflict_error(self.source.branch, self.target.branch, conflicts, self.by)
        commit = None
        if not dry_run:
            reach(Failpoint.MERGE_BEFORE_STAGE)
            commit = self._publish(self._merged_tables(), self.current.view.snapshot.schema, actor, message)
        return MergeResult(
            self.source.branch,
            self.target.branch,
            "conflicts" if conflicts else "merged",
            commit,
            base_ids,
            self._summaries(),
            conflicts,
            dry_run,
            conflict_hint(self.source.branch, self.target.branch, conflicts, self.by) if conflicts else None,
        )

    def _fast_forward(self, *, dry_run: bool, actor: str | None, message: str | None) -> MergeResult:
        tables = self.source_view.snapshot.tables
        changes = _table_changes(self.target_view.snapshot.tables, tables)
        commit = None
        if not dry_run:
            reach(Failpoint.MERGE_BEFORE_STAGE)
            commit = self._publish(tables, self.source_view.snapshot.schema, actor, message)
        return MergeResult(
            self.source.branch,
            self.target.branch,
            "fast_forward",
            commit,
            tuple(base.id for base in self.bases.commits),
            {change.key: TypeSummary("pointer") for change in changes},
            dry_run=dry_run,
        )

    # ------------------------------------------------------------ what to merge

    def _choose_sides(self) -> None:
        source, target = self.source_view.snapshot.schema, self.target_view.snapshot.schema
        origins = {view.snapshot.schema for view in self.bases.views}
        if source != target and origins not in ({source}, {target}):
            raise SchemaBoundary(
                f"'{self.source.branch}' and '{self.target.branch}' changed the schema differently",
                hint="apply the same schema to both branches first",
            )
        builds_on_source = source != target and origins == {target}
        current, incoming = self.target_view, self.source_view
        if builds_on_source:
            current, incoming = incoming, current
        self.current = BranchChanges(current, incoming, self.bases, self.differences)
        self.incoming = BranchChanges(incoming, current, self.bases, self.differences)
        self.rule = MergeRule(self.by, self.strategy, "theirs" if builds_on_source else "ours")
        self.moved = self._moved_types()

    def _moved_types(self) -> list[EntityType]:
        """The types that the incoming branch changed and the current one does not have already."""
        current_types, incoming_types = by_id(self.current.view.catalog), by_id(self.incoming.view.catalog)
        moved = []
        for type_id in sorted(current_types.keys() | incoming_types.keys()):
            incoming = state_of(self.incoming.view, type_id)
            if all(same_state(incoming, state_of(view, type_id)) for view in self.bases.views):
                continue
            if type_id not in current_types:
                raise SchemaBoundary(
                    f"{incoming_types[type_id].name} was removed on one branch while the other changed it",
                    hint="apply the same schema to both branches first",
                )
            if not same_state(incoming, state_of(self.current.view, type_id)):
                moved.append(current_types[type_id])
        return moved

    def _current_moved(self, type_id: int) -> bool:
        current = state_of(self.current.view, type_id)
        return not all(same_state(current, state_of(view, type_id)) for view in self.bases.views)

    def _takes_pointer(self, entity: EntityType) -> bool:
        """The current branch still has the base's rows, and the incoming ones are stored as its schema wants them."""
        incoming = by_id(self.incoming.view.catalog).get(entity.id)
        return not self._current_moved(entity.id) and incoming is not None and has_columns_of(incoming, entity)

    def _merge_of(self, entity: EntityType) -> TypeMerge:
        if entity.id not in self._merges:
            self._merges[entity.id] = merge_type(self.incoming, self.current, entity, self.rule)
        return self._merges[entity.id]

    def _conflicts(self) -> tuple[MergeConflict, ...]:
        """Every conflict there is: of the row rule, and then of the merged whole."""
        types = by_id(self.current.view.catalog)
        current_moved = frozenset(type_id for type_id in types if self._current_moved(type_id))
        found = [
            conflict
            for entity in self.moved
            if not self._takes_pointer(entity)
            for conflict in self._merge_of(entity).conflicts
        ]
        same_schema = self.incoming.view.snapshot.schema == self.current.view.snapshot.schema
        broken = violations(self.moved, self.current, current_moved, self._merge_of, same_schema=same_schema)
        found += self._with_values(broken)
        return tuple(sorted(found, key=lambda conflict: conflict.order))

    def _with_values(self, conflicts: list[MergeConflict]) -> Iterator[MergeConflict]:
        """Broken rules with what each side has of the properties concerned."""
        types = {(kind_of(entity), entity.name): entity for entity in self.current.view.catalog.tables.values()}
        for (kind, name), members in groupby(conflicts, key=lambda each: (each.entity_kind, each.type_name)):
            entity, broken = types[kind, name], list(members)
            ids = [each.entity_id for each in broken if each.entity_id is not None and each.properties]
            base = self.bases.views[0] if self.bases.agree_on(entity.id) else None
            rows = [rows_by_id(view, entity, ids) for view in (base, self.target_view, self.source_view)]
            for each in broken:
                sides = Sides(*(found.get(each.entity_id or "") for found in rows))
                yield with_values(each, entity, sides)

    # ------------------------------------------------------------ the result

    def _merged_tables(self) -> dict[str, TableState]:
        """Every table of the merged state, by the current branch's names; the generations are still open."""
        tables = dict(self.current.view.snapshot.tables)
        for entity in filter(self._takes_pointer, self.moved):
            state = state_of(self.incoming.view, entity.id)
            if state is None:
                tables.pop(entity.table_key, None)
            else:
                tables[entity.table_key] = state
        rest = [
            entity for entity in self.moved if not self._takes_pointer(entity) and not self._merge_of(entity).is_empty
        ]
        with ThreadPoolExecutor(max_workers=STAGING_THREADS) as pool:
            staged = list(pool.map(self._stage, rest))
        self.repository.tables.sync([version for versions in staged for version in versions])
        for entity, versions in zip(rest, staged, strict=True):
            last = versions[-1]
            tables[entity.table_key] = TableState(last.path, last.version, 0, last.rows, last.digest)
        return tables

    def _stage(self, entity: EntityType) -> list[Staged]:
        table = self.current.view.table_or_new(entity.table_key)
        return stage_merge(self.repository.tables, table, self._merge_of(entity))

    def _publish(self, tables: Mapping[str, TableState], schema: str, actor: str | None, message: str | None) -> Commit:
        reach(Failpoint.MERGE_BEFORE_PUBLISH)
        target = self.target_view.snapshot
        plan = PublishPlan(
            commit_id=self.repository.history.new_id(),
            branch=self.target.branch,
            incarnation=self.target.incarnation,
            base=target.commit.ref,
            schema=target.schema,
            changes=_table_changes(target.tables, tables),
            kind="merge",
            actor=actor,
            message=message,
            merged=self.source.head.commit.ref,
            new_schema=schema if schema != target.schema else None,
            staged_since=self.since,
        )
        commit = publish(self.repository.history, plan, self._carried_over)
        reach(Failpoint.MERGE_AFTER_PUBLISH)
        return commit

    def _carried_over(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        """The same plan on a newer target, if nothing that the merge looked at has moved; otherwise it is done again.

        Without this a large merge would never get in on a branch where others are busy with other types.
        """
        target = self.target_view.snapshot
        relied = self._relied_on()
        moved = [key for key in sorted(relied or ()) if snapshot.table(key) != target.table(key)]
        if relied is None or moved or snapshot.schema != target.schema or self._has_merged_since(snapshot):
            raise ExpectedVersionMismatch(moved[0] if moved else "branch", plan.base.seq, snapshot.commit.ref.seq)
        return plan

    def _relied_on(self) -> set[str] | None:
        """The tables whose rows on the target this merge depends on; None when it is all of them."""
        if self.is_fast_forward or self.current.view is not self.target_view:
            return None
        catalog = self.current.view.catalog
        keys = {entity.table_key for entity in self.moved}
        for entity in self.moved:
            if isinstance(entity, EdgeType):
                keys |= {catalog.nodes[entity.source].table_key, catalog.nodes[entity.target].table_key}
            else:
                keys |= {edge.table_key for edge in catalog.edges_of(entity.name)}
        return keys

    def _has_merged_since(self, snapshot: Snapshot) -> bool:
        """Whether the target has taken in other branches since: the bases may be others then."""
        lineage = self.repository.history.lineage
        now = lineage.reached(lineage.entry_of(snapshot.commit.ref).ancestry)
        return {**now, self.target.incarnation: 0} != {
            **lineage.reached(self.target.ancestry),
            self.target.incarnation: 0,
        }

    # ------------------------------------------------------------ counting

    def _summaries(self) -> dict[str, TypeSummary]:
        """What the target gets, by the types that the source changed."""
        merged = {entity.id for entity in self.moved if not self._takes_pointer(entity)}
        result = {}
        for entity in self.current.view.catalog.tables.values():
            theirs, ours = (state_of(view, entity.id) for view in (self.source_view, self.target_view))
            origins = [state_of(view, entity.id) for view in self.bases.views]
            if same_state(theirs, ours) or all(same_state(theirs, origin) for origin in origins):
                continue
            if entity.id not in merged:
                result[entity.table_key] = TypeSummary("pointer")
            elif any(counts := self._merge_of(entity).counts):
                result[entity.table_key] = TypeSummary("rows", *counts)
        return result


def rows_by_id(view: View | None, entity: EntityType, ids: list[str]) -> dict[str, dict[str, Any]]:
    """The rows of some entities in a snapshot, as rows of `entity`."""
    stored = None if view is None or not ids else type_rows(view, entity.id)
    if stored is None or stored.table is None:
        return {}
    return {row["id"]: row for row in project(stored.table.lookup("id", ids), stored.entity, entity).to_pylist()}


def _table_changes(before: Mapping[str, TableState], after: Mapping[str, TableState]) -> tuple[TableChange, ...]:
    """The tables whose state is another one now; their generations go on from the target's own."""
    changes = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if new is None:
            changes.append(TableChange(key, "merge", old, None))
        elif old is None or (old.path, old.version) != (new.path, new.version):
            generation = (old.generation if old else 0) + 1
            changes.append(TableChange(key, "merge", old, replace(new, generation=generation)))
    return tuple(changes)
