"""Queries: the first strategy that accepts a typed read answers it, on node numbers or as one SQL tree in DuckDB."""
