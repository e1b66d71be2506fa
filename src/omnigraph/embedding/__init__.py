"""Embedding: vectors of texts, by a provider that the environment, a cluster file or the schema names."""

from typing import TYPE_CHECKING

from omnigraph.lazy_names import names_of

if TYPE_CHECKING:
    from omnigraph.embedding.embedder import Embedder
    from omnigraph.embedding.filling import Filling, TextVector
    from omnigraph.embedding.settings import EmbeddingSettings

_HOMES = {
    "omnigraph.embedding.embedder": ("Embedder",),
    "omnigraph.embedding.filling": ("Filling", "TextVector"),
    "omnigraph.embedding.settings": ("EmbeddingSettings",),
}

__all__ = ["Embedder", "EmbeddingSettings", "Filling", "TextVector"]

__getattr__ = names_of(__name__, _HOMES)
