"""Which provider embeds, and with which model: from the environment or a cluster file, and from the schema's `@embed`.

OMNIGRAPH_EMBED_PROVIDER               openai, openai-compatible, gemini, wordllama, mock, or none; if unset, the provider of the
                                       schema's model, or wordllama if that names none
OMNIGRAPH_EMBED_MODEL                  the model, if the schema names none
OMNIGRAPH_EMBED_BASE_URL               another server with the same API as the provider's
OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE    the most requests that a process may send
OPENAI_API_KEY, OPENROUTER_API_KEY, GEMINI_API_KEY   the keys

A key is never part of the settings: they name the variable that holds it, so that they can be shown, stored and sent to workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph._internal.lazy_imports import np
from omnigraph._internal.runtime import ByteCache
from omnigraph.embedding.providers import Provider, ProviderKind, Purpose
from omnigraph.errors import EmbeddingRefused, MissingExtra, UsageError

if TYPE_CHECKING:
    from omnigraph.embedding.requests import JsonRequests


# Texts to vectors: each text once, in batches that the provider accepts, checked, normalised to length one, and cached.

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


WORDLLAMA_MODEL = "wordllama/l2_supercat"
WORDLLAMA_DIMENSIONS = (64, 128, 256)
"""The model was trained so that the first numbers of a vector are a vector by themselves."""
PROVIDER, MODEL_NAME = "OMNIGRAPH_EMBED_PROVIDER", "OMNIGRAPH_EMBED_MODEL"
BASE_URL, PER_MINUTE = "OMNIGRAPH_EMBED_BASE_URL", "OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE"
KINDS: tuple[str, ...] = get_args(ProviderKind)


@dataclass(frozen=True)
class HttpProvider:
    """A provider over HTTP: its address, its default model, and the variables that may hold its key."""

    base_url: str
    model: str
    key_variables: tuple[str, ...]
    key_header: Callable[[str], tuple[str, str]]


def _bearer(key: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {key}"


HTTP_PROVIDERS: Mapping[str, HttpProvider] = {
    "openai": HttpProvider("https://api.openai.com/v1", "text-embedding-3-large", ("OPENAI_API_KEY",), _bearer),
    "openai-compatible": HttpProvider(
        "https://openrouter.ai/api/v1",
        "openai/text-embedding-3-large",
        ("OPENROUTER_API_KEY", "OPENAI_API_KEY"),
        _bearer,
    ),
    "gemini": HttpProvider(
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini-embedding-2",
        ("GEMINI_API_KEY",),
        lambda key: ("x-goog-api-key", key),
    ),
}


@dataclass(frozen=True)
class EmbeddingSettings:
    """The settings outside the schema; each may be left out."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    requests_per_minute: float | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> EmbeddingSettings:
        """Raises UsageError for an invalid value."""
        kind = environment.get(PROVIDER) or None
        if kind is not None and kind not in KINDS:
            raise UsageError(f"{PROVIDER} is {kind!r}", hint=f"set it to one of {', '.join(KINDS)}")
        base_url = (environment.get(BASE_URL) or "").rstrip("/") or None
        if base_url is not None and ("@" in base_url or not base_url.startswith(("http://", "https://"))):
            raise UsageError(
                f"{BASE_URL} is not the address of a server",
                hint="write http://HOST:PORT/v1, without a key: keys belong in their own variables",
            )
        return cls(kind, environment.get(MODEL_NAME) or None, base_url, None, _per_minute(environment.get(PER_MINUTE)))

    @classmethod
    def of_provider(cls, declared: Mapping[str, str]) -> EmbeddingSettings:
        """The provider of a cluster file, whose `api_key` names a variable: `${NAME}`."""
        key = declared.get("api_key")
        variable = None if key is None else key.removeprefix("${").removesuffix("}")
        return cls(
            declared["kind"], declared.get("model"), (declared.get("base_url") or "").rstrip("/") or None, variable
        )

    def embeds(self, model: str | None, dimension: int) -> bool:
        """Whether writes embed texts for a property that names this model. Not if embedding is turned off; and not if no model
        was chosen and the default one does not make vectors of this size or is not installed."""
        if self.provider is not None:
            return self.provider != "none"
        if model is not None or self.model is not None:
            return True
        return dimension in WORDLLAMA_DIMENSIONS and find_spec("wordllama") is not None

    def embedder(self, model: str | None) -> Embedder:
        """The embedder of a property whose `@embed` names this model. Raises EmbeddingRefused if another one is set up."""
        return _embedder(self, model)

    def _provider(self, declared: str | None) -> Provider:
        kind = self.provider or _kind_of(declared or self.model)
        if kind == "none":
            raise EmbeddingRefused(
                f"a text cannot be embedded: {PROVIDER} is none", hint=f"unset {PROVIDER}, or pass a vector"
            )
        if kind == "mock":
            from omnigraph.embedding.providers import Mock

            return Mock(declared or "mock")
        usual = WORDLLAMA_MODEL if kind == "wordllama" else HTTP_PROVIDERS[kind].model
        chosen = _bare(kind, self.model or declared or usual)
        if (declared is not None and _bare(kind, declared) != chosen) or (
            kind == "wordllama" and chosen != WORDLLAMA_MODEL
        ):
            self._refuse(kind, declared, chosen)
        if kind == "wordllama":
            return WordLlama(chosen)
        requests = self._requests(kind)
        if kind == "gemini":
            from omnigraph.embedding.providers import Gemini

            return Gemini(requests, chosen)
        from omnigraph.embedding.providers import OpenAi

        return OpenAi(kind, requests, chosen)

    def _refuse(self, kind: str, declared: str | None, chosen: str) -> None:
        where = f"{PROVIDER} is {kind}" if self.model is None else f"{MODEL_NAME} is {self.model}"
        model = "no model" if declared is None else declared
        raise EmbeddingRefused(
            f"the schema embeds with {model}, and {where}: their vectors do not compare",
            hint=f"unset {PROVIDER} and {MODEL_NAME}, or change the model in @embed and run 'omnigraph embed --all'",
        )

    def _requests(self, kind: str) -> JsonRequests:
        from omnigraph.embedding.requests import JsonRequests

        provider = HTTP_PROVIDERS[kind]
        keys = provider.key_variables if self.key_variable is None else (self.key_variable,)
        return JsonRequests(
            kind,
            self.base_url or provider.base_url,
            keys,
            provider.key_header,
            needs_key=self.base_url is None or self.key_variable is not None,
            per_minute=self.requests_per_minute,
        )


@lru_cache(maxsize=16)
def _embedder(settings: EmbeddingSettings, model: str | None) -> Embedder:
    """One per process: it caches vectors, and knows when it may send the next request."""
    return Embedder(settings._provider(model))


def _kind_of(model: str | None) -> str:
    """The provider of a model, by its name."""
    if model is None:
        return "wordllama"
    kind, _, name = model.partition("/")
    if kind in KINDS and kind != "none" and (name or kind in ("wordllama", "mock")):
        return kind
    for beginning, known in (("text-embedding-", "openai"), ("gemini-", "gemini")):
        if model.startswith(beginning):
            return known
    raise EmbeddingRefused(
        f"the provider of the model {model} is not known",
        hint=f'set {PROVIDER} (and {BASE_URL}), or write @embed(…, model="openai/{model}")',
    )


def _bare(kind: str, model: str) -> str:
    """A model as its provider calls it: 'openai/m' is 'm' there; a server with models of many vendors takes the full name."""
    if kind == "wordllama":
        return WORDLLAMA_MODEL if model == kind else model
    return model if kind == "openai-compatible" else model.removeprefix(f"{kind}/")


def _per_minute(written: str | None) -> float | None:
    if not written:
        return None
    try:
        number = float(written)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"{PER_MINUTE} is {written!r}", hint="set it to a number above zero")
    return number


# `wordllama`: a small model that is part of its package. It needs no network, no key, and no graphics card.


class WordLlama:
    max_texts = 4_096
    is_local = True

    def __init__(self, model: str = WORDLLAMA_MODEL) -> None:
        self.model = model

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose, deadline: Deadline) -> np.ndarray:
        """The mean of the vectors of a text's tokens."""
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
