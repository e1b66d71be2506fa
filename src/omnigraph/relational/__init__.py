"""Typed expressions and constraint rules as SQL trees: defined once, run by DuckDB and by Spark alike."""
