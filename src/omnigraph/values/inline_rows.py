"""Rows that stand in a commit object itself: what small commits change in a table since its last stored version.

A table at a commit is a stored version and, on top of it, a few changes in their order. Values are those of JSON, in the
columns that the rows would be stored in: whoever knows the type of a column makes the value of it (`omnigraph.tables.inline`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

ADDRESS_BITS = 32
_OFFSET = (1 << ADDRESS_BITS) - 1


@dataclass(frozen=True, eq=False)
class InlineChange:
    """What one commit changed in a table. A row replaces every earlier one of the same id.

    Two are equal if the table is the same afterwards, to the sign of a zero.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    removed: tuple[str, ...] = ()
    """Ids whose rows went, in the step that made them go: it is no part of what the table is afterwards."""
    masked: tuple[int, ...] = ()
    """Addresses of rows of the stored version that were replaced or went, ascending."""
    held: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What readers made of these rows, by what they made it for."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, InlineChange) and self._content == other._content)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.columns, self.ids, self.masked))

    @cached_property
    def _content(self) -> tuple[object, ...]:
        return self.columns, self.masked, repr(self.rows)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("columns", "rows", "removed", "masked")} | {"held": {}}

    @cached_property
    def ids(self) -> tuple[str, ...]:
        if not self.rows:
            return ()
        place = self.columns.index("id")
        return tuple(row[place] for row in self.rows)

    @cached_property
    def digest(self) -> bytes:
        """Of what equality looks at."""
        return hashlib.sha256(repr(self._content).encode(errors="surrogatepass")).digest()

    @cached_property
    def size(self) -> int:
        """About how many bytes it takes in a commit object."""
        return sum(_size(value) for row in self.rows for value in row) + 12 * len(self.masked)

    def without(self, ids: frozenset[str]) -> InlineChange | None:
        """What is left of it when rows of these ids have gone; None when nothing is."""
        rows = self.rows
        if not ids.isdisjoint(self.ids):
            rows = tuple(row for row, id in zip(rows, self.ids, strict=True) if id not in ids)
        if not rows and not self.masked:
            return None
        if rows is self.rows and not self.removed:
            return self
        return replace(self, columns=self.columns if rows else (), rows=rows, removed=(), held={})

    def masking_only(self, addresses: Collection[int]) -> InlineChange:
        """The same on a version that has only these of the rows that it replaces."""
        masked = tuple(address for address in self.masked if address in addresses)
        return self if masked == self.masked else replace(self, masked=masked)


Inline = tuple[InlineChange, ...]


def with_change(inline: Inline, change: InlineChange) -> Inline:
    """The changes of a table after one more. Of those before it, only what is still to be seen is left."""
    return (*without_ids(inline, frozenset((*change.ids, *change.removed))), change)


def row_count(inline: Inline) -> int:
    return sum(len(change.rows) for change in inline)


def masked_count(inline: Inline) -> int:
    return sum(len(change.masked) for change in inline)


def row_texts(inline: Inline) -> dict[str, str]:
    """The rows of all changes by their ids, each as a text that no other row has."""
    return {
        id: repr((change.columns, row)) for change in inline for id, row in zip(change.ids, change.rows, strict=True)
    }


def without_ids(inline: Inline, ids: frozenset[str]) -> Inline:
    """What is left of changes when rows of these ids have gone."""
    left = (change.without(ids) for change in inline)
    return tuple(change for change in left if change is not None)


def masked_addresses(inline: Inline) -> frozenset[int]:
    return frozenset(address for change in inline for address in change.masked)


def byte_count(inline: Inline) -> int:
    return sum(change.size for change in inline)


# ---------------------------------------------------------------- JSON


def inline_to_json(inline: Inline, *, removed: bool = True) -> list[dict[str, Any]]:
    """A change that has the columns of the one before it does not repeat them. `removed`: say which ids went."""
    values = []
    columns: tuple[str, ...] = ()
    for change in inline:
        value: dict[str, Any] = {}
        if change.rows and change.columns != columns:
            value["columns"] = columns = change.columns
        if change.rows:
            value["rows"] = change.rows
        if change.removed and removed:
            value["removed"] = change.removed
        if change.masked:
            value["masked"] = [
                [fragment, [address & _OFFSET for address in addresses]]
                for fragment, addresses in groupby(change.masked, lambda address: address >> ADDRESS_BITS)
            ]
        values.append(value)
    return values


def inline_from_json(values: Iterable[Mapping[str, Any]]) -> Inline:
    changes = []
    columns: tuple[str, ...] = ()
    for value in values:
        columns = tuple(value["columns"]) if "columns" in value else columns
        rows = tuple(tuple(row) for row in value.get("rows", ()))
        if any(len(row) != len(columns) for row in rows):
            raise ValueError("a row has another number of values than there are columns")
        masked = tuple(
            fragment << ADDRESS_BITS | offset for fragment, offsets in value.get("masked", ()) for offset in offsets
        )
        changes.append(InlineChange(columns if rows else (), rows, tuple(value.get("removed", ())), masked))
    return tuple(changes)


def _size(value: Any) -> int:
    match value:
        case str():
            return len(value) + 3
        case list() | tuple():
            return 2 + sum(map(_size, value))
        case float():
            return 20
    return 6
