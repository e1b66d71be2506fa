"""Providers over HTTP against a server that misbehaves: what is tried again, what is refused, and what nobody may read."""

from __future__ import annotations

import email.utils
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from embedding import misbehaving_server as says

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph.embedding.providers import Gemini, Mock, OpenAi
from omnigraph.embedding.requests import MAX_RETRIES, MAX_WAIT_S, Clock, JsonRequests, RateLimit
from omnigraph.embedding.settings import HTTP_PROVIDERS, MAX_BATCH_CHARACTERS, Embedder, WordLlama
from omnigraph.errors import EmbeddingRefused, EmbeddingUnavailable, QueryTimeout

KEY = "sk-very-secret"


@dataclass
class OwnTime:
    """A clock that moves only when somebody waits."""

    at: float = 1_000.0
    waits: list[float] = field(default_factory=list)

    def clock(self) -> Clock:
        return Clock(lambda: self.at, lambda: self.at, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += seconds


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)


def requests_to(server: says.Misbehaving, time: OwnTime, kind: str = "openai", timeout_s: float = 30.0) -> JsonRequests:
    provider = HTTP_PROVIDERS[kind]
    return JsonRequests(
        kind, server.url, provider.key_variables, provider.key_header, timeout_s=timeout_s, clock=time.clock()
    )


def openai(server: says.Misbehaving, time: OwnTime, timeout_s: float = 30.0, model: str = "m") -> Embedder:
    return Embedder(OpenAi("openai", requests_to(server, time, timeout_s=timeout_s), model))


def test_vectors_come_in_the_order_of_the_texts_and_have_length_one() -> None:
    with says.misbehaving(says.vectors(3)) as server:
        made = openai(server, OwnTime()).embed(["a", "b", "a", "c"], 3)
        (asked,) = server.asked
    assert asked.body == {"model": "m", "input": ["a", "b", "c"], "encoding_format": "float"}  # each text once
    assert (asked.path, asked.headers["Authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")
    assert np.allclose(np.linalg.norm(made, axis=1), 1)
    assert made.dtype == np.float32
    assert made[0].tolist() == made[2].tolist()
    assert made[1][2] < made[3][2]


def test_the_size_is_asked_for_where_a_model_has_several() -> None:
    with says.misbehaving(says.vectors(3)) as server:
        openai(server, OwnTime(), model="text-embedding-3-small").embed(["a"], 3)
        assert server.asked[0].body["dimensions"] == 3


def test_retry_after_is_waited_for() -> None:
    time = OwnTime()
    later = email.utils.formatdate(time.at + 10, usegmt=True)
    answers = [says.status(429, {"Retry-After": "7"}), says.status(503, {"Retry-After": later}), says.vectors(3)]
    with says.misbehaving(*answers) as server:
        assert openai(server, time).embed(["a"], 3).shape == (1, 3)
    assert time.waits == [7.0, 3.0]


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (says.status(429), "status 429: no"),
        (says.status(500), "status 500: no"),
        (says.closed_at_once, "the connection failed"),
        (says.closed_in_mid_answer, "the answer broke off"),
        (says.text(b"<html>busy</html>"), "the answer is not JSON"),
        (says.text(b"[" * 100_000), "the answer is not JSON"),
    ],
)
def test_passing_trouble_is_waited_out_and_lasting_trouble_is_told(trouble: says.Answer, said: str) -> None:
    time = OwnTime()
    with says.misbehaving(trouble, trouble, says.vectors(3)) as server:
        assert openai(server, time).embed(["a"], 3).shape == (1, 3)
    assert len(time.waits) == 2
    assert 0.1 <= time.waits[0] <= 0.2
    assert 0.2 <= time.waits[1] <= 0.4
    with says.misbehaving(trouble) as server, pytest.raises(EmbeddingUnavailable, match=said) as error:
        openai(server, OwnTime()).embed(["a"], 3)
    assert len(server.asked) == MAX_RETRIES + 1
    assert error.value.retry
    assert "try again" in str(error.value.hint)


def test_a_wait_that_is_longer_than_the_patience_is_not_begun() -> None:
    time = OwnTime()
    answer = says.status(429, {"Retry-After": str(int(MAX_WAIT_S) + 1)})
    with says.misbehaving(answer) as server, pytest.raises(EmbeddingUnavailable, match="asks to wait 61 s"):
        openai(server, time).embed(["a"], 3)
    assert time.waits == []


def test_a_slow_server_is_left_and_asked_again() -> None:
    with says.misbehaving(says.silent, says.vectors(3)) as server:
        assert openai(server, OwnTime(), timeout_s=1).embed(["a"], 3).shape == (1, 3)
        assert len(server.asked) == 2


def test_a_query_ends_at_its_own_deadline() -> None:
    with says.misbehaving(says.silent) as server, pytest.raises(QueryTimeout):
        openai(server, OwnTime()).embed(["a"], 3, "query", Deadline(0.05))


@pytest.mark.parametrize(
    ("answer", "said", "hint"),
    [
        (says.vectors(5), "makes vectors of 5 numbers, and the schema asks for 3", "Vector(5)"),
        (says.vectors(3, count=7), "answered 1 texts with 7 vectors", "BASE_URL"),
        (says.vectors(3, value="x"), "did not answer with vectors", "BASE_URL"),
        (says.vectors(3, value=None), "did not answer with vectors|zero or non-finite", ""),
        (says.text(b'{"data": 7}'), "did not answer with vectors", "BASE_URL"),
        (says.text(b"[]"), "did not answer with vectors", "BASE_URL"),
        (
            says.text(b'{"data": [{"index": 0, "embedding": [0, 0, 0]}]}'),
            "zero or non-finite vector for the text 'a'",
            "",
        ),
        (says.text(b'{"data": [{"index": 0, "embedding": [NaN, 0, 0]}]}'), "zero or non-finite", ""),
        (says.endless, "answered with more than", "BASE_URL"),
        (says.status(401, said=f"bad key {KEY}"), r"status 401: bad key \*\*\*", "set OPENAI_API_KEY"),
        (says.status(404), "status 404", "the model of @embed"),
        (says.status(400, said="too long"), "status 400: too long", "message"),
        (says.status(302, {"Location": "http://127.0.0.1:1/elsewhere"}), "status 302", ""),
    ],
)
def test_what_waiting_does_not_mend_is_refused_at_once(answer: says.Answer, said: str, hint: str) -> None:
    time = OwnTime()
    with says.misbehaving(answer) as server, pytest.raises(EmbeddingRefused, match=said) as error:
        openai(server, time).embed(["a"], 3)
    assert (len(server.asked), time.waits) == (1, [])
    assert hint in str(error.value.hint)
    assert KEY not in str(error.value) + repr(error.value) + str(error.value.hint)


def test_nothing_that_can_be_shown_has_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with says.misbehaving(says.status(500, said=f"the key {KEY} is busy")) as server:
        requests = requests_to(server, OwnTime())
        with pytest.raises(EmbeddingUnavailable) as error:
            Embedder(OpenAi("openai", requests, "m")).embed(["a"], 3)
    assert KEY not in repr(requests) + str(error.value) + caplog.text + repr(vars(requests))


def test_without_a_key_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with says.misbehaving(says.vectors(3)) as server:
        with pytest.raises(EmbeddingRefused, match="OPENAI_API_KEY is not set") as error:
            openai(server, OwnTime()).embed(["a"], 3)
        assert server.asked == []
        assert "OPENAI_API_KEY" in str(error.value.hint)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with says.misbehaving(says.vectors(3)) as server:
        pass
    with pytest.raises(EmbeddingUnavailable, match="cannot be reached"):
        openai(server, OwnTime()).embed(["a"], 3)


def test_what_was_embedded_is_remembered_by_model_size_purpose_and_content() -> None:
    with says.misbehaving(says.vectors(3)) as server:
        embedder = openai(server, OwnTime())
        first = embedder.embed(["a", "b"], 3)
        assert embedder.embed(["b", "a"], 3).tolist() == first[::-1].tolist()
        assert len(server.asked) == 1
        embedder.embed(["b", "c"], 3)
        assert server.asked[-1].body["input"] == ["c"]
        embedder.embed(["b"], 3, "query")
        assert server.asked[-1].body["input"] == ["b"]


def test_the_memory_of_vectors_is_bounded() -> None:
    with says.misbehaving(says.vectors(3)) as server:
        embedder = Embedder(OpenAi("openai", requests_to(server, OwnTime()), "m"), cache_bytes=3 * 4 * 10)
        for number in range(50):
            embedder.embed([str(number)], 3)
        assert embedder._cache.nbytes <= 3 * 4 * 10
        embedder.embed(["49"], 3)
        assert len(server.asked) == 50
        embedder.embed(["0"], 3)
        assert len(server.asked) == 51


def test_batches_are_as_large_as_the_provider_takes() -> None:
    with says.misbehaving(says.vectors(3)) as server:
        openai(server, OwnTime()).embed([f"text {i}" for i in range(1_200)], 3)
        assert [len(asked.body["input"]) for asked in server.asked] == [512, 512, 176]
        openai(server, OwnTime()).embed(["x" * (MAX_BATCH_CHARACTERS - 1), "y", "z"], 3)
        assert [len(asked.body["input"]) for asked in server.asked[3:]] == [2, 1]


def test_requests_are_spread_over_the_minute() -> None:
    time = OwnTime()
    limit = RateLimit(30, time.clock())
    for _ in range(3):
        limit.wait()
    assert time.waits == [2.0, 2.0]


def test_gemini_is_asked_in_its_own_words() -> None:
    def answer(handler: says.Handler, body: dict[str, object]) -> None:
        handler.send(200, b'{"embeddings": [{"values": [3, 4]}, {"values": [0, 1]}]}')

    with says.misbehaving(answer) as server:
        embedder = Embedder(Gemini(requests_to(server, OwnTime(), "gemini"), "gemini-embedding-2"))
        made = embedder.embed(["a", "b"], 2, "query")
        (asked,) = server.asked
    assert made.tolist() == [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    assert asked.path == "/v1/models/gemini-embedding-2:batchEmbedContents"
    assert asked.headers["X-Goog-Api-Key"] == KEY
    assert asked.body["requests"][0] == {
        "model": "models/gemini-embedding-2",
        "taskType": "RETRIEVAL_QUERY",
        "outputDimensionality": 2,
        "content": {"parts": [{"text": "a"}]},
    }
    with says.misbehaving(says.text(b'{"embeddings": [7]}')) as server, pytest.raises(EmbeddingRefused):
        Embedder(Gemini(requests_to(server, OwnTime(), "gemini"), "m")).embed(["a"], 2)


@pytest.mark.parametrize("make", [Mock, WordLlama])
def test_a_local_provider_needs_no_network_and_repeats_itself(make: Callable[[], Mock | WordLlama]) -> None:
    texts = ["a graph database with branches", "a graph that is a database", "cats sat on the mat"]
    made = Embedder(make()).embed(texts, 256)
    near = made @ made.T
    assert near[0, 1] > near[0, 2]
    assert math.isclose(near[0, 0], 1, rel_tol=1e-6)
    assert Embedder(make()).embed(texts[::-1], 256).tolist() == made[::-1].tolist()


def test_wordllama_makes_shorter_vectors_and_no_longer_ones() -> None:
    assert WordLlama().embed(["graph", ""], 64, "query", NEVER).shape == (2, 64)
    with pytest.raises(EmbeddingRefused, match="64, 128 or 256") as error:
        WordLlama().embed(["graph"], 384, "query", NEVER)
    assert "Vector(256)" in str(error.value.hint)
