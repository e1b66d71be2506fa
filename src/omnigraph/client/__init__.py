"""Graphs that a server serves: the same calls as on a graph that was opened, over HTTP."""
