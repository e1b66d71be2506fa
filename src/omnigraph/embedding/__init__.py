"""Embedding: vectors of texts, by a provider that the environment, a cluster file or the schema names."""
