"""Graph algorithms on a snapshot: in this process over arrays, or as tasks over parts of the graph."""
