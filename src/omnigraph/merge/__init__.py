"""What differs between snapshots, the change feed, and the three-way merge of branches."""

from omnigraph.merge.conflicts import ConflictKind, MergeConflict
from omnigraph.merge.diff import diff
from omnigraph.merge.images import ChangeFilter, EntityChange, Image
from omnigraph.merge.merge import MergeResult, Strategy, TypeSummary, merge_branches
from omnigraph.merge.rule import By

__all__ = [
    "By",
    "ChangeFilter",
    "ConflictKind",
    "EntityChange",
    "Image",
    "MergeConflict",
    "MergeResult",
    "Strategy",
    "TypeSummary",
    "diff",
    "merge_branches",
]
