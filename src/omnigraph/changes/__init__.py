"""What differs between snapshots: diff, change feed and baseline."""

from omnigraph.changes.baseline import Baseline, baseline_blocks, write_baseline
from omnigraph.changes.diff import diff
from omnigraph.changes.entity_changes import ChangeFilter, EntityChange
from omnigraph.changes.feed import CommitChanges, CommitPage, FeedPage, commit_changes, poll

__all__ = [
    "Baseline",
    "ChangeFilter",
    "CommitChanges",
    "CommitPage",
    "EntityChange",
    "FeedPage",
    "baseline_blocks",
    "commit_changes",
    "diff",
    "poll",
    "write_baseline",
]
