"""Whether a graph is whole: every retained commit and every file of it, and on demand every row."""
