"""Maintenance of a graph: compaction, indexes, cleanup and copies."""
