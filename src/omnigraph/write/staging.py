"""From deltas to a plan: stage each table, name what was read; and the same again on a newer snapshot.

A plan that is staged is enough to rebase it: the new rows are read back from the parts it staged. A writer that still
holds the rows passes them, which saves the reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.errors import ExpectedVersionMismatch, InputError
from omnigraph.history import CommitKind, Entry, PublishPlan, Rebase, Snapshot, TableChange, TableState
from omnigraph.storage.failpoints import Failpoint, reach
from omnigraph.tables import Staged, Table
from omnigraph.views import Stores, View
from omnigraph.write.constraints import Addresses, Deltas, affected_reads, check_deltas
from omnigraph.write.delta import Delta

if TYPE_CHECKING:
    import pyarrow as pa

Sync = Callable[[Sequence[Staged]], None]
"""Makes versions durable, or sees to it that somebody does before they are published."""
Parts = Mapping[str, tuple[str, ...]]
"""Per table key: the written parts."""

Result = TypeVar("Result")

STAGING_THREADS = 8
PARTS_IN_A_HURRY_MOST = 48


def stage_plan(
    view: View,
    entry: Entry,
    deltas: Deltas,
    addresses: Addresses,
    *,
    commit_id: str,
    kind: CommitKind = "mutation",
) -> PublishPlan:
    """Stage every delta (tables in parallel), make the files durable, and say it all in one plan."""
    parts = write_rows(view, deltas)
    changes = stage_versions(view, deltas, addresses, parts, view.stores.tables.sync)
    return new_plan(view, entry, deltas, changes, commit_id=commit_id, kind=kind)


def new_plan(
    view: View,
    entry: Entry,
    deltas: Deltas,
    changes: tuple[TableChange, ...],
    *,
    commit_id: str,
    kind: CommitKind = "mutation",
    actor: str | None = None,
    message: str | None = None,
    if_commit: str | None = None,
) -> PublishPlan:
    """A plan made on `view`, and what it read there."""
    reads = affected_reads(view, list(deltas.values()))
    return PublishPlan(
        commit_id=commit_id,
        branch=entry.branch,
        line=entry.line,
        base=view.snapshot.commit.ref,
        schema=view.snapshot.schema,
        changes=changes,
        reads=reads,
        read_states={key: view.state(key) for key in reads},
        kind=kind,
        actor=actor,
        message=message,
        if_commit=if_commit,
    )


def write_rows(view: View, deltas: Deltas) -> Parts:
    """The rows of every delta as parts of its table, tables side by side; no version holds them yet."""
    reach(Failpoint.TXN_BEFORE_STAGE)

    def one(delta: Delta) -> tuple[str, ...]:
        if not delta.rows.num_rows:
            return ()
        return view.stores.tables.write_parts(view.table_or_new(delta.key), rows_to_write(view, delta))

    written = side_by_side(one, list(deltas.values()))
    reach(Failpoint.TXN_AFTER_STAGE)
    return dict(zip(deltas, written, strict=True))


def rows_to_write(view: View, delta: Delta) -> pa.Table:
    """The delta's rows as the table holds them: by now nothing required is missing."""
    import pyarrow as pa

    return pa.Table.from_arrays(delta.rows.columns, schema=view.schema(delta.key))


def stage_versions(
    view: View, deltas: Deltas, addresses: Addresses, parts: Parts, sync: Sync, *, in_a_hurry: bool = False
) -> tuple[TableChange, ...]:
    """One version a table, on top of the view's, with the parts that were written before. `sync` hears of them all."""

    def one(delta: Delta) -> tuple[TableChange, Staged]:
        return _stage(view, delta, addresses.get(delta.key, {}), parts[delta.key], in_a_hurry)

    staged = side_by_side(one, [delta for delta in deltas.values() if not delta.is_empty])
    sync([version for _, version in staged])
    return tuple(change for change, _ in staged)


def side_by_side(work: Callable[[Delta], Result], items: Sequence[Delta]) -> list[Result]:
    """The work for each table, at the same time when there are several."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(max_workers=STAGING_THREADS) as pool:
        return list(pool.map(work, items))


def folds(base: Table, in_a_hurry: bool) -> bool:
    """Who lost a race is in a hurry; but where every write loses one, somebody has to fold."""
    return not in_a_hurry or len(base.parts) > PARTS_IN_A_HURRY_MOST


def _stage(
    view: View, delta: Delta, addresses: Mapping[str, int], parts: tuple[str, ...], in_a_hurry: bool
) -> tuple[TableChange, Staged]:
    base = view.table_or_new(delta.key)
    remove = [address for id, address in addresses.items() if id in delta.superseded]
    fold = folds(base, in_a_hurry)
    staged = view.stores.tables.stage(base, parts=parts, remove=remove, clear=delta.clear, fold=fold)
    return table_change(delta, view.state(delta.key), staged), staged


def table_change(delta: Delta, before: TableState | None, staged: Staged) -> TableChange:
    state = TableState(staged.path, staged.version, (before.number if before else 0) + 1, staged.rows)
    note = {
        "parts": list(staged.parts),
        "strict": sorted(delta.strict),
        "fresh": len(delta.fresh) == delta.rows.num_rows,
        "removed": dict(delta.removed),
        "clear": delta.clear,
        "version": staged.version,
        "path": staged.path,
    }
    return TableChange(delta.key, delta.mode, before, state, note)


def rebase_plan(stores: Stores, held: Mapping[str, Delta] | None = None) -> Rebase:
    """A rebase for any plan made by `stage_plan`: check again against what arrived, put the same parts on it."""

    def rebase(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        view = stores.view(snapshot)
        deltas = {change.key: held[change.key] if held else _delta_of(stores, view, change) for change in plan.changes}
        addresses = check_again(view, plan, deltas)
        moved = {change.key for change in plan.changes if change.base != snapshot.table(change.key)}
        parts = {change.key: tuple(change.staged["parts"]) for change in plan.changes}
        again = {key: delta for key, delta in deltas.items() if key in moved}
        restaged = stage_versions(view, again, addresses, parts, stores.tables.sync, in_a_hurry=True)
        by_key = {change.key: change for change in restaged}
        return replace(plan, changes=tuple(by_key.get(change.key, change) for change in plan.changes))

    return rebase


def check_again(view: View, plan: PublishPlan, deltas: Deltas) -> Addresses:
    """The rules against a newer view, and where the rows are now that the deltas supersede."""
    try:
        return check_deltas(view, deltas, values=False)
    except InputError as error:
        raise _lost_to(plan, deltas, view.snapshot, error) from None


def _lost_to(plan: PublishPlan, deltas: Deltas, snapshot: Snapshot, error: InputError) -> Exception:
    """A removal that met a new edge lost a race; everything else says what is wrong with the data now."""
    removing = [delta for delta in deltas.values() if delta.removed or delta.clear]
    if not removing or error.code != "endpoint_missing":
        return error
    key = f"edge:{error.type_name}"
    before, now = plan.read_states.get(key), snapshot.table(key)
    return ExpectedVersionMismatch(key, before.number if before else 0, now.number if now else 0)


def _delta_of(stores: Stores, view: View, change: TableChange) -> Delta:
    """The delta again, its rows read from the staged version."""
    note: Mapping[str, Any] = change.staged
    entity = view.entity(change.key)
    rows = staged_rows(stores, note, view.schema(change.key))
    ids = rows.column("id").to_pylist()
    return Delta(
        entity=entity,
        rows=rows,
        mode=change.mode,
        fresh=frozenset(ids) if note["fresh"] else frozenset(),
        strict=frozenset(note["strict"]),
        removed=note["removed"],
        clear=note["clear"],
    )


def staged_rows(stores: Stores, note: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """The rows of a staged change, without vectors and blobs: no rule looks at those twice."""
    import pyarrow.types as pt

    table = stores.tables.open(note["path"], note["version"])
    files = {file["path"] for text in note["parts"] for file in json.loads(text)["files"]}
    parts = [part.id for part in table.parts if files & set(part.files)]
    columns = [
        field.name for field in schema if not (pt.is_fixed_size_list(field.type) or pt.is_large_binary(field.type))
    ]
    return table.read(columns, parts=parts)
