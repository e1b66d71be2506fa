"""Neighbours of each number, and small changes on top of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from omnigraph.tables.adjacency.segment import Arrays, HeldArrays
from omnigraph.tables.ascending import distinct

if TYPE_CHECKING:
    import numpy as np

FEW = 2_048
"""Of so few numbers the neighbours are read by blocks of what is stored."""
SORTED_AT_ONCE = 8_000_000
"""Pairs whose keys are in memory at the same time."""


@dataclass(frozen=True)
class Csr:
    """Neighbours of number i: `targets[starts[i]:starts[i + 1]]`, ascending. Numbers past the end have none."""

    arrays: Arrays
    starts: str = "starts"
    targets: str = "targets"
    nodes: int = 0
    edges: int = 0

    @property
    def nbytes(self) -> int:
        return self.arrays.nbytes if isinstance(self.arrays, HeldArrays) else 0

    @cached_property
    def degrees(self) -> np.ndarray:
        import numpy as np

        return np.diff(self.arrays.whole(self.starts)).astype(np.int64)

    def bounds(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the neighbours of each number begin, and how many there are."""
        import numpy as np

        starts = self.arrays.held(self.starts)
        if starts is None and len(numbers) > FEW:
            starts = self.arrays.whole(self.starts)
        if starts is not None:
            if self.nodes == 0:
                return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
            inside = np.minimum(numbers, self.nodes - 1)
            first = starts[inside].astype(np.int64)
            return first, np.where(numbers < self.nodes, starts[inside + 1] - first, 0)
        first, counts = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
        known = np.flatnonzero(numbers < self.nodes)
        listed = numbers[known].tolist()
        pairs = self.arrays.slices(self.starts, listed, [number + 2 for number in listed])
        if pairs:
            ends = np.array(pairs, np.int64)
            first[known], counts[known] = ends[:, 0], ends[:, 1] - ends[:, 0]
        return first, counts

    def expand(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(place in `numbers`, neighbour) for every neighbour of every number, in order."""
        import numpy as np

        first, counts = self.bounds(numbers)
        owners = np.repeat(np.arange(len(numbers), dtype=np.int64), counts)
        targets = self.arrays.held(self.targets)
        if targets is None and len(numbers) <= FEW:
            parts = self.arrays.slices(self.targets, first.tolist(), (first + counts).tolist())
            return owners, np.concatenate(parts) if parts else np.zeros(0, np.int32)
        targets = self.arrays.whole(self.targets) if targets is None else targets
        if len(numbers) == 1:
            return owners, targets[first[0] : first[0] + counts[0]]
        ends = np.cumsum(counts)
        within = np.arange(len(owners), dtype=np.int64) - np.repeat(ends - counts, counts)
        return owners, targets[np.repeat(first, counts) + within]


def csr_of(near: np.ndarray, far: np.ndarray, nodes: int, width: int, *, per_edge: bool) -> tuple[Csr, bool]:
    """Neighbours from pairs of ends, each as often as it comes or once; and whether a pair came more than once."""
    import numpy as np

    made = order_pairs(near, far, nodes, width)
    starts, targets = made.starts, made.targets
    if made.has_repeated and not per_edge:
        sources = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(starts))
        first = np.ones(len(targets), bool)
        first[1:] = (sources[1:] != sources[:-1]) | (targets[1:] != targets[:-1])
        starts, targets = _starts(sources[first], nodes), targets[first]
    return Csr(HeldArrays({"starts": starts, "targets": targets}), nodes=nodes, edges=len(targets)), made.has_repeated


@dataclass(frozen=True)
class OrderedPairs:
    """Pairs of ends by the near one, then by the far one. `ranks`: the place of each pair there; None when they came in order, or
    when nobody asked."""

    starts: np.ndarray
    targets: np.ndarray
    ranks: np.ndarray | None
    has_repeated: bool


def order_pairs(near: np.ndarray, far: np.ndarray, nodes: int, width: int, *, ranked: bool = False) -> OrderedPairs:
    """Some millions at a time: what is held besides is twelve bytes a pair."""
    import numpy as np

    starts = _starts(near, nodes)
    targets = np.empty(len(near), np.int32)
    ranks = np.empty(len(near), np.int32) if ranked else None
    bits, is_ordered, has_repeated = max(width - 1, 0).bit_length(), True, False
    for low, high in _stretches(starts):
        first, last = int(starts[low]), int(starts[high])
        chosen = slice(None) if last - first == len(near) else np.flatnonzero((near >= low) & (near < high))
        keys = (near[chosen].astype(np.int64) - low) << bits | far[chosen]
        if len(keys) and np.any(keys[1:] < keys[:-1]):
            is_ordered = False
            if ranks is None:
                keys.sort()
            else:
                order = np.argsort(keys, kind="stable")
                keys = keys[order]
                ranks[order if isinstance(chosen, slice) else chosen[order]] = np.arange(first, last, dtype=np.int32)
        elif ranks is not None:
            ranks[chosen] = np.arange(first, last, dtype=np.int32)
        is_ordered = is_ordered and (isinstance(chosen, slice) or _follow(chosen, first))
        has_repeated = has_repeated or bool(np.any(keys[1:] == keys[:-1]))
        targets[first:last] = keys & ((1 << bits) - 1)
    return OrderedPairs(starts, targets, None if is_ordered else ranks, has_repeated)


def _follow(places: np.ndarray, first: int) -> bool:
    """Whether these places are the next ones."""
    return len(places) == 0 or bool(places[0] == first and places[-1] == first + len(places) - 1)


def _starts(near: np.ndarray, nodes: int) -> np.ndarray:
    import numpy as np

    starts = np.zeros(nodes + 1, np.int32)
    np.cumsum(np.bincount(near, minlength=nodes), out=starts[1:])
    return starts


def _stretches(starts: np.ndarray) -> list[tuple[int, int]]:
    """Runs of numbers that have about `SORTED_AT_ONCE` neighbours together."""
    import numpy as np

    cuts = np.searchsorted(starts, np.arange(SORTED_AT_ONCE, int(starts[-1]), SORTED_AT_ONCE)).tolist()
    bounds = sorted({0, *cuts, len(starts) - 1})
    return list(pairwise(bounds))


@dataclass(frozen=True)
class Patch:
    """Numbers whose neighbours are others than those below: ascending, with all that they have."""

    numbers: np.ndarray
    csr: Csr
    """Neighbours by place among `numbers`."""

    @property
    def nbytes(self) -> int:
        return int(self.numbers.nbytes) + self.csr.nbytes


class Adjacency:
    """Neighbours of each of `size` numbers at one version."""

    def __init__(
        self, below: Csr, size: int, width: int, patch: Patch | None = None, *, is_alone: bool = False
    ) -> None:
        self.below = below
        self._is_alone = is_alone
        self.size = size
        self.width = width
        """More than any number that is stored as a neighbour."""
        self.patch = patch

    @property
    def nbytes(self) -> int:
        """Of what nothing else holds."""
        own = self.below.nbytes + 8 * self.size if self._is_alone else 0
        return own + (0 if self.patch is None else self.patch.nbytes)

    def degrees(self) -> np.ndarray:
        """How many neighbours each number has. Made again for each question, unless nothing is on top of what is below: an array
        kept for each version would be memory that the process has to be given first, which takes ten times as long as filling it."""
        import numpy as np

        if self.patch is None and self.size == self.below.nodes:
            return self.below.degrees
        missing = max(self.size - self.below.nodes, 0)
        degrees = np.concatenate([self.below.degrees[: self.size], np.zeros(missing, np.int64)])
        if self.patch is not None:
            kept = self._patched_below(self.size)
            degrees[self.patch.numbers[:kept]] = self.patch.csr.degrees[:kept]
        return degrees

    def _patched_below(self, size: int) -> int:
        """How many numbers of the patch are below a number."""
        import numpy as np

        return 0 if self.patch is None else int(np.searchsorted(self.patch.numbers, size))

    def counts(self, numbers: np.ndarray) -> np.ndarray:
        """The same of some numbers."""
        if self.patch is None:
            return self.below.bounds(numbers)[1]
        places, is_patched = self._patched(numbers)
        counts = self.below.bounds(numbers)[1]
        counts[is_patched] = self.patch.csr.bounds(places[is_patched])[1]
        return counts

    def expand(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(place in `numbers`, neighbour) for every neighbour of every number, in order."""
        import numpy as np

        if self.patch is None:
            return self.below.expand(numbers)
        places, is_patched = self._patched(numbers)
        if not is_patched.any():
            return self.below.expand(numbers)
        plain, changed = np.flatnonzero(~is_patched), np.flatnonzero(is_patched)
        owners, targets = self.below.expand(numbers[plain])
        more, others = self.patch.csr.expand(places[changed])
        owners, targets = np.concatenate([plain[owners], changed[more]]), np.concatenate([targets, others])
        order = np.argsort(owners, kind="stable")
        return owners[order], targets[order]

    def _patched(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places of numbers in the patch, and which of them are in it."""
        import numpy as np

        assert self.patch is not None
        places = np.searchsorted(self.patch.numbers, numbers)
        places[places == len(self.patch.numbers)] = 0
        return places, self.patch.numbers[places] == numbers

    def sums(self, values: np.ndarray) -> np.ndarray:
        """For each number the sum of its neighbours' values, which are whole numbers."""
        import numpy as np

        sums = np.zeros(self.size, np.int64)
        length = min(self.size, self.below.nodes)
        if len(values) < self.width:  # Nodes that this version does not have, and no edge of it leads to.
            values = np.concatenate([values, np.zeros(self.width - len(values), values.dtype)])
        sums[:length] = _sums(self.below, values)[:length]
        if self.patch is not None:
            kept = self._patched_below(self.size)
            sums[self.patch.numbers[:kept]] = _sums(self.patch.csr, values)[:kept]
        return sums

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(number, neighbour) of every pair, in order."""
        import numpy as np

        if self.patch is None and self.below.nodes <= self.size:
            sources = np.repeat(np.arange(self.below.nodes, dtype=np.int32), self.below.degrees)
            return sources, self.below.arrays.whole(self.below.targets)
        owners, targets = self.expand(np.arange(self.size))
        return owners.astype(np.int32), targets


def _sums(csr: Csr, values: np.ndarray) -> np.ndarray:
    """Small numbers are gathered and added in as few bytes as they need: that is most of the time it takes."""
    import numpy as np

    starts, targets = csr.arrays.whole(csr.starts), csr.arrays.whole(csr.targets)
    highest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    for small in (np.int8, np.int16, np.int32):
        if highest <= np.iinfo(small).max:
            values = values.astype(small)
            break
    total = np.int32 if highest * len(targets) <= np.iinfo(np.int32).max else np.int64
    sums = np.zeros(len(starts) - 1, total)
    some = np.flatnonzero(starts[1:] > starts[:-1])
    if len(some):
        sums[some] = np.add.reduceat(values[targets], starts[some], dtype=total)
    return sums


def patched(
    below: Csr,
    size: int,
    removed: tuple[np.ndarray, np.ndarray],
    added: tuple[np.ndarray, np.ndarray],
    width: int,
    *,
    per_edge: bool,
    listed: Callable[[], Csr],
) -> Adjacency:
    """Neighbours without some pairs and with some more. `listed` has every pair as often as an edge makes it; `below`, which the
    result stands on, may have it once."""
    import numpy as np

    if len(removed[0]) + len(added[0]) == 0:
        return Adjacency(below, size, width)
    width = max(width, 1)
    numbers = distinct(np.concatenate([removed[0], added[0]]).astype(np.int64))
    owners, targets = listed().expand(numbers)
    keys = np.sort(owners * width + targets)
    minus = np.sort(np.searchsorted(numbers, removed[0]).astype(np.int64) * width + removed[1])
    plus = np.searchsorted(numbers, added[0]).astype(np.int64) * width + added[1]
    kept = np.concatenate([_without(keys, minus), plus])
    kept = np.sort(kept) if per_edge else distinct(kept)
    places = kept // width
    starts = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(np.bincount(places, minlength=len(numbers)), out=starts[1:])
    arrays = HeldArrays({"starts": starts, "targets": (kept - places * width).astype(np.int32)})
    return Adjacency(below, size, width, Patch(numbers, Csr(arrays, nodes=len(numbers), edges=len(kept))))


def _without(keys: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """Ascending keys without as many of each as `minus` has; all of them are there."""
    import numpy as np

    if len(minus) == 0:
        return keys
    # The n-th of equal keys in `minus` takes the n-th of them away.
    nth = np.arange(len(minus)) - np.searchsorted(minus, minus, "left")
    kept = np.ones(len(keys), bool)
    kept[np.searchsorted(keys, minus, "left") + nth] = False
    return np.asarray(keys[kept])
