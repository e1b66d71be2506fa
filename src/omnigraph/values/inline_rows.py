"""Inline rows: what small commits changed in a table since its last stored version, held in the commit objects themselves.

A table at a commit is a stored version and, on top of it, a few changes in order. Values are JSON, in the columns that the rows
would be stored in; `omnigraph.tables.inline` converts them, because it knows the types of the columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import Any

from omnigraph._internal.caches import cached_property
from omnigraph.values.json_text import stored_text

ADDRESS_BITS = 32
_OFFSET = (1 << ADDRESS_BITS) - 1
LAYOUTS_KEPT = 1_024


@dataclass(frozen=True, eq=False)
class InlineChange:
    """What one commit changed in a table. A row replaces every earlier one with the same id.

    Two changes are equal if the table is the same afterwards, including the sign of a zero.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    removed: tuple[str, ...] = ()
    """Ids of rows that this change removed. Only the step that removed them has these: they are no part of the table's state
    afterwards."""
    masked: tuple[int, ...] = ()
    """Addresses of rows of the stored version that were replaced or removed, ascending."""
    held: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What readers derived from these rows, by its purpose."""

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

    def is_like(
        self,
        columns: tuple[str, ...],
        rows: tuple[tuple[Any, ...], ...],
        removed: tuple[str, ...],
        masked: tuple[int, ...],
    ) -> bool:
        """Whether it has exactly these columns, rows, removed ids and masks."""
        return self.removed == removed and self._content == (columns if rows else (), masked, repr(rows))

    @property
    def has_removed(self) -> bool:
        """Whether it removed ids. Stored lists leave these out, so such a change may be empty there; `with_change` drops it."""
        return bool(self.removed) or not (self.rows or self.masked)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        if not self.rows:
            return ()
        place = self.columns.index("id")
        return tuple(row[place] for row in self.rows)

    @cached_property
    def digest(self) -> bytes:
        """Digest of everything that equality compares."""
        return hashlib.sha256(repr(self._content).encode(errors="surrogatepass")).digest()

    @cached_property
    def size(self) -> int:
        """Approximate size in a commit object, in bytes."""
        return sum([sum(map(value_size, row)) for row in self.rows]) + 12 * len(self.masked)

    @property
    def row_texts(self) -> dict[str, str]:
        """The rows by id, each as a text that differs for different rows."""
        return {id: repr((self.columns, row)) for id, row in zip(self.ids, self.rows, strict=True)}

    def text(self, columns_before: tuple[str, ...] = (), *, removed: bool = True) -> str:
        """The change as JSON, following one that has these columns."""
        members = []
        if self.rows:
            if self.columns != columns_before:
                members.append(f'"columns":{_columns_text(self.columns)}')
            members.append(self._rows_text)
        if self.removed and removed:
            members.append(f'"removed":{stored_text(self.removed)}')
        if self.masked:
            members.append(f'"masked":{stored_text(_by_fragment(self.masked))}')
        return f"{{{','.join(members)}}}"

    @cached_property
    def _rows_text(self) -> str:
        # For a list, JSONEncoder first builds a C encoder, which takes longer than encoding a row.
        rows = ["[" + ",".join([stored_text(value) for value in row]) + "]" for row in self.rows]
        return f'"rows":[{",".join(rows)}]'

    def without(self, ids: frozenset[str]) -> InlineChange | None:
        """What remains of it without the rows of these ids; None if nothing does."""
        rows = self.rows
        if not ids.isdisjoint(self.ids):
            rows = tuple(row for row, id in zip(rows, self.ids, strict=True) if id not in ids)
        if not rows and not self.masked:
            return None
        if rows is self.rows and not self.removed:
            return self
        return replace(self, columns=self.columns if rows else (), rows=rows, removed=(), held={})

    def masking_only(self, addresses: Collection[int]) -> InlineChange:
        """The change for a version that has only these of the rows that it masks."""
        masked = tuple(address for address in self.masked if address in addresses)
        return self if masked == self.masked else replace(self, masked=masked)


class Inline(tuple[InlineChange, ...]):
    """The inline changes of a table, in order. Totals are computed once. Places and texts are computed when they are first needed, from
    those of an earlier version: of the commits of a group, only the last needs them."""

    _before: Inline | None = None
    """The changes without the last one, until `_derived` is computed."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Of the last change alone: every version adds one, and no two versions of a branch have the same number of changes.
        return hash((len(self), self[-1])) if self else 0

    @cached_property
    def row_count(self) -> int:
        return sum(len(change.rows) for change in self)

    @cached_property
    def masked_count(self) -> int:
        return sum(len(change.masked) for change in self)

    @cached_property
    def size(self) -> int:
        """Approximate size in a commit object, in bytes."""
        return sum(change.size for change in self)

    @cached_property
    def digest(self) -> bytes:
        """Digest of everything that equality compares; each change adds its own digest to the previous one."""
        digest = b""
        for change in self:
            digest = _followed(digest, change)
        return digest

    @property
    def places(self) -> dict[str, int]:
        """The position of each row among all of them, by id."""
        return self._derived[0]

    @property
    def last_columns(self) -> tuple[str, ...]:
        """The columns of the last change that has rows."""
        return self._derived[1]

    @property
    def text(self) -> str:
        """The members of a JSON list, without removed ids. A change with the same columns as the previous one does not repeat
        them."""
        return self._derived[2]

    @cached_property
    def _derived(self) -> tuple[dict[str, int], tuple[str, ...], str]:
        """Places, last columns and text: those of the nearest earlier version that has them, and what was added since."""
        known = self._before
        while known is not None and "_derived" not in known.__dict__:
            known = known._before
        if known is None:
            known = NO_INLINE
        places, columns, text = known._derived if known else ({}, (), "")
        added, texts = self[len(known) :], [text] if text else []
        for change in added:
            texts.append(change.text(columns, removed=False))
            columns = change.columns if change.rows else columns
        ids = (id for change in added for id in change.ids)
        self._before = None
        return places | {id: place for place, id in enumerate(ids, known.row_count)}, columns, ",".join(texts)

    def text_with_removed(self) -> str:
        """Like `text`, with the ids that the last change removed."""
        if not self or not self[-1].removed:
            return self.text
        before = Inline(self[:-1])
        separator = "," if before else ""
        return f"{before.text}{separator}{self[-1].text(before.last_columns)}"

    def with_change(self, change: InlineChange) -> Inline:
        """The changes followed by one more. Of the earlier ones, only what is still visible is kept."""
        ids = (*change.ids, *change.removed)
        if self and (self[-1].has_removed or any(id in self.places for id in ids)):
            return Inline((*self.without_ids(frozenset(ids)), change))
        return self.followed_by(change)

    def followed_by(self, change: InlineChange) -> Inline:
        """Like `with_change`, for a change whose ids have no row here, after one that removed nothing."""
        after = Inline((*self, change))
        after._before = self
        after.row_count = self.row_count + len(change.rows)
        after.masked_count = self.masked_count + len(change.masked)
        after.size = self.size + change.size
        if "digest" in self.__dict__:  # Readers need it, most writers do not.
            after.digest = _followed(self.digest, change)
        return after

    def follows(self, before: Inline) -> bool:
        """Whether these changes are `before` and one more."""
        return self._before is before or self[:-1] == before

    def without_ids(self, ids: frozenset[str]) -> Inline:
        """What remains without the rows of these ids."""
        left = (change.without(ids) for change in self)
        return Inline(change for change in left if change is not None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Inline, (tuple(self),)

    @property
    def masked_addresses(self) -> frozenset[int]:
        return frozenset(address for change in self for address in change.masked)

    @property
    def row_texts(self) -> dict[str, str]:
        """The rows by id, each as a text that differs for different rows."""
        return {id: text for change in self for id, text in change.row_texts.items()}


@lru_cache(maxsize=LAYOUTS_KEPT)
def _columns_text(columns: tuple[str, ...]) -> str:
    return stored_text(columns)


def _followed(digest: bytes, change: InlineChange) -> bytes:
    return hashlib.sha256(digest + change.digest).digest()


NO_INLINE = Inline()


# ---------------------------------------------------------------- JSON


def inline_from_json(values: Iterable[Mapping[str, Any]], known: Inline = NO_INLINE) -> Inline:
    """`known`: changes that the list may begin with; their objects are reused."""
    changes: list[InlineChange] = []
    columns: tuple[str, ...] = ()
    same = 0
    for place, value in enumerate(values):
        columns = tuple(value["columns"]) if "columns" in value else columns
        rows = tuple([tuple(row) for row in value.get("rows", ())])
        masked = tuple(
            [fragment << ADDRESS_BITS | offset for fragment, offsets in value.get("masked", ()) for offset in offsets]
        )
        removed = tuple(value.get("removed", ()))
        if same == place < len(known) and known[place].is_like(columns, rows, removed, masked):
            changes.append(known[place])
            same += 1
            continue
        if any(len(row) != len(columns) for row in rows):
            raise ValueError("a row has another number of values than there are columns")
        changes.append(InlineChange(columns if rows else (), rows, removed, masked))
    if not known or same < len(known):
        return Inline(changes)
    for change in changes[len(known) :]:
        known = known.followed_by(change)
    return known


def _by_fragment(addresses: Iterable[int]) -> list[list[Any]]:
    return [
        [fragment, [address & _OFFSET for address in own]]
        for fragment, own in groupby(addresses, lambda address: address >> ADDRESS_BITS)
    ]


def value_size(value: Any) -> int:
    """Approximate size of a value in a commit object, in bytes."""
    if value is None or isinstance(value, int):
        return 6
    if isinstance(value, str):
        return len(value) + 3
    if isinstance(value, bytes):
        return len(value) * 4 // 3 + 3
    if isinstance(value, list | tuple):
        return 2 + sum(map(value_size, value))
    return 20
