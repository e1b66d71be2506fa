"""What a provider of embeddings is: one call that makes vectors of a batch of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from omnigraph.deadlines import Deadline

if TYPE_CHECKING:
    import numpy as np

ProviderKind = Literal["openai", "openai-compatible", "gemini", "wordllama", "mock", "none"]
Purpose = Literal["query", "document"]
"""Some models embed what is looked for otherwise than what is looked through."""


class Provider(Protocol):
    """Vectors come as they are made: the embedder checks and normalises them, and cuts texts into batches."""

    @property
    def model(self) -> str:
        """What the schema calls this model: provider and name."""

    @property
    def max_texts(self) -> int:
        """How many texts one call takes."""

    @property
    def is_local(self) -> bool:
        """Whether it is so cheap that nothing is gained by remembering what it made."""

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose, deadline: Deadline) -> np.ndarray:
        """A row of numbers for each text. EmbeddingRefused or EmbeddingUnavailable when it cannot."""
