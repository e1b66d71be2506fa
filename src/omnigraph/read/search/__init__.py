"""Text and vector search: the functions themselves, and the rows an index proposes for them."""
