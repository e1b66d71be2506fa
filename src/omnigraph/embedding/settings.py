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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, get_args

from omnigraph.embedding.embedder import Embedder
from omnigraph.embedding.provider import Provider, ProviderKind
from omnigraph.errors import EmbeddingRefused, UsageError

if TYPE_CHECKING:
    from omnigraph.embedding.requests import JsonRequests

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
            from omnigraph.embedding.mock import Mock

            return Mock(declared or "mock")
        usual = WORDLLAMA_MODEL if kind == "wordllama" else HTTP_PROVIDERS[kind].model
        chosen = _bare(kind, self.model or declared or usual)
        if (declared is not None and _bare(kind, declared) != chosen) or (
            kind == "wordllama" and chosen != WORDLLAMA_MODEL
        ):
            self._refuse(kind, declared, chosen)
        if kind == "wordllama":
            from omnigraph.embedding.wordllama import WordLlama

            return WordLlama(chosen)
        requests = self._requests(kind)
        if kind == "gemini":
            from omnigraph.embedding.gemini import Gemini

            return Gemini(requests, chosen)
        from omnigraph.embedding.openai import OpenAi

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
