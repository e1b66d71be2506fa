"""Small changes as inline rows: nothing is staged, and the entry is the only object that is written.

The state of a table is then a stored version with a few changes on top. A write that would make them too many first folds the
existing ones into a stored version; its own rows are always inline.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError
from omnigraph.history import TableChange, TableState
from omnigraph.tables import Staged, Table, inline_change
from omnigraph.tables.changed_table import INLINE_FRAGMENT
from omnigraph.tables.fragment import fragment_of_address
from omnigraph.values.inline_rows import NO_INLINE
from omnigraph.views import View
from omnigraph.write.delta import Delta

if TYPE_CHECKING:
    from omnigraph.views import Repository

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
