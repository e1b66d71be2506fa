"""Small changes as inline rows: nothing is staged, and the entry is the only object that is written.

The state of a table is then a stored version with a few changes on top. A write that would make them too many first folds the
existing ones into a stored version; its own rows are always inline.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from omnigraph._internal.caches import cached_property
from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import UsageError
from omnigraph.history.plan import ChangeMode, TableChange
from omnigraph.history.values import TableState
from omnigraph.language.catalog import EntityType
from omnigraph.rules.planning import Change
from omnigraph.snapshot import View
from omnigraph.tables.addresses import fragment_of_address
from omnigraph.tables.changed_table import INLINE_FRAGMENT
from omnigraph.tables.inline import inline_change
from omnigraph.tables.staging import Staged
from omnigraph.tables.table import Table
from omnigraph.values.inline_rows import NO_INLINE, value_size

if TYPE_CHECKING:
    from omnigraph.snapshot import Repository


# The change of one table, independent of the version it is applied to: new rows and removed ids, no addresses.

Row = Mapping[str, Any]


class NewRows:
    """Rows of one type by column, as values and as Arrow: each is converted to the other on demand. Few rows are hardly ever
    needed as Arrow, nor many as values."""

    def __init__(self, schema: pa.Schema, values: Sequence[Row] | None = None, table: pa.Table | None = None) -> None:
        assert values is not None or table is not None, "rows are given in one way or the other"
        self.schema = schema
        self._values = values
        self._table = table

    @classmethod
    def of_table(cls, table: pa.Table) -> NewRows:
        return cls(table.schema, table=table)

    def __len__(self) -> int:
        return int(self.table.num_rows) if self._values is None else len(self._values)

    @property
    def values(self) -> Sequence[Row]:
        if self._values is None:
            self._values = self.table.to_pylist()
        return self._values

    @property
    def table(self) -> pa.Table:
        if self._table is None:
            # Nullable here: the rules find missing required values, with a better message than Arrow's.
            schema = pa.schema([field.with_nullable(True) for field in self.schema])
            columns = [pa.array(self.column(field.name), field.type) for field in schema]
            self._table = pa.Table.from_arrays(columns, schema=schema)
        return self._table

    @cached_property
    def size(self) -> int:
        """Their approximate size in bytes."""
        if self._values is None:
            return int(self.table.nbytes)
        return sum([sum(map(value_size, row.values())) for row in self._values])

    def column(self, name: str) -> list[Any]:
        if self._values is None:
            values: list[Any] = self.table.column(name).to_pylist()
            return values
        return [row.get(name) for row in self._values]


@dataclass(frozen=True)
class Delta:
    """New rows replace rows of the same id. `fresh` are ids generated here, which cannot exist; `strict` are ids that must not
    exist.

    `removed` maps the ids of rows deleted outright to their source node (edges) or None (nodes). `replaced` are rows of the
    branch that were read and are replaced by new rows.
    """

    entity: EntityType
    new: NewRows
    mode: ChangeMode
    fresh: frozenset[str] = frozenset()
    strict: frozenset[str] = frozenset()
    removed: Mapping[str, str | None] = field(default_factory=dict)
    replaced: Mapping[str, Row] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        return self.entity.table_key

    @property
    def rows(self) -> pa.Table:
        """The new rows as Arrow."""
        return self.new.table

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.new.column("id"))

    @cached_property
    def superseded(self) -> frozenset[str]:
        """Ids whose committed row, if any, is replaced or removed by this write."""
        return frozenset(self.ids).union(self.removed)

    @cached_property
    def change(self) -> Change:
        """The kind of the change, which decides what has to be checked."""
        ids = self.fresh | self.strict
        return Change(bool(ids), not ids.issuperset(self.ids), bool(self.removed))

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Properties that this write sets: those whose values differ from the rows it replaces, as far as it has read them."""
        return frozenset(
            name
            for name in self.entity.properties
            if any(
                value is not None and self.replaced.get(id, {}).get(name) != value
                for id, value in zip(self.ids, self.new.column(name), strict=True)
            )
        )

    @property
    def is_empty(self) -> bool:
        return not (len(self.new) or self.removed)

    @classmethod
    def joined(cls, deltas: Iterable[Delta]) -> Delta:
        """Several changes of one table that only add rows, as one change."""
        members = list(deltas)
        return cls(
            members[0].entity,
            NewRows(members[0].new.schema, [row for delta in members for row in delta.new.values]),
            members[0].mode,
            frozenset().union(*(delta.fresh for delta in members)),
            frozenset().union(*(delta.strict for delta in members)),
        )


MAX_ROWS = 64
MAX_BYTES = 16 * 1024
MAX_ENTRY_BYTES = 32 * 1024
MAX_SHARES = 4
"""An entry of many commits may have up to this many times as many inline rows."""
ENVIRONMENT = "OMNIGRAPH_INLINE_ROWS"
"""The maximum number of inline rows of a table; with 0, every commit is stored in the tables at once."""


@dataclass(frozen=True)
class InlineBounds:
    """Limits of inline rows: for one table, and for all tables of a snapshot."""

    rows: int = MAX_ROWS
    bytes: int = MAX_BYTES
    entry_bytes: int = MAX_ENTRY_BYTES

    def too_large(self, deltas: Mapping[str, Delta], view: View) -> list[Delta]:
        """The changes of a write that are stored in tables: they are too large, alone or together, or there is no table yet."""
        large, total = [], 0
        for size, key in sorted([(delta.new.size, key) for key, delta in deltas.items()]):
            total += size
            is_small = len(deltas[key].superseded) <= self.rows and size <= self.bytes and total <= self.entry_bytes
            if not is_small or view.snapshot.table(key) is None:
                large.append(deltas[key])
        return large

    def is_full(self, view: View, deltas: Iterable[Delta]) -> bool:
        """Whether the inline rows, with these changes, are too large for one entry."""
        held = sum(state.inline.size for state in view.snapshot.tables.values())
        return held + sum(delta.new.size for delta in deltas) > self.entry_bytes

    def fits(self, state: TableState, delta: Delta, commits: int = 1) -> bool:
        """Whether a change fits on top of the existing inline rows. An entry of several `commits` may have more rows, up to
        MAX_SHARES times as many, since the commits share its cost."""
        held = state.inline.row_count + state.inline.masked_count
        rows = self.rows * min(commits, MAX_SHARES)
        return held + len(delta.superseded) <= rows and state.inline.size + delta.new.size <= self.bytes


def bounds() -> InlineBounds:
    return _bounds(os.environ.get(ENVIRONMENT))


@lru_cache(maxsize=16)
def _bounds(text: str | None) -> InlineBounds:
    if not text:
        return InlineBounds()
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{ENVIRONMENT} must be a number of rows, got '{text}'", hint="0 to 10000")
    return InlineBounds(rows=min(int(text), 10_000))


def folded(repository: Repository, key: str, schema: str, state: TableState) -> tuple[TableState, Staged]:
    """The state with all inline rows in a stored version, and what was staged for it."""
    table = opened(repository, key, schema, state)
    _, staged = repository.tables.settle(table, fold=True)
    assert staged is not None, "there is something to fold"
    return replace(state, version=staged.version, digest=staged.digest, inline=NO_INLINE), staged


def opened(repository: Repository, key: str, schema: str, state: TableState) -> Table:
    layout = repository.layout(schema, key)
    return repository.tables.open(state.path, state.version, state.digest, layout=layout, inline=state.inline)


def inlined(
    view: View,
    delta: Delta,
    before: TableState,
    superseded: Mapping[str, int],
    within: InlineBounds,
    *,
    room_for: Delta | None = None,
    commits: int = 1,
    crowded: bool = False,
) -> tuple[TableChange, list[Staged]]:
    """The change of a table with the delta's rows inline, after a fold if there are too many already. `room_for` is everything
    that the entry adds to the table, this delta included, with `commits` commits. `crowded` says that the entry is full."""
    repository, state, folds = view.repository, before, list[Staged]()
    if state.inline and (crowded or not within.fits(state, room_for or delta, commits)):
        state, staged = folded(repository, delta.key, view.snapshot.schema, state)
        folds.append(staged)
        if superseded:
            superseded = opened(repository, delta.key, view.snapshot.schema, state).addresses_of(superseded)
    return TableChange(delta.key, delta.mode, before, with_delta(view, delta, state, superseded)), folds


def with_delta(view: View, delta: Delta, state: TableState, superseded: Mapping[str, int]) -> TableState:
    """The state after a change. `superseded` has the addresses of the rows that it replaces or removes."""
    gone = {id: address for id, address in superseded.items() if id in delta.superseded}
    masked = [address for address in gone.values() if fragment_of_address(address) != INLINE_FRAGMENT]
    change = inline_change(view.layout(delta.key), delta.new.values, tuple(delta.removed), masked)
    rows = state.rows + len(delta.new) - len(gone)
    inline = state.inline.with_change(change)
    return TableState(state.path, state.version, state.generation + 1, rows, state.digest, inline)


def with_rows(view: View, delta: Delta, state: TableState) -> TableState:
    """The state after a change that only adds rows, on one that such a change has left."""
    inline = state.inline.followed_by(inline_change(view.layout(delta.key), delta.new.values))
    rows = state.rows + len(delta.new)
    return TableState(state.path, state.version, state.generation + 1, rows, state.digest, inline)


def fold_largest(
    view: View, changes: Mapping[str, TableState | None], within: InlineBounds
) -> list[tuple[TableChange, Staged]]:
    """Folds of other tables, the largest first, until the inline rows of all tables fit in an entry."""
    tables = {**view.snapshot.tables, **changes}
    excess = sum(state.inline.size for state in tables.values() if state is not None) - within.entry_bytes
    if excess <= 0:
        return []
    sizes = {key: state.inline.size for key, state in tables.items() if state is not None and state.inline}
    folds = []
    for key in sorted(sizes.keys() - changes.keys(), key=lambda key: -sizes[key]):
        if excess <= 0:
            break
        before = view.snapshot.tables[key]
        state, staged = folded(view.repository, key, view.snapshot.schema, before)
        folds.append((TableChange(key, "rewrite", before, replace(state, generation=before.generation + 1)), staged))
        excess -= sizes[key]
    return folds
