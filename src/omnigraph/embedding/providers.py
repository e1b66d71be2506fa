"""The interface of an embedding provider: one call that turns a batch of texts into vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Literal, Protocol
from urllib.parse import quote

from omnigraph._internal.deadlines import Deadline
from omnigraph._internal.lazy_imports import np
from omnigraph.embedding.requests import JsonRequests
from omnigraph.errors import EmbeddingRefused

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


# `openai` and `openai-compatible`: any server that accepts POST /embeddings as OpenAI's does.

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


# `gemini`: Google's embedding models.

_TASKS = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}


class Gemini:
    max_texts = 100
    is_local = False

    def __init__(self, requests: JsonRequests, model: str) -> None:
        self._requests = requests
        self._model_name = model
        self.model = f"gemini/{model}"

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose, deadline: Deadline) -> np.ndarray:
        model = f"models/{self._model_name}"
        request = {"model": model, "taskType": _TASKS[purpose], "outputDimensionality": dimension}
        body = {"requests": [{**request, "content": {"parts": [{"text": text}]}} for text in texts]}
        path = f"/{quote(model)}:batchEmbedContents"
        answer = self._requests.post(path, body, answer_bytes(len(texts), dimension), deadline)
        try:
            rows = [embedding["values"] for embedding in answer["embeddings"]]
        except (TypeError, KeyError):
            raise not_vectors(self.model) from None
        return numbers(rows, len(texts), dimension, self.model)


# `mock`: vectors without a model, for tests and examples. The same text gives the same vector everywhere; texts that share words
# are near each other.


class Mock:
    """Stands for any model, such as the one in the schema, so that a graph can be tried without its provider."""

    max_texts = 4_096
    is_local = True

    def __init__(self, model: str = "mock") -> None:
        self.model = model

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose, deadline: Deadline) -> np.ndarray:
        """The sum of the vectors of a text's words; the vector of the whole text if it has none."""
        return np.array([sum(_vector(word, dimension) for word in text.lower().split() or [text]) for text in texts])


@lru_cache(maxsize=4_096)
def _vector(word: str, dimension: int) -> np.ndarray:
    drawn = hashlib.shake_256(word.encode("utf-8", "surrogatepass")).digest(2 * dimension)
    return np.frombuffer(drawn, np.dtype("<u2")).astype(np.float64) - 32_767.5
