"""Keeping a graph healthy: compaction and indexes."""
