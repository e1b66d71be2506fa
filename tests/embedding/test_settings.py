"""Which provider and model embed: what the environment and the schema say, and where they contradict each other."""

from __future__ import annotations

import pytest

from omnigraph.embedding.settings import EmbeddingSettings
from omnigraph.errors import EmbeddingRefused, UsageError


def model(environment: dict[str, str], declared: str | None) -> str:
    return EmbeddingSettings.of(environment).embedder(declared).provider.model


@pytest.mark.parametrize(
    ("environment", "declared", "chosen"),
    [
        ({}, None, "wordllama/l2_supercat"),
        ({}, "wordllama", "wordllama/l2_supercat"),
        ({}, "openai/text-embedding-3-large", "openai/text-embedding-3-large"),
        ({}, "text-embedding-ada-002", "openai/text-embedding-ada-002"),
        ({}, "gemini-embedding-2", "gemini/gemini-embedding-2"),
        ({}, "mock", "mock"),
        ({"OMNIGRAPH_EMBED_MODEL": "gemini/gemini-embedding-2"}, None, "gemini/gemini-embedding-2"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai"}, None, "openai/text-embedding-3-large"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai"}, "nomic-embed-text", "openai/nomic-embed-text"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai-compatible"}, None, "openai/text-embedding-3-large"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai-compatible"}, "qwen/e", "qwen/e"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai", "OMNIGRAPH_EMBED_MODEL": "openai/a"}, "a", "openai/a"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock"}, "openai/text-embedding-3-large", "openai/text-embedding-3-large"),
    ],
)
def test_the_model_that_embeds(environment: dict[str, str], declared: str | None, chosen: str) -> None:
    assert model(environment, declared) == chosen


@pytest.mark.parametrize(
    ("environment", "declared", "said"),
    [
        ({"OMNIGRAPH_EMBED_PROVIDER": "wordllama"}, "openai/m", "the schema embeds with openai/m, and .*PROVIDER is w"),
        ({"OMNIGRAPH_EMBED_MODEL": "b"}, "openai/a", "the schema embeds with openai/a, and OMNIGRAPH_EMBED_MODEL is b"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "gemini"}, "wordllama/other", None),
        ({}, "wordllama/other", "their vectors do not compare"),
        ({}, "nomic-embed-text", "provider of the model nomic-embed-text"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "none"}, None, "OMNIGRAPH_EMBED_PROVIDER is none"),
    ],
)
def test_another_model_than_the_schemas_is_refused(
    environment: dict[str, str], declared: str, said: str | None
) -> None:
    if said is None:  # any name may be one of the provider's models: it says so itself when it is not
        assert model(environment, declared) == f"gemini/{declared}"
        return
    with pytest.raises(EmbeddingRefused, match=said) as error:
        model(environment, declared)
    assert "OMNIGRAPH_EMBED_PROVIDER" in str(error.value.hint)


@pytest.mark.parametrize(
    "environment",
    [
        {"OMNIGRAPH_EMBED_PROVIDER": "chatty"},
        {"OMNIGRAPH_EMBED_BASE_URL": "ftp://host/v1"},
        {"OMNIGRAPH_EMBED_BASE_URL": "http://user:sk-secret@host/v1"},
        {"OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE": "0"},
        {"OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE": "often"},
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=next(iter(environment))) as error:
        EmbeddingSettings.of(environment)
    assert "sk-secret" not in str(error.value)
