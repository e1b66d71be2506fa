"""Approval of operations that destroy data, bound to exactly what exists."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.cluster.applying import Clock, locked, utc_now
from omnigraph.cluster.config import ClusterConfig
from omnigraph.cluster.ledger import Ledger, LedgerStore, Record
from omnigraph.cluster.planning import ledger_store, plan
from omnigraph.errors import ClusterConflict


def approve(
    config: ClusterConfig, address: str, actor: str, *, books: LedgerStore | None = None, clock: Clock = utc_now
) -> tuple[Ledger, Record]:
    """Let the next apply remove a graph. Any change of the folder, or of what was applied, makes the approval stale."""
    with locked(config, books or ledger_store(config), "approve", actor, clock) as held:
        current_plan = plan(config, held.read())
        operation = next((planned for planned in current_plan.operations if planned.address == address), None)
        if operation is None or operation.approval is None:
            raise ClusterConflict(
                "approval_not_required",
                f"nothing that the plan does to '{address}' needs an approval",
                hint="'omnigraph cluster plan' shows what does",
            )
        record = {"address": address, "digest": operation.approval, "actor": actor, "at": clock().isoformat()}
        others = tuple(approval for approval in current_plan.ledger.approvals if approval["address"] != address)
        return held.publish(replace(current_plan.ledger, approvals=(*others, record))), record
