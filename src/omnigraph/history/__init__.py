"""Commits: one chain of immutable entries per branch; a write becomes visible by creating the next entry, once."""
