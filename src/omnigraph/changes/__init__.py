"""Differences between snapshots: diff, change feed and baseline."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.changes.baseline import Baseline, baseline_blocks, write_baseline
    from omnigraph.changes.diff import change_counts
    from omnigraph.changes.entity_changes import ChangeFilter, EntityChange, TypeChanges
    from omnigraph.changes.feed import CommitChanges, CommitPage, FeedPage, commit_changes, poll

_EXPORTS = {
    "omnigraph.changes.baseline": ("Baseline", "baseline_blocks", "write_baseline"),
    "omnigraph.changes.diff": ("change_counts",),
    "omnigraph.changes.entity_changes": ("ChangeFilter", "EntityChange", "TypeChanges"),
    "omnigraph.changes.feed": ("CommitChanges", "CommitPage", "FeedPage", "commit_changes", "poll"),
}

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
    "poll",
    "write_baseline",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
