"""The three-way merge of one type: which rows of the incoming branch to put on the current branch's table, and which
rows of that table go.

The current branch is the one on whose tables the result is built: the target, unless the source alone changed the
schema. Only entities that both branches changed have their rows read here; the rest is decided by ids and addresses.

Where many ids differ they are cut into buckets. A task decides about one bucket, and the driver keeps sets of addresses: rows taken,
rows that go, and those that the rules ask about. Only conflicts, and rows with values of both branches, are held as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from omnigraph.changes.diff import really_changed
from omnigraph.changes.stored_rows import TypeRows, chunk_rows, typed_rows_at
from omnigraph.changes.table_diff import DELETE, INSERT, UPDATE, ComparedPair, ids_by_source, in_buckets
from omnigraph.language.catalog import EntityType
from omnigraph.language.schema.merging import Strategy
from omnigraph.merge.bases import type_rows
from omnigraph.merge.branch_changes import BranchChanges, current_addresses
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
from omnigraph.tables.row_set import RowSet
from omnigraph.values.arrow import are_among
from omnigraph.views import View
from omnigraph.workers import IN_PROCESS, ExchangingWorkers

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


ADDRESSES = ("puts", "combined_from", "removes", "gone", "brought", "changed", "changed_before", "lost")
"""The sets of a merge."""


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
class MergedSides:
    """One type on the sides of a merge. Can travel to a worker. `reference` is what the current branch is compared with, `base` the
    type where the branches parted."""

    entity: EntityType
    incoming: TypeRows
    current: TypeRows
    reference: TypeRows
    base: TypeRows
    rule: MergeRule


@dataclass(frozen=True)
class TypeMerge:
    """What the incoming branch brings to one type of the current one, in sets of addresses: it stays small however much changed.

    `puts` are incoming rows taken as they are, `combined` new rows made of both branches' values (`combined_from`: the incoming ones
    of these), `removes` current rows that go, `gone` those of them that no other takes the place of. `brought` are all rows
    that the incoming branch inserted or updated, `changed` all that the current one did, `changed_before` rows of the
    reference that the current one updated or deleted, `lost` those of them that it deleted and the merge does not bring back.
    `counts` is what the target gets, whichever branch is current.
    """

    entity: EntityType
    incoming: TypeRows
    current: TypeRows
    reference: TypeRows
    puts: RowSet
    combined: pa.Table
    combined_from: RowSet
    removes: RowSet
    gone: RowSet
    brought: RowSet
    changed: RowSet
    changed_before: RowSet
    lost: RowSet
    counts: MergeCounts
    conflicts: tuple[MergeConflict, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (len(self.puts) or self.combined.num_rows or len(self.removes))


def merge_type(incoming: BranchChanges, current: BranchChanges, entity: EntityType, rule: MergeRule) -> TypeMerge:
    """`entity` is the type as the current branch's schema has it."""
    sides = MergedSides(
        entity,
        _stored(incoming.view, entity),
        _stored(current.view, entity),
        _stored(current.reference(entity.id), entity),
        _stored(incoming.bases.views[0], entity),
        rule,
    )
    whole = _Whole(sides)
    for decisions in _decisions(incoming, current, sides):
        whole.add(decisions)
    return whole.result()


def _stored(view: View, entity: EntityType) -> TypeRows:
    return type_rows(view, entity.id) or TypeRows(entity, None)


def _decisions(incoming: BranchChanges, current: BranchChanges, sides: MergedSides) -> Iterator[Decisions]:
    """All at once where few ids differ; else bucket by bucket, by tasks."""
    type_id, workers = sides.entity.id, incoming.differences.workers
    pairs = incoming.pair(type_id), current.pair(type_id)
    crossed = None if incoming.bases.agree_on(type_id) else CrossedBases(incoming, sides.entity)
    if all(pair.is_small for pair in pairs):
        yield decided_changes(sides, incoming.compared(type_id), current.compared(type_id), crossed, workers)
    else:
        # Bases that disagree are merged from the history, which is not taken to workers.
        chosen = workers if crossed is None else IN_PROCESS
        yield from in_buckets("merge", pairs, _DecidedBucket(sides, *pairs, crossed), chosen)


class CrossedBases:
    """The base rows of a type on which merges that crossed do not agree."""

    def __init__(self, incoming: BranchChanges, entity: EntityType) -> None:
        repository = incoming.view.repository
        self._virtual = VirtualBase(repository, incoming.bases.commits, entity)
        self._origins = Origins(repository, incoming.bases, entity)

    def rows(self, ids: pa.Array) -> BaseRows:
        return self._origins.settled(self._virtual.rows(ids))


@dataclass(frozen=True)
class _DecidedBucket:
    sides: MergedSides
    incoming: ComparedPair
    current: ComparedPair
    crossed: CrossedBases | None

    def __call__(self, bucket: int, pieces: Iterable[tuple[int, Any]]) -> Decisions:
        gone_there, come_there, gone_here, come_here = ids_by_source(pieces, 4)
        brought = self.incoming.joined(gone_there, come_there)
        return decided_changes(self.sides, brought, self.current.joined(gone_here, come_here), self.crossed)


@dataclass
class _Whole:
    """The decisions about a type, put together."""

    sides: MergedSides
    rows: dict[str, RowSet] = field(default_factory=lambda: {name: RowSet() for name in ADDRESSES})
    combined: list[pa.Table] = field(default_factory=list)
    counts: list[MergeCounts] = field(default_factory=lambda: [MergeCounts(0, 0, 0)])
    conflicts: list[MergeConflict] = field(default_factory=list)

    def add(self, decisions: Decisions) -> None:
        for name, addresses in decisions.rows.items():
            self.rows[name].add(addresses)
        self.combined.append(decisions.combined)
        self.counts.append(decisions.counts)
        self.conflicts += decisions.conflicts

    def result(self) -> TypeMerge:
        import pyarrow as pa

        sides = self.sides
        return TypeMerge(
            entity=sides.entity,
            incoming=sides.incoming,
            current=sides.current,
            reference=sides.reference,
            combined=pa.concat_tables([open_schema(sides.entity).empty_table(), *self.combined]),
            counts=MergeCounts(*map(sum, zip(*self.counts, strict=True))),
            conflicts=tuple(self.conflicts),
            **self.rows,
        )


# ---------------------------------------------------------------- some of the entities


@dataclass(frozen=True)
class Decisions:
    """What becomes of some entities of a type: see `TypeMerge`."""

    rows: Mapping[str, np.ndarray[Any, Any]]
    combined: pa.Table
    counts: MergeCounts
    conflicts: list[MergeConflict]


def decided_changes(
    sides: MergedSides,
    compared_incoming: pa.Table,
    compared_current: pa.Table,
    crossed: CrossedBases | None = None,
    workers: ExchangingWorkers = IN_PROCESS,
) -> Decisions:
    """What becomes of the entities that either branch changed or stored again."""
    import pyarrow.compute as pc

    rule, outcome = sides.rule, _Outcome()
    brought, kept = really_changed(compared_incoming), really_changed(compared_current)
    alone = _alone(brought, kept)
    op = alone.column("op")
    outcome.put("puts", alone.filter(pc.not_equal(op, DELETE)).column("after"))
    before = alone.filter(pc.not_equal(op, INSERT)).select(["op", "before"])
    places = current_addresses(sides.reference, sides.current, compared_current, before.column("before").to_numpy())
    outcome.put("removes", places)
    outcome.put("gone", places[before.column("op").to_numpy() == DELETE])
    contested = brought.select(["id", "before", "after"]).rename_columns(["id", "before", rule.incoming])
    contested = contested.join(
        kept.select(["id", "after"]).rename_columns(["id", rule.current]), "id", join_type="inner"
    )
    for chunk, decided in _decided(sides, contested, crossed, workers):
        outcome.add(chunk, decided, rule)
    outcome.put("brought", brought.column("after"))
    outcome.put("changed", kept.column("after"))
    outcome.put("changed_before", kept.column("before"))
    deleted = kept.filter(pc.equal(kept.column("op"), DELETE))
    outcome.put("lost", deleted.filter(pc.invert(are_among(deleted.column("id"), outcome.restored()))).column("before"))
    return outcome.decisions(sides.entity, _alone(kept, brought) if rule.current == "theirs" else alone)


def _alone(changes: pa.Table, others: pa.Table) -> pa.Table:
    """The changes of entities that the other branch did not change."""
    import pyarrow.compute as pc

    return changes.filter(pc.invert(pc.is_in(changes.column("id"), others.column("id").combine_chunks())))


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


def _decided(
    sides: MergedSides, places: pa.Table, crossed: CrossedBases | None, workers: ExchangingWorkers
) -> Iterator[tuple[pa.Table, Decided]]:
    rule = sides.rule
    by_role = {rule.incoming: sides.incoming, rule.current: sides.current}
    step = chunk_rows(by_role["ours"].table, by_role["theirs"].table)
    chunks = [places.slice(start, step) for start in range(0, places.num_rows, step)]

    def contested(chunk: pa.Table) -> Contested:
        base = None if crossed is None else crossed.rows(chunk.column("id").combine_chunks())
        return Contested(sides.entity, sides.base, **by_role, rule=rule, places=chunk, base=base)

    if crossed is None:
        yield from zip(chunks, workers.map("decide", decide, list(map(contested, chunks))), strict=True)
    else:
        yield from ((chunk, decide(contested(chunk))) for chunk in chunks)


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

    rows: dict[str, list[np.ndarray[Any, Any]]] = field(default_factory=lambda: {name: [] for name in ADDRESSES})
    brought_back: list[pa.Array] = field(default_factory=list)
    combined: list[pa.Table] = field(default_factory=list)
    conflicts: list[MergeConflict] = field(default_factory=list)
    to_target: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """Of the entities that do not stay as the target has them: whether they are there then, and were before."""

    def put(self, name: str, addresses: pa.ChunkedArray | np.ndarray[Any, Any]) -> None:
        import numpy as np

        if not isinstance(addresses, np.ndarray):
            addresses = addresses.drop_null().to_numpy()
        self.rows[name].append(addresses.astype(np.uint64, copy=False))

    def add(self, places: pa.Table, decided: Decided, rule: MergeRule) -> None:
        import pyarrow as pa

        verdicts = decided.verdicts
        incoming, has_incoming = _addresses(places.column(rule.incoming))
        current, has_current = _addresses(places.column(rule.current))
        taken, combined = verdicts == rule.incoming, verdicts == COMBINED
        self.put("puts", incoming[taken & has_incoming])
        self.put("combined_from", incoming[combined])
        self.put("removes", current[(taken & has_current) | combined])
        self.put("gone", current[taken & has_current & ~has_incoming])
        self.brought_back.append(
            places.column("id").combine_chunks().filter(pa.array(taken & has_incoming & ~has_current))
        )
        ours, theirs = (has_current, has_incoming) if rule.current == "ours" else (has_incoming, has_current)
        to_target = (verdicts == THEIRS) | combined
        self.to_target.update(zip(theirs[to_target].tolist(), ours[to_target].tolist(), strict=True))
        self.combined.append(decided.combined)
        self.conflicts += decided.conflicts

    def restored(self) -> pa.Array:
        """Ids that the current branch deleted and that are there again."""
        import pyarrow as pa

        return pa.concat_arrays([pa.array([], pa.utf8()), *self.brought_back])

    def decisions(self, entity: EntityType, alone: pa.Table) -> Decisions:
        """With the changes that the source made alone, which are counted."""
        import numpy as np
        import pyarrow as pa

        ops = Counter(alone.column("op").to_pylist())
        return Decisions(
            rows={name: np.concatenate([np.zeros(0, np.uint64), *parts]) for name, parts in self.rows.items()},
            combined=pa.concat_tables([open_schema(entity).empty_table(), *self.combined]),
            counts=MergeCounts(
                inserted=ops[INSERT] + self.to_target[True, False],
                updated=ops[UPDATE] + self.to_target[True, True],
                deleted=ops[DELETE] + self.to_target[False, True],
            ),
            conflicts=self.conflicts,
        )


def _addresses(column: pa.ChunkedArray) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The addresses, and which of them there are."""
    return column.fill_null(0).to_numpy(), column.is_valid().to_numpy()
