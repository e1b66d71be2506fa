"""Merging a branch into another: a base, three outcomes, one commit with two parents, or conflicts and nothing else.

    already_up_to_date   the target has the source's head already: nothing is published
    fast_forward         the target is where the branches parted: its tables become the source's
    merged               both moved: each type is merged by the three-way rule

A fast-forward is a commit too, with two parents: the target's chain is its own, and the log shows that a merge took
place. With strategy "ours" the target wins where both sides changed the same thing, with "theirs" the source; neither
settles a rule that the merged whole breaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from omnigraph.changes.diff import same_state
from omnigraph.changes.projection import by_id, has_columns_of
from omnigraph.changes.workers import IN_PROCESS, Workers
from omnigraph.errors import (
    Contention,
    ExpectedVersionMismatch,
    MergeConflicts,
    OmnigraphError,
    SchemaBoundary,
    UsageError,
)
from omnigraph.failpoints import Failpoint, reach
from omnigraph.history import Commit, Entry, PublishPlan, Snapshot, TableChange, TableState, check_attribution
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.merge.bases import Differences, find_bases, state_of
from omnigraph.merge.checks import violations
from omnigraph.merge.conflicts import MergeConflict
from omnigraph.merge.entities import TypeMerge, merge_type
from omnigraph.merge.landing import land
from omnigraph.merge.rule import By, Winner
from omnigraph.merge.sides import Side
from omnigraph.tables import Staged
from omnigraph.views import Repository, View
from omnigraph.write.publishing import publish

Strategy = Literal["fail", "ours", "theirs"]
Outcome = Literal["already_up_to_date", "fast_forward", "merged"]

MAX_ATTEMPTS = 32
STAGING_THREADS = 8
CONFLICTS_NAMED = 3


@dataclass(frozen=True)
class TypeSummary:
    """How one type got its new state: `pointer` (the source's table as it is; rows not counted) or by `rows`."""

    way: Literal["pointer", "rows"]
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value is not None}


@dataclass(frozen=True)
class MergeResult:
    """`commit` is the merge commit; None when nothing was published. `conflicts` is filled by a dry run only."""

    source: str
    target: str
    outcome: Outcome
    commit: Commit | None
    bases: tuple[str, ...]
    types: Mapping[str, TypeSummary] = field(default_factory=dict)
    conflicts: tuple[MergeConflict, ...] = ()
    dry_run: bool = False
    branch_deleted: bool | None = None
    branch_delete_error: str | None = None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome,
            "commit": None if self.commit is None else self.commit.id,
            "bases": list(self.bases),
            "changes": {key: summary.to_json() for key, summary in sorted(self.types.items())},
            "conflicts": [conflict.to_json() for conflict in self.conflicts],
            "actor_id": None if self.commit is None else self.commit.actor,
        }
        if self.dry_run:
            value["dry_run"] = True
        if self.branch_deleted is not None:
            value["branch_deleted"] = self.branch_deleted
        if self.branch_delete_error is not None:
            value["branch_delete_error"] = self.branch_delete_error
        return value


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
    theirs = repository.history.chain.head(source)
    for _ in range(MAX_ATTEMPTS):
        ours = repository.history.chain.head(into)
        attempt = _Attempt(repository, theirs, ours, strategy, by, differences)
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


@dataclass(frozen=True)
class _Landed:
    """A type's new table on the target."""

    path: str
    version: int
    rows: int
    digest: str | None


class _Attempt:
    """One merge of two pinned heads. The *host* is the side whose tables the result is built on: the target, unless the
    source alone changed the schema."""

    def __init__(
        self, repository: Repository, source: Entry, target: Entry, strategy: Strategy, by: By, differences: Differences
    ) -> None:
        self.repository = repository
        self.source, self.target = source, target
        self.strategy, self.by = strategy, by
        self.source_view, self.target_view = repository.view(source.head), repository.view(target.head)
        self.bases = find_bases(repository, source, target)
        self.differences = differences
        self.outcome: Outcome = "merged"
        self._merges: dict[int, TypeMerge] = {}

    def run(self, *, dry_run: bool, actor: str | None, message: str | None) -> MergeResult:
        base_ids = tuple(commit.id for commit in self.bases.commits)
        heads = (self.source.head.commit.id, self.target.head.commit.id)
        if heads[0] in base_ids:
            return MergeResult(self.source.branch, self.target.branch, "already_up_to_date", None, base_ids)
        outcome = self.outcome = "fast_forward" if heads[1] in base_ids else "merged"
        conflicts: tuple[MergeConflict, ...] = ()
        if outcome == "fast_forward":
            schema = self.source_view.snapshot.schema
            tables = _states(self.source_view)
            summaries = self._pointer_summaries(tables)
        else:
            self._orient()
            conflicts = self._conflicts()
            summaries = self._summaries()
            schema, tables = self.host.view.snapshot.schema, {}
        if conflicts and not dry_run:
            raise _conflict_error(self.source.branch, self.target.branch, conflicts)
        commit = None
        if not dry_run:
            reach(Failpoint.MERGE_BEFORE_STAGE)
            tables = tables if outcome == "fast_forward" else self._landed()
            commit = self._publish(tables, schema, actor, message)
        return MergeResult(
            self.source.branch, self.target.branch, outcome, commit, base_ids, summaries, conflicts, dry_run
        )

    # ------------------------------------------------------------ what to merge

    def _orient(self) -> None:
        source, target = self.source_view.snapshot.schema, self.target_view.snapshot.schema
        origins = {view.snapshot.schema for view in self.bases.views}
        if source != target and origins not in ({source}, {target}):
            raise SchemaBoundary(
                f"'{self.source.branch}' and '{self.target.branch}' changed the schema differently",
                hint="apply the same schema to both branches first",
            )
        swapped = source != target and origins == {target}
        host, guest = (self.source_view, self.target_view) if swapped else (self.target_view, self.source_view)
        self.host, self.guest = (Side(view, self.bases, self.differences) for view in (host, guest))
        winners: dict[Strategy, Winner] = {"fail": "nobody", "ours": "host", "theirs": "guest"}
        if swapped:
            winners = {"fail": "nobody", "ours": "guest", "theirs": "host"}
        self.winner = winners[self.strategy]
        self.moved = self._moved_types()

    def _moved_types(self) -> list[EntityType]:
        """The types that the guest changed and the host does not have already."""
        host_types, guest_types = by_id(self.host.view.catalog), by_id(self.guest.view.catalog)
        moved = []
        for type_id in sorted(host_types.keys() | guest_types.keys()):
            guest = state_of(self.guest.view, type_id)
            if all(same_state(guest, state_of(view, type_id)) for view in self.bases.views):
                continue
            if type_id not in host_types:
                raise SchemaBoundary(
                    f"{guest_types[type_id].name} was removed on one branch while the other changed it",
                    hint="apply the same schema to both branches first",
                )
            if not same_state(guest, state_of(self.host.view, type_id)):
                moved.append(host_types[type_id])
        return moved

    def _host_moved(self, type_id: int) -> bool:
        host = state_of(self.host.view, type_id)
        return not all(same_state(host, state_of(view, type_id)) for view in self.bases.views)

    def _takes_pointer(self, entity: EntityType) -> bool:
        """The host still has the base's rows, and the guest's are stored as the host's schema wants them."""
        guest = by_id(self.guest.view.catalog).get(entity.id)
        return not self._host_moved(entity.id) and guest is not None and has_columns_of(guest, entity)

    def _merge_of(self, entity: EntityType) -> TypeMerge:
        if entity.id not in self._merges:
            self._merges[entity.id] = merge_type(self.guest, self.host, entity, by=self.by, winner=self.winner)
        return self._merges[entity.id]

    def _conflicts(self) -> tuple[MergeConflict, ...]:
        """Every conflict there is: of the row rule, and then of the merged whole."""
        types = by_id(self.host.view.catalog)
        host_moved = frozenset(type_id for type_id in types if self._host_moved(type_id))
        found = [
            conflict
            for entity in self.moved
            if not self._takes_pointer(entity)
            for conflict in self._merge_of(entity).conflicts
        ]
        same_schema = self.guest.view.snapshot.schema == self.host.view.snapshot.schema
        found += violations(self.moved, self.host, host_moved, self._merge_of, same_schema=same_schema)
        return tuple(sorted(found, key=lambda conflict: conflict.order))

    # ------------------------------------------------------------ the result

    def _landed(self) -> dict[str, _Landed]:
        """Every table of the merged state, by the host's names."""
        tables = _states(self.host.view)
        for entity in filter(self._takes_pointer, self.moved):
            state = state_of(self.guest.view, entity.id)
            if state is None:
                tables.pop(entity.table_key, None)
            else:
                tables[entity.table_key] = _Landed(state.path, state.version, state.rows, state.digest)
        rest = [
            entity for entity in self.moved if not self._takes_pointer(entity) and not self._merge_of(entity).is_empty
        ]
        with ThreadPoolExecutor(max_workers=STAGING_THREADS) as pool:
            staged = list(pool.map(self._stage, rest))
        self.repository.tables.sync([one for versions in staged for one in versions])
        for entity, versions in zip(rest, staged, strict=True):
            last = versions[-1]
            tables[entity.table_key] = _Landed(last.path, last.version, last.rows, last.digest)
        return tables

    def _stage(self, entity: EntityType) -> list[Staged]:
        host = self.host.view.table_or_new(entity.table_key)
        return land(self.repository.tables, host, self._merge_of(entity))

    def _publish(self, tables: Mapping[str, _Landed], schema: str, actor: str | None, message: str | None) -> Commit:
        reach(Failpoint.MERGE_BEFORE_PUBLISH)
        target = self.target_view.snapshot
        plan = PublishPlan(
            commit_id=self.repository.history.new_id(),
            branch=self.target.branch,
            incarnation=self.target.incarnation,
            base=target.commit.ref,
            schema=target.schema,
            changes=_changes(target.tables, tables),
            kind="merge",
            actor=actor,
            message=message,
            merged=self.source.head.commit.ref,
            new_schema=schema if schema != target.schema else None,
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
        if relied is None or moved or self._has_merged_since(snapshot):
            raise ExpectedVersionMismatch(moved[0] if moved else "branch", plan.base.seq, snapshot.commit.ref.seq)
        return plan

    def _relied_on(self) -> set[str] | None:
        """The tables whose rows on the target this merge depends on; None when it is all of them."""
        if self.outcome == "fast_forward" or self.host.view is not self.target_view:
            return None
        catalog = self.host.view.catalog
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

    # ------------------------------------------------------------ telling

    def _pointer_summaries(self, tables: Mapping[str, _Landed]) -> dict[str, TypeSummary]:
        return {change.key: TypeSummary("pointer") for change in _changes(self.target_view.snapshot.tables, tables)}

    def _summaries(self) -> dict[str, TypeSummary]:
        result = {}
        for entity in self.moved:
            if self._takes_pointer(entity):
                result[entity.table_key] = TypeSummary("pointer")
            elif not (merge := self._merge_of(entity)).is_empty:
                result[entity.table_key] = TypeSummary("rows", merge.inserted, len(merge.replaced), len(merge.gone))
        return result


def _states(view: View) -> dict[str, _Landed]:
    return {
        key: _Landed(state.path, state.version, state.rows, state.digest) for key, state in view.snapshot.tables.items()
    }


def _changes(before: Mapping[str, TableState], after: Mapping[str, _Landed]) -> tuple[TableChange, ...]:
    """The tables whose state is another one now; numbers go on from the target's own."""
    changes = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if new is None:
            changes.append(TableChange(key, "merge", old, None))
        elif old is None or (old.path, old.version) != (new.path, new.version):
            state = TableState(new.path, new.version, (old.generation if old else 0) + 1, new.rows, new.digest)
            changes.append(TableChange(key, "merge", old, state))
    return tuple(changes)


def _conflict_error(source: str, target: str, conflicts: tuple[MergeConflict, ...]) -> MergeConflicts:
    named = [
        f"{each.entity_kind} type '{each.type_name}', entity id '{each.entity_id}' ({each.kind})" for each in conflicts
    ]
    more = f"; and {len(named) - CONFLICTS_NAMED} more" if len(named) > CONFLICTS_NAMED else ""
    return MergeConflicts(
        f"merge conflicts: {'; '.join(named[:CONFLICTS_NAMED])}{more}",
        conflicts=conflicts,
        hint=f"nothing was published: change '{source}' or '{target}' and merge again, or choose a strategy (ours, theirs) or a merge by property",
    )
