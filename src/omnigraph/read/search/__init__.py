"""Text and vector search: the functions themselves, and candidate rows from indexes."""
