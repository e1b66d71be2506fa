"""Indexes and stored adjacency of a graph: what there is, what is missing, and tasks that build it."""
