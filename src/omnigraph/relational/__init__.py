"""Pieces of SQL trees, their text in either dialect, and DuckDB to run them in process."""
