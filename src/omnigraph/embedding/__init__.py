"""Embedding: vectors of texts, by a provider that the environment, a cluster file or the schema names."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.embedding.filling import Embeddings, TextVector
    from omnigraph.embedding.settings import Embedder, EmbeddingSettings

_EXPORTS = {
    "omnigraph.embedding.settings": (
        "Embedder",
        "EmbeddingSettings",
    ),
    "omnigraph.embedding.filling": (
        "Embeddings",
        "TextVector",
    ),
}

__all__ = ["Embedder", "EmbeddingSettings", "Embeddings", "TextVector"]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
