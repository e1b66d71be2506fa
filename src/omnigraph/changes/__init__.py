"""Differences between snapshots: diff, change feed and baseline."""

from omnigraph.changes.baseline import Baseline, baseline_blocks, write_baseline
from omnigraph.changes.diff import change_counts, diff
from omnigraph.changes.entity_changes import ChangeFilter, EntityChange, TypeChanges
from omnigraph.changes.feed import CommitChanges, CommitPage, FeedPage, commit_changes, poll

__all__ = [
    "Baseline",
    "ChangeFilter",
    "CommitChanges",
    "CommitPage",
    "EntityChange",
    "FeedPage",
    "TypeChanges",
    "baseline_blocks",
    "change_counts",
    "commit_changes",
    "diff",
    "poll",
    "write_baseline",
]
