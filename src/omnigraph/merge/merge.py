"""Merges one branch into another. The result is one commit with two parents, or conflicts and no change.

    already_up_to_date   the target has the source's head already: nothing is published
    fast_forward         the target has not moved since the branches diverged: it gets the source's tables
    merged               both moved: the schemas are merged, then each type by the three-way rule

A fast-forward also makes a commit with two parents, because each branch has its own chain and the log should show the merge.
Where both sides changed the same thing, strategy "ours" prefers the target and "theirs" the source; neither settles a rule that
the merged graph breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import Any, TypeAlias

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.changes.diff import same_state
from omnigraph.errors import (
    ExpectedVersionMismatch,
    OmnigraphError,
    PreconditionFailed,
    StaleResolution,
    UsageError,
    ValuesLost,
)
from omnigraph.history.plan import PublishPlan, TableChange, check_attribution
from omnigraph.history.values import Commit, CommitKind, CommitRef, Entry, Snapshot, TableState
from omnigraph.indexing.adjacency import refresh_after
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.language.projection import kind_of, lost_properties
from omnigraph.language.schema.merging import Strategy
from omnigraph.language.schema.migration import compare_catalogs
from omnigraph.language.schema.migration_steps import MigrationStep
from omnigraph.merge.checks import MergedKeys, few_rows, rounded, stage_merge, superseded, violations
from omnigraph.merge.conflicts import NOWHERE, MergeConflict, Sides, with_values
from omnigraph.merge.resolutions import Resolution, check_resolutions, described
from omnigraph.merge.resolving import put_over, state_after, type_of
from omnigraph.merge.schemas import (
    Bases,
    Differences,
    MergedSchema,
    SideView,
    find_bases,
    merged_schema,
    state_of,
    type_rows,
    with_dropped_values,
)
from omnigraph.merge.three_way import (
    By,
    MergeResult,
    Outcome,
    TypeSummary,
    conflict_error,
    conflict_hint,
    schema_conflict_error,
    schema_conflict_hint,
)
from omnigraph.merge.type_merge import MergeRule, TypeMerge, merge_type
from omnigraph.metering import Threads
from omnigraph.records.rows import Row
from omnigraph.snapshot import Repository, View, encode_catalog
from omnigraph.tables.staging import Staged
from omnigraph.tasks.runner import IN_PROCESS, ExchangingWorkers
from omnigraph.write.constraints import stage_versions
from omnigraph.write.inlining import bounds
from omnigraph.write.publishing import LostRace, on_newest_head, publish

STAGING_THREADS = 8


@dataclass(frozen=True)
class MergeOptions:
    """The options of a merge or a revert, checked: raises UsageError for values that are not valid."""

    strategy: Strategy = "fail"
    by: By = "row"
    dry_run: bool = False
    actor: str | None = None
    message: str | None = None
    resolutions: Sequence[Resolution] = ()

    def __post_init__(self) -> None:
        check_attribution(self.actor, self.message)
        check_resolutions(self.resolutions)
        if self.strategy not in ("fail", "ours", "theirs") or self.by not in ("row", "property"):
            raise UsageError(
                f"no merge by '{self.by}' with strategy '{self.strategy}'", hint="fail, ours or theirs; row or property"
            )


def merge_branches(
    repository: Repository,
    source: str,
    into: str,
    options: MergeOptions,
    *,
    delete_branch: bool = False,
    expect: Expected | None = None,
    workers: ExchangingWorkers = IN_PROCESS,
) -> MergeResult:
    """Merge the current head of `source`; without a message the commit says `merge <source>`. If another commit reaches the target first, the merge is repeated on top of it, unless
    `expect` names the heads that both branches must have."""
    check_expected(expect)
    if source == into:
        raise UsageError("a branch cannot be merged into itself")
    if options.message is None:
        options = replace(options, message=f"merge {source}")
    differences, since = Differences(workers), repository.history.clock()
    theirs, first = repository.history.chain.heads(source, into)
    if expect is not None:
        _check_head(theirs, expect[0])
    remedy = f"make the two schemas say the same with 'omnigraph schema apply --branch {source}', and merge again"
    incoming = MergeSource(theirs, source, "merge", theirs.head.commit.ref, remedy)

    def attempt(ours: Entry) -> MergeResult:
        if expect is not None:
            _check_head(ours, expect[1])
        bases = find_bases(repository, theirs, ours)
        return MergeAttempt(incoming, ours, bases, options, differences, since, is_exact=expect is not None).run()

    with repository.history.leases.hold(theirs.head.commit.ref):
        newest = partial(repository.history.chain.head, into)
        result = on_newest_head(repository.history, into, newest, attempt, first)
        return _with_branch_deleted(repository, result, theirs) if delete_branch and not options.dry_run else result


Expected: TypeAlias = tuple[str, str]
"""The ids of the head commits that the source and the target must have."""


def check_expected(expect: object) -> None:
    is_pair = isinstance(expect, tuple) and len(expect) == 2 and all(isinstance(commit_id, str) for commit_id in expect)
    if expect is not None and not is_pair:
        raise UsageError("'expect' must be two commit ids, of the source's and of the target's head")


def _check_head(entry: Entry, expected: str) -> None:
    if entry.head.commit.id != expected:
        raise PreconditionFailed(entry.branch, expected, entry.head.commit.id)


def _with_branch_deleted(repository: Repository, result: MergeResult, source: Entry) -> MergeResult:
    """Delete the source, unless it has moved since. The merge stands even if the deletion fails."""
    reach(Failpoint.MERGE_BEFORE_BRANCH_DELETE)
    try:
        repository.history.branches.delete(source.branch, at=source.head.commit, force=True)
    except OmnigraphError as error:
        return replace(result, branch_deleted=False, branch_delete_error=error.message)
    return replace(result, branch_deleted=True)


@dataclass(frozen=True)
class MergeSource:
    """The state whose changes are merged, and how the commit records it."""

    entry: Entry
    name: str
    kind: CommitKind
    parent: CommitRef | None
    """The second parent of the commit. Without one, nothing is committed if nothing changes."""
    schema_remedy: str
    """What to do about schemas that contradict each other."""


class MergeAttempt:
    """One merge of two pinned heads. The changes of the *incoming* branch (the source) are applied to the tables of the *current*
    branch (the target), under the merged schema."""

    def __init__(
        self,
        source: MergeSource,
        target: Entry,
        bases: Bases,
        options: MergeOptions,
        differences: Differences,
        since: float,
        *,
        is_exact: bool = False,
    ) -> None:
        """`since`: when staging began. `is_exact`: the merge is valid for this head of the target only."""
        self.repository = bases.views[0].repository
        self.source, self.target, self.bases, self.options = source, target, bases, options
        self.source_view, self.target_view = map(self.repository.view, (source.entry.head, target.head))
        self.differences, self.since, self.is_exact = differences, since, is_exact
        # A fast-forward must not bring back what the target dropped for good: merging the schemas refuses that.
        is_known = {*self.target_view.catalog.hard_dropped} <= {*self.source_view.catalog.hard_dropped}
        self.is_fast_forward = target.head.commit in bases.commits and is_known
        self._merges: dict[int, TypeMerge] = {}
        self._states: dict[int, dict[str, Row | None]] = {}
        """Decided states, by type and id."""

    def run(self) -> MergeResult:
        """LostRace if the target has moved too far for this merge."""
        is_up_to_date = self.source.entry.head.commit in self.bases.commits
        resolutions, strategy = self.options.resolutions, self.options.strategy
        if resolutions and (is_up_to_date or self.is_fast_forward):
            raise StaleResolution(resolutions[0].type_name, resolutions[0].entity_id)
        if is_up_to_date:
            return self._result("already_up_to_date")
        if self.is_fast_forward:
            return self._fast_forward()
        self.schema = merged_schema(self.bases, self.target_view, self.source_view, strategy, self.differences)
        if self.schema.conflicts:
            return self._stopped_by_schemas()
        self._choose_sides()
        if self.schema.conflicts:
            return self._stopped_by_schemas()
        if resolutions:
            self._take_resolutions()
        conflicts = self._conflicts()
        if conflicts:
            return self._stopped_by(conflicts)
        return self._finish("merged", self._summaries(), self._merged_tables)

    def _fast_forward(self) -> MergeResult:
        after = self.source_view.snapshot
        self.schema = MergedSchema(after.schema, self.source_view.catalog)
        changes = table_changes(self.target_view, self.schema, after.tables)
        types = {change.key: TypeSummary("pointer") for change in changes}
        return self._finish("fast_forward", types, lambda: after.tables)

    def _finish(
        self, outcome: Outcome, types: Mapping[str, TypeSummary], stage: Callable[[], Mapping[str, TableState]]
    ) -> MergeResult:
        """Stage and publish, unless this is a dry run or nothing changes."""
        steps = self._schema_steps()
        if self.source.parent is None and not types and not steps:
            return self._result("already_up_to_date")
        if self.options.dry_run:
            return self._result(outcome, types=types, schema_steps=steps)
        reach(Failpoint.MERGE_BEFORE_STAGE)
        commit = self._publish(stage())
        return self._result(outcome, commit, types=types, schema_steps=steps)

    def _stopped_by_schemas(self) -> MergeResult:
        """Rows are not compared until the schemas agree."""
        conflicts = self.schema.conflicts
        sides = self.source.name, self.target.branch, conflicts, self.source.schema_remedy
        if not self.options.dry_run:
            raise schema_conflict_error(*sides)
        return self._result("conflicts", hint=schema_conflict_hint(*sides), schema_conflicts=conflicts)

    def _stopped_by(self, conflicts: tuple[MergeConflict, ...]) -> MergeResult:
        sides = self.source.name, self.target.branch, conflicts, self.options.by
        if not self.options.dry_run:
            raise conflict_error(*sides)
        return self._result(
            "conflicts",
            hint=conflict_hint(*sides),
            conflicts=conflicts,
            types=self._summaries(),
            schema_steps=self._schema_steps(),
        )

    def _schema_steps(self) -> tuple[MigrationStep, ...]:
        before = self.target_view.catalog
        return () if self.schema.catalog is before else compare_catalogs(before, self.schema.catalog)

    def _result(self, outcome: Outcome, commit: Commit | None = None, **members: Any) -> MergeResult:
        return MergeResult(
            self.source.name,
            self.target.branch,
            outcome,
            commit,
            tuple(base.id for base in self.bases.commits),
            dry_run=self.options.dry_run,
            source_commit=self.source.entry.head.commit.id,
            target_commit=self.target.head.commit.id,
            **members,
        )

    # ------------------------------------------------------------ what to merge

    def _choose_sides(self) -> None:
        """Read all snapshots under the merged schema, and find the types that each side changed."""
        views = (*self.bases.views, self.target_view, self.source_view)
        base = self.schema.view(views[0])
        seen = [self.schema.view(view) for view in self.bases.views]
        seen += [self.schema.view(view, base) for view in (self.target_view, self.source_view)]
        sides = [SideView(view, own.catalog) for view, own in zip(seen, views, strict=True)]
        keys, origins = MergedKeys(self.schema, self.bases), [view.catalog for view in self.bases.views]
        whole = (with_dropped_values(side, sides, origins) for side in sides)
        *bases, self.current, self.incoming = (keys.view(own, view) for own, view in zip(views, whole, strict=True))
        self.bases = replace(self.bases, views=tuple(bases))
        heads = {self.target.branch: self.target_view, self.source.name: self.source_view}
        self.schema = replace(self.schema, conflicts=keys.conflicts(heads))
        self._rekeyed = keys.staged
        self.moved = self._moved_types(self.incoming, self.current)
        self.target_moved = self.bases.moved(self.current)

    def _take_resolutions(self) -> None:
        """Check the resolutions against the current states of both branches. Their types are merged row by row."""
        catalog = self.schema.catalog
        of_type = groupby(
            sorted(self.options.resolutions, key=lambda resolution: resolution.table_key),
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
            self._merges[entity.id] = put_over(self._merges[entity.id], self._states[entity.id])
            if entity not in self.moved:
                self.moved.append(entity)

    def _sides_of(self, entity: EntityType, ids: list[str]) -> dict[str, Sides]:
        """The rows of the given entities on each side; without a base row if crossed merges disagree about the base."""
        base = self.bases.views[0] if self.bases.agree_on(entity.id) else None
        rows = [rows_by_id(view, entity, ids) for view in (base, self.current, self.incoming)]
        return {id: Sides(*(side.get(id) for side in rows)) for id in ids}

    def _moved_types(self, incoming: View, current: View) -> list[EntityType]:
        """The types that one branch changed and that are different on the other."""
        return [
            self.schema.catalog.by_id[type_id]
            for type_id in sorted(self.bases.moved(incoming))
            if not same_state(state_of(incoming, type_id), state_of(current, type_id))
        ]

    def _takes_pointer(self, entity: EntityType) -> bool:
        """Whether the target still has the base's rows, and no resolution is about them."""
        return entity.id not in self.target_moved and entity.id not in self._states

    def _merge_of(self, entity: EntityType) -> TypeMerge:
        if entity.id not in self._merges:
            rule = MergeRule(self.options.by, self.options.strategy)
            self._merges[entity.id] = merge_type(
                entity, self.incoming, self.current, self.bases, rule, self.differences
            )
        return self._merges[entity.id]

    def _conflicts(self) -> tuple[MergeConflict, ...]:
        """All conflicts: those of the three-way rule, and rules that the merged graph breaks."""
        conflicts = [
            conflict
            for entity in self.moved
            if not self._takes_pointer(entity)
            for conflict in self._merge_of(entity).conflicts
        ]
        ours, theirs = self.target_view.snapshot.schema, self.source_view.snapshot.schema
        # A row from a resolution may break a rule together with any row; otherwise it takes rows of both sides.
        only_of_both = ours == theirs and not self._states
        broken = {*violations(self.moved, self.current, self.target_moved, self._merge_of, same_schema=only_of_both)}
        if self.schema.hash != theirs:
            broken |= {*rounded(self.source_view, self.moved, self._merge_of)}
        if self.schema.hash != ours and self.schema.has_rules_beyond(self.target_view.catalog):
            broken |= {*self._broken_by_target()}
        if broken:
            conflicts += self._with_values(sorted(broken, key=lambda conflict: conflict.order))
        return tuple(sorted(conflicts, key=lambda conflict: conflict.order))

    def _broken_by_target(self) -> list[MergeConflict]:
        """Rules that are new to the target and that its own changes break. The merge is computed in the other direction, with the
        target's rows applied to the source's tables. Rows that the target did not change are as in the source, where the rule was
        checked for every row."""
        rule = MergeRule(self.options.by, self.options.strategy, current="theirs", incoming="ours")
        merges = dict[int, TypeMerge]()

        def merge_of(entity: EntityType) -> TypeMerge:
            if entity.id not in merges:
                merge = merge_type(entity, self.current, self.incoming, self.bases, rule, self.differences)
                states = self._states.get(entity.id)
                merges[entity.id] = merge if states is None else put_over(merge, states)
            return merges[entity.id]

        moved = self._moved_types(self.current, self.incoming)
        broken = violations(moved, self.incoming, frozenset(), merge_of, same_schema=False)
        return broken + rounded(self.target_view, moved, merge_of)

    def _with_values(self, conflicts: list[MergeConflict]) -> Iterator[MergeConflict]:
        """The broken rules, with the values of the properties concerned on each side."""
        types = {(kind_of(entity), entity.name): entity for entity in self.current.catalog.tables.values()}
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
        """All tables of the merged state, by the current branch's names; `table_changes` sets their generations."""
        tables = dict(self.current.snapshot.tables)
        for entity in filter(self._takes_pointer, self.moved):
            state = state_of(self.incoming, entity.id)
            if state is None:
                tables.pop(entity.table_key, None)
            else:
                tables[entity.table_key] = state
        merges = {entity.table_key: self._merge_of(entity) for entity in self.moved if not self._takes_pointer(entity)}
        few = {key: delta for key, merge in merges.items() if (delta := few_rows(merge, self.current)) is not None}
        for large in bounds().too_large(few, self.current):
            del few[large.key]
        inline = stage_versions(self.current, few, {key: superseded(merges[key]) for key in few}, {})
        rest = [merge for key, merge in merges.items() if key not in few and not merge.is_empty]
        with Threads(max_workers=STAGING_THREADS) as pool:
            staged = list(pool.map(self._stage, rest))
        self.repository.tables.sync(chain(self._rekeyed, *staged, *(folds for _, folds in inline)))
        tables |= {change.key: change.state for change, _ in inline if change.state is not None}
        for merge, versions in zip(rest, staged, strict=True):
            last = versions[-1]
            tables[merge.entity.table_key] = TableState(last.path, last.version, 0, last.rows, last.digest)
        return tables

    def _stage(self, merge: TypeMerge) -> list[Staged]:
        table = self.current.table_or_new(merge.entity.table_key)
        return stage_merge(self.repository.tables, table, merge)

    def _publish(self, tables: Mapping[str, TableState]) -> Commit:
        reach(Failpoint.MERGE_BEFORE_PUBLISH)
        target, schema = self.target_view.snapshot, self.schema
        for side in (self.source_view,) if self.is_fast_forward else (self.source_view, self.target_view):
            if lost := lost_properties(side.catalog, schema.catalog):
                raise ValuesLost(f"branch '{self.target.branch}'", lost)
        if schema.hash not in (target.schema, self.source_view.snapshot.schema):
            self.repository.history.schemas.put(encode_catalog(schema.catalog))
        plan = PublishPlan(
            commit_id=self.repository.history.new_id(),
            branch=self.target.branch,
            incarnation=self.target.incarnation,
            base=target.commit.ref,
            schema=target.schema,
            changes=table_changes(self.target_view, schema, tables),
            kind=self.source.kind,
            actor=self.options.actor,
            message=described(self.options.message, self.options.resolutions),
            merged=self.source.parent,
            new_schema=schema.hash if schema.hash != target.schema else None,
            staged_since=self.since,
        )
        try:
            commit = publish(self.repository.history, plan, self._carried_over)
        except ExpectedVersionMismatch as lost:
            raise LostRace from lost
        reach(Failpoint.MERGE_AFTER_PUBLISH)
        grown = [abs(state.rows - self.target_view.rows(key)) for key, state in tables.items()]
        refresh_after(self.repository, commit, grown)
        return commit

    def _carried_over(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        """The same plan on a newer target if nothing that the merge depends on has moved; otherwise ExpectedVersionMismatch, and the
        merge is repeated.

        Without this, a large merge could never be published on a branch where others keep writing to other types.
        """
        target = self.target_view.snapshot
        relied = self._relied_on()
        moved = [key for key in sorted(relied or ()) if snapshot.table(key) != target.table(key)]
        if (
            relied is None
            or moved
            or self.is_exact
            or snapshot.schema != target.schema
            or self._has_merged_since(snapshot)
        ):
            raise ExpectedVersionMismatch(moved[0] if moved else "branch", plan.base.seq, snapshot.commit.ref.seq)
        return plan

    def _relied_on(self) -> set[str] | None:
        """The tables on the target that this merge depends on; None means all."""
        if self.is_fast_forward or self.schema.hash != self.target_view.snapshot.schema:
            return None
        catalog = self.current.catalog
        keys = {entity.table_key for entity in self.moved}
        for entity in self.moved:
            if isinstance(entity, EdgeType):
                keys |= {catalog.nodes[entity.source].table_key, catalog.nodes[entity.target].table_key}
            else:
                keys |= {edge.table_key for edge in catalog.edges_of(entity.name)}
        return keys

    def _has_merged_since(self, snapshot: Snapshot) -> bool:
        """Whether other branches were merged into the target since: the bases may have changed then."""
        lineage = self.repository.history.lineage
        now = lineage.reached(lineage.entry_of(snapshot.commit.ref).ancestry)
        return {**now, self.target.incarnation: 0} != {
            **lineage.reached(self.target.ancestry),
            self.target.incarnation: 0,
        }

    # ------------------------------------------------------------ counting

    def _summaries(self) -> dict[str, TypeSummary]:
        """What changes on the target, for each type that the source changed or that a resolution is about."""
        result = {}
        for entity in sorted(self.moved, key=lambda entity: entity.table_key):
            if self._takes_pointer(entity):
                result[entity.table_key] = TypeSummary("pointer")
            elif any(counts := self._merge_of(entity).counts):
                result[entity.table_key] = TypeSummary("rows", *counts)
        return result


def rows_by_id(view: View | None, entity: EntityType, ids: list[str]) -> dict[str, dict[str, Any]]:
    """The rows of the given entities in a snapshot."""
    stored = None if view is None or not ids else type_rows(view, entity.id)
    if stored is None or stored.table is None:
        return {}
    return {row["id"]: row for row in stored.table.lookup("id", ids).to_pylist()}


def table_changes(target: View, schema: MergedSchema, after: Mapping[str, TableState]) -> tuple[TableChange, ...]:
    """The tables whose state or name changes; their generations continue from the target's."""
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
