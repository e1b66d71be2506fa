"""What differs between snapshots: diff, change feed and baseline."""

from omnigraph.changes.baseline import Baseline, write_baseline
from omnigraph.changes.diff import diff
from omnigraph.changes.feed import Block, Cause, CommitPage, FeedPage, commit_changes, poll
from omnigraph.changes.images import ChangeFilter, EntityChange, Image

__all__ = [
    "Baseline",
    "Block",
    "Cause",
    "ChangeFilter",
    "CommitPage",
    "EntityChange",
    "FeedPage",
    "Image",
    "commit_changes",
    "diff",
    "poll",
    "write_baseline",
]
