"""Finds the rows that differ between two versions of a table, reading only the fragments that differ.

The result holds ids and row addresses; a caller reads the rows it needs. Many changed ids are cut into buckets, each a range of ids, so
that no process holds more than one bucket; rows are compared in bounded chunks. Values are equal as stored: null equals only null, and an empty list is not null.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.changes.stored_rows import MIN_CHUNK_ROWS, CarriedChange, TypeRows, chunk_rows, rows_at, typed_rows_at
from omnigraph.language.catalog import EntityType
from omnigraph.language.projection import wider_entity
from omnigraph.tables.addresses import OFFSET_BITS, ROW_ADDRESS, Fragment
from omnigraph.tables.changed_table import ChangedTable
from omnigraph.tables.lost_rows import fragments_by_files
from omnigraph.tables.staging import stored_rows
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import IN_PROCESS, Exchange, ExchangingWorkers, Join, Piece, Result, to_ipc, unpacked

INSERT, UPDATE, DELETE, SAME = 0, 1, 2, 3
"""Kinds of difference, in the order of reporting. SAME: stored elsewhere with equal values."""

IDS_PER_TASK = 1_048_576
IDS_PER_BUCKET = 262_144
IDS_PER_SAMPLE = 1_024


def changes_in_order(before: TypeRows, after: TypeRows, workers: ExchangingWorkers = IN_PROCESS) -> Iterator[pa.Table]:
    """Tables like those of `changed_rows`, each with a bounded number of rows, their ids ascending from one table to the next."""
    pair = ComparedPair(before, after)
    if pair.is_small:
        yield changed_rows(before, after, workers)
    else:
        yield from in_buckets("compare", [pair], _ComparedBucket(pair), workers)


def changed_rows(before: TypeRows, after: TypeRows, workers: ExchangingWorkers = IN_PROCESS) -> pa.Table:
    """Columns id, op, before and after (addresses, null if the row is absent), sorted by id."""
    if after.carried is not None and isinstance(after.table, ChangedTable):
        carried = _changed_in_commit(before, after.table, after.carried)
        if carried is not None:
            return with_ops(before, after, carried, workers)
    removed, added = unshared_rows(before, after, workers), unshared_rows(after, before, workers)
    return ComparedPair(before, after).joined(removed, added, workers)


def _changed_in_commit(before: TypeRows, after: ChangedTable, carried: CarriedChange) -> pa.Table | None:
    """The rows of a commit that holds its change inline: id, before and after. Replaced and removed rows are looked up only if they
    must be in the stored version. None if the change is incomplete: a state that was read as the predecessor of another commit does
    not list the removed ids."""
    change, old = carried.change, before.table
    ids = [*change.ids, *change.removed]
    held: dict[str, int | None] = {}
    if isinstance(old, ChangedTable):
        held = {id: old.place_of(id) for id in ids}
    if old is not None and change.masked:
        rows = old.lookup("id", [id for id in ids if held.get(id) is None], ["id"], with_address=True)
        held |= dict(zip(rows.column("id").to_pylist(), rows.column(ROW_ADDRESS).to_pylist(), strict=True))
    if sum(address is not None for address in held.values()) != carried.superseded:
        return None
    columns = {
        "id": pa.array(ids, pa.utf8()),
        "before": pa.array([held.get(id) for id in ids], pa.uint64()),
        "after": pa.array([*after.newest_addresses(), *(None for _ in change.removed)], pa.uint64()),
    }
    return pa.table(columns).sort_by("id")


def with_ops(before: TypeRows, after: TypeRows, joined: pa.Table, workers: ExchangingWorkers = IN_PROCESS) -> pa.Table:
    """The operations for rows (id, before, after) that are not stored in the same place on both sides: columns id, op, before, after."""
    old, new = joined.column("before"), joined.column("after")
    is_old, is_new = (np.asarray(pc.is_valid(side), dtype=bool) for side in (old, new))
    op = np.where(is_old, DELETE, INSERT).astype(np.int8)
    if (both := is_old & is_new).any():
        op[both] = np.where(differing(before, after, joined.filter(pa.array(both)), workers), UPDATE, SAME)
    return pa.table({"id": joined.column("id"), "op": op, "before": old, "after": new})


@dataclass(frozen=True)
class ComparedPair:
    """A type on two sides that are compared."""

    before: TypeRows
    after: TypeRows

    @property
    def is_small(self) -> bool:
        """Whether the ids that differ fit in one bucket, judging by metadata."""
        if self.after.carried is not None:
            return True
        sides = (self.before, self.after), (self.after, self.before)
        return all(sum(run.max_rows for run in unshared_runs(*side)) <= IDS_PER_BUCKET for side in sides)

    def joined(self, removed: pa.Table, added: pa.Table, workers: ExchangingWorkers = IN_PROCESS) -> pa.Table:
        """The operations for rows (id and address) that only one side has, or that are stored elsewhere on the other."""
        old, new = removed.rename_columns(["id", "before"]), added.rename_columns(["id", "after"])
        return with_ops(self.before, self.after, _by_id(old, new), workers)


def _by_id(old: pa.Table, new: pa.Table) -> pa.Table:
    """The rows of both sides, sorted by id. Rows of one side with equal ids, which a graph may have from older loads, are paired in
    the order in which they are stored."""
    keys = ["id"]
    if old.num_rows and new.num_rows and (_has_equal_ids(old) or _has_equal_ids(new)):
        old, new, keys = _numbered(old), _numbered(new), ["id", "number"]
    joined = old.join(new, keys, join_type="full outer").sort_by([(key, "ascending") for key in keys])
    return joined.select(["id", "before", "after"]).combine_chunks()


def _has_equal_ids(rows: pa.Table) -> bool:
    return bool(pc.count_distinct(rows.column("id")).as_py() < rows.num_rows)


def _numbered(rows: pa.Table) -> pa.Table:
    """With the number of each row among those with its id."""
    ordered = rows.sort_by([(name, "ascending") for name in rows.column_names])
    ids = ordered.column("id").to_numpy()
    first = np.append(True, ids[1:] != ids[:-1])
    places = np.arange(len(ids))
    return ordered.append_column("number", [places - np.maximum.accumulate(np.where(first, places, 0))])


@dataclass(frozen=True)
class _ComparedBucket:
    pair: ComparedPair

    def __call__(self, bucket: int, pieces: Iterable[tuple[int, Any]]) -> pa.Table:
        return self.pair.joined(*ids_by_source(pieces, 2))


def in_buckets(
    stage: str, pairs: Sequence[ComparedPair], join: Join[Result], workers: ExchangingWorkers
) -> Iterator[Result]:
    """Cut the ids that differ in each pair into ranges. `join` gets all ids of one range: source 0 holds those of the first pair's
    `before`, source 1 those of its `after`, and so on for the next pair."""
    sides = [side for pair in pairs for side in ((pair.before, pair.after), (pair.after, pair.before))]
    runs = [(number, run) for number, side in enumerate(sides) for run in unshared_runs(*side)]
    samples = workers.map("sample ids", sample_ids, [IdSampling(run, 1 / IDS_PER_SAMPLE) for _, run in runs])
    bounds = _bounds(samples)
    tasks = [IdCut(number, run, bounds) for number, run in runs]
    return workers.exchange_in_order(Exchange(stage, cut_ids, tasks, len(bounds) + 1, join))


@dataclass(frozen=True)
class IdSampling:
    """A task: count ids, and sample this share of them."""

    run: FragmentRun
    share: float


@dataclass(frozen=True)
class IdSample:
    count: int
    ids: pa.Array


def sample_ids(task: IdSampling) -> IdSample:
    """Sample at random, but reproducibly, independent of the storage order."""
    ids = unshared_ids(task.run).column("id").combine_chunks()
    chosen = np.flatnonzero(np.random.default_rng(len(ids)).random(len(ids)) < task.share)
    return IdSample(len(ids), ids.take(pa.array(chosen)))


def _bounds(samples: Sequence[IdSample]) -> tuple[str, ...]:
    """The first id of every bucket after the first, chosen so that buckets are of about the same size."""
    ids = sorted(id for sample in samples for id in sample.ids.to_pylist())
    buckets = max(1, -(-sum(sample.count for sample in samples) // IDS_PER_BUCKET))
    places = [number * len(ids) // buckets for number in range(1, buckets)]
    return tuple(dict.fromkeys(ids[place] for place in places if place < len(ids)))


@dataclass(frozen=True)
class IdCut:
    """A task: cut the ids of one source at the bounds."""

    number: int
    run: FragmentRun
    bounds: tuple[str, ...]


def cut_ids(task: IdCut) -> Iterator[Piece]:
    rows = unshared_ids(task.run)
    ordered = rows.take(pc.sort_indices(rows.column("id"))).combine_chunks()
    ids = ordered.column("id").combine_chunks()
    places = [bisect_left(range(len(ids)), bound, key=lambda place: ids[place].as_py()) for bound in task.bounds]
    for bucket, (start, end) in enumerate(pairwise([0, *places, len(ids)])):
        if end > start:
            yield bucket, task.number, to_ipc(ordered.slice(start, end - start))


def ids_by_source(pieces: Iterable[tuple[int, Any]], sources: int) -> list[pa.Table]:
    """The ids and addresses of each source in a bucket."""
    by_source = [[_no_ids()] for _ in range(sources)]
    for number, data in pieces:
        by_source[number].append(unpacked(data))
    return [pa.concat_tables(tables) for tables in by_source]


def unshared_rows(side: TypeRows, against: TypeRows, workers: ExchangingWorkers) -> pa.Table:
    """Ids and addresses of the rows of one side that the other does not store in the same place."""
    pieces = workers.map("read ids", unshared_ids, unshared_runs(side, against))
    return pa.concat_tables([_no_ids(), *pieces])


def _no_ids() -> pa.Table:
    return pa.schema([("id", pa.utf8()), (ROW_ADDRESS, pa.uint64())]).empty_table()


@dataclass(frozen=True)
class FragmentRun:
    """Fragments of one side that differ on the other, to be read by one task. `max_rows`: an upper bound of the rows that the other side
    does not have."""

    side: TypeRows
    against: TypeRows
    fragments: tuple[int, ...]
    max_rows: int


def unshared_runs(side: TypeRows, against: TypeRows) -> list[FragmentRun]:
    """The fragments that are not shared, in runs of bounded size. Reads metadata only."""
    if side.table is None:
        return []
    theirs, stored = _shared_with(side, against), stored_rows(side.table)
    runs: list[FragmentRun] = []
    fragments, max_rows, room = list[int](), 0, IDS_PER_TASK
    for fragment in side.table.fragments:
        twin = theirs.get(fragment.files)
        if twin is not None and twin.deletions == fragment.deletions:
            continue
        if fragments and fragment.rows > room:
            runs.append(FragmentRun(side, against, tuple(fragments), max_rows))
            fragments, max_rows, room = [], 0, IDS_PER_TASK
        fragments.append(fragment.id)
        max_rows += fragment.rows if twin is None else stored.get(fragment.id, fragment.rows) - twin.rows
        room -= fragment.rows
    return [*runs, FragmentRun(side, against, tuple(fragments), max_rows)] if fragments else runs


def _shared_with(side: TypeRows, against: TypeRows) -> Mapping[Any, Fragment]:
    """The fragments of the other side that one with the same files may share rows with, by their files."""
    return {} if side.shares_nothing or against.shares_nothing else fragments_by_files(against.table)


def unshared_ids(run: FragmentRun) -> pa.Table:
    """Ids and addresses of the rows of these fragments that the other side does not have."""
    table, other = run.side.table, run.against.table
    assert table is not None, "a run has fragments of a table"
    theirs = _shared_with(run.side, run.against)
    whole: list[int] = []
    pieces = []
    for fragment in (fragment for fragment in table.fragments if fragment.id in run.fragments):
        twin = theirs.get(fragment.files)
        if twin is None or other is None:
            whole.append(fragment.id)
        else:
            pieces.append(rows_at(table, _only_here(table, fragment, other, twin), ["id"]))
    if whole:
        pieces.append(table.read(["id"], fragments=whole, with_address=True))
    schema = _no_ids().schema
    return pa.concat_tables([piece.select(schema.names).cast(schema) for piece in pieces])


def _only_here(table: Table, fragment: Fragment, other: Table, twin: Fragment) -> np.ndarray[Any, Any]:
    """Addresses of rows that are live in `fragment` and deleted in its twin. Reads deletions only, no data."""
    mine, theirs = table.deleted_offsets(fragment), other.deleted_offsets(twin)
    offsets = np.setdiff1d(theirs, mine, assume_unique=True).astype(np.uint64)
    addresses: np.ndarray[Any, Any] = offsets | np.uint64(fragment.id << OFFSET_BITS)
    return addresses


def differing(
    before: TypeRows, after: TypeRows, both: pa.Table, workers: ExchangingWorkers
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Row by row, whether values differ, for rows stored in different places on the two sides. null and empty differ."""
    step = both.num_rows if both.num_rows <= MIN_CHUNK_ROWS else chunk_rows(before.table, after.table)
    tasks = [(before, after, both.slice(start, step)) for start in range(0, both.num_rows, max(step, 1))]
    return np.concatenate([np.zeros(0, bool), *workers.map("compare rows", _differing, tasks)])


def _differing(task: tuple[TypeRows, TypeRows, pa.Table]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    before, after, chunk = task
    entity = wider_entity(before.entity, after.entity)
    old = typed_rows_at(before, chunk.column("before"), entity)
    new = typed_rows_at(after, chunk.column("after"), entity)
    return differs(old, new, entity)


def differs(before: pa.Table, after: pa.Table, entity: EntityType) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Row by row, whether any value of the entity differs."""
    different = np.zeros(before.num_rows, bool)
    for name in value_columns(entity):
        different |= ~equal_values(before.column(name), after.column(name))
    return different


def value_columns(entity: EntityType) -> list[str]:
    ends = ["src", "dst"] if entity.table_key.startswith("edge:") else []
    return [*ends, *entity.properties]


def aligned(rows: pa.Table, ids: pa.Array) -> pa.Table:
    """The rows of these entities, in this order; all null for entities without a row."""
    return rows.take(pc.index_in(ids, value_set=rows.column("id")))


def equal_values(first: pa.ChunkedArray, other: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Element by element, for two columns of one type."""
    left, right = (column.combine_chunks() for column in (first, other))
    if pa.types.is_list(left.type) or pa.types.is_fixed_size_list(left.type):
        return _equal_lists(left, right)
    return _equal_scalars(left, right)


def _equal_scalars(first: pa.Array, other: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    equal = pc.fill_null(pc.equal(first, other), False)
    equal = pc.or_(equal, pc.and_(pc.is_null(first), pc.is_null(other)))
    return np.array(equal.to_numpy(zero_copy_only=False), dtype=bool)


def _equal_lists(first: pa.Array, other: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Two lists are equal if their lengths are and no pair of elements differs."""
    equal = _equal_scalars(pc.list_value_length(first), pc.list_value_length(other))
    places = np.flatnonzero(equal & pc.is_valid(first).to_numpy(zero_copy_only=False))
    left, right = (side.take(pa.array(places)) for side in (first, other))
    same = _equal_scalars(pc.list_flatten(left), pc.list_flatten(right))
    owners = places[pc.list_parent_indices(left).to_numpy(zero_copy_only=False)]
    equal[owners[~same]] = False
    return equal
