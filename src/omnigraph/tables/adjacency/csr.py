"""Neighbours by node number, and small changes on top of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from omnigraph._internal.lazy_imports import np
from omnigraph.tables.adjacency.segment import Arrays, HeldArrays
from omnigraph.tables.ascending import distinct, is_member

FEW = 2_048
"""Up to this many numbers, neighbours are read block by block from the stored file."""
FEW_OF_ALL = 4
"""The degrees of more than one number in so many are picked from those of all."""
MAX_BITS = 63
SORTED_AT_ONCE = 8_000_000
"""How many pairs have their sort keys in memory at the same time."""
MAX_NUMBERS = {"int8": 2**7 - 1, "int16": 2**15 - 1, "int32": 2**31 - 1}
BLOCK_EDGES = 131_072
"""Edges whose targets' values are added at a time."""


@dataclass(frozen=True)
class Csr:
    """The neighbours of number i are `targets[starts[i]:starts[i + 1]]`, ascending. Numbers past the end have none."""

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
        return np.diff(self.arrays.whole(self.starts)).astype(np.int32, copy=False)

    def bounds(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the neighbours of each number begin, and how many there are."""
        starts = self.arrays.held(self.starts)
        if starts is None and len(numbers) > FEW:
            starts = self.arrays.whole(self.starts)
        if starts is not None:
            if self.nodes == 0:
                return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
            if len(numbers) == 0 or int(numbers.max()) < self.nodes:
                first = starts[numbers].astype(np.int64)
                return first, starts[1:][numbers] - first
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
        """(position in `numbers`, neighbour) for every neighbour of every number, in order."""
        first, counts = self.bounds(numbers)
        is_one_each = len(numbers) > 1 and int(counts.min()) == int(counts.max()) == 1
        places = np.arange(len(numbers), dtype=np.int64)
        owners = places if is_one_each else np.repeat(places, counts)
        targets = self.arrays.held(self.targets)
        if targets is None and len(numbers) <= FEW:
            parts = self.arrays.slices(self.targets, first.tolist(), (first + counts).tolist())
            return owners, np.concatenate(parts) if parts else np.zeros(0, np.int32)
        targets = self.arrays.whole(self.targets) if targets is None else targets
        if len(numbers) == 1:
            return owners, targets[first[0] : first[0] + counts[0]]
        if is_one_each:
            return owners, targets[first]
        places = np.repeat(first - (np.cumsum(counts) - counts), counts)
        places += np.arange(len(owners), dtype=np.int64)
        return owners, targets[places]

    def multiplicities(self, near: np.ndarray, far: np.ndarray) -> np.ndarray:
        """How often each of the given pairs occurs."""
        if len(near) == 0 or int(near.min()) >= self.nodes:
            return np.zeros(len(near), np.int64)
        numbers = distinct(near.astype(np.int64))
        owners, targets = self.expand(numbers)
        width = max(int(targets.max(initial=0)), int(far.max())) + 1
        keys, wanted = owners * width + targets, np.searchsorted(numbers, near) * width + far
        return np.asarray(np.searchsorted(keys, wanted, "right") - np.searchsorted(keys, wanted, "left"))


@dataclass(frozen=True)
class JoinedCsr(Csr):
    """The neighbours that several have together."""

    parts: tuple[Csr, ...] = ()

    def expand(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if len(numbers) > FEW or self.arrays.held(self.targets) is not None:
            return super().expand(numbers)
        owners, targets = (
            np.concatenate(sides) for sides in zip(*(part.expand(numbers) for part in self.parts), strict=True)
        )
        order = np.lexsort((targets, owners))
        return owners[order], targets[order]


def csr_of(near: np.ndarray, far: np.ndarray, nodes: int, width: int, *, per_edge: bool) -> tuple[Csr, bool]:
    """The CSR of pairs of ends, keeping repeated pairs or not; and whether a pair was repeated."""
    pairs = order_pairs(near, far, nodes, width)
    starts, targets = pairs.starts, pairs.targets
    if pairs.has_repeated and not per_edge:
        sources = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(starts))
        first = np.ones(len(targets), bool)
        first[1:] = (sources[1:] != sources[:-1]) | (targets[1:] != targets[:-1])
        starts, targets = _starts(sources[first], nodes), targets[first]
    return Csr(HeldArrays({"starts": starts, "targets": targets}), nodes=nodes, edges=len(targets)), pairs.has_repeated


@dataclass(frozen=True)
class OrderedPairs:
    """Pairs of ends sorted by near end, then far end. `ranks`: the sorted position of each pair; None if the pairs were sorted
    already, or if ranks were not requested."""

    starts: np.ndarray
    targets: np.ndarray
    ranks: np.ndarray | None
    repeated: np.ndarray
    """Positions of pairs that are equal to the previous one."""

    @property
    def has_repeated(self) -> bool:
        return len(self.repeated) > 0


def order_pairs(near: np.ndarray, far: np.ndarray, nodes: int, width: int, *, ranked: bool = False) -> OrderedPairs:
    """Sort pairs of ends, several million at a time, which keeps working memory at about twelve bytes per pair."""
    starts = _starts(near, nodes)
    targets = np.empty(len(near), np.int32)
    ranks = np.empty(len(near), np.int32) if ranked else None
    bits, is_ordered = max(width - 1, 0).bit_length(), True
    repeated = [np.zeros(0, np.int64)]
    for low, high in _ranges(starts):
        first, last = int(starts[low]), int(starts[high])
        chosen = slice(None) if last - first == len(near) else np.flatnonzero((near >= low) & (near < high))
        keys = (near[chosen].astype(np.int64) - low) << bits | far[chosen]
        if len(keys) and np.any(keys[1:] < keys[:-1]):
            is_ordered = False
            if ranks is None:
                keys.sort()
            else:
                keys, order = sorted_with_order(keys)
                ranks[order if isinstance(chosen, slice) else chosen[order]] = np.arange(first, last, dtype=np.int32)
        elif ranks is not None:
            ranks[chosen] = np.arange(first, last, dtype=np.int32)
        is_ordered = is_ordered and (isinstance(chosen, slice) or _are_consecutive(chosen, first))
        repeated.append(np.flatnonzero(keys[1:] == keys[:-1]) + (first + 1))
        targets[first:last] = keys & ((1 << bits) - 1)
    return OrderedPairs(starts, targets, None if is_ordered else ranks, np.concatenate(repeated))


def sorted_with_order(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort numbers that are not negative: the sorted numbers and the stable sort order. Where a number and its position fit in 63
    bits together, they are sorted as one integer, which takes half as long as an argsort."""
    bits = max(len(keys) - 1, 0).bit_length()
    if int(keys.max(initial=0)).bit_length() + bits > MAX_BITS:
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    both = keys << bits | np.arange(len(keys))
    both.sort()
    return both >> bits, both & ((1 << bits) - 1)


def _are_consecutive(places: np.ndarray, first: int) -> bool:
    """Whether these ascending positions are `first`, `first` + 1, and so on."""
    return len(places) == 0 or bool(places[0] == first and places[-1] == first + len(places) - 1)


def _starts(near: np.ndarray, nodes: int) -> np.ndarray:
    starts = np.zeros(nodes + 1, np.int32 if len(near) <= MAX_NUMBERS["int32"] else np.int64)
    np.cumsum(np.bincount(near, minlength=nodes), out=starts[1:])
    return starts


def _ranges(starts: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of numbers with about `SORTED_AT_ONCE` neighbours each."""
    cuts = np.searchsorted(starts, np.arange(SORTED_AT_ONCE, int(starts[-1]), SORTED_AT_ONCE)).tolist()
    bounds = sorted({0, *cuts, len(starts) - 1})
    return list(pairwise(bounds))


@dataclass(frozen=True)
class PairChanges:
    """Pairs that a version has more or less often than the base; each pair once, in any order."""

    near: np.ndarray
    far: np.ndarray
    counts: np.ndarray
    """The difference in how often the pair occurs; negative for fewer."""

    @property
    def nbytes(self) -> int:
        return int(self.near.nbytes + self.far.nbytes + self.counts.nbytes)

    @cached_property
    def _ordered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        order = np.argsort(self.near, kind="stable")
        return self.near[order], self.far[order], self.counts[order]

    def touches(self, numbers: np.ndarray) -> np.ndarray:
        """Which of the given numbers have changed neighbours."""
        return is_member(numbers, self._ordered[0])

    def of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(position in `numbers`, neighbour, difference) for every change of every number."""
        near, far, counts = self._ordered
        first, last = np.searchsorted(near, numbers, "left"), np.searchsorted(near, numbers, "right")
        owners = np.repeat(np.arange(len(numbers)), last - first)
        ends = np.cumsum(last - first)
        places = (
            np.arange(len(owners)) - np.repeat(ends - (last - first), last - first) + np.repeat(first, last - first)
        )
        return owners, far[places], counts[places]


class Adjacency:
    """Neighbours of `size` node numbers at one version."""

    def __init__(
        self, below: Csr, size: int, width: int, changes: PairChanges | None = None, *, is_alone: bool = False
    ) -> None:
        self.below = below
        self._is_alone = is_alone
        self.size = size
        self.width = max(width, 1)
        """Greater than any number stored as a neighbour."""
        self.changes = changes

    @property
    def nbytes(self) -> int:
        """Bytes held by this object alone."""
        own = self.below.nbytes + 4 * self.size if self._is_alone else 0
        return own + (0 if self.changes is None else self.changes.nbytes)

    def degrees(self) -> np.ndarray:
        """How many neighbours each number has. Computed on each call if there are changes: keeping an array per version would
        mean allocating fresh memory, which takes ten times as long as filling it."""
        if self.changes is None and self.size == self.below.nodes:
            return self.below.degrees
        degrees = np.empty(self.size, np.int32)
        length = min(self.size, self.below.nodes)
        degrees[:length], degrees[length:] = self.below.degrees[:length], 0
        if self.changes is not None:
            self._add(degrees, self.changes.counts.astype(np.int32))
        return degrees

    def _add(self, totals: np.ndarray, numbers: np.ndarray) -> None:
        """Add a number for each change to the total of its near end."""
        assert self.changes is not None
        near = self.changes.near
        if self.size < self.below.nodes:  # No edge of this version ends at a node that it does not have.
            kept = near < self.size
            near, numbers = near[kept], numbers[kept]
        np.add.at(totals, near, numbers)

    def counts(self, numbers: np.ndarray) -> np.ndarray:
        """Like `degrees`, for the given numbers only."""
        if len(numbers) * FEW_OF_ALL > self.size:
            return np.asarray(self.degrees()[numbers])
        counts = self.below.bounds(numbers)[1]
        if self.changes is not None:
            owners, _, more = self.changes.of(numbers)
            np.add.at(counts, owners, more)
        return counts

    def expand(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(position in `numbers`, neighbour) for every neighbour of every number, in order."""
        if self.changes is None or not (is_changed := self.changes.touches(numbers)).any():
            return self.below.expand(numbers)
        if is_changed.all():
            return self._expand_changed(numbers)
        plain, changed = np.flatnonzero(~is_changed), np.flatnonzero(is_changed)
        owners, targets = self.below.expand(numbers[plain])
        more, others = self._expand_changed(numbers[changed])
        owners, targets = np.concatenate([plain[owners], changed[more]]), np.concatenate([targets, others])
        order = np.argsort(owners, kind="stable")
        return owners[order], targets[order]

    def _expand_changed(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Like `expand`, for numbers that all have changes."""
        assert self.changes is not None
        owners, targets = self.below.expand(numbers)
        keys = owners * self.width + targets
        near, far, counts = self.changes.of(numbers)
        changed = near * self.width + far
        gone = np.repeat(changed, np.maximum(-counts, 0))
        kept = np.sort(np.concatenate([_without(keys, np.sort(gone)), np.repeat(changed, np.maximum(counts, 0))]))
        places = kept // self.width
        return places, (kept - places * self.width).astype(np.int32)

    def sums(self, values: np.ndarray, highest: float) -> np.ndarray:
        """The sum of the neighbours' values for each number; values are integers, none of them further from 0 than `highest`."""
        sums = np.zeros(self.size, np.int64)
        length = min(self.size, self.below.nodes)
        if len(values) < self.width:  # No edge of this version leads to the nodes that it lacks.
            values = np.concatenate([values, np.zeros(self.width - len(values), values.dtype)])
        sums[:length] = _sums(self.below, values, highest)[:length]
        if self.changes is not None:
            self._add(sums, self.changes.counts * values[self.changes.far].astype(np.int64))
        return sums

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(number, neighbour) for every pair, in order."""
        if self.changes is None and self.below.nodes <= self.size:
            sources = np.repeat(np.arange(self.below.nodes, dtype=np.int32), self.below.degrees)
            return sources, self.below.arrays.whole(self.below.targets)
        owners, targets = self.expand(np.arange(self.size))
        return owners.astype(np.int32), targets


def _sums(csr: Csr, values: np.ndarray, highest: float) -> np.ndarray:
    """Values are gathered in the narrowest type that holds them, and added block by block: memory traffic dominates, and a block stays
    in the processor's cache."""
    starts, targets = csr.arrays.whole(csr.starts), csr.arrays.whole(csr.targets)
    narrowest = next((name for name, most in MAX_NUMBERS.items() if highest <= most), "int64")
    values = values.astype(narrowest, copy=False)
    totals = np.empty(len(starts), np.int64)  # Of all values before each start.
    block = min(len(targets), BLOCK_EDGES)
    running = np.zeros(block + 1, np.int32 if highest * block <= MAX_NUMBERS["int32"] else np.int64)
    total = place = 0
    for first in range(0, len(targets), BLOCK_EDGES):
        part = values.take(targets[first : first + BLOCK_EDGES])
        np.cumsum(part, dtype=running.dtype, out=running[1 : len(part) + 1])
        after = int(starts.searchsorted(first + len(part)))
        np.add(running[starts[place:after] - first], total, out=totals[place:after], dtype=np.int64)
        total += int(running[len(part)])
        place = after
    totals[place:] = total
    return np.diff(totals)


def _without(keys: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """Ascending keys with each key of `minus` removed once; `minus` is a sub-multiset of `keys`."""
    if len(minus) == 0:
        return keys
    # The n-th occurrence of a key in `minus` removes its n-th occurrence.
    nth = np.arange(len(minus)) - np.searchsorted(minus, minus, "left")
    kept = np.ones(len(keys), bool)
    kept[np.searchsorted(keys, minus, "left") + nth] = False
    return np.asarray(keys[kept])
