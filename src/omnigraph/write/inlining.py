"""Small changes as rows of the commit itself: nothing is staged, and the entry is the only object that is written.

A table's state is then a stored version with a few changes on top of it. The write that would make them too many first folds those
that are there into a stored version; its own rows always stand in its commit.
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
"""How many times the rows an entry of many commits may hold."""
ENVIRONMENT = "OMNIGRAPH_INLINE_ROWS"
"""How many rows of a table may stand in commits; 0: none, every commit is stored in the tables at once."""


@dataclass(frozen=True)
class InlineBounds:
    """How much may stand in commits: of one table, and of all tables of a snapshot."""

    rows: int = MAX_ROWS
    bytes: int = MAX_BYTES
    entry_bytes: int = MAX_ENTRY_BYTES

    def too_large(self, deltas: Mapping[str, Delta], view: View) -> list[Delta]:
        """Those of a write's changes that are stored in their tables: they are too large, all together too, or there is no table."""
        large, total = [], 0
        for size, key in sorted([(delta.new.size, key) for key, delta in deltas.items()]):
            total += size
            is_small = len(deltas[key].superseded) <= self.rows and size <= self.bytes and total <= self.entry_bytes
            if not is_small or view.snapshot.table(key) is None:
                large.append(deltas[key])
        return large

    def is_full(self, view: View, deltas: Iterable[Delta]) -> bool:
        """Whether what stands in commits is too much for one entry, with these changes."""
        held = sum(state.inline.size for state in view.snapshot.tables.values())
        return held + sum(delta.new.size for delta in deltas) > self.entry_bytes

    def fits(self, state: TableState, delta: Delta, commits: int = 1) -> bool:
        """Whether a change goes on top of what stands in commits already. An entry of several `commits` may hold as much for each
        of them, up to a point: so many commits pay for it together."""
        held = state.inline.row_count + state.inline.masked_count
        rows = self.rows * min(commits, MAX_SHARES)
        return held + len(delta.superseded) <= rows and state.inline.size + delta.new.size <= self.bytes


def bounds() -> InlineBounds:
    return _bounds(os.environ.get(ENVIRONMENT))


@lru_cache(maxsize=16)
def _bounds(text: str | None) -> InlineBounds:
    if text is None:
        return InlineBounds()
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{ENVIRONMENT} is '{text}', which is no number of rows", hint="0 to 10000")
    return InlineBounds(rows=min(int(text), 10_000))


def folded(repository: Repository, key: str, schema: str, state: TableState) -> tuple[TableState, Staged]:
    """The state with everything in a stored version; and what was staged for it."""
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
    """The change of a table that has the delta's rows in the commit; with a fold before it, if there is too much already.
    `room_for`: what comes next to the same table in the same entry, this delta included, by so many `commits`. `crowded`: the
    entry is full."""
    repository, state, folds = view.repository, before, list[Staged]()
    if state.inline and (crowded or not within.fits(state, room_for or delta, commits)):
        state, staged = folded(repository, delta.key, view.snapshot.schema, state)
        folds.append(staged)
        if superseded:
            superseded = opened(repository, delta.key, view.snapshot.schema, state).addresses_of(superseded)
    return TableChange(delta.key, delta.mode, before, with_delta(view, delta, state, superseded)), folds


def with_delta(view: View, delta: Delta, state: TableState, superseded: Mapping[str, int]) -> TableState:
    """The state after a change. `superseded`: where the rows are that it replaces or removes."""
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
    """Folds of other tables, the largest first, as long as all that stands in commits is too much for an entry."""
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
