"""From ids to ordinals, in tasks: nodes are sorted in ranges of ids, and edges meet the numbers of their ends by hash.

No task holds more than one range of nodes, or one bucket of edges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.algorithms.projection import EdgeProjection, weights
from omnigraph.algorithms.scratch import Scratch
from omnigraph.relational import duck
from omnigraph.relational.sql import exp
from omnigraph.tables.ascending import runs
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import Exchange, Piece, Runner, to_ipc, unpacked
from omnigraph.tasks.target import TableVersion, Target

SAMPLES = 256
"""Ids of each task that the borders of ranges are chosen from."""
READ_ROWS = 1_048_576


@dataclass(frozen=True)
class NodeRange:
    """A range of nodes of one type: `count` ordinals from `offset` on. Its ids are in the file `ids/<number>`."""

    number: int
    type: int
    offset: int
    count: int


@dataclass(frozen=True)
class Numbered:
    """A projection in files: parts of its nodes, and `edges/<bucket>` with (src, dst, value) as ordinals."""

    scratch: Scratch
    parts: tuple[NodeRange, ...]
    buckets: tuple[int, ...]

    @property
    def nodes(self) -> int:
        return sum(part.count for part in self.parts)


@dataclass(frozen=True)
class _Rows:
    """Some fragments of a table, to be read by a task."""

    place: TableVersion
    fragments: tuple[int, ...]
    type: int = 0


@dataclass(frozen=True)
class _Plan:
    """What every task of the numbering knows."""

    target: Target
    scratch: Scratch
    edge: str
    columns: tuple[str, ...]
    weight: str | None
    source: int
    dst_type: int
    buckets: int
    as_shares: bool
    borders: tuple[tuple[str, ...], ...] = ()
    """By type: ids at which a new range begins."""
    firsts: tuple[int, ...] = ()
    """By type: the number of its first range."""


def number(projection: EdgeProjection, scratch: Scratch, runner: Runner, parts: int, *, as_shares: bool) -> Numbered:
    """`as_shares`: an edge's value is its share of its source's rank; otherwise its weight, if there is one."""
    view = projection.view
    target = Target.of(view.repository, view)
    plan = _Plan(
        target,
        scratch,
        projection.edge,
        tuple(projection.columns),
        projection.weight,
        projection.source,
        projection.target,
        parts,
        as_shares,
    )
    node_rows = [
        rows for place, name in enumerate(projection.types) for rows in _tasks(view.table(f"node:{name}"), place)
    ]
    samples = runner.map("sample ids", partial(_sample, target), node_rows) if parts > 1 else []
    plan = _with_borders(plan, node_rows, samples, len(projection.types), parts)
    counted = sorted(
        runner.exchange(
            Exchange("number nodes", partial(_cut_ids, plan), node_rows, plan.firsts[-1] or 1, partial(_sorted, plan))
        )
    )
    offsets = np.cumsum([0, *(count for _, count in counted)]).tolist()
    types = [max(place for place, first in enumerate(plan.firsts[:-1]) if first <= at) for at, _ in counted]
    numbered = tuple(
        NodeRange(at, type, offset, count)
        for (at, count), type, offset in zip(counted, types, offsets[:-1], strict=True)
    )
    edge_rows = _tasks(view.table(projection.edge_key), 0)
    tasks: list[NodeRange | _Rows] = [*numbered, *edge_rows]
    runner.exchange(Exchange("find sources", partial(_cut_near, plan), tasks, parts, partial(_join_near, plan)))
    near = list(range(parts)) if edge_rows else []
    linked = runner.exchange(Exchange("find targets", partial(_cut_far, plan), near, parts, partial(_join_far, plan)))
    scratch.remove("near")
    return Numbered(scratch, numbered, tuple(sorted(linked)))


def _tasks(table: Table | None, type: int) -> list[_Rows]:
    tasks: list[_Rows] = []
    rows = 0
    for fragment in table.fragments if table is not None else ():
        if tasks and rows + fragment.rows <= READ_ROWS:
            tasks[-1] = _Rows(tasks[-1].place, (*tasks[-1].fragments, fragment.id), type)
            rows += fragment.rows
        else:
            assert table is not None
            tasks.append(_Rows(TableVersion.of(table), (fragment.id,), type))
            rows = fragment.rows
    return tasks


def _with_borders(plan: _Plan, rows: list[_Rows], samples: list[list[str]], types: int, parts: int) -> _Plan:
    from dataclasses import replace

    borders = []
    for type in range(types):
        sample = sorted(id for task, ids in zip(rows, samples, strict=False) if task.type == type for id in ids)
        cuts = {sample[len(sample) * cut // parts] for cut in range(1, parts)} if sample else set()
        borders.append(tuple(sorted(cuts)))
    firsts = [0]
    for cuts_of_type in borders:
        firsts.append(firsts[-1] + len(cuts_of_type) + 1)
    return replace(plan, borders=tuple(borders), firsts=tuple(firsts))


def _ids(target: Target, rows: _Rows) -> pa.Array:
    """Sorted."""
    column = target.open(rows.place).read(["id"], fragments=rows.fragments).column("id").combine_chunks()
    ids = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    return ids.take(pc.sort_indices(ids))


def _sample(target: Target, rows: _Rows) -> list[str]:
    ids = _ids(target, rows)
    step = max(1, len(ids) // SAMPLES)
    sample: list[str] = ids[::step].to_pylist()
    return sample


def _cut_ids(plan: _Plan, rows: _Rows) -> Iterator[Piece]:
    ids = _ids(plan.target, rows)
    start, first = 0, plan.firsts[rows.type]
    borders = plan.borders[rows.type]
    for place, border in enumerate([*borders, None]):
        stop = len(ids) if border is None else bisect_left(ids, border, start, key=lambda id: id.as_py())
        if stop > start:
            yield first + place, 0, to_ipc(pa.table({"id": ids[start:stop]}))
        start = stop


def _sorted(plan: _Plan, number: int, pieces: Iterable[tuple[int, Any]]) -> tuple[int, int]:
    rows = pa.concat_tables([unpacked(data) for _, data in pieces]).sort_by("id").combine_chunks()
    plan.scratch.put_rows(f"ids/{number}", rows)
    return number, rows.num_rows


def _buckets(rows: pa.Table, column: str, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """Rows by the hash of an id."""
    text = f'CAST(hash("{column}") % {buckets} AS INTEGER)'
    numbers = duck.run(exp.select(text).from_('"rows"'), {"rows": rows.select([column])}).column(0).to_numpy()
    order = np.argsort(numbers, kind="stable")
    ordered = rows.take(pa.array(order))
    for bucket, places in runs(numbers[order]):
        yield bucket, ordered.slice(places.start, places.stop - places.start)


NODES, EDGES = 0, 1


def _cut_near(plan: _Plan, task: NodeRange | _Rows) -> Iterator[Piece]:
    """Nodes with their ordinals, and edges, where the hash of the node and of the edge's source leads."""
    if isinstance(task, NodeRange):
        ids = plan.scratch.get_rows(f"ids/{task.number}")
        rows = ids.append_column("ordinal", pa.array(np.arange(task.offset, task.offset + task.count)))
        rows = rows.append_column("type", pa.repeat(pa.scalar(task.type, pa.int8()), task.count))
        for bucket, chosen in _buckets(rows, "id", plan.buckets):
            yield bucket, NODES, to_ipc(chosen)
        return
    edges = plan.target.open(task.place).read(list(plan.columns), fragments=task.fragments)
    rows = edges.select(["src", "dst"])
    if plan.weight is not None:
        rows = rows.append_column("value", pa.array(weights(edges, plan.edge, plan.weight)))
    for bucket, chosen in _buckets(rows, "src", plan.buckets):
        yield bucket, EDGES, to_ipc(chosen)


def _join_near(plan: _Plan, bucket: int, pieces: Iterable[tuple[int, Any]]) -> None:
    from omnigraph.algorithms.kernels import shares

    held: dict[int, list[pa.Table]] = {NODES: [], EDGES: []}
    for kind, data in pieces:
        held[kind].append(unpacked(data))
    nodes = pa.concat_tables(held[NODES]) if held[NODES] else None
    if nodes is not None:
        targets = nodes.filter(pc.equal(nodes.column("type"), plan.dst_type)).select(["id", "ordinal"])
        plan.scratch.put_rows(f"near/nodes-{bucket}", targets)
    if held[EDGES]:
        assert nodes is not None, "every edge has a source"
        edges = pa.concat_tables(held[EDGES])
        sources = nodes.filter(pc.equal(nodes.column("type"), plan.source))
        src = _ordinals(edges.column("src"), sources)
        linked = pa.table({"src": src, "dst": edges.column("dst")})
        values = edges.column("value").to_numpy() if plan.weight is not None else None
        if plan.as_shares:
            _, places = np.unique(src, return_inverse=True)
            values = shares(places, values, len(src))
        if values is not None:
            linked = linked.append_column("value", pa.array(values))
        plan.scratch.put_rows(f"near/edges-{bucket}", linked)


def _cut_far(plan: _Plan, bucket: int) -> Iterator[Piece]:
    from omnigraph.errors import ObjectMissing

    try:
        edges = plan.scratch.get_rows(f"near/edges-{bucket}")
    except ObjectMissing:
        return
    for number, chosen in _buckets(edges, "dst", plan.buckets):
        yield number, 0, to_ipc(chosen)


def _join_far(plan: _Plan, bucket: int, pieces: Iterable[tuple[int, Any]]) -> int:
    edges = pa.concat_tables([unpacked(data) for _, data in pieces])
    nodes = plan.scratch.get_rows(f"near/nodes-{bucket}")
    arrays = {"src": edges.column("src").to_numpy(), "dst": _ordinals(edges.column("dst"), nodes)}
    if "value" in edges.column_names:
        arrays["value"] = edges.column("value").to_numpy()
    plan.scratch.put(f"edges/{bucket}", **arrays)
    return bucket


def _ordinals(ids: pa.ChunkedArray, nodes: pa.Table) -> Any:
    places = pc.index_in(ids, value_set=nodes.column("id").combine_chunks())
    assert not places.null_count, "every end of an edge is a node"
    return np.asarray(nodes.column("ordinal").take(places).combine_chunks(), np.int64)
