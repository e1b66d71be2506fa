"""Staging: writes the rows of deltas as fragments, and adds fragments to the tables of a snapshot as new versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from omnigraph.errors import EndpointMissing, ExpectedVersionMismatch, InputError
from omnigraph.failpoints import Failpoint, reach
from omnigraph.history import TableChange, TableState
from omnigraph.tables import Staged, Table
from omnigraph.views import View
from omnigraph.write.constraints import Addresses, Deltas, check_deltas
from omnigraph.write.delta import Delta
from omnigraph.write.inlining import bounds, fold_largest, inlined

if TYPE_CHECKING:
    import pyarrow as pa

Fragments = Mapping[str, tuple[str, ...]]
"""The written fragments, by table key."""

Result = TypeVar("Result")

STAGING_THREADS = 8
MAX_FRAGMENTS_AFTER_LOST_RACE = 48


def write_rows(view: View, deltas: Deltas) -> Fragments:
    """Write the rows of large changes as fragments of their tables, concurrently; they are not part of any version yet. Rows of
    small changes are not written: they will be inline."""
    return written_rows(view, bounds().too_large(deltas, view))


def written_rows(view: View, large: Sequence[Delta]) -> Fragments:
    """Write the rows of these changes as fragments."""
    reach(Failpoint.TXN_BEFORE_STAGE)
    written = side_by_side(lambda delta: write_now(view, delta), large)
    reach(Failpoint.TXN_AFTER_STAGE)
    return {delta.key: fragments for delta, fragments in zip(large, written, strict=True)}


def write_now(view: View, delta: Delta) -> tuple[str, ...]:
    """Write the rows of one delta as fragments of its table."""
    if not len(delta.new):
        return ()
    return view.repository.tables.write_fragments(view.table_or_new(delta.key), rows_to_write(view, delta))


def rows_to_write(view: View, delta: Delta) -> pa.Table:
    """The delta's rows with the schema of the table: they were checked, so no required value is missing."""
    import pyarrow as pa

    return pa.Table.from_arrays(delta.rows.columns, schema=view.schema(delta.key))


def stage_versions(
    view: View, deltas: Deltas, addresses: Addresses, fragments: Fragments, *, after_lost_race: bool = False
) -> list[tuple[TableChange, list[Staged]]]:
    """A new state for each table, on top of the view's: small changes are inline, others a version with the fragments that were
    written before. Nothing is durable yet."""
    within = bounds()
    crowded = within.is_full(view, [delta for delta in deltas.values() if delta.key not in fragments])

    def stage(delta: Delta) -> tuple[TableChange, list[Staged]]:
        superseded, before = addresses.get(delta.key, {}), view.state(delta.key)
        if delta.key not in fragments and before is not None:
            return inlined(view, delta, before, superseded, within, crowded=crowded)
        base = view.table_or_new(delta.key)
        staged = view.repository.tables.stage(
            base,
            fragments=fragments.get(delta.key) or write_now(view, delta),
            remove=[address for id, address in superseded.items() if id in delta.superseded],
            fold=folds(base, after_lost_race),
        )
        return table_change(delta, view.state(delta.key), staged), [staged]

    changes = [delta for delta in deltas.values() if not delta.is_empty]
    staged = side_by_side(stage, changes) if fragments else [stage(delta) for delta in changes]
    states = {change.key: change.state for change, _ in staged}
    return [*staged, *((change, [version]) for change, version in fold_largest(view, states, within))]


def side_by_side(work: Callable[[Delta], Result], items: Sequence[Delta]) -> list[Result]:
    """The result of the work for each table, concurrently if there are several."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(max_workers=STAGING_THREADS) as pool:
        return list(pool.map(work, items))


def folds(base: Table, after_lost_race: bool) -> bool:
    """Whether to fold small fragments. After a lost race, folding waits for another write; but not if there are too many
    fragments."""
    return not after_lost_race or len(base.fragments) > MAX_FRAGMENTS_AFTER_LOST_RACE


def table_change(delta: Delta, before: TableState | None, staged: Staged) -> TableChange:
    state = TableState(
        staged.path, staged.version, (before.generation if before else 0) + 1, staged.rows, staged.digest
    )
    return TableChange(delta.key, delta.mode, before, state)


def check_again(view: View, pinned: View, deltas: Deltas, *, own_rows: bool = False) -> Addresses:
    """Check the rules against a newer view; returns the current addresses of the rows that the deltas supersede. With `own_rows`,
    also check the new rows alone, because the rules have changed or they were not checked yet."""
    try:
        return check_deltas(view, deltas, again=not own_rows)
    except InputError as error:
        raise _lost_to(pinned, deltas, view, error) from None


def _lost_to(pinned: View, deltas: Deltas, view: View, error: InputError) -> Exception:
    """A conflict, if the write removes nodes that a new edge needs: it lost a race. Otherwise the error itself."""
    removing = [delta for delta in deltas.values() if delta.removed]
    if not removing or not isinstance(error, EndpointMissing):
        return error
    key = f"edge:{error.type_name}"
    before, now = pinned.state(key), view.state(key)
    return ExpectedVersionMismatch(key, before.generation if before else 0, now.generation if now else 0)
