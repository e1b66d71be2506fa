"""`wordllama`: a small model that is part of its package. It needs no network, no key, and no graphics card."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.deadlines import Deadline
from omnigraph.embedding.provider import Purpose
from omnigraph.embedding.settings import WORDLLAMA_DIMENSIONS, WORDLLAMA_MODEL
from omnigraph.errors import EmbeddingRefused, MissingExtra

if TYPE_CHECKING:
    import numpy as np


class WordLlama:
    max_texts = 4_096
    is_local = True

    def __init__(self, model: str = WORDLLAMA_MODEL) -> None:
        self.model = model

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose, deadline: Deadline) -> np.ndarray:
        """The mean of the vectors of a text's tokens."""
        import numpy as np

        if dimension not in WORDLLAMA_DIMENSIONS:
            raise EmbeddingRefused(
                f"wordllama makes vectors of 64, 128 or 256 numbers, and the schema asks for {dimension}",
                hint="declare the property as Vector(256), name another model in @embed, or set OMNIGRAPH_EMBED_PROVIDER",
            )
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        lengths = np.array([len(text.ids) for text in encoded])
        tokens = np.concatenate([np.asarray(text.ids, np.int64) for text in encoded])
        # Sums of runs of rows; a text without tokens has no rows, and its vector stays zero.
        sums = np.zeros((len(texts), dimension))
        if len(tokens):
            filled = lengths > 0
            starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])[filled]
            sums[filled] = np.add.reduceat(self._weights[tokens, :dimension], starts, axis=0)
        return np.asarray(sums / np.maximum(lengths, 1)[:, np.newaxis])

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        (file,) = (self._folder / "tokenizers").glob("l2_supercat*.json")
        return Tokenizer.from_file(str(file))

    @cached_property
    def _weights(self) -> np.ndarray:
        import numpy as np
        from safetensors.numpy import load_file

        (weights,) = load_file(str(self._folder / "weights" / "l2_supercat_256.safetensors")).values()
        return np.asarray(weights, np.float32)

    @cached_property
    def _folder(self) -> Path:
        """Where the package is installed. Its own loader would look for the files in a cache and on the network."""
        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise MissingExtra(
                "embedding texts with wordllama needs wordllama, which is not installed",
                hint="pip install 'omnigraph[embed]', or choose another provider with OMNIGRAPH_EMBED_PROVIDER",
            )
        return Path(spec.origin).parent
