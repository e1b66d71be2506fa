"""`openai` and `openai-compatible`: any server that accepts POST /embeddings as OpenAI's does."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from omnigraph.deadlines import Deadline
from omnigraph.embedding.provider import Purpose
from omnigraph.embedding.requests import JsonRequests
from omnigraph.errors import EmbeddingRefused

if TYPE_CHECKING:
    import numpy as np

BYTES_PER_NUMBER = 32
"""Upper bound for the text of one number in an answer."""
EXTRA_BYTES = 1 << 20
_SHORTENED = ("text-embedding-3",)
"""Models that accept a requested vector size; others would refuse the request."""


class OpenAi:
    max_texts = 512
    is_local = False

    def __init__(self, name: str, requests: JsonRequests, model: str) -> None:
        self._requests = requests
        self._name = name
        self._model_name = model
        self.model = model if name == "openai-compatible" else f"{name}/{model}"

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose, deadline: Deadline) -> np.ndarray:
        body: dict[str, Any] = {"model": self._model_name, "input": list(texts), "encoding_format": "float"}
        if self._model_name.rpartition("/")[2].startswith(_SHORTENED):
            body["dimensions"] = dimension
        answer = self._requests.post("/embeddings", body, answer_bytes(len(texts), dimension), deadline)
        try:
            rows = [item["embedding"] for item in sorted(answer["data"], key=itemgetter("index"))]
        except (TypeError, KeyError):
            raise not_vectors(self.model) from None
        return numbers(rows, len(texts), dimension, self.model)


def answer_bytes(texts: int, dimension: int) -> int:
    """A larger answer cannot be right for a batch, even from a model with eight times as many numbers."""
    return EXTRA_BYTES + texts * 8 * dimension * BYTES_PER_NUMBER


def not_vectors(model: str) -> EmbeddingRefused:
    return EmbeddingRefused(
        f"{model} did not answer with vectors",
        hint="check that OMNIGRAPH_EMBED_BASE_URL is the address of an embeddings server",
    )


def numbers(rows: Any, count: int, dimension: int, model: str) -> np.ndarray:
    """The rows of an answer as a matrix. Raises EmbeddingRefused unless there is one vector of this size for each text."""
    import numpy as np

    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise not_vectors(model)
    if len(rows) != count:
        raise EmbeddingRefused(
            f"{model} answered {count} texts with {len(rows)} vectors",
            hint="check that OMNIGRAPH_EMBED_BASE_URL is the address of an embeddings server",
        )
    sizes = {len(row) for row in rows}
    if sizes != {dimension}:
        size = min(sizes - {dimension})
        raise EmbeddingRefused(
            f"{model} makes vectors of {size} numbers, and the schema asks for {dimension}",
            hint=f"declare the property as Vector({size}), or name another model in @embed",
        )
    try:
        return np.array(rows, np.float64)
    except (TypeError, ValueError):
        raise not_vectors(model) from None
