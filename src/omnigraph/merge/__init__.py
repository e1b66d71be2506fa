"""What differs between snapshots, the change feed, and the three-way merge of branches."""

from omnigraph.merge.baseline import Baseline, write_baseline
from omnigraph.merge.conflicts import ConflictKind, MergeConflict
from omnigraph.merge.diff import diff
from omnigraph.merge.feed import Block, Cause, CommitPage, FeedPage, commit_changes, poll
from omnigraph.merge.images import ChangeFilter, EntityChange, Image
from omnigraph.merge.merge import MergeResult, Strategy, TypeSummary, merge_branches
from omnigraph.merge.rule import By

__all__ = [
    "Baseline",
    "Block",
    "By",
    "Cause",
    "ChangeFilter",
    "CommitPage",
    "ConflictKind",
    "EntityChange",
    "FeedPage",
    "Image",
    "MergeConflict",
    "MergeResult",
    "Strategy",
    "TypeSummary",
    "commit_changes",
    "diff",
    "merge_branches",
    "poll",
    "write_baseline",
]
