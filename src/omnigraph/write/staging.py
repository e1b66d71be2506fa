"""From deltas to a plan: stage each table, name what was read; and the same again on a newer snapshot.

A plan is enough to rebase it: the new rows are read back from the parts it staged. A writer that still holds the rows
passes them, which saves the reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.errors import ExpectedVersionMismatch, InputError
from omnigraph.history import CommitKind, Entry, PublishPlan, Rebase, Snapshot, TableChange, TableState
from omnigraph.storage.failpoints import Failpoint, reach
from omnigraph.tables import Staged
from omnigraph.views import Stores, View
from omnigraph.write.constraints import Addresses, Deltas, affected_reads, check_deltas
from omnigraph.write.delta import Delta

if TYPE_CHECKING:
    import pyarrow as pa

Sync = Callable[[Sequence[Staged]], None]

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
    actor: str | None = None,
    message: str | None = None,
    if_commit: str | None = None,
) -> PublishPlan:
    """Stage every delta (tables in parallel), make the files durable, and say it all in one plan."""
    reach(Failpoint.TXN_BEFORE_STAGE)
    changes = _stage_all(view, deltas, addresses, {})
    reach(Failpoint.TXN_AFTER_STAGE)
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


def _stage_all(
    view: View, deltas: Deltas, addresses: Addresses, parts: Mapping[str, tuple[str, ...]], sync: Sync | None = None
) -> tuple[TableChange, ...]:
    def one(delta: Delta) -> tuple[TableChange, Staged]:
        return _stage(view, delta, addresses.get(delta.key, {}), parts.get(delta.key))

    live = [delta for delta in deltas.values() if not delta.is_empty]
    if len(live) < 2:
        staged = [one(delta) for delta in live]
    else:
        with ThreadPoolExecutor(max_workers=STAGING_THREADS) as pool:
            staged = list(pool.map(one, live))
    (sync or view.stores.tables.sync)([version for _, version in staged])
    return tuple(change for change, _ in staged)


def _stage(
    view: View, delta: Delta, addresses: Mapping[str, int], parts: tuple[str, ...] | None
) -> tuple[TableChange, Staged]:
    """One table. `parts`: the rows as they were staged before, on another version; otherwise they are written now."""
    base = view.table_or_new(delta.key)
    tables = view.stores.tables
    rows = delta.rows.cast(view.schema(delta.key)) if parts is None and delta.rows.num_rows else None
    remove = [address for id, address in addresses.items() if id in delta.superseded]
    # A rebase is in a hurry; but where every write is rebased, somebody has to fold.
    fold = parts is None or len(base.parts) > PARTS_IN_A_HURRY_MOST
    staged = tables.stage(base, rows=rows, parts=parts or (), remove=remove, clear=delta.clear, fold=fold)
    before = view.state(delta.key)
    state = TableState(base.path, staged.version, (before.number if before else 0) + 1, staged.rows)
    note = {
        "parts": list(staged.parts),
        "strict": sorted(delta.strict),
        "fresh": len(delta.fresh) == delta.rows.num_rows,
        "removed": dict(delta.removed),
        "clear": delta.clear,
        "version": staged.version,
        "path": staged.path,
    }
    return TableChange(delta.key, delta.mode, before, state, note), staged


def rebase_plan(stores: Stores, held: Mapping[str, Delta] | None = None, sync: Sync | None = None) -> Rebase:
    """A rebase for any plan made by `stage_plan`: check again against what arrived, put the same parts on it.

    `sync` makes the new versions durable before the publish; by default that happens at once.
    """

    def rebase(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        view = stores.view(snapshot)
        deltas = {change.key: held[change.key] if held else _delta_of(stores, view, change) for change in plan.changes}
        try:
            addresses = check_deltas(view, deltas, values=False)
        except InputError as error:
            raise _lost_to(plan, deltas, snapshot, error) from None
        moved = {change.key for change in plan.changes if change.base != snapshot.table(change.key)}
        parts = {change.key: tuple(change.staged["parts"]) for change in plan.changes}
        again = {key: delta for key, delta in deltas.items() if key in moved}
        restaged = {change.key: change for change in _stage_all(view, again, addresses, parts, sync)}
        changes = tuple(restaged.get(change.key, change) for change in plan.changes)
        return replace(plan, changes=changes)

    return rebase


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
