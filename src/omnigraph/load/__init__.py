"""Load: files and data frames into a graph, as one commit."""
