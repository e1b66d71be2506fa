"""A projection in numbers without numbering it: from the stored adjacency, where it is of the very version that is asked about.

Tasks cut the sorted ids and the edges into files of the form that `numbering` makes: nothing is read from tables, hashed or shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from omnigraph.pipeline.algorithms.numbering import NodeRange, Numbered
from omnigraph.pipeline.algorithms.projection import EdgeProjection
from omnigraph.pipeline.algorithms.scratch import Scratch
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import Address
from omnigraph.tables import Table
from omnigraph.tables.adjacency.cover import cover
from omnigraph.tables.adjacency.index import AdjacencyIndex
from omnigraph.tables.adjacency.numbering import SortedIds
from omnigraph.tables.adjacency.segment import Segment, SegmentLostError


@dataclass(frozen=True)
class _IdsTask:
    scratch: Scratch
    key: str
    part: NodeRange
    first: int
    """Of its numbers in the segment."""


@dataclass(frozen=True)
class _EdgesTask:
    """The edges in some places of a segment, as ordinals. `offsets`: the ordinals of the first source and the first target."""

    scratch: Scratch
    key: str
    bucket: int
    first: int
    last: int
    offsets: tuple[int, int]
    as_shares: bool


def stored_numbers(
    projection: EdgeProjection, scratch: Scratch, runner: Runner, parts: int, *, as_shares: bool
) -> Numbered | None:
    """None where nothing that is stored covers the version exactly, or edges have weights, which it does not know."""
    index = projection.view.repository.tables.adjacency
    numbers = None if projection.weight is not None else _found(projection, index)
    if numbers is None:
        return None
    nodes, edges = numbers
    numbered_parts: list[NodeRange] = []
    ids_tasks: list[_IdsTask] = []
    offsets, offset = [], 0
    for type, segment in enumerate(nodes):
        offsets.append(offset)
        for first, last in _cut(segment.header.count, parts):
            part = NodeRange(len(numbered_parts), type, offset + first, last - first)
            numbered_parts.append(part)
            ids_tasks.append(_IdsTask(scratch, segment.key, part, first))
        offset += segment.header.count
    ends = offsets[projection.source], offsets[projection.target]
    edge_tasks = [
        _EdgesTask(scratch, edges.key, bucket, first, last, ends, as_shares)
        for bucket, (first, last) in enumerate(_cut(edges.header.count, parts))
    ]
    lost = {*runner.map("number nodes", _write_ids, ids_tasks), *runner.map("number edges", _write_edges, edge_tasks)}
    for key in lost - {None}:
        index.forget(str(key))
    return None if lost - {None} else Numbered(scratch, tuple(numbered_parts), tuple(range(len(edge_tasks))))


def _found(projection: EdgeProjection, index: AdjacencyIndex) -> tuple[list[Segment], Segment] | None:
    """The segments of the nodes, by type, and of the edges in their numbers."""
    view = projection.view
    tables = [view.table(f"node:{name}") for name in projection.types]
    edge_table = view.table(projection.edge_key)
    if edge_table is None or edge_table.inline:
        return None
    try:
        known = [[] if table is None or table.inline else _exact(index, table, "nodes") for table in tables]
        for edges in _exact(index, edge_table, "edges"):
            names = dict(zip((projection.source, projection.target), edges.header.numbered_by, strict=True))
            nodes = [
                next((segment for segment in known[type] if segment.name == names[type]), None)
                for type in range(len(known))
            ]
            if all(nodes):
                return [segment for segment in nodes if segment is not None], edges
    except SegmentLostError:
        pass
    return None


def _exact(index: AdjacencyIndex, table: Table, kind: str) -> list[Segment]:
    return [segment for segment in index.segments(table, kind) if cover(table, segment.header.covers, segment).is_exact]


def _cut(count: int, parts: int) -> Sequence[tuple[int, int]]:
    """About equal ranges, none of them empty."""
    bounds = sorted({count * part // parts for part in range(parts + 1)})
    return list(pairwise(bounds))


def _write_ids(task: _IdsTask) -> str | None:
    """The key of a segment that cannot be read."""
    import pyarrow as pa

    try:
        segment = _opened(task.scratch, task.key)
        texts = SortedIds(segment.header, segment, segment.name).texts
    except SegmentLostError as lost:
        return lost.key
    task.scratch.put_rows(f"ids/{task.part.number}", pa.table({"id": texts.slice(task.first, task.part.count)}))
    return None


def _write_edges(task: _EdgesTask) -> str | None:
    """The same."""
    import numpy as np

    try:
        segment = _opened(task.scratch, task.key)
        starts = segment.whole("out_starts")
        (targets,) = segment.slices("out_targets", [task.first], [task.last])
    except SegmentLostError as lost:
        return lost.key
    first = int(np.searchsorted(starts, task.first, "right")) - 1
    last = int(np.searchsorted(starts, task.last, "left"))
    counts = np.diff(np.clip(starts[first : last + 1], task.first, task.last))
    sources = np.repeat(np.arange(first, last, dtype=np.int64), counts)
    arrays = {"src": sources + task.offsets[0], "dst": targets.astype(np.int64) + task.offsets[1]}
    if task.as_shares:
        arrays["value"] = 1.0 / (starts[sources + 1] - starts[sources])
    task.scratch.put(f"edges/{task.bucket}", **arrays)
    return None


def _opened(scratch: Scratch, key: str) -> Segment:
    address: Address = scratch.address
    return address.tables.adjacency.opened(key)
