"""Transactions: small writes in process. A write is a pure function of one pinned snapshot, published once."""

from omnigraph.write.constraints import check_deltas
from omnigraph.write.delta import Delta
from omnigraph.write.group import GroupCommitter
from omnigraph.write.mutations import run_mutation
from omnigraph.write.receipt import Receipt, TypeCounts
from omnigraph.write.staging import rebase_plan, stage_plan
from omnigraph.write.transaction import Transaction

__all__ = [
    "Delta",
    "GroupCommitter",
    "Receipt",
    "Transaction",
    "TypeCounts",
    "check_deltas",
    "rebase_plan",
    "run_mutation",
    "stage_plan",
]
