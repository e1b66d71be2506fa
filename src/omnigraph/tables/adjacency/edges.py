"""An edge table at one version: neighbours in either direction, and both ends of each edge."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

from omnigraph._internal.lazy_imports import np, pa
from omnigraph._internal.runtime import ByteCache
from omnigraph.metering import Threads
from omnigraph.tables.addresses import Fragment
from omnigraph.tables.adjacency.csr import MAX_NUMBERS, Adjacency, Csr, JoinedCsr, PairChanges, csr_of, order_pairs
from omnigraph.tables.adjacency.nodes import Nodes, stored_columns
from omnigraph.tables.adjacency.numbering import Cover, Numbering, added_since, cover
from omnigraph.tables.adjacency.segment import Arrays, Covered, Header, HeldArrays
from omnigraph.tables.ascending import is_member, stable_order
from omnigraph.tables.changed_table import INLINE_FRAGMENT
from omnigraph.tables.table import Table

Direction = Literal["out", "in", "both"]
_ENDS = ("src", "dst")
_serials = itertools.count()
FEW_ROWS = 1_024
"""Up to this many rows, ends are read block by block from the stored file."""
FEW_PARALLEL = 4_096
"""Up to this many edges that repeat the ends of another are listed, and subtracted where each pair counts once."""
READ_ROWS = 2_200_000
"""How many edges have their ends in memory as strings at the same time: two fragments of a load."""


@dataclass(frozen=True)
class EndNumbers:
    """Node numbers of both ends of edges, in row order."""

    src: np.ndarray
    dst: np.ndarray

    @property
    def nbytes(self) -> int:
        return int(self.src.nbytes + self.dst.nbytes)

    @property
    def keys(self) -> np.ndarray:
        """Each pair of ends as one 64-bit number."""
        return np.asarray(self.src.astype(np.int64) << 32 | self.dst)

    def __len__(self) -> int:
        return len(self.src)


class EdgeBase:
    """The edges of the covered fragments: neighbours in both directions, and which row is which edge.

    Arrays: `out_starts`, `out_targets`, `in_starts`, `in_targets`, with one neighbour per edge; `deleted`: the deleted rows;
    `ranks`: the position of each other row in `out` order, absent if the rows are in that order themselves. If few edges are
    parallel, `parallel_src` and `parallel_dst` are the ends of every edge that repeats an earlier one.
    """

    def __init__(self, header: Header, arrays: Arrays, nodes: tuple[int, int]) -> None:
        self.header = header
        self.arrays = arrays
        self.nodes = nodes
        """How many numbers the source and the target table had."""
        self.latest: Callable[[], Edges | None] = lambda: None
        """Weak reference to the edges requested last: the next version often adds only a few."""

    @property
    def nbytes(self) -> int:
        """Including the degree of each node in both directions."""
        return self.arrays.nbytes + 4 * sum(self.nodes)

    @cached_property
    def _listed(self) -> dict[str, Csr]:
        return {
            direction: Csr(self.arrays, f"{direction}_starts", f"{direction}_targets", nodes, self.header.count)
            for direction, nodes in zip(("out", "in"), self.nodes, strict=True)
        }

    @cached_property
    def _once(self) -> dict[str, Csr]:
        return {}

    def listed(self, direction: Direction) -> Csr:
        """One neighbour per edge."""
        return self._listed[direction]

    def once(self, direction: Direction) -> Csr:
        """Each neighbour once."""
        listed = self.listed(direction)
        if not self.header.has_parallel:
            return listed
        if direction not in self._once:
            degrees = listed.degrees
            near = np.repeat(np.arange(len(degrees), dtype=np.int32), degrees)
            far = self.arrays.whole(f"{direction}_targets")
            self._once[direction] = csr_of(near, far, len(degrees), _width(far), per_edge=False)[0]
        return self._once[direction]

    @cached_property
    def parallel(self) -> ChangedEnds | None:
        """Negative counts that reduce parallel edges to one per pair; None if there are no such edges, or too many to list."""
        if not self.header.lists_parallel:
            return None
        extra = EndNumbers(*(self.arrays.whole(f"parallel_{name}") for name in _ENDS))
        ends, more = _net(extra, EndNumbers(extra.src[:0], extra.dst[:0]))
        return ChangedEnds(ends, more, 1 - more)

    def rows(self, rows: np.ndarray) -> EndNumbers:
        """Both ends of the given covered rows, none of which is deleted."""
        if len(rows) == 0:
            return EndNumbers(np.zeros(0, np.int32), np.zeros(0, np.int32))
        live = rows - np.searchsorted(self.arrays.whole("deleted"), rows)
        places = self._some("ranks", live) if self.header.has_ranks else live
        src = np.searchsorted(self.arrays.whole("out_starts"), places, "right") - 1
        return EndNumbers(src.astype(np.int32), self._some("out_targets", places))

    def places(self, rows: np.ndarray) -> np.ndarray:
        """The positions in `out` order of the given covered rows, none of which is deleted."""
        live = rows - np.searchsorted(self.arrays.whole("deleted"), rows)
        return self._some("ranks", live) if self.header.has_ranks and len(live) else live

    def back_order(self) -> np.ndarray:
        """The positions in `out` order of the edges in `in` order."""
        order: np.ndarray = stable_order(self.arrays.whole("out_targets")).astype(np.int32)
        return order

    def _some(self, name: str, places: np.ndarray) -> np.ndarray:
        if len(places) <= FEW_ROWS and self.arrays.held(name) is None:
            firsts = places.tolist()
            return np.concatenate(self.arrays.slices(name, firsts, [place + 1 for place in firsts]))
        return np.asarray(self.arrays.whole(name)[places])

    def all_rows(self) -> EndNumbers:
        """Both ends of every covered row that is not deleted."""
        listed = self.listed("out")
        src = np.repeat(np.arange(listed.nodes, dtype=np.int32), listed.degrees)
        dst = self.arrays.whole("out_targets")
        if not self.header.has_ranks:
            return EndNumbers(src, dst)
        ranks = self.arrays.whole("ranks")
        return EndNumbers(src[ranks], dst[ranks])


class JoinedEdges(EdgeBase):
    """The edges of several bases, whose fragments follow each other: what one task, or one reader, would not hold."""

    def __init__(self, parts: Sequence[EdgeBase], cache: ByteCache, key: tuple[str, ...]) -> None:
        """`key`: what the arrays of all parts together are cached under."""
        first, headers = parts[0], [part.header for part in parts]
        covers = tuple(covered for header in headers for covered in header.covers)
        # Whether two parts have edges with the same ends is not known before these are read.
        header = Header("edges", covers, sum(h.count for h in headers), first.header.numbered_by, has_parallel=True)
        self.parts = tuple(parts)
        super().__init__(header, JoinedArrays(self.parts, cache, key), first.nodes)

    @cached_property
    def _listed(self) -> dict[str, Csr]:
        return {
            direction: JoinedCsr(
                self.arrays,
                f"{direction}_starts",
                f"{direction}_targets",
                nodes,
                self.header.count,
                tuple(part._listed[direction] for part in self.parts),
            )
            for direction, nodes in zip(("out", "in"), self.nodes, strict=True)
        }

    def rows(self, rows: np.ndarray) -> EndNumbers:
        src, dst = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32)
        for part, first, last in _numbered(self.parts):
            inside = np.flatnonzero((rows >= first) & (rows < last))
            ends = part.rows(rows[inside] - first)
            src[inside], dst[inside] = ends.src, ends.dst
        return EndNumbers(src, dst)

    def all_rows(self) -> EndNumbers:
        ends = [part.all_rows() for part in self.parts]
        return EndNumbers(np.concatenate([part.src for part in ends]), np.concatenate([part.dst for part in ends]))


@dataclass(frozen=True)
class JoinedArrays:
    """The arrays of several bases as those of one base with all their edges; the neighbours are sorted when they are read whole."""

    parts: tuple[EdgeBase, ...]
    cache: ByteCache
    key: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        return sum(part.arrays.nbytes for part in self.parts)

    def held(self, name: str) -> np.ndarray | None:
        array: np.ndarray | None = self.cache.find((*self.key, name))
        return array

    def whole(self, name: str) -> np.ndarray:
        array: np.ndarray = self.cache.get((*self.key, name), lambda: self._join(name))
        return array

    def _join(self, name: str) -> np.ndarray:
        direction, _, what = name.partition("_")
        if name == "deleted":
            return np.concatenate(
                [part.arrays.whole(name).astype(np.int64) + n for part, n, _ in _numbered(self.parts)]
            )
        if what == "starts":
            return self._sum([part.arrays.whole(name) for part in self.parts])
        assert what == "targets", f"no array {name} of several bases"
        nodes = self.parts[0].nodes if direction == "out" else self.parts[0].nodes[::-1]
        listed = [part._listed[direction] for part in self.parts]
        near = np.concatenate([np.repeat(np.arange(nodes[0], dtype=np.int32), part.degrees) for part in listed])
        far = np.concatenate([part.arrays.whole(name) for part in self.parts])
        return order_pairs(near, far, *nodes).targets

    def slices(self, name: str, firsts: Sequence[int], lasts: Sequence[int]) -> list[np.ndarray]:
        if not name.endswith("_starts"):
            whole = self.whole(name)
            return [whole[first:last] for first, last in zip(firsts, lasts, strict=True)]
        parts = [part.arrays.slices(name, firsts, lasts) for part in self.parts]
        return [self._sum(starts) for starts in zip(*parts, strict=True)]

    def check(self) -> None:
        for part in self.parts:
            part.arrays.check()

    def _sum(self, starts: Sequence[np.ndarray]) -> np.ndarray:
        """Neighbours of all parts begin where as many come before as in all parts together."""
        count = sum(part.header.count for part in self.parts)
        return np.asarray(np.sum(starts, axis=0, dtype=np.int32 if count <= MAX_NUMBERS["int32"] else np.int64))


def _numbered(parts: Sequence[EdgeBase]) -> Iterator[tuple[EdgeBase, int, int]]:
    """Each base with its first and its end row, counted through all of them."""
    first = 0
    for part in parts:
        last = first + sum(covered.rows for covered in part.header.covers)
        yield part, first, last
        first = last


def _width(far: np.ndarray) -> int:
    return int(far.max()) + 1 if len(far) else 1


def _net(removed: EndNumbers, added: EndNumbers) -> tuple[EndNumbers, np.ndarray]:
    """Each pair of ends once, with the difference in how often it occurs; negative for fewer."""
    src, dst = (np.concatenate([getattr(ends, name) for ends in (removed, added)]) for name in ("src", "dst"))
    order = np.lexsort((dst, src))
    src, dst = src[order], dst[order]
    begins = np.flatnonzero(np.concatenate([[True], (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])])[: len(src)])
    signs = np.where(order < len(removed), -1, 1)
    more = np.add.reduceat(signs, begins) if len(begins) else signs
    src, dst = src[begins], dst[begins]
    return EndNumbers(src, dst), more


@dataclass(frozen=True)
class ChangedEnds:
    """Pairs of ends that a version has more or less often than the covered edges; each pair once."""

    ends: EndNumbers
    more: np.ndarray
    below: np.ndarray
    """How often each pair occurs among the covered edges."""

    @classmethod
    def between(cls, base: EdgeBase, removed: EndNumbers, added: EndNumbers) -> ChangedEnds:
        ends, more = _net(removed, added)
        return cls(ends, more, base.listed("out").multiplicities(ends.src, ends.dst))

    def and_more(self, base: EdgeBase, added: EndNumbers) -> ChangedEnds | None:
        """These changes and a few added edges; None if a pair among those is repeated or already changed."""
        src, dst = added.src.tolist(), added.dst.tolist()
        known = self.ends
        if len(set(zip(src, dst, strict=True))) < len(src):
            return None
        if any(((known.src == near) & (known.dst == far)).any() for near, far in zip(src, dst, strict=True)):
            return None
        return ChangedEnds(
            EndNumbers(np.concatenate([known.src, added.src]), np.concatenate([known.dst, added.dst])),
            np.concatenate([self.more, np.ones(len(src), np.int64)]),
            np.concatenate([self.below, base.listed("out").multiplicities(added.src, added.dst)]),
        )

    def seen(
        self, direction: Literal["out", "in"], *, per_edge: bool, parallel: ChangedEnds | None = None
    ) -> PairChanges | None:
        """The changes seen from one end: counting every edge, or every pair once. With `parallel`, the base lists a pair once per
        edge even if each pair counts once here."""
        counts = self.more
        if not per_edge:
            counts = (self.below + counts > 0).astype(np.int64) - (self.below > 0 if parallel is None else self.below)
        ends = self.ends
        if parallel is not None:
            others = np.flatnonzero(~is_member(parallel.ends.keys, np.sort(ends.keys)))
            ends = EndNumbers(
                np.concatenate([ends.src, parallel.ends.src[others]]),
                np.concatenate([ends.dst, parallel.ends.dst[others]]),
            )
            counts = np.concatenate([counts, parallel.more[others]])
        if len(counts) == 0:
            return None
        near, far = (ends.src, ends.dst) if direction == "out" else (ends.dst, ends.src)
        return PairChanges(near, far, counts)


class Edges:
    """One version of an edge table, in node numbers."""

    def __init__(
        self,
        base: EdgeBase,
        covered: Cover,
        rest: Sequence[EndNumbers],
        source: Nodes,
        target: Nodes,
        table: Table,
    ) -> None:
        self.serial = next(_serials)
        self.base = base
        self.cover = covered
        self.source, self.target = source, target
        self.version, self.inline = table.version, table.inline
        self._rest = rest
        self._fragments = table.fragments

    @property
    def nbytes(self) -> int:
        return sum(ends.nbytes for ends in self._rest) * 3 + int(self.cover.gone.nbytes) * 3

    @cached_property
    def _removed(self) -> EndNumbers:
        return self.base.rows(self.cover.gone)

    @cached_property
    def _added(self) -> EndNumbers:
        src, dst = (np.concatenate([np.zeros(0, np.int32), *(getattr(e, name) for e in self._rest)]) for name in _ENDS)
        return EndNumbers(src, dst)

    @cached_property
    def _changes(self) -> ChangedEnds:
        return ChangedEnds.between(self.base, self._removed, self._added)

    def followed(self, table: Table, source: Nodes, target: Nodes, most_changed: int) -> Edges | None:
        """A later version that only adds a few edges, and whose nodes are all still there; None for any other version."""
        changes = added_since(self.version, self.inline, table)
        if changes is None or not (source.has_grown_from(self.source) and target.has_grown_from(self.target)):
            return None
        count = sum(len(change.rows) for change in changes)
        if not self._is_sound or self.cover.changed_rows + count > most_changed:
            return None
        numbers = [
            nodes.numbering.of_changes(table.inline, name) for nodes, name in zip((source, target), _ENDS, strict=True)
        ]
        added = EndNumbers(*(known[len(known) - count :] for known in numbers))
        more = self._changes.and_more(self.base, added)
        if more is None or not (source.has_all(added.src.tolist()) and target.has_all(added.dst.tolist())):
            return None
        stored = [
            ends for fragment, ends in zip(self.cover.rest, self._rest, strict=True) if fragment.id != INLINE_FRAGMENT
        ]
        rest = [*stored, EndNumbers(*numbers)] if len(numbers[0]) else stored
        edges = Edges(self.base, self.cover.with_inline_of(table), rest, source, target, table)
        edges._changes, edges._is_sound = more, True
        return edges

    def neighbours(self, direction: Direction, *, per_edge: bool) -> Adjacency:
        """Neighbours of every live node: one per edge, or each neighbour once."""
        if direction == "both" or not self._is_sound:
            return self._assembled(direction, per_edge)
        return self._composed(direction, per_edge)

    def _composed(self, direction: Literal["out", "in"], per_edge: bool) -> Adjacency:
        base = self.base
        size, width = self.source.size, max(self.target.size, base.nodes[1])
        if direction == "in":
            size, width = self.target.size, max(self.source.size, base.nodes[0])
        parallel = None if per_edge else base.parallel
        below = base.listed(direction) if per_edge or parallel is not None else base.once(direction)
        changes = self._changes.seen(direction, per_edge=per_edge, parallel=parallel)
        return Adjacency(below, size, width, changes)

    @cached_property
    def _is_sound(self) -> bool:
        """Whether every edge joins two live nodes. Every write ensures this; only a damaged graph differs."""
        ways: tuple[tuple[Literal["out", "in"], Nodes, np.ndarray], ...] = (
            ("out", self.source, self._added.src),
            ("in", self.target, self._added.dst),
        )
        for _, nodes, added in ways:
            if len(added) and int(added.max()) >= nodes.size:
                return False
        for (direction, nodes, _), known in zip(ways, self.base.nodes, strict=True):
            dead = np.arange(nodes.size, max(known, nodes.size))
            if nodes.live is not None:
                dead = np.concatenate([np.flatnonzero(~nodes.live), dead])
            edges = self._composed(direction, per_edge=True)
            all_known = Adjacency(edges.below, max(known, nodes.size), edges.width, edges.changes)
            if len(dead) and all_known.counts(dead).any():
                return False
        return True

    def _assembled(self, direction: Direction, per_edge: bool) -> Adjacency:
        """Built from every edge, leaving out those with a missing end."""
        ends = self.ends()
        near, far, size = ends.src, ends.dst, self.source.size
        present = (near >= 0) & (far >= 0)
        near, far, width = near[present], far[present], self.target.size
        if direction == "in":
            near, far, size, width = far, near, width, size
        elif direction == "both":
            near, far = np.concatenate([near, far]), np.concatenate([far, near])
        return Adjacency(csr_of(near, far, size, width, per_edge=per_edge)[0], size, width, is_alone=True)

    def numbered(self, back_order: Callable[[], np.ndarray]) -> NumberedEdges | None:
        """The edges by number; None for a damaged graph, and for edges of several bases. `back_order`: see `EdgeBase.back_order`."""
        is_single = not isinstance(self.base, JoinedEdges)
        return NumberedEdges(self, back_order) if is_single and self._is_sound else None

    def ends(self) -> EndNumbers:
        """Both ends of every edge, in scan order; -1 for a node that the version does not have."""
        covered = {fragment: (first, last) for first, last, fragment in self.cover.present}
        deleted = self.base.arrays.whole("deleted")
        gone = self.cover.gone - np.searchsorted(deleted, self.cover.gone)
        base = self.base.all_rows()
        by_fragment = dict(zip(self.cover.rest, self._rest, strict=True))
        parts: list[EndNumbers] = []
        for fragment in self._fragments:
            if fragment not in covered:
                parts.append(by_fragment[fragment])
                continue
            first, last = (row - int(np.searchsorted(deleted, row)) for row in covered[fragment])
            src, dst = base.src[first:last], base.dst[first:last]
            lost = gone[np.searchsorted(gone, first) : np.searchsorted(gone, last)] - first
            parts.append(EndNumbers(np.delete(src, lost), np.delete(dst, lost)) if len(lost) else EndNumbers(src, dst))
        whole = [np.concatenate([np.zeros(0, np.int32), *(getattr(p, name) for p in parts)]) for name in _ENDS]
        return EndNumbers(_living(whole[0], self.source), _living(whole[1], self.target))


class NumberedEdges:
    """The edges of one version by edge number: covered edges have their positions in `out` order, added ones the numbers after
    these. Numbers of covered edges are the same in every version."""

    def __init__(self, edges: Edges, back_order: Callable[[], np.ndarray]) -> None:
        self.edges, self.base = edges, edges.base
        self._back_order = back_order
        self._gone = np.sort(self.base.places(edges.cover.gone))
        self._added = edges._added

    def counts(self, direction: Literal["out", "in"], numbers: np.ndarray) -> np.ndarray:
        """How many edges each node has, at most."""
        counts = self.base.listed(direction).bounds(numbers)[1]
        if len(self._added):
            first, last = self._places(direction, numbers)
            counts = counts + (last - first)
        return counts

    def expand(self, direction: Literal["out", "in"], numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(position in `numbers`, neighbour, edge number) for every edge of every node."""
        listed = self.base.listed(direction)
        first, counts = listed.bounds(numbers)
        owners, targets = listed.expand(numbers)
        edges = ranges(first, counts)
        if direction == "in":
            edges = self._back_order()[edges].astype(np.int64)
        if len(self._gone):
            kept = ~is_member(edges, self._gone)
            owners, targets, edges = owners[kept], targets[kept], edges[kept]
        if len(self._added):
            first, last = self._places(direction, numbers)
            places = self._added_order(direction)[ranges(first, last - first)]
            far = (self._added.dst if direction == "out" else self._added.src)[places]
            owners = np.concatenate([owners, np.repeat(np.arange(len(numbers)), last - first)])
            targets = np.concatenate([targets, far])
            edges = np.concatenate([edges, places + self.base.header.count])
        return owners, targets, edges

    def ends(self, numbers: np.ndarray) -> EndNumbers:
        """Both ends of the given edges."""
        count = self.base.header.count
        src, dst = np.empty(len(numbers), np.int32), np.empty(len(numbers), np.int32)
        old = numbers < count
        starts, targets = self.base.arrays.whole("out_starts"), self.base.arrays.whole("out_targets")
        src[old], dst[old] = np.searchsorted(starts, numbers[old], "right") - 1, targets[numbers[old]]
        src[~old], dst[~old] = (part[numbers[~old] - count] for part in (self._added.src, self._added.dst))
        return EndNumbers(src, dst)

    @cached_property
    def _orders(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Added edges by near end: that end in order, and the edges' positions."""
        ends = {"out": self._added.src, "in": self._added.dst}
        orders = {name: np.argsort(near, kind="stable") for name, near in ends.items()}
        return {name: (ends[name][order], order) for name, order in orders.items()}

    def _added_order(self, direction: Literal["out", "in"]) -> np.ndarray:
        return self._orders[direction][1]

    def _places(self, direction: Literal["out", "in"], numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        near = self._orders[direction][0]
        return np.searchsorted(near, numbers, "left"), np.searchsorted(near, numbers, "right")


def ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers of all ranges, one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total, dtype=np.int64) + np.repeat(first - (ends - counts), counts))


def base_edge_column(table: Table, edges: Edges, name: str) -> pa.Array:
    """A column of the covered rows, by edge number; null for rows of fragments that the version does not have."""
    base, type_ = edges.base, table.schema.field(name).type
    present = edges.cover.present
    columns = stored_columns(table, name, [fragment for _, _, fragment in present])
    stored = {first: column for (first, _, _), column in zip(present, columns, strict=True)}
    parts, first = [], 0
    for covered in base.header.covers:
        parts.append(stored[first] if first in stored else pa.nulls(covered.rows, type_))
        first += covered.rows
    whole = pa.concat_arrays(parts) if parts else pa.array([], type_)
    deleted = base.arrays.whole("deleted")
    rows = np.delete(np.arange(len(whole)), deleted) if len(deleted) else None
    if base.header.has_ranks:
        ranks = base.arrays.whole("ranks")
        order = np.empty(len(ranks), np.int64)
        order[ranks] = np.arange(len(ranks)) if rows is None else rows
        return whole.take(pa.array(order))
    return whole if rows is None else whole.take(pa.array(rows))


def _living(numbers: np.ndarray, nodes: Nodes) -> np.ndarray:
    """The numbers, with -1 for those that the version does not have."""
    if nodes.live is None and (len(numbers) == 0 or int(numbers.max()) < nodes.size):
        return numbers
    known = numbers < nodes.size
    inside = np.where(known, numbers, 0)
    lives = known if nodes.live is None else known & nodes.live[inside]
    return np.where(lives, numbers, -1).astype(np.int32)


NumberEnds = Callable[[Table, Sequence[Fragment], Numbering, Numbering], list[EndNumbers]]
"""Gives the ends of the rows of fragments; ids without a number get one."""


def edges_at(
    table: Table, base: EdgeBase, source: Nodes, target: Nodes, number_ends: NumberEnds, most_changed: int
) -> Edges | None:
    """The edges of a version on top of the covered ones; None if it differs too much from them."""
    covered = cover(table, base.header.covers, base.arrays)
    if covered.changed_rows > most_changed:
        return None
    rest = number_ends(table, covered.rest, source.numbering, target.numbering)
    rows = base.header.count - len(covered.gone) + sum(len(ends) for ends in rest)
    return Edges(base, covered, rest, source, target, table) if rows == table.rows else None


def edge_base(
    covers: tuple[Covered, ...], ends: EndNumbers, sizes: tuple[int, int], numbered_by: tuple[str, ...] = ()
) -> EdgeBase:
    """Built from the ends of every stored row of the covered fragments; deleted rows have -1."""
    live = ends.src >= 0
    src, dst = (ends.src, ends.dst) if live.all() else (ends.src[live], ends.dst[live])
    with Threads(2) as pool:
        backwards = pool.submit(order_pairs, dst, src, sizes[1], sizes[0])
        out = order_pairs(src, dst, sizes[0], sizes[1], ranked=True)
        back = backwards.result()
    lists_parallel = 0 < len(out.repeated) <= FEW_PARALLEL
    arrays = {
        "deleted": np.flatnonzero(~live).astype(np.int32),
        "out_starts": out.starts,
        "in_starts": back.starts,
        "out_targets": out.targets,
        "in_targets": back.targets,
    }
    if lists_parallel:
        sources = np.searchsorted(out.starts, out.repeated, "right") - 1
        arrays = {"parallel_src": sources.astype(np.int32), "parallel_dst": out.targets[out.repeated], **arrays}
    if out.ranks is not None:
        arrays["ranks"] = out.ranks
    header = Header(
        "edges",
        covers,
        len(src),
        numbered_by,
        has_parallel=out.has_repeated,
        has_ranks=out.ranks is not None,
        lists_parallel=lists_parallel,
    )
    return EdgeBase(header, HeldArrays(arrays), sizes)


def stored_ends(table: Table, fragments: Sequence[Fragment], source: Numbering, target: Numbering) -> EndNumbers:
    """Both ends of every stored row of some fragments of a version, in their order; -1 for deleted rows."""
    total = sum(table.stored_rows[fragment.id] for fragment in fragments)
    src, dst = np.full(total, -1, np.int32), np.full(total, -1, np.int32)
    first = 0
    for group in fragment_runs(fragments, READ_ROWS):
        rows = table.read(["src", "dst"], fragments=[fragment.id for fragment in group])
        kept = []
        for fragment in group:
            kept.append(first + table.live_offsets(fragment))
            first += table.stored_rows[fragment.id]
        places = np.concatenate(kept)
        columns = [_whole(rows.column(name)) for name in ("src", "dst")]
        with Threads(2) as pool:
            near, far = pool.map(partial(Numbering.numbers, add=True), (source, target), columns)
        src[places], dst[places] = near, far
    return EndNumbers(src, dst)


def fragment_runs(fragments: Sequence[Fragment], max_rows: int) -> list[list[Fragment]]:
    """The fragments in order, in runs of at most so many rows each; a fragment that has more is a run."""
    groups: list[list[Fragment]] = []
    rows = 0
    for fragment in fragments:
        if not groups or rows + fragment.rows > max_rows:
            groups.append([])
            rows = 0
        groups[-1].append(fragment)
        rows += fragment.rows
    return groups


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
