"""Small changes as rows of the commit itself: nothing is staged, and the entry is the only object that is written.

A table's state is then a stored version with a few changes on top of it. The write that would make them too many first folds those
that are there into a stored version; its own rows always stand in its commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError
from omnigraph.history import TableChange, TableState
from omnigraph.tables import Staged, Table, inline_change
from omnigraph.tables.changed_table import INLINE_FRAGMENT
from omnigraph.tables.table import ROW_ADDRESS, fragment_of_address
from omnigraph.values.inline_rows import byte_count, masked_count, row_count, with_change
from omnigraph.views import View
from omnigraph.write.delta import Delta

if TYPE_CHECKING:
    from omnigraph.views import Repository

MAX_ROWS = 64
MAX_BYTES = 16 * 1024
MAX_ENTRY_BYTES = 32 * 1024
ENVIRONMENT = "OMNIGRAPH_INLINE_ROWS"
"""How many rows of a table may stand in commits; 0: none, every commit is stored in the tables at once."""


@dataclass(frozen=True)
class InlineBounds:
    """How much may stand in commits: of one table, and of all tables of a snapshot."""

    rows: int = MAX_ROWS
    bytes: int = MAX_BYTES
    entry_bytes: int = MAX_ENTRY_BYTES

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> InlineBounds:
        text = environment.get(ENVIRONMENT)
        if text is None:
            return cls()
        if not (text.isascii() and text.isdigit()):
            raise UsageError(f"{ENVIRONMENT} is '{text}', which is no number of rows", hint="0 to 10000")
        return cls(rows=min(int(text), 10_000))

    def takes(self, delta: Delta) -> bool:
        """Whether a change is small enough to stand in its commit."""
        return len(delta.superseded) <= self.rows and bool(delta.rows.nbytes <= self.bytes)

    def too_large(self, deltas: Iterable[Delta], view: View) -> list[Delta]:
        """Those of a write's changes that are stored in their tables: they are too large, all together too, or there is no table."""
        large, size = [], 0
        for delta in sorted(deltas, key=lambda delta: delta.rows.nbytes):
            size += delta.rows.nbytes
            if not self.takes(delta) or size > self.entry_bytes or view.state(delta.key) is None:
                large.append(delta)
        return large

    def is_full(self, view: View, deltas: Iterable[Delta]) -> bool:
        """Whether what stands in commits is too much for one entry, with these changes."""
        held = sum(byte_count(state.inline) for state in view.snapshot.tables.values())
        return bool(held + sum(delta.rows.nbytes for delta in deltas) > self.entry_bytes)

    def fits(self, state: TableState, delta: Delta) -> bool:
        """Whether a change goes on top of what stands in commits already."""
        held = row_count(state.inline) + masked_count(state.inline)
        size = byte_count(state.inline)
        return held + len(delta.superseded) <= self.rows and size + delta.rows.nbytes <= self.bytes


def bounds() -> InlineBounds:
    return InlineBounds.of(os.environ)


def folded(repository: Repository, key: str, schema: str, state: TableState) -> tuple[TableState, Staged]:
    """The state with everything in a stored version; and what was staged for it."""
    table = opened(repository, key, schema, state)
    _, staged = repository.tables.settle(table, fold=True)
    assert staged is not None, "there is something to fold"
    return replace(state, version=staged.version, digest=staged.digest, inline=()), staged


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
    crowded: bool = False,
) -> tuple[TableChange, list[Staged]]:
    """The change of a table that has the delta's rows in the commit; with a fold before it, if there is too much already.
    `room_for`: what comes next to the same table in the same entry, this delta included. `crowded`: the entry is full."""
    repository, state, made = view.repository, before, list[Staged]()
    if state.inline and (crowded or not within.fits(state, room_for or delta)):
        state, staged = folded(repository, delta.key, view.snapshot.schema, state)
        made.append(staged)
        if superseded:
            superseded = _found_again(opened(repository, delta.key, view.snapshot.schema, state), superseded)
    return TableChange(delta.key, delta.mode, before, with_delta(view, delta, state, superseded)), made


def with_delta(view: View, delta: Delta, state: TableState, superseded: Mapping[str, int]) -> TableState:
    """The state after a change. `superseded`: where the rows are that it replaces or removes."""
    gone = {id: address for id, address in superseded.items() if id in delta.superseded}
    masked = [address for address in gone.values() if fragment_of_address(address) != INLINE_FRAGMENT]
    change = inline_change(view.layout(delta.key), delta.rows, tuple(delta.removed), masked)
    return replace(
        state,
        generation=state.generation + 1,
        rows=state.rows + delta.rows.num_rows - len(gone),
        inline=with_change(state.inline, change),
        extra={},
    )


def _found_again(table: Table, superseded: Mapping[str, int]) -> dict[str, int]:
    rows = table.lookup("id", sorted(superseded), ["id"], with_address=True)
    return dict(zip(rows.column("id").to_pylist(), rows.column(ROW_ADDRESS).to_pylist(), strict=True))


def fold_largest(
    view: View, changes: Mapping[str, TableState | None], within: InlineBounds
) -> list[tuple[TableChange, Staged]]:
    """Folds of other tables, the largest first, as long as all that stands in commits is too much for an entry."""
    tables = {**view.snapshot.tables, **changes}
    sizes = {key: byte_count(state.inline) for key, state in tables.items() if state is not None and state.inline}
    excess = sum(sizes.values()) - within.entry_bytes
    made = []
    for key in sorted(sizes.keys() - changes.keys(), key=lambda key: -sizes[key]):
        if excess <= 0:
            break
        before = view.snapshot.tables[key]
        state, staged = folded(view.repository, key, view.snapshot.schema, before)
        made.append((TableChange(key, "rewrite", before, replace(state, generation=before.generation + 1)), staged))
        excess -= sizes[key]
    return made
