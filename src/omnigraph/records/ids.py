"""Columns of ids: derived from keys, given, or fresh; and the ends of edges."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import UnreadableInput
from omnigraph.language.catalog import EntityType, NodeType, has_dates_in_key, id_of_members, referenced_id
from omnigraph.values.columns import Doubtful
from omnigraph.values.literals import canonical_text, milliseconds_text
from omnigraph.values.types import PropertyType, Scalar

# New ids for many rows at once: ULIDs that count up from one random start.
#
# Row number n of a part of a source gets start + n, so reading the part again gives the same ids: a violation found later leads
# back to its line, and a task that is repeated, or runs twice at once, writes the same rows.
#
# Whoever plans the tasks of a load draws its range once, and gives every part the next subrange, so no two rows of a load share an
# id, whatever the clock and however many tasks, threads and machines. The ranges of two loads meet with probability
# (m + n - 1) / 2**45, where m and n are their numbers of parts, if both began in the same millisecond of their clocks. For two
# loads of 10**10 rows in 10**6 parts each that is 6e-8; for 10**6 loads of one part, spread over a day, 2e-10 for all of
# them together; for 1,000 loads of one part while the clock stands still, 1e-8. Loads of different milliseconds meet only if the
# parts of one run past the end of its millisecond, for 10**6 parts each less than once in 10**14 loads.
#
# The weak spot is very many loads in one millisecond: a million, which takes a clock that stands still, meet with probability 1.4 %.
# Such a pair is not refused, since ids of different loads are not compared; `verify --deep` finds it.

_ALPHABET = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_WIDTH = 26
_ROW_DIGITS = 7
_ROW_BITS = 5 * _ROW_DIGITS
MAX_ROWS = 2**_ROW_BITS
"""How many rows of one part can get ids."""
_RANDOM_BITS = 80 - _ROW_BITS
# The system's generator, not one of this process: a process that was forked or copied must not repeat what another draws.
_random = random.SystemRandom()


@dataclass(frozen=True)
class FreshIds:
    """The ids of one part of a load. `prefix`: their upper bits, 48 of the time and 45 at random; the row's number follows."""

    prefix: int

    @classmethod
    def new(cls, clock: Callable[[], float] = time.time) -> FreshIds:
        """The first part of a new load."""
        return cls(int(clock() * 1_000) << _RANDOM_BITS | _random.getrandbits(_RANDOM_BITS))

    def part(self, number: int) -> FreshIds:
        """The part that comes this many after this one."""
        return FreshIds(self.prefix + number)

    def for_row(self, number: int) -> str:
        if number >= MAX_ROWS:
            raise _too_many_rows()
        value = self.prefix << _ROW_BITS | number
        return "".join(chr(_ALPHABET[value >> shift & 31]) for shift in range(5 * _WIDTH - 5, -1, -5))

    def for_rows(self, numbers: pa.Int64Array) -> pa.StringArray:
        """The ids of these rows, in the same order."""
        values = numbers.to_numpy(zero_copy_only=False)
        if values.max(initial=0) >= MAX_ROWS:
            raise _too_many_rows()
        head = np.frombuffer(self.for_row(0)[:-_ROW_DIGITS].encode(), dtype=np.uint8)
        text = np.empty((len(values), _WIDTH), dtype=np.uint8)
        text[:, : len(head)] = head
        alphabet = np.frombuffer(_ALPHABET, dtype=np.uint8)
        for index, shift in enumerate(range(_ROW_BITS - 5, -1, -5)):
            text[:, len(head) + index] = alphabet[(values >> shift) & 31]
        offsets = np.arange(0, (len(values) + 1) * _WIDTH, _WIDTH, dtype=np.int32)
        return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(text))


def _too_many_rows() -> UnreadableInput:
    return UnreadableInput(
        f"it has more rows without ids than the {MAX_ROWS:,} that one file or partition can have",
        hint="cut it into several, or give every record an id",
    )


def id_column(
    entity: EntityType, explicit: pa.StringArray, columns: dict[str, Any], lines: pa.Int64Array, fresh: FreshIds
) -> tuple[pa.StringArray, int]:
    """The id column and how many ids the source gave: derived where there is a key, else given or fresh. Raises Doubtful."""
    count = len(explicit) - explicit.null_count
    if count:
        refuse_empty(explicit)
    if entity.key:
        derived = derived_ids(entity, columns)
        if count and not pc.all(pc.equal(explicit, derived)).as_py():
            raise Doubtful
        return derived, count
    if count == len(explicit):
        return explicit, count
    fresh_ids = fresh.for_rows(lines)
    return (pc.coalesce(explicit, fresh_ids) if count else fresh_ids), count


def named_id_column(entity: EntityType, explicit: pa.StringArray, columns: dict[str, Any]) -> pa.StringArray:
    """The ids of entities that are named by id or by whole key; the members of the key are in `columns`, if given. Raises
    Doubtful."""
    members = [columns[name] for name in entity.key if name in columns]
    if explicit.null_count < len(explicit):
        refuse_empty(explicit)
    if members and len(members) == len(entity.key):
        derived = derived_ids(entity, columns)
        if not pc.all(pc.equal(explicit, derived)).as_py():
            raise Doubtful
        return derived
    if explicit.null_count or any(member.null_count < len(member) for member in members):
        raise Doubtful
    return explicit


def derived_ids(entity: EntityType, columns: Mapping[str, pa.Array]) -> pa.StringArray:
    """`identity.derived_id` for whole columns. Raises Doubtful if a member is missing."""
    texts = [_canonical_texts(columns[name], entity.key_type(name)) for name in entity.key]
    if len(texts) == 1:
        refuse_empty(texts[0])
        return texts[0]
    if any(pc.any(pc.match_substring_regex(text, _ESCAPED)).as_py() for text in texts):
        rows = zip(*(text.to_pylist() for text in texts), strict=True)
        return pa.array([id_of_members(row) for row in rows], pa.string())
    separated = [part for text in texts for part in ('","', text)]
    return pc.binary_join_element_wise('["', *separated[1:], '"]', "")


_ESCAPED = r'["\\\x00-\x1f]'
"""Characters that JSON writes in another way."""


def _canonical_texts(values: pa.Array, type: PropertyType) -> pa.StringArray:
    """`canonical_text` for a whole column; value by value only if no cast gives it."""
    if values.null_count:
        raise Doubtful
    match type.scalar:
        case Scalar.STRING:
            return values
        case Scalar.DATE:
            return pc.cast(values.cast(pa.int32()), pa.string())
        case Scalar.DATETIME:
            return pa.array([milliseconds_text(at) for at in values.cast(pa.int64()).to_pylist()], pa.string())
        case Scalar.F32 | Scalar.F64:
            return pa.array([canonical_text(value, type) for value in values.to_pylist()], pa.string())
    return pc.cast(values, pa.string())


def end_column(node: NodeType, references: pa.Array) -> pa.StringArray:
    """The ids of the nodes at one end of edges. Raises Doubtful."""
    if references.null_count:
        raise Doubtful
    refuse_empty(references)
    if not has_dates_in_key(node):
        return references
    return pa.array([referenced_id(node, reference) for reference in references.to_pylist()], pa.string())


def refuse_empty(ids: pa.Array) -> None:
    """Raises Doubtful if one is empty."""
    if pc.any(pc.equal(pc.binary_length(ids), 0)).as_py():
        raise Doubtful
