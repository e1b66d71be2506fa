"""Compact sets of row addresses: per fragment the offsets, or a bitmap if there are many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import np
from omnigraph.tables.ascending import distinct, is_member, runs, union

# Fragments of a table, and addresses of rows in them.

ROW_ADDRESS = "_rowaddr"
ROW_ID = "_rowid"
OFFSET_BITS = 32
"""A row address is a fragment's id, followed by this many bits of offset."""


@dataclass(frozen=True)
class Fragment:
    """A run of rows of a table. Two versions that share a fragment (equal `content`) share its rows exactly."""

    id: int
    files: tuple[str, ...]
    deletions: str
    rows: int
    bytes: int

    @property
    def content(self) -> tuple[tuple[str, ...], str]:
        return (self.files, self.deletions)


def fragment_of_address(address: int) -> int:
    """The fragment of a row address."""
    return address >> OFFSET_BITS


def offset_of_address(address: int) -> int:
    return address & ((1 << OFFSET_BITS) - 1)


if TYPE_CHECKING:
    Integers = np.ndarray[Any, Any]

_BITS_PER_OFFSET = 32


class RowSet:
    """Addresses of rows of one table, each once. A fragment takes four bytes for each of its rows in the set, and never more than
    one bit for each of its rows up to the last one in the set."""

    def __init__(self, fragments: Mapping[int, _Offsets] | None = None) -> None:
        self._fragments = dict(fragments or {})

    @classmethod
    def of(cls, addresses: Integers | Iterable[int]) -> RowSet:
        result = cls()
        result.add(addresses)
        return result

    def add(self, addresses: Integers | Iterable[int]) -> None:
        if not isinstance(addresses, np.ndarray):
            addresses = np.fromiter(addresses, np.uint64)
        unique = distinct(addresses.astype(np.uint64, copy=False))
        offsets = (unique & np.uint64((1 << OFFSET_BITS) - 1)).astype(np.uint32)
        for fragment, places in runs(unique >> np.uint64(OFFSET_BITS)):
            held = self._fragments.get(fragment)
            self._fragments[fragment] = _Offsets.of(offsets[places]) if held is None else held.with_(offsets[places])

    @classmethod
    def union(cls, *sets: RowSet) -> RowSet:
        parts: dict[int, list[_Offsets]] = {}
        for rows in sets:
            for fragment, held in rows._fragments.items():
                parts.setdefault(fragment, []).append(held)
        return cls(
            {
                fragment: held[0]
                if len(held) == 1
                else _Offsets.of(distinct(np.concatenate([h.offsets() for h in held])))
                for fragment, held in parts.items()
            }
        )

    def intersection(self, other: RowSet) -> RowSet:
        return self.difference(self.difference(other))

    def without(self, addresses: Integers | Iterable[int]) -> RowSet:
        return self.difference(RowSet.of(addresses))

    def difference(self, other: RowSet) -> RowSet:
        """The addresses that are not in the other set."""
        result = RowSet(self._fragments)
        for fragment, held in other._fragments.items():
            if fragment in result._fragments:
                own, others = result._fragments.pop(fragment).offsets(), held.offsets()
                if len(left := np.setdiff1d(own, others, assume_unique=True)):
                    result._fragments[fragment] = _Offsets.of(left)
        return result

    @property
    def fragments(self) -> frozenset[int]:
        return frozenset(self._fragments)

    def parts(self, most: int) -> Iterator[RowSet]:
        """The set in parts of whole fragments, each of at most so many addresses if it has more than one fragment."""
        part = RowSet()
        for fragment in sorted(self._fragments):
            if part and len(part) + self._fragments[fragment].count > most:
                yield part
                part = RowSet()
            part._fragments[fragment] = self._fragments[fragment]
        if part:
            yield part

    def without_fragments(self, fragments: Iterable[int]) -> RowSet:
        gone = frozenset(fragments)
        return RowSet({fragment: held for fragment, held in self._fragments.items() if fragment not in gone})

    def with_(self, addresses: Integers | Iterable[int]) -> RowSet:
        result = RowSet(self._fragments)
        result.add(addresses)
        return result

    def __len__(self) -> int:
        return sum(held.count for held in self._fragments.values())

    def contains(self, addresses: Integers) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each address whether it is in the set."""
        result = np.zeros(len(addresses), bool)
        owners = addresses >> np.uint64(OFFSET_BITS)
        offsets = (addresses & np.uint64((1 << OFFSET_BITS) - 1)).astype(np.uint32)
        for fragment in distinct(owners).tolist():
            held = self._fragments.get(fragment)
            if held is not None:
                mine = owners == np.uint64(fragment)
                result[mine] = is_member(offsets[mine], held.offsets())
        return result

    def by_fragment(self) -> Iterator[tuple[int, Integers]]:
        """Each fragment with its offsets, ascending, like `staging.by_fragment`."""
        for fragment in sorted(self._fragments):
            yield fragment, self._fragments[fragment].offsets()

    def pieces(self, most: int) -> Iterator[Integers]:
        """The addresses, ascending, up to `most` at a time."""
        for fragment, offsets in self.by_fragment():
            addresses = offsets.astype(np.uint64) | np.uint64(fragment << OFFSET_BITS)
            for start in range(0, len(addresses), most):
                yield addresses[start : start + most]

    def addresses(self) -> Integers:
        """All addresses, ascending."""
        return np.concatenate([np.zeros(0, np.uint64), *self.pieces(1 << OFFSET_BITS)])


class _Offsets:
    """Offsets in one fragment, as numbers or as a bitmap, whichever is smaller."""

    def __init__(self, numbers: Integers | None, bits: Integers | None, count: int) -> None:
        self._numbers, self._bits, self.count = numbers, bits, count

    @classmethod
    def of(cls, ascending: Integers) -> _Offsets:
        last = int(ascending[-1])
        if len(ascending) * _BITS_PER_OFFSET <= last:
            return cls(np.array(ascending, np.uint32), None, len(ascending))
        flags = np.zeros(last + 1, bool)
        flags[ascending] = True
        return cls(None, np.packbits(flags), len(ascending))

    def with_(self, ascending: Integers) -> _Offsets:
        return _Offsets.of(union(self.offsets(), ascending))

    def offsets(self) -> Integers:
        if self._numbers is not None:
            return self._numbers
        assert self._bits is not None, "one of the two"
        return np.flatnonzero(np.unpackbits(self._bits)).astype(np.uint32)
