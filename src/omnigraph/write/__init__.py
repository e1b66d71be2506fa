"""Transactions: small writes in process. A write is a pure function of one pinned snapshot, published once."""

from omnigraph.write.constraints import check_deltas
from omnigraph.write.delta import Delta
from omnigraph.write.group import GroupCommitter
from omnigraph.write.mutations import run_mutation
from omnigraph.write.proposal import Proposal
from omnigraph.write.receipt import Receipt, TypeCounts
from omnigraph.write.staging import write_rows
from omnigraph.write.transaction import Transaction

__all__ = [
    "Delta",
    "GroupCommitter",
    "Proposal",
    "Receipt",
    "Transaction",
    "TypeCounts",
    "check_deltas",
    "run_mutation",
    "write_rows",
]
