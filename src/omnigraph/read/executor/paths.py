"""Shortest paths. By number of hops they are searched from both ends, by weight hop by hop from the start. One path of each pair is
listed when its nodes or edges are asked for; where all of them are wanted, each is listed when it is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.errors import ResourceExhausted
from omnigraph.read.executor.bindings import Matches, NotCovered
from omnigraph.read.executor.sources import EdgeSource, NodeSource
from omnigraph.read.executor.walks import WAYS, HopWalk
from omnigraph.tables.adjacency.edges import ranges
from omnigraph.tables.ascending import is_member

if TYPE_CHECKING:
    from omnigraph.tables.adjacency.nodes import CodedColumn

FEW_TARGETS = 4
"""Up to this many ends of one start are searched for one by one."""
MAX_STARTS = 4_096
MAX_PAIRS = 65_536
"""All paths are listed for at most this many pairs of ends."""
MAX_ITEMS = 2**31 - 1
Reserve = Callable[[int, int], None]
"""Accounts for so many rows and columns before they are made. Raises NotCovered."""
Steps = tuple["np.ndarray", "np.ndarray", "np.ndarray"]
"""(position of the node, neighbour, edge) of edges that lead on from nodes."""
Way = tuple[list[int], list[int]]
"""The nodes and the edges of a path."""
Listing = Callable[[Literal["nodes", "edges"], "np.ndarray"], tuple["np.ndarray", "np.ndarray"]]
"""The nodes, or the edges, of the paths at these numbers, one after the other, and how many each path has."""


@dataclass(frozen=True)
class Ends:
    """Of each path: the position of the start, or of the pair of ends, that was asked for; where it ends; its hops and its cost."""

    owners: np.ndarray
    reached: np.ndarray
    lengths: np.ndarray
    costs: np.ndarray


@dataclass(frozen=True)
class PathSource:
    """Paths by number. `is_every`: a path is its edges, not its end."""

    nodes: NodeSource
    edges: EdgeSource
    ends: Ends
    listing: Listing
    is_every: bool = False

    def column(self, name: str, numbers: np.ndarray) -> pa.Array:
        missing = numbers < 0
        known = np.where(missing, 0, numbers)
        if name in ("length", "cost"):
            values = self.ends.lengths if name == "length" else self.ends.costs
            return pa.array(values[known] if len(values) else np.zeros(len(known), values.dtype), mask=missing)
        if name == "id" and not self.is_every:
            reached = self.ends.reached
            return self.nodes.column("id", np.where(missing, -1, reached[known] if len(reached) else -1))
        counts = np.zeros(len(numbers) + 1, np.int64)
        if name == "nodes":
            listed, counts[1:][~missing] = self.listing("nodes", numbers[~missing])
            ids = self.nodes.column("id", listed.astype(np.int32))
        else:
            listed, counts[1:][~missing] = self.listing("edges", numbers[~missing])
            ids = self.edges.column("id", listed.astype(np.int64))
        if len(ids) > MAX_ITEMS:
            raise NotCovered
        bounds = pa.array(np.cumsum(counts).astype(np.int32), mask=np.append(missing, False))
        return pa.ListArray.from_arrays(bounds, ids, type=pa.list_(pa.field("item", pa.utf8(), nullable=True)))

    def codes(self, name: str, rows: int) -> CodedColumn | None:
        return None

    def order_keys(self, numbers: np.ndarray) -> np.ndarray | None:
        return None


@dataclass(frozen=True)
class PathFinder:
    """The shortest paths of one expansion."""

    forward: HopWalk
    backward: HopWalk
    nodes: NodeSource
    edges: EdgeSource
    reserve: Reserve
    most: int
    """No more edges than this are followed at once."""

    def between(self, starts: np.ndarray, ends: np.ndarray) -> PathSource:
        """The paths between pairs of ends."""
        path = self.forward.expansion.path
        assert path is not None
        if path.weight is not None:
            return self._lightest(starts, ends)
        lengths = path_pairs(self.forward, self.backward, starts, ends)
        connected = np.flatnonzero(lengths >= 0)
        if path.is_every:
            if len(connected) > MAX_PAIRS:
                raise NotCovered
            blocks = [self._all_between(int(starts[at]), int(ends[at]), int(lengths[at])) for at in connected]
            return self._listed(
                [(int(at), block) for at, block in zip(connected, blocks, strict=True)], is_forward=True
            )
        return self._of_hops(connected, starts[connected], ends[connected], ends[connected], lengths[connected])

    def onwards(self, starts: np.ndarray, *, is_forward: bool) -> PathSource:
        """The paths that begin, or end, at these nodes, each of which occurs once."""
        path = self.forward.expansion.path
        assert path is not None
        if path.weight is not None:
            if not is_forward:  # Sums of floats depend on the order of their terms.
                raise NotCovered
            return self._lightest(starts, None)
        if path.is_every:
            if len(starts) > MAX_STARTS:
                raise NotCovered
            blocks = [
                (owner, block)
                for owner, start in enumerate(starts.tolist())
                for block in self._all_from(start, is_forward=is_forward)
            ]
            return self._listed(blocks, is_forward=is_forward)
        owners, far, lengths = paths_from(self.forward if is_forward else self.backward, starts)
        near = starts[owners]
        return self._of_hops(owners, near if is_forward else far, far if is_forward else near, far, lengths)

    # ------------------------------------------------------------ one path of the fewest hops

    def _of_hops(
        self, owners: np.ndarray, starts: np.ndarray, ends: np.ndarray, reached: np.ndarray, lengths: np.ndarray
    ) -> PathSource:
        def way(number: int) -> Way:
            return self._way(int(starts[number]), int(ends[number]), int(lengths[number]))

        all_ends = Ends(owners, reached, lengths, lengths.astype(np.float64))
        return PathSource(self.nodes, self.edges, all_ends, one_by_one(way))

    def _way(self, start: int, end: int, length: int) -> Way:
        """The path whose ids are the smallest: from the start, always the smallest id from which the end is still near enough."""
        layers, nodes, edges = self._layers(start, end, length), [start], []
        for allowed in layers[1:]:
            _, targets, numbers = self._steps(nodes[-1:], allowed)
            nodes.append(self._smallest_node(targets))
            edges.append(self._smallest_edge(numbers[targets == nodes[-1]]))
        return nodes, edges

    def _layers(self, start: int, end: int, length: int) -> list[np.ndarray]:
        """The nodes at which a path may be after each hop, ascending. Each of them is so many hops from the end."""
        half = length // 2
        ahead = [np.array([start], np.int32), *_without(self.forward.levels(start, 1, half), start)]
        behind = [np.array([end], np.int32), *_without(self.backward.levels(end, 1, length - half), end)]
        on_path = [np.zeros(0, np.int32)] * half + [np.sort(behind[place]) for place in range(length - half, -1, -1)]
        on_path[half] = np.intersect1d(ahead[half], on_path[half])
        for place in range(half - 1, -1, -1):
            reached = self.backward.neighbours.any_order(on_path[place + 1])[1]
            on_path[place] = np.intersect1d(ahead[place], reached)
        return on_path

    def _steps(self, numbers: Sequence[int] | np.ndarray, allowed: np.ndarray, *, is_forward: bool = True) -> Steps:
        """The edges from these nodes to allowed ones, which are ascending."""
        owners, targets, edges = self._edges_from(np.asarray(numbers, np.int32), is_forward=is_forward)
        kept = is_member(targets, allowed)
        return owners[kept], targets[kept], edges[kept]

    def _edges_from(self, numbers: np.ndarray, *, is_forward: bool) -> Steps:
        listed = self.edges.edges
        assert listed is not None, "a path has edges"
        self.forward.arguments.deadline.check()
        ways = WAYS[(self.forward if is_forward else self.backward).direction]
        if sum(int(listed.counts(way, numbers).sum()) for way in ways) > self.most:
            raise NotCovered
        parts = [listed.expand(way, numbers) for way in ways]
        owners, targets, edges = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return owners, targets, edges

    def _smallest_node(self, numbers: np.ndarray) -> int:
        keys = self.nodes.order_keys(numbers)
        assert keys is not None, "paths are among nodes of one type"
        return int(numbers[np.argmin(keys)])

    def _smallest_edge(self, numbers: np.ndarray) -> int:
        if len(numbers) == 1:
            return int(numbers[0])
        ids: list[str] = self.edges.column("id", numbers).to_pylist()
        return int(numbers[ids.index(min(ids))])

    # ------------------------------------------------------------ all paths of the fewest hops

    def _all_between(self, start: int, end: int, length: int) -> EqualPaths:
        block = EqualPaths.at(start)
        for allowed in self._layers(start, end, length)[1:]:
            block = self._longer(block, allowed)
        return block

    def _all_from(self, start: int, *, is_forward: bool) -> Iterator[EqualPaths]:
        walk, block = self.forward if is_forward else self.backward, EqualPaths.at(start)
        low, high = walk.expansion.min_hops, walk.expansion.max_hops
        if low == 0:
            yield block
        for distance, level in enumerate(_without(walk.levels(start, 1, high), start), 1):
            if len(level):
                block = self._longer(block, level, is_forward=is_forward)
                if distance >= low:
                    yield block

    def _longer(self, block: EqualPaths, allowed: np.ndarray, *, is_forward: bool = True) -> EqualPaths:
        """The paths with one more hop."""
        ends = np.unique(block.nodes[:, -1])
        owners, targets, edges = self._steps(ends, np.sort(allowed), is_forward=is_forward)
        matches = Matches(np.searchsorted(ends, block.nodes[:, -1]), owners)
        try:
            self.reserve(matches.total, 2 * block.nodes.shape[1] + 1)
        except NotCovered as error:
            hint = "bind both ends by conditions, give a smaller upper end, or ask for one path of each pair: shortest path"
            raise ResourceExhausted("the shortest paths do not fit in the memory of the graph", hint=hint) from error
        left, right = matches.pairs()
        return EqualPaths(
            np.column_stack([block.nodes[left], targets[right]]), np.column_stack([block.edges[left], edges[right]])
        )

    def _listed(self, blocks: Sequence[tuple[int, EqualPaths]], *, is_forward: bool) -> PathSource:
        """Paths that were listed, each block with its owner."""
        counts = [len(block.nodes) for _, block in blocks]
        lengths = np.repeat(np.array([block.edges.shape[1] for _, block in blocks], np.int64), counts)
        owners = np.repeat(np.array([owner for owner, _ in blocks], np.int64), counts)
        reached = np.concatenate([np.zeros(0, np.int32), *(block.nodes[:, -1] for _, block in blocks)])
        order = 1 if is_forward else -1
        nodes = np.concatenate([np.zeros(0, np.int32), *(block.nodes[:, ::order].ravel() for _, block in blocks)])
        edges = np.concatenate([np.zeros(0, np.int64), *(block.edges[:, ::order].ravel() for _, block in blocks)])

        def listing(name: Literal["nodes", "edges"], numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            listed, sizes = (nodes, lengths + 1) if name == "nodes" else (edges, lengths)
            return listed[ranges((np.cumsum(sizes) - sizes)[numbers], sizes[numbers])], sizes[numbers]

        all_ends = Ends(owners, reached, lengths, lengths.astype(np.float64))
        return PathSource(self.nodes, self.edges, all_ends, listing, is_every=True)

    # ------------------------------------------------------------ the lightest path

    def _lightest(self, starts: np.ndarray, ends: np.ndarray | None) -> PathSource:
        """To the given ends, one for each start, or to all that can be reached."""
        begun = np.unique(starts)
        if len(begun) > MAX_STARTS:
            raise NotCovered
        low, searches, parts = self.forward.expansion.min_hops, dict[int, LightestPaths](), list[Ends]()
        for start in begun.tolist():
            places = np.flatnonzero(starts == start)
            search = searches[start] = LightestPaths(self, start, None if ends is None else ends[places])
            reached = search.reached if ends is None else ends[places]
            owners = np.repeat(places, len(reached)) if ends is None else places
            is_path = np.isfinite(search.costs[reached]) & ((reached != start) | (low == 0))
            reached, owners = reached[is_path], owners[is_path]
            parts.append(Ends(owners, reached, search.hops[reached], search.costs[reached]))
        nothing = Ends(*(np.zeros(0, kind) for kind in (np.int64, np.int32, np.int64, np.float64)))
        parts.append(nothing)
        all_ends = Ends(*(np.concatenate([getattr(part, name) for part in parts]) for name in Ends.__annotations__))

        def way(number: int) -> Way:
            return searches[int(starts[all_ends.owners[number]])].way(int(all_ends.reached[number]))

        return PathSource(self.nodes, self.edges, all_ends, one_by_one(way))

    def weighted_steps(self, numbers: np.ndarray, *, is_forward: bool) -> tuple[Steps, np.ndarray]:
        """The edges from these nodes that have a weight, and their weights."""
        path = self.forward.expansion.path
        assert path is not None
        assert path.weight is not None, "asked for the lightest"
        steps = self._edges_from(numbers, is_forward=is_forward)
        cells = self.edges.column(path.weight, steps[2]).cast(pa.float64(), safe=False)
        weights = np.asarray(cells.fill_null(-1.0))
        kept = ~(weights < 0)
        owners, targets, edges = (part[kept] for part in steps)
        return (owners, targets, edges), weights[kept]


@dataclass(frozen=True)
class EqualPaths:
    """Paths of the same length from one node, a row each."""

    nodes: np.ndarray
    edges: np.ndarray

    @staticmethod
    def at(start: int) -> EqualPaths:
        return EqualPaths(np.array([[start]], np.int32), np.zeros((1, 0), np.int64))


@dataclass(frozen=True)
class LightestPaths:
    """The lightest paths from one node. A level has the nodes that so many hops reach at less cost than fewer do: no other is on a
    lightest path after so many hops, for of two paths of equal cost the one with fewer hops is taken. Nodes that cost no less than
    the dearest of `ends` are not gone on from."""

    finder: PathFinder
    start: int
    ends: np.ndarray | None
    levels: list[tuple[np.ndarray, np.ndarray]] = field(init=False, default_factory=list)
    """The nodes of each level, ascending, and what it costs to get there."""
    costs: np.ndarray = field(init=False)
    """By node; infinite where nothing leads."""
    hops: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        width = self.finder.forward.neighbours.width
        costs, hops = np.full(width, np.inf), np.zeros(width, np.int64)
        object.__setattr__(self, "costs", costs)
        object.__setattr__(self, "hops", hops)
        nodes, known = np.array([self.start], np.int32), np.zeros(1)
        costs[self.start] = 0.0
        while len(nodes):
            self.levels.append((nodes, known))
            if len(self.levels) > self.finder.forward.expansion.max_hops or self.finder.edges.edges is None:
                break
            bound = np.inf if self.ends is None else costs[self.ends].max(initial=0.0)
            is_near = known < bound
            nodes, known = nodes[is_near], known[is_near]
            (owners, targets, _), weights = self.finder.weighted_steps(nodes, is_forward=True)
            reached = known[owners] + weights
            if not np.isfinite(reached).all():
                raise NotCovered
            order = np.lexsort((reached, targets))
            first = np.ones(len(order), bool)
            first[1:] = targets[order][1:] != targets[order][:-1]
            nodes, known = targets[order][first], reached[order][first]
            is_better = known < costs[nodes]
            nodes, known = nodes[is_better], known[is_better]
            costs[nodes], hops[nodes] = known, len(self.levels)

    @cached_property
    def reached(self) -> np.ndarray:
        return np.flatnonzero(np.isfinite(self.costs)).astype(np.int32)

    def way(self, end: int) -> Way:
        """Among the lightest paths with the fewest hops, the one whose ids are the smallest."""
        hops, finder = int(self.hops[end]), self.finder
        on_path = [np.array([end], np.int32)]
        for place in range(hops - 1, -1, -1):
            (owners, targets, _), weights = finder.weighted_steps(on_path[-1], is_forward=False)
            costs = self._cost_at(place, targets) + weights
            after = self._cost_at(place + 1, on_path[-1])[owners]
            on_path.append(np.unique(targets[costs == after]))
        nodes, edges = [self.start], list[int]()
        for place, allowed in enumerate(on_path[-2::-1]):
            (_, targets, numbers), weights = finder.weighted_steps(np.array(nodes[-1:], np.int32), is_forward=True)
            costs = float(self._cost_at(place, np.array(nodes[-1:]))[0]) + weights
            kept = is_member(targets, allowed) & (costs == self._cost_at(place + 1, targets))
            targets, numbers = targets[kept], numbers[kept]
            nodes.append(finder._smallest_node(targets))
            edges.append(finder._smallest_edge(numbers[targets == nodes[-1]]))
        return nodes, edges

    def _cost_at(self, level: int, numbers: np.ndarray) -> np.ndarray:
        """What nodes cost at a level; not a number where they are not in it."""
        nodes, costs = self.levels[level]
        at = np.minimum(np.searchsorted(nodes, numbers), len(nodes) - 1)
        return np.where(nodes[at] == numbers, costs[at], np.nan)


def one_by_one(way: Callable[[int], Way]) -> Listing:
    """Paths that are listed when they are asked for, each once."""
    ways: dict[int, Way] = {}

    def listing(name: Literal["nodes", "edges"], numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = numbers.tolist()
        ways.update((number, way(number)) for number in wanted if number not in ways)
        parts = [ways[number][0 if name == "nodes" else 1] for number in wanted]
        return np.array([item for part in parts for item in part], np.int64), np.array(list(map(len, parts)), np.int64)

    return listing


def _without(levels: list[np.ndarray], number: int) -> list[np.ndarray]:
    """Levels without a self-loop of where they begin."""
    return [level[level != number] for level in levels]


def distance(forward: HopWalk, backward: HopWalk, start: int, end: int, most: int) -> int:
    """The length of a shortest path; -1 if there is none of at most so many hops. Searched from the side with fewer nodes."""
    if start == end:
        return -1
    size = forward.neighbours.width
    mark = np.zeros(size, np.int8)
    mark[start], mark[end] = 1, 2
    frontiers = {1: np.array([start], np.int32), 2: np.array([end], np.int32)}
    walks, length = {1: forward, 2: backward}, 0
    while length < most and all(len(frontier) for frontier in frontiers.values()):
        forward.arguments.deadline.check()
        side = 1 if len(frontiers[1]) <= len(frontiers[2]) else 2
        length += 1
        _, targets = walks[side].neighbours.any_order(frontiers[side])
        met = mark[targets]
        if (met == 3 - side).any():
            return length
        fresh = np.unique(targets[met == 0])
        mark[fresh] = side
        frontiers[side] = fresh
    return -1


def path_pairs(forward: HopWalk, backward: HopWalk, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The length of a shortest path for each of these pairs; -1 if there is none within the bounds."""
    low, high = forward.expansion.min_hops, forward.expansion.max_hops
    lengths = np.full(len(starts), -1, np.int64)
    unique = np.unique(starts)
    if len(unique) > MAX_STARTS:
        raise NotCovered
    for start in unique.tolist():
        places = np.flatnonzero(starts == start)
        if len(places) <= FEW_TARGETS:
            lengths[places] = [distance(forward, backward, start, int(ends[place]), high) for place in places]
        else:
            lengths[places] = _distances(forward, start, high)[ends[places]]
            lengths[places[ends[places] == start]] = -1
        if low == 0:
            lengths[places[ends[places] == start]] = 0
    lengths[lengths < low] = -1
    return lengths


def _distances(walk: HopWalk, start: int, most: int) -> np.ndarray:
    distances = np.full(walk.neighbours.width, -1, np.int64)
    for place, level in enumerate(walk.levels(start, 1, most)):
        distances[level] = place + 1
    return distances


def paths_from(walk: HopWalk, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(position in `starts`, node reached, length) of all shortest paths from the given nodes, each of which occurs once."""
    low, high = walk.expansion.min_hops, walk.expansion.max_hops
    if len(starts) > MAX_STARTS:
        raise NotCovered
    owners, far, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for place, start in enumerate(starts.tolist()):
        for length, level in enumerate(walk.levels(start, low, high), low):
            reached = level[level != start] if length else level
            owners.append(np.full(len(reached), place))
            far.append(reached)
            lengths.append(np.full(len(reached), length))
    return np.concatenate(owners), np.concatenate(far), np.concatenate(lengths)
