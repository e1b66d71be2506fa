"""Graphs of a server: the same calls as on an open graph, over HTTP."""
