"""The interface of an embedding provider: one call that turns a batch of texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from omnigraph.deadlines import Deadline

if TYPE_CHECKING:
    import numpy as np

ProviderKind = Literal["openai", "openai-compatible", "gemini", "wordllama", "mock", "none"]
Purpose = Literal["query", "document"]
"""Some models embed queries differently from the documents that are searched."""


class Provider(Protocol):
    """Vectors are returned as the model makes them: the embedder checks and normalises them, and splits texts into batches."""

    @property
    def model(self) -> str:
        """The name of this model in schemas: provider and model."""

    @property
    def max_texts(self) -> int:
        """How many texts one call accepts."""

    @property
    def is_local(self) -> bool:
        """Whether it is so cheap that caching its vectors gains nothing."""

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose, deadline: Deadline) -> np.ndarray:
        """A row of numbers for each text. Raises EmbeddingRefused or EmbeddingUnavailable."""
