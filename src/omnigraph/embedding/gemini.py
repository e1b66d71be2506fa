"""`gemini`: Google's embedding models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from omnigraph.deadlines import Deadline
from omnigraph.embedding.openai import answer_bytes, not_vectors, numbers
from omnigraph.embedding.provider import Purpose
from omnigraph.embedding.requests import JsonRequests

if TYPE_CHECKING:
    import numpy as np

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
