"""A read plan as one SQL tree over named inputs, which DuckDB and Spark both run."""
