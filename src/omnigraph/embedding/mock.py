"""`mock`: vectors without a model, for tests and examples. The same text gives the same vector everywhere; texts that share words
are near each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from omnigraph.deadlines import Deadline
from omnigraph.embedding.provider import Purpose

if TYPE_CHECKING:
    import numpy as np


class Mock:
    """Stands for any model, such as the one in the schema, so that a graph can be tried without its provider."""

    max_texts = 4_096
    is_local = True

    def __init__(self, model: str = "mock") -> None:
        self.model = model

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose, deadline: Deadline) -> np.ndarray:
        """The sum of the vectors of a text's words; the vector of the whole text if it has none."""
        import numpy as np

        return np.array([sum(_vector(word, dimension) for word in text.lower().split() or [text]) for text in texts])


@lru_cache(maxsize=4_096)
def _vector(word: str, dimension: int) -> np.ndarray:
    import numpy as np

    drawn = hashlib.shake_256(word.encode("utf-8", "surrogatepass")).digest(2 * dimension)
    return np.frombuffer(drawn, np.dtype("<u2")).astype(np.float64) - 32_767.5
