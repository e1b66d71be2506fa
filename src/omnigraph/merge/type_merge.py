"""The three-way merge of one type: which rows of the incoming branch to put on the current branch's table, and which
rows of that table go.

The current branch is the one on whose tables the result is built: the target, unless the source alone changed the
schema. Only entities that both branches changed have their rows read here; the rest is decided by ids and addresses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from omnigraph.changes.stored_rows import TypeRows, chunk_rows, typed_rows_at
from omnigraph.changes.table_diff import DELETE, INSERT, UPDATE
from omnigraph.language.catalog import EntityType
from omnigraph.language.schema.merging import Strategy
from omnigraph.merge.bases import type_rows
from omnigraph.merge.branch_changes import BranchChanges
from omnigraph.merge.conflicts import MergeConflict, divergence
from omnigraph.merge.origins import Origins
from omnigraph.merge.three_way import (
    COMBINED,
    CONFLICT,
    THEIRS,
    BaseRows,
    BranchRole,
    By,
    ThreeWay,
    open_schema,
)
from omnigraph.merge.virtual_base import VirtualBase
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True)
class MergeRule:
    """How two branches are merged, and which of them the result is built on."""

    by: By
    strategy: Strategy
    current: BranchRole

    @property
    def incoming(self) -> BranchRole:
        return "ours" if self.current == "theirs" else "theirs"


class MergeCounts(NamedTuple):
    """Entities, from the target's point of view."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class TypeMerge:
    """What the incoming branch brings to one type of the current one.

    `puts` are addresses of incoming rows taken as they are, `combined` new rows made of both branches' values, `removes`
    addresses of current rows that go. `gone` are the ids that vanish, `replaced` those that get another row, `restored`
    those that the current branch had deleted. `counts` is what the target gets, whichever branch is current.
    """

    entity: EntityType
    incoming: TypeRows
    current: TypeRows
    puts: np.ndarray[Any, Any]
    combined: pa.Table
    removes: np.ndarray[Any, Any]
    gone: frozenset[str]
    replaced: frozenset[str]
    restored: frozenset[str]
    counts: MergeCounts
    conflicts: tuple[MergeConflict, ...] = ()

    @property
    def superseded(self) -> frozenset[str]:
        return self.gone | self.replaced

    @property
    def is_empty(self) -> bool:
        return not (len(self.puts) or self.combined.num_rows or len(self.removes))


def merge_type(incoming: BranchChanges, current: BranchChanges, entity: EntityType, rule: MergeRule) -> TypeMerge:
    """`entity` is the type as the current branch's schema has it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    brought, kept = incoming.changes(entity.id), current.changes(entity.id)
    alone = _alone(brought, kept)
    places = brought.select(["id", "before", "after"]).rename_columns(["id", "before", rule.incoming])
    places = places.join(kept.select(["id", "after"]).rename_columns(["id", rule.current]), "id", join_type="inner")
    outcome = _Outcome()
    for chunk, decided in _decisions(incoming, current, entity, places, rule):
        outcome.add(chunk, decided, rule)
    op = alone.column("op")
    puts = alone.filter(pc.not_equal(op, DELETE)).column("after").to_numpy()
    return TypeMerge(
        entity=entity,
        incoming=_stored(incoming.view, entity),
        current=_stored(current.view, entity),
        puts=np.concatenate([puts, np.asarray(outcome.puts, np.uint64)]),
        combined=pa.concat_tables([open_schema(entity).empty_table(), *outcome.combined]),
        removes=np.concatenate([_replaced_rows(current, entity, alone), np.asarray(outcome.removes, np.uint64)]),
        gone=frozenset([*alone.filter(pc.equal(op, DELETE)).column("id").to_pylist(), *outcome.gone]),
        replaced=frozenset([*alone.filter(pc.equal(op, UPDATE)).column("id").to_pylist(), *outcome.replaced]),
        restored=frozenset(outcome.restored),
        counts=outcome.counts(_alone(kept, brought) if rule.current == "theirs" else alone),
        conflicts=tuple(outcome.conflicts),
    )


def _alone(changes: pa.Table, others: pa.Table) -> pa.Table:
    """The changes of entities that the other branch did not change."""
    import pyarrow.compute as pc

    return changes.filter(pc.invert(pc.is_in(changes.column("id"), others.column("id").combine_chunks())))


def _stored(view: View, entity: EntityType) -> TypeRows:
    return type_rows(view, entity.id) or TypeRows(entity, None)


def _replaced_rows(current: BranchChanges, entity: EntityType, alone: pa.Table) -> np.ndarray[Any, Any]:
    """Current addresses of the rows that only the incoming branch changed or deleted."""
    import numpy as np
    import pyarrow.compute as pc

    changed = alone.filter(pc.not_equal(alone.column("op"), INSERT)).column("before").to_numpy()
    return current.address_of(entity.id, changed) if len(changed) else np.zeros(0, np.uint64)


# ---------------------------------------------------------------- entities that both branches changed


@dataclass(frozen=True)
class Contested:
    """Entities of one type that both branches changed, as a worker needs them. `places` has their ids and the addresses
    of their rows (`before` at the base, `ours`, `theirs`); `base` their base rows where there are several bases."""

    entity: EntityType
    before: TypeRows
    ours: TypeRows
    theirs: TypeRows
    rule: MergeRule
    places: pa.Table
    base: BaseRows | None


@dataclass(frozen=True)
class Decided:
    """The verdict on each of the contested entities, the rows with values of both branches, and the conflicts."""

    verdicts: np.ndarray[Any, Any]
    combined: pa.Table
    conflicts: list[MergeConflict]


def _decisions(
    incoming: BranchChanges, current: BranchChanges, entity: EntityType, places: pa.Table, rule: MergeRule
) -> Iterator[tuple[pa.Table, Decided]]:
    sides = {rule.incoming: _stored(incoming.view, entity), rule.current: _stored(current.view, entity)}
    before = _stored(incoming.bases.views[0], entity)
    step = chunk_rows(sides["ours"].table, sides["theirs"].table)
    chunks = [places.slice(start, step) for start in range(0, places.num_rows, step)]
    if incoming.bases.agree_on(entity.id):
        tasks = [Contested(entity, before, **sides, rule=rule, places=chunk, base=None) for chunk in chunks]
        yield from zip(chunks, incoming.differences.workers.map("decide", decide, tasks), strict=True)
        return
    virtual = VirtualBase(incoming.view.repository, incoming.bases.commits, entity)
    origins = Origins(incoming.view.repository, incoming.bases, entity)
    for chunk in chunks:
        base = origins.settled(virtual.rows(chunk.column("id").combine_chunks()))
        yield chunk, decide(Contested(entity, before, **sides, rule=rule, places=chunk, base=base))


def decide(contested: Contested) -> Decided:
    """Run the three-way rule."""
    import pyarrow as pa

    entity, places, rule = contested.entity, contested.places, contested.rule
    three_way = ThreeWay(
        entity,
        places.column("id").combine_chunks(),
        base=contested.base
        or BaseRows.certain(typed_rows_at(contested.before, places.column("before"), entity), entity),
        theirs=typed_rows_at(contested.theirs, places.column("theirs"), entity),
        ours=typed_rows_at(contested.ours, places.column("ours"), entity),
    )
    verdicts = three_way.verdicts(rule.by, rule.strategy)
    combined = three_way.merged_rows(rule.strategy).filter(pa.array(verdicts == COMBINED))
    return Decided(verdicts, combined, list(_conflicts(three_way, verdicts == CONFLICT)))


def _conflicts(three_way: ThreeWay, chosen: np.ndarray[Any, Any]) -> Iterator[MergeConflict]:
    if not chosen.any():
        return
    ids, kinds = three_way.ids.to_numpy(zero_copy_only=False)[chosen], three_way.conflict_kinds()[chosen]
    for id, kind, sides in zip(ids.tolist(), kinds.tolist(), three_way.sides_of(chosen), strict=True):
        yield divergence(three_way.entity, id, kind, sides)


@dataclass
class _Outcome:
    """What the decisions come to."""

    puts: list[int] = field(default_factory=list)
    removes: list[int] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    combined: list[pa.Table] = field(default_factory=list)
    conflicts: list[MergeConflict] = field(default_factory=list)
    to_target: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """Of the entities that do not stay as the target has them: whether they are there then, and were before."""

    def add(self, places: pa.Table, decided: Decided, rule: MergeRule) -> None:
        rows = zip(*(places.column(name).to_pylist() for name in ("id", "ours", "theirs")), strict=True)
        for (id, ours, theirs), verdict in zip(rows, decided.verdicts.tolist(), strict=True):
            current, incoming = (ours, theirs) if rule.current == "ours" else (theirs, ours)
            if verdict == rule.incoming:
                self._take(id, current, incoming)
            elif verdict == COMBINED:
                self.removes.append(current)
                self.replaced.append(id)
            if verdict in (THEIRS, COMBINED):
                self.to_target[theirs is not None, ours is not None] += 1
        self.combined.append(decided.combined)
        self.conflicts += decided.conflicts

    def _take(self, id: str, current: int | None, incoming: int | None) -> None:
        if current is not None:
            self.removes.append(current)
            (self.gone if incoming is None else self.replaced).append(id)
        elif incoming is not None:
            self.restored.append(id)
        if incoming is not None:
            self.puts.append(incoming)

    def counts(self, alone: pa.Table) -> MergeCounts:
        """With the changes that the source made alone."""
        ops = Counter(alone.column("op").to_pylist())
        return MergeCounts(
            inserted=ops[INSERT] + self.to_target[True, False],
            updated=ops[UPDATE] + self.to_target[True, True],
            deleted=ops[DELETE] + self.to_target[False, True],
        )
