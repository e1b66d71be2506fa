"""The three-way merge of one type: which rows of the incoming branch to put into the current branch's table, and which
rows to remove from it.

The result is built on the tables of the current branch. Only entities that both branches changed have their rows read; the rest is
decided by ids and addresses.

If many ids differ, they are cut into buckets. A task decides one bucket, and the driver keeps only sets of addresses: rows to put, rows
to remove, and rows that the rules need. Only conflicts, and rows that combine values of both branches, are held in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.changes.diff import really_changed
from omnigraph.changes.stored_rows import TypeRows, chunk_rows, typed_rows_at
from omnigraph.changes.table_diff import DELETE, INSERT, SAME, UPDATE, ComparedPair, ids_by_source, in_buckets
from omnigraph.language.catalog import EntityType
from omnigraph.language.schema.merging import Strategy
from omnigraph.merge.conflicts import MergeConflict, divergence
from omnigraph.merge.schemas import Bases, Differences
from omnigraph.merge.three_way import COMBINED, CONFLICT, THEIRS, BaseRows, BranchRole, By, ThreeWay, open_schema
from omnigraph.merge.virtual_base import Origins, VirtualBase
from omnigraph.snapshot import Repository, View
from omnigraph.tables.addresses import OFFSET_BITS, RowSet
from omnigraph.tables.ascending import distinct
from omnigraph.tables.lost_rows import fragments_by_files
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import IN_PROCESS, ExchangingWorkers
from omnigraph.values.arrow import are_among

# Where rows that a branch did not change are stored on it.

NOWHERE = 2**64 - 1


def current_addresses(
    reference: TypeRows, current: TypeRows, compared: pa.Table, addresses: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The addresses on a branch of rows of the reference that it did not change. `compared`: the differences between the two."""
    if not len(addresses):
        return addresses
    assert reference.table is not None, "a row is in a table"
    assert current.table is not None, "a row that did not change is on every side"
    result = shared_addresses(reference.table, current.table, addresses)
    same = compared.filter(pc.equal(compared.column("op"), SAME))
    if same.num_rows:
        moved = same.sort_by("before")
        sources, places = moved.column("before").to_numpy(), moved.column("after").to_numpy()
        spots = np.minimum(np.searchsorted(sources, addresses), len(sources) - 1)
        result = np.where(sources[spots] == addresses, places[spots], result)
    assert not (result == NOWHERE).any(), "a row that did not change is on every side"
    return result


def shared_addresses(old: Table, new: Table, addresses: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The addresses of the same rows in another version that shares their fragments, possibly under other fragment ids."""
    twins = fragments_by_files(new)
    fragments = addresses >> np.uint64(OFFSET_BITS)
    offsets = addresses & np.uint64((1 << OFFSET_BITS) - 1)
    result = np.full(len(addresses), NOWHERE, np.uint64)
    files = {fragment.id: fragment.files for fragment in old.fragments}
    for fragment in distinct(fragments).tolist():
        twin = twins.get(files[fragment])
        if twin is not None:
            in_fragment = fragments == np.uint64(fragment)
            result[in_fragment] = offsets[in_fragment] | np.uint64(twin.id << OFFSET_BITS)
    return result


ADDRESSES = ("puts", "combined_from", "removes", "gone", "brought", "changed", "changed_before", "lost")
"""The sets of a merge."""


@dataclass(frozen=True)
class MergeRule:
    """How two branches are merged, and on which of them the result is built."""

    by: By
    strategy: Strategy
    current: BranchRole = "ours"
    incoming: BranchRole = "theirs"


class MergeCounts(NamedTuple):
    """Entities, from the target's point of view."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class MergedSides:
    """One type on all sides of a merge; can be sent to a worker. `reference` is what the current branch is compared with, `base` the
    type where the branches diverged."""

    entity: EntityType
    incoming: TypeRows
    current: TypeRows
    reference: TypeRows
    base: TypeRows
    rule: MergeRule


@dataclass(frozen=True)
class TypeMerge:
    """The changes that the incoming branch makes to one type of the current branch, as sets of addresses, which stay small.

    `puts`: incoming rows to take unchanged. `combined`: new rows with values of both branches, `combined_from` their incoming rows.
    `removes`: current rows to remove, `gone` those without a replacement. `brought`: all rows that the incoming branch inserted or
    updated. `changed`: all rows that the current branch inserted or updated. `changed_before`: rows of the reference that the current
    branch updated or deleted, `lost` those that it deleted and that the merge does not restore. `counts`: changes on the target,
    whichever branch is current.
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


def merge_type(
    entity: EntityType, incoming: View, current: View, bases: Bases, rule: MergeRule, differences: Differences
) -> TypeMerge:
    """Merge one type. All snapshots are read under the same schema, that of `entity`."""
    views = incoming, current, bases.views[0]
    theirs, ours, base = (TypeRows(entity, view.table(entity.table_key)) for view in views)
    if bases.agree_on(entity.id):
        crossed = None
        sides = MergedSides(entity, theirs, ours, base, base, rule)
        pairs = ComparedPair(base, theirs), ComparedPair(base, ours)
    else:
        # The branches are compared with each other: rows that are equal on both need no base.
        crossed = CrossedBases(incoming.repository, bases, entity)
        sides = MergedSides(entity, theirs, ours, theirs, base, rule)
        pairs = ComparedPair(ours, theirs), ComparedPair(theirs, ours)
    rows = {name: RowSet() for name in ADDRESSES}
    combined, counts, conflicts = [open_schema(entity).empty_table()], Counter[int](), list[MergeConflict]()
    for decisions in _decisions(sides, pairs, crossed, differences):
        for name, addresses in decisions.rows.items():
            rows[name].add(addresses)
        combined += decisions.combined
        counts += decisions.counts
        conflicts += decisions.conflicts
    return TypeMerge(
        entity=entity,
        incoming=theirs,
        current=ours,
        reference=sides.reference,
        combined=pa.concat_tables(combined),
        counts=MergeCounts(counts[INSERT], counts[UPDATE], counts[DELETE]),
        conflicts=tuple(conflicts),
        **rows,
    )


def _decisions(
    sides: MergedSides,
    pairs: tuple[ComparedPair, ComparedPair],
    crossed: CrossedBases | None,
    differences: Differences,
) -> Iterator[Decisions]:
    """All at once if few ids differ, otherwise bucket by bucket, in tasks."""
    workers = differences.workers
    if all(pair.is_small for pair in pairs):
        brought, kept = map(differences.of, pairs)
        yield decided_changes(sides, brought, kept, crossed, workers)
    else:
        # Merging bases that disagree needs the history, which is not sent to workers.
        chosen = workers if crossed is None else IN_PROCESS
        yield from in_buckets("merge", pairs, _DecidedBucket(sides, *pairs, crossed), chosen)


class CrossedBases:
    """The base rows of a type about which crossed merges disagree."""

    def __init__(self, repository: Repository, bases: Bases, entity: EntityType) -> None:
        self._virtual = VirtualBase(repository, bases.commits, entity)
        self._origins = Origins(repository, bases, entity)

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


# ---------------------------------------------------------------- some of the entities


@dataclass
class Decisions:
    """Decisions about some entities of a type: see `TypeMerge`. `counts`: by operation on the target."""

    rows: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    combined: list[pa.Table] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)
    conflicts: list[MergeConflict] = field(default_factory=list)

    def put(self, name: str, addresses: np.ndarray[Any, Any]) -> None:
        known = self.rows.get(name)
        self.rows[name] = addresses if known is None else np.concatenate([known, addresses])


def decided_changes(
    sides: MergedSides,
    compared_incoming: pa.Table,
    compared_current: pa.Table,
    crossed: CrossedBases | None = None,
    workers: ExchangingWorkers = IN_PROCESS,
) -> Decisions:
    """Decide about the entities that either branch changed or rewrote."""
    rule, decisions = sides.rule, Decisions()
    brought, kept = really_changed(compared_incoming), really_changed(compared_current)
    alone = _alone(brought, kept)
    replaced = alone.filter(pc.is_valid(alone.column("before")))
    places = current_addresses(sides.reference, sides.current, compared_current, _present(replaced, "before"))
    decisions.put("puts", _present(alone, "after"))
    decisions.put("removes", places)
    decisions.put("gone", places[replaced.column("op").to_numpy() == DELETE])
    decisions.put("brought", _present(brought, "after"))
    decisions.put("changed", _present(kept, "after"))
    decisions.put("changed_before", _present(kept, "before"))
    by_source = alone if rule.incoming == "theirs" else _alone(kept, brought)
    decisions.counts.update(by_source.column("op").to_pylist())
    restored = [pa.array([], pa.utf8())]
    if brought.num_rows > alone.num_rows:
        contested = brought.select(["id", "before", "after"]).rename_columns(["id", "before", rule.incoming])
        contested = contested.join(
            kept.select(["id", "after"]).rename_columns(["id", rule.current]), "id", join_type="inner"
        )
        for chunk, decided in _decided(sides, contested, crossed, workers):
            restored.append(_add_decided(decisions, chunk, decided, rule))
    deleted = kept.filter(pc.equal(kept.column("op"), DELETE))
    is_restored = are_among(deleted.column("id"), pa.concat_arrays(restored))
    decisions.put("lost", _present(deleted.filter(pc.invert(is_restored)), "before"))
    return decisions


def _present(rows: pa.Table, column: str) -> np.ndarray[Any, Any]:
    """The addresses in a column."""
    addresses: np.ndarray[Any, Any] = rows.column(column).drop_null().to_numpy()
    return addresses


def _alone(changes: pa.Table, others: pa.Table) -> pa.Table:
    """The changes to entities that the other branch did not change."""
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
    return Decided(verdicts, combined, list(_conflicts(three_way, verdicts == CONFLICT, rule.by)))


def _conflicts(three_way: ThreeWay, chosen: np.ndarray[Any, Any], by: By) -> Iterator[MergeConflict]:
    if not chosen.any():
        return
    ids, kinds = three_way.ids.to_numpy(zero_copy_only=False)[chosen], three_way.conflict_kinds()[chosen]
    for id, kind, sides in zip(ids.tolist(), kinds.tolist(), three_way.sides_of(chosen), strict=True):
        yield divergence(three_way.entity, id, kind, sides, only_clashes=by == "property")


def _add_decided(decisions: Decisions, places: pa.Table, decided: Decided, rule: MergeRule) -> pa.Array:
    """Add the verdicts on contested entities; returns the ids that the current branch deleted and the merge restores."""
    verdicts = decided.verdicts
    incoming, has_incoming = _addresses(places.column(rule.incoming))
    current, has_current = _addresses(places.column(rule.current))
    taken, combined = verdicts == rule.incoming, verdicts == COMBINED
    decisions.put("puts", incoming[taken & has_incoming])
    decisions.put("combined_from", incoming[combined])
    decisions.put("removes", current[(taken & has_current) | combined])
    decisions.put("gone", current[taken & has_current & ~has_incoming])
    ours, theirs = (has_current, has_incoming) if rule.current == "ours" else (has_incoming, has_current)
    to_target = (verdicts == THEIRS) | combined
    decisions.counts[INSERT] += int((to_target & theirs & ~ours).sum())
    decisions.counts[UPDATE] += int((to_target & theirs & ours).sum())
    decisions.counts[DELETE] += int((to_target & ~theirs).sum())
    decisions.combined.append(decided.combined)
    decisions.conflicts += decided.conflicts
    return places.column("id").combine_chunks().filter(pa.array(taken & has_incoming & ~has_current))


def _addresses(column: pa.ChunkedArray) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The addresses, and which of them are present."""
    return column.fill_null(0).to_numpy(), column.is_valid().to_numpy()
