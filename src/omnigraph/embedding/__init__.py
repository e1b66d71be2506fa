"""Embedding: vectors of texts, by a provider that the environment, a cluster file or the schema names."""

from omnigraph.embedding.embedder import Embedder
from omnigraph.embedding.filling import Filling, TextVector
from omnigraph.embedding.settings import EmbeddingSettings

__all__ = ["Embedder", "EmbeddingSettings", "Filling", "TextVector"]
