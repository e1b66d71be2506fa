"""Export: a graph into files."""
