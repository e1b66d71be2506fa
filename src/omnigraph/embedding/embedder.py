"""Texts to vectors: each text once, in batches that the provider accepts, checked, normalised to length one, and cached."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from omnigraph.deadlines import NEVER, Deadline
from omnigraph.embedding.provider import Provider, Purpose
from omnigraph.errors import EmbeddingRefused
from omnigraph.runtime import ByteCache

if TYPE_CHECKING:
    import numpy as np

CACHE_BYTES = 64 * 2**20
MAX_BATCH_CHARACTERS = 200_000
"""Providers also limit the tokens of a request; no ordinary text has more tokens than characters."""


class Embedder:
    """Thread-safe."""

    def __init__(self, provider: Provider, cache_bytes: int = CACHE_BYTES) -> None:
        self.provider = provider
        self._cache = ByteCache(cache_bytes)

    def __repr__(self) -> str:
        return f"<Embedder {self.provider.model}>"

    def embed(
        self,
        texts: Sequence[str],
        dimension: int,
        purpose: Purpose = "document",
        deadline: Deadline = NEVER,
    ) -> np.ndarray:
        """A vector of F32 with length one for each text."""
        import numpy as np

        distinct = list(dict.fromkeys(texts))
        matrix = np.empty((len(distinct), dimension), np.float32)
        missing = self._recall(distinct, matrix, dimension, purpose)
        for batch in _batches(missing, distinct, self.provider.max_texts):
            batch_texts = [distinct[place] for place in batch]
            vectors = self._of_length_one(self.provider.embed(batch_texts, dimension, purpose, deadline), batch_texts)
            matrix[batch] = vectors
            self._remember(batch_texts, vectors, dimension, purpose)
        if len(distinct) == len(texts):
            return matrix
        places = {text: place for place, text in enumerate(distinct)}
        return matrix[[places[text] for text in texts]]

    def _recall(self, texts: Sequence[str], matrix: np.ndarray, dimension: int, purpose: Purpose) -> list[int]:
        """Fill in cached vectors; returns the positions of the rest."""
        if self.provider.is_local:
            return list(range(len(texts)))
        missing = []
        for place, text in enumerate(texts):
            vector = self._cache.find(self._cache_key(text, dimension, purpose))
            if vector is None:
                missing.append(place)
            else:
                matrix[place] = vector
        return missing

    def _remember(self, texts: Sequence[str], vectors: np.ndarray, dimension: int, purpose: Purpose) -> None:
        if not self.provider.is_local:
            for text, vector in zip(texts, vectors, strict=True):
                self._cache.put(self._cache_key(text, dimension, purpose), vector.copy())

    def _cache_key(self, text: str, dimension: int, purpose: Purpose) -> tuple[str, int, str, bytes]:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return self.provider.model, dimension, purpose, digest

    def _of_length_one(self, vectors: np.ndarray, texts: Sequence[str]) -> np.ndarray:
        import numpy as np

        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        wrong = ~np.isfinite(lengths) | (lengths == 0)
        if wrong.any():
            text = texts[int(np.argmax(wrong))]
            raise EmbeddingRefused(
                f"{self.provider.model} returned a zero or non-finite vector for the text {text[:60]!r}",
                hint="pass a vector for such a text, or leave the text out",
            )
        return np.asarray(vectors / lengths[:, np.newaxis], np.float32)


def _batches(places: Sequence[int], texts: Sequence[str], max_texts: int) -> Iterator[list[int]]:
    """Runs of positions whose texts make up one request."""
    batch: list[int] = []
    characters = 0
    for place in places:
        size = len(texts[place])
        if batch and (len(batch) == max_texts or characters + size > MAX_BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(place)
        characters += size
    if batch:
        yield batch
