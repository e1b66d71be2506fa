"""Transactions: small writes in process. A write is a pure function of one pinned snapshot, published once."""

from omnigraph.write.group import GroupCommitter
from omnigraph.write.mutations import adds_only, run_mutation
from omnigraph.write.publishing import publish
from omnigraph.write.receipt import Receipt, TypeCounts
from omnigraph.write.transaction import Transaction

__all__ = [
    "GroupCommitter",
    "Receipt",
    "Transaction",
    "TypeCounts",
    "adds_only",
    "publish",
    "run_mutation",
]
