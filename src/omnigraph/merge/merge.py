"""Merging a branch into another: a base, three outcomes, one commit with two parents, or conflicts and nothing else.

    already_up_to_date   the target has the source's head already: nothing is published
    fast_forward         the target is where the branches parted: its tables become the source's
    merged               both moved: the schemas are merged, then each type by the three-way rule

A fast-forward is a commit too, with two parents: the target's chain is its own, and the log shows that a merge took
place. With strategy "ours" the target wins where both sides changed the same thing, with "theirs" the source; neither
settles a rule that the merged whole breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias

from omnigraph.changes.diff import same_state
from omnigraph.errors import (
    Contention,
    ExpectedVersionMismatch,
    OmnigraphError,
    PreconditionFailed,
    StaleResolution,
    UsageError,
)
from omnigraph.failpoints import Failpoint, reach
from omnigraph.history import (
    Commit,
    CommitKind,
    CommitRef,
    Entry,
    PublishPlan,
    Snapshot,
    TableChange,
    TableState,
    check_attribution,
)
from omnigraph.language.catalog import Catalog, EdgeType, EntityType
from omnigraph.language.projection import kind_of
from omnigraph.language.schema.merging import Strategy
from omnigraph.language.schema.migration import compare_catalogs
from omnigraph.language.schema.migration_steps import MigrationStep
from omnigraph.maintenance.adjacency import refresh_after
from omnigraph.merge.bases import Bases, Differences, find_bases, state_of, type_rows
from omnigraph.merge.branch_changes import BranchChanges
from omnigraph.merge.checks import rounded, violations
from omnigraph.merge.conflicts import NOWHERE, MergeConflict, Sides, with_values
from omnigraph.merge.resolutions import Resolution, check_resolutions, described
from omnigraph.merge.resolving import put_over, state_after, type_of
from omnigraph.merge.result import (
    MergeResult,
    Outcome,
    TypeSummary,
    conflict_error,
    conflict_hint,
    schema_conflict_error,
    schema_conflict_hint,
)
from omnigraph.merge.schemas import MergedSchema, merged_schema
from omnigraph.merge.staging import stage_merge
from omnigraph.merge.three_way import By
from omnigraph.merge.type_merge import MergeRule, TypeMerge, merge_type
from omnigraph.records.rows import Row
from omnigraph.tables import Staged
from omnigraph.views import Repository, View, encode_catalog
from omnigraph.workers import IN_PROCESS, ExchangingWorkers
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
    resolutions: Sequence[Resolution] = (),
    expect: Expected | None = None,
    workers: ExchangingWorkers = IN_PROCESS,
) -> MergeResult:
    """Merge the head that `source` has now. A commit that gets to the target first is merged with, not overwritten, unless
    `expect` says at which commits the two branches have to be."""
    check_attribution(actor, message)
    check_expected(expect)
    decided = check_resolutions(resolutions)
    if source == into:
        raise UsageError("a branch cannot be merged into itself")
    check_way(strategy, by)
    differences = Differences(workers)
    since = repository.history.clock()
    theirs = repository.history.chain.head(source)
    if expect is not None:
        _check_head(theirs, expect[0])
    with repository.history.leases.hold(theirs.head.commit.ref):
        for _ in range(MAX_ATTEMPTS):
            ours = repository.history.chain.head(into)
            if expect is not None:
                _check_head(ours, expect[1])
            attempt = MergeAttempt(repository, theirs, ours, strategy, by, differences, since, decided, expect)
            try:
                result = attempt.run(dry_run=dry_run, actor=actor, message=message)
            except ExpectedVersionMismatch:
                # Somebody committed to the target meanwhile: merge again, with what is there now.
                continue
            return _with_branch_deleted(repository, result, theirs) if delete_branch and not dry_run else result
    raise Contention(f"branch '{into}' moved {MAX_ATTEMPTS} times during the merge", hint="retry when it is quieter")


Expected: TypeAlias = tuple[str, str]
"""The ids of the commits at which the source and the target have to be."""


def check_way(strategy: Strategy, by: By) -> None:
    if strategy not in ("fail", "ours", "theirs") or by not in ("row", "property"):
        raise UsageError(f"no merge by '{by}' with strategy '{strategy}'", hint="fail, ours or theirs; row or property")


def check_expected(expect: object) -> None:
    is_pair = isinstance(expect, tuple) and len(expect) == 2 and all(isinstance(commit_id, str) for commit_id in expect)
    if expect is not None and not is_pair:
        raise UsageError("'expect' must be two commit ids, of the source's and of the target's head")


def _check_head(entry: Entry, expected: str) -> None:
    if entry.head.commit.id != expected:
        raise PreconditionFailed(entry.branch, expected, entry.head.commit.id)


def _with_branch_deleted(repository: Repository, result: MergeResult, source: Entry) -> MergeResult:
    """The merge stands, whatever becomes of the deletion; a source that has moved since is kept."""
    reach(Failpoint.MERGE_BEFORE_BRANCH_DELETE)
    try:
        repository.history.branches.delete(source.branch, at=source.head.commit, force=True)
    except OmnigraphError as error:
        return replace(result, branch_deleted=False, branch_delete_error=error.message)
    return replace(result, branch_deleted=True)


class MergeAttempt:
    """One merge of two pinned heads: what the *incoming* branch, the source, changed is put on the tables of the *current* one,
    the target, under the schema that both have come to."""

    def __init__(
        self,
        repository: Repository,
        source: Entry,
        target: Entry,
        strategy: Strategy,
        by: By,
        differences: Differences,
        since: float,
        resolutions: tuple[Resolution, ...],
        expect: Expected | None,
    ) -> None:
        self.repository = repository
        self.source, self.target = source, target
        self.strategy, self.by = strategy, by
        self.source_view, self.target_view = repository.view(source.head), repository.view(target.head)
        self.bases = self._find_bases()
        self.differences = differences
        self.since = since
        self.is_fast_forward = target.head.commit.id in {commit.id for commit in self.bases.commits}
        self.resolutions, self.expect = resolutions, expect
        self._merges: dict[int, TypeMerge] = {}
        self._states: dict[int, dict[str, Row | None]] = {}
        """By type and id: what was decided."""

    kind: CommitKind = "merge"

    @property
    def source_name(self) -> str:
        """What the incoming side is called."""
        return self.source.branch

    @property
    def schema_remedy(self) -> str:
        """What to do about schemas that contradict each other."""
        return f"make the two schemas say the same with 'omnigraph schema apply --branch {self.source.branch}', and merge again"

    @property
    def merged(self) -> CommitRef | None:
        """The second parent of the commit."""
        return self.source.head.commit.ref

    def _find_bases(self) -> Bases:
        return find_bases(self.repository, self.source, self.target)

    def run(self, *, dry_run: bool, actor: str | None, message: str | None) -> MergeResult:
        is_up_to_date = self.source.head.commit.id in {commit.id for commit in self.bases.commits}
        if self.resolutions and (is_up_to_date or self.is_fast_forward):
            raise StaleResolution(self.resolutions[0].type_name, self.resolutions[0].entity_id)
        if is_up_to_date:
            return self._result("already_up_to_date", dry_run=dry_run)
        if self.is_fast_forward:
            return self._fast_forward(dry_run=dry_run, actor=actor, message=message)
        views = (self.target_view, self.source_view)
        self.schema = merged_schema(self.bases, *views, self.strategy, self.differences)
        if self.schema.conflicts:
            return self._stopped_by_schemas(dry_run=dry_run)
        self._choose_sides()
        self._take_resolutions()
        conflicts = self._conflicts()
        if conflicts and not dry_run:
            raise conflict_error(self.source_name, self.target.branch, conflicts, self.by)
        commit = None
        if not dry_run:
            reach(Failpoint.MERGE_BEFORE_STAGE)
            commit = self._publish(self._merged_tables(), self.schema, actor, described(message, self.resolutions))
        return self._result(
            "conflicts" if conflicts else "merged",
            dry_run=dry_run,
            commit=commit,
            types=self._summaries(),
            conflicts=conflicts,
            hint=conflict_hint(self.source_name, self.target.branch, conflicts, self.by) if conflicts else None,
            schema_steps=self._schema_steps(self.schema.catalog),
        )

    def _result(self, outcome: Outcome, *, dry_run: bool, commit: Commit | None = None, **members: Any) -> MergeResult:
        return MergeResult(
            self.source_name,
            self.target.branch,
            outcome,
            commit,
            tuple(base.id for base in self.bases.commits),
            dry_run=dry_run,
            source_commit=self.source.head.commit.id,
            target_commit=self.target.head.commit.id,
            **members,
        )

    def _stopped_by_schemas(self, *, dry_run: bool) -> MergeResult:
        """Rows are not looked at before it is known what they are."""
        source, target, conflicts = self.source_name, self.target.branch, self.schema.conflicts
        if not dry_run:
            raise schema_conflict_error(source, target, conflicts, self.schema_remedy)
        hint = schema_conflict_hint(source, target, conflicts, self.schema_remedy)
        return self._result("conflicts", dry_run=True, hint=hint, schema_conflicts=conflicts)

    def _schema_steps(self, after: Catalog) -> tuple[MigrationStep, ...]:
        before = self.target_view.catalog
        return () if after is before else compare_catalogs(before, after)

    def _fast_forward(self, *, dry_run: bool, actor: str | None, message: str | None) -> MergeResult:
        tables = self.source_view.snapshot.tables
        schema = MergedSchema(self.source_view.snapshot.schema, self.source_view.catalog)
        changes = table_changes(self.target_view, schema, tables)
        commit = None
        if not dry_run:
            reach(Failpoint.MERGE_BEFORE_STAGE)
            commit = self._publish(tables, schema, actor, message)
        return self._result(
            "fast_forward",
            dry_run=dry_run,
            commit=commit,
            types={change.key: TypeSummary("pointer") for change in changes},
            schema_steps=self._schema_steps(self.source_view.catalog),
        )

    # ------------------------------------------------------------ what to merge

    def _choose_sides(self) -> None:
        """Everything is read under the merged schema, and put on the tables of the target."""
        bases = replace(self.bases, views=tuple(self.schema.view(view) for view in self.bases.views))
        current, incoming = (self.schema.view(view, bases.views[0]) for view in (self.target_view, self.source_view))
        self.bases = bases
        self.current = BranchChanges(current, incoming, bases, self.differences)
        self.incoming = BranchChanges(incoming, current, bases, self.differences)
        self.rule = MergeRule(self.by, self.strategy, "ours")
        self.moved = self._moved_types(self.incoming, self.current)
        self.target_moved = self._moved_since_bases(self.current)

    def _take_resolutions(self) -> None:
        """What was decided, checked against what the branches have now. Types that it is about are merged row by row."""
        catalog = self.schema.catalog
        of_type = groupby(
            sorted(self.resolutions, key=lambda resolution: resolution.table_key),
            key=lambda resolution: resolution.table_key,
        )
        for _, members in of_type:
            resolutions = list(members)
            entity = type_of(resolutions[0], catalog)
            known: dict[str, frozenset[str]] = {}
            for conflict in self._merge_of(entity).conflicts:
                known[str(conflict.entity_id)] = frozenset([conflict.digest])
            sides = self._sides_of(entity, [resolution.entity_id for resolution in resolutions])
            has_base = self.bases.agree_on(entity.id)
            self._states[entity.id] = {
                resolution.entity_id: state_after(
                    resolution,
                    catalog,
                    sides[resolution.entity_id],
                    known.get(resolution.entity_id, frozenset()),
                    has_base=has_base,
                )
                for resolution in resolutions
            }
            self._merges[entity.id] = self._as_decided(self._merges[entity.id])
            if entity not in self.moved:
                self.moved.append(entity)

    def _sides_of(self, entity: EntityType, ids: list[str]) -> dict[str, Sides]:
        """The rows of some entities on each side; none at a base that merges which crossed do not agree on."""
        base = self.bases.views[0] if self.bases.agree_on(entity.id) else None
        rows = [rows_by_id(view, entity, ids) for view in (base, self.current.view, self.incoming.view)]
        return {id: Sides(*(side.get(id) for side in rows)) for id in ids}

    def _moved_types(self, incoming: BranchChanges, current: BranchChanges) -> list[EntityType]:
        """The types that one branch changed and the other does not have already."""
        return [
            self.schema.catalog.by_id[type_id]
            for type_id in sorted(self._moved_since_bases(incoming))
            if not same_state(state_of(incoming.view, type_id), state_of(current.view, type_id))
        ]

    def _moved_since_bases(self, branch: BranchChanges) -> frozenset[int]:
        """The types whose rows on a branch are not those of every base."""
        return frozenset(
            type_id
            for type_id in self.schema.catalog.by_id
            if not all(same_state(state_of(branch.view, type_id), state_of(base, type_id)) for base in self.bases.views)
        )

    def _takes_pointer(self, entity: EntityType) -> bool:
        """The target still has the base's rows, and nobody decided anything about them."""
        return entity.id not in self.target_moved and entity.id not in self._states

    def _merge_of(self, entity: EntityType) -> TypeMerge:
        if entity.id not in self._merges:
            merge = merge_type(self.incoming, self.current, entity, self.rule)
            self._merges[entity.id] = self._as_decided(merge)
        return self._merges[entity.id]

    def _as_decided(self, merge: TypeMerge) -> TypeMerge:
        states = self._states.get(merge.entity.id)
        return merge if states is None else put_over(merge, states)

    def _conflicts(self) -> tuple[MergeConflict, ...]:
        """Every conflict there is: of the row rule, and then of the merged whole."""
        conflicts = [
            conflict
            for entity in self.moved
            if not self._takes_pointer(entity)
            for conflict in self._merge_of(entity).conflicts
        ]
        # A row that somebody gave may break a rule with any other; else only rows of both sides can.
        only_of_both = self.source_view.snapshot.schema == self.target_view.snapshot.schema and not self._states
        broken = {
            *violations(self.moved, self.current, self.target_moved, self._merge_of, same_schema=only_of_both),
            *rounded(self.source_view, self.moved, self._merge_of),
        }
        if self.schema.has_rules_beyond(self.target_view.catalog):
            broken |= {*self._broken_by_target()}
        conflicts += self._with_values(sorted(broken, key=lambda conflict: conflict.order))
        return tuple(sorted(conflicts, key=lambda conflict: conflict.order))

    def _broken_by_target(self) -> list[MergeConflict]:
        """Rules that are new to the target, broken by what it changed: the other way round, its rows are put on the source's.
        What it did not change is in the merged whole as the source has it, where the rule was checked on every row."""
        rule, merges = MergeRule(self.by, self.strategy, "theirs"), dict[int, TypeMerge]()

        def merge_of(entity: EntityType) -> TypeMerge:
            if entity.id not in merges:
                merges[entity.id] = self._as_decided(merge_type(self.current, self.incoming, entity, rule))
            return merges[entity.id]

        moved = self._moved_types(self.current, self.incoming)
        broken = violations(moved, self.incoming, frozenset(), merge_of, same_schema=False)
        return broken + rounded(self.target_view, moved, merge_of)

    def _with_values(self, conflicts: list[MergeConflict]) -> Iterator[MergeConflict]:
        """Broken rules with what each side has of the properties concerned."""
        types = {(kind_of(entity), entity.name): entity for entity in self.current.view.catalog.tables.values()}
        for (kind, name), members in groupby(
            conflicts, key=lambda conflict: (conflict.entity_kind, conflict.type_name)
        ):
            entity, broken = types[kind, name], list(members)
            sides = self._sides_of(
                entity, [conflict.entity_id for conflict in broken if conflict.entity_id is not None]
            )
            for violation in broken:
                yield with_values(violation, entity, sides.get(violation.entity_id or "", NOWHERE))

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

    def _publish(
        self, tables: Mapping[str, TableState], schema: MergedSchema, actor: str | None, message: str | None
    ) -> Commit:
        reach(Failpoint.MERGE_BEFORE_PUBLISH)
        target = self.target_view.snapshot
        if schema.hash not in (target.schema, self.source_view.snapshot.schema):
            self.repository.history.schemas.put(encode_catalog(schema.catalog))
        plan = PublishPlan(
            commit_id=self.repository.history.new_id(),
            branch=self.target.branch,
            incarnation=self.target.incarnation,
            base=target.commit.ref,
            schema=target.schema,
            changes=table_changes(self.target_view, schema, tables),
            kind=self.kind,
            actor=actor,
            message=message,
            merged=self.merged,
            new_schema=schema.hash if schema.hash != target.schema else None,
            staged_since=self.since,
        )
        commit = publish(self.repository.history, plan, self._carried_over)
        reach(Failpoint.MERGE_AFTER_PUBLISH)
        grown = [abs(state.rows - self.target_view.rows(key)) for key, state in tables.items()]
        refresh_after(self.repository, commit, grown)
        return commit

    def _carried_over(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        """The same plan on a newer target, if nothing that the merge looked at has moved; otherwise it is done again.

        Without this a large merge would never get in on a branch where others are busy with other types.
        """
        target = self.target_view.snapshot
        relied = self._relied_on()
        moved = [key for key in sorted(relied or ()) if snapshot.table(key) != target.table(key)]
        if (
            relied is None
            or moved
            or self.expect
            or snapshot.schema != target.schema
            or self._has_merged_since(snapshot)
        ):
            raise ExpectedVersionMismatch(moved[0] if moved else "branch", plan.base.seq, snapshot.commit.ref.seq)
        return plan

    def _relied_on(self) -> set[str] | None:
        """The tables whose rows on the target this merge depends on; None when it is all of them."""
        if self.is_fast_forward or self.schema.hash != self.target_view.snapshot.schema:
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
        """What the target gets, by the types that the source changed or that something was decided about."""
        result = {}
        for entity in sorted(self.moved, key=lambda entity: entity.table_key):
            if self._takes_pointer(entity):
                result[entity.table_key] = TypeSummary("pointer")
            elif any(counts := self._merge_of(entity).counts):
                result[entity.table_key] = TypeSummary("rows", *counts)
        return result


def rows_by_id(view: View | None, entity: EntityType, ids: list[str]) -> dict[str, dict[str, Any]]:
    """The rows of some entities in a snapshot."""
    stored = None if view is None or not ids else type_rows(view, entity.id)
    if stored is None or stored.table is None:
        return {}
    return {row["id"]: row for row in stored.table.lookup("id", ids).to_pylist()}


def table_changes(target: View, schema: MergedSchema, after: Mapping[str, TableState]) -> tuple[TableChange, ...]:
    """The tables whose state is another one now, or has another name; their generations go on from the target's own."""
    before = target.snapshot.tables
    renamed = schema.view(target).snapshot.tables
    changes = [TableChange(key, "merge", before[key], None) for key in before.keys() - after.keys()]
    for key, state in after.items():
        old = renamed.get(key)
        is_same = old is not None and old.content == state.content
        generation = (old.generation if old else 0) + (0 if is_same else 1)
        new = replace(state, generation=generation)
        if before.get(key) != new:
            changes.append(TableChange(key, "merge", before.get(key), new))
    return tuple(sorted(changes, key=lambda change: change.key))
