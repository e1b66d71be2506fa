"""Differences between snapshots: diff, change feed and baseline."""
