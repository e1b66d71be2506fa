"""Transactions: small writes in this process. A write is a pure function of one pinned snapshot, published once."""

from omnigraph.write.group import GroupCommitter
from omnigraph.write.mutations import adds_only, run_mutation
from omnigraph.write.publishing import publish
from omnigraph.write.receipt import Receipt, TypeCounts
from omnigraph.write.transaction import WriteTransaction

__all__ = [
    "GroupCommitter",
    "Receipt",
    "TypeCounts",
    "WriteTransaction",
    "adds_only",
    "publish",
    "run_mutation",
]
