"""Transactions: small writes in this process. A write is a pure function of one pinned snapshot, published once."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.write.group import GroupCommitter
    from omnigraph.write.mutations import adds_only, run_mutation
    from omnigraph.write.publishing import publish
    from omnigraph.write.receipt import Receipt, TypeCounts
    from omnigraph.write.transaction import WriteTransaction

_EXPORTS = {
    "omnigraph.write.group": ("GroupCommitter",),
    "omnigraph.write.mutations": ("adds_only", "run_mutation"),
    "omnigraph.write.publishing": ("publish",),
    "omnigraph.write.receipt": ("Receipt", "TypeCounts"),
    "omnigraph.write.transaction": ("WriteTransaction",),
}

__all__ = [
    "GroupCommitter",
    "Receipt",
    "TypeCounts",
    "WriteTransaction",
    "adds_only",
    "publish",
    "run_mutation",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
