"""Requests that are repeated, and those that are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from omnigraph import errors
from omnigraph.client.connection import ATTEMPTS, MAX_PAUSE_S, Connection

OK = httpx.Response(200, json={"ok": True})
BUSY = {
    "error": "later",
    "code": "internal",
    "problem": {"code": "storage_transient", "retry": True, "outcome": "unknown"},
}

Handler = Callable[[httpx.Request], httpx.Response]


class Scripted(httpx.BaseTransport):
    """Answers in turn: a response, or an error of the network."""

    def __init__(self, *turns: httpx.Response | Exception) -> None:
        self.turns = list(turns)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn


def connected(*turns: httpx.Response | Exception) -> tuple[Connection, Scripted, list[float]]:
    transport, pauses = Scripted(*turns), []
    return Connection("http://server", "t", transport=transport, pause=pauses.append), transport, pauses


def busy(after: str | None = None) -> httpx.Response:
    return httpx.Response(503, json=BUSY, headers={} if after is None else {"Retry-After": after})


@pytest.mark.parametrize(
    "turn",
    [httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.RemoteProtocolError("gone"), busy(), busy("1")],
)
def test_what_may_be_repeated_is_repeated(turn: httpx.Response | Exception) -> None:
    connection, transport, pauses = connected(turn, OK)
    assert connection.send("GET", "/x").json() == {"ok": True}
    assert len(transport.requests) == 2
    assert 0 < pauses[0] <= MAX_PAUSE_S


def test_pauses_grow_and_attempts_end() -> None:
    connection, transport, pauses = connected(*[httpx.ConnectError("refused")] * ATTEMPTS)
    with pytest.raises(errors.ServerUnavailable, match="refused") as failed:
        connection.send("GET", "/x")
    assert not failed.value.is_sent
    assert len(transport.requests) == ATTEMPTS
    assert pauses == sorted(pauses)
    assert len(pauses) == ATTEMPTS - 1


def test_a_server_that_asks_for_a_long_pause_is_not_asked_again() -> None:
    connection, transport, _ = connected(busy("60"))
    with pytest.raises(errors.StorageTransient):
        connection.send("GET", "/x")
    assert len(transport.requests) == 1


def test_a_write_without_a_key_is_repeated_only_if_it_was_not_sent() -> None:
    connection, transport, _ = connected(httpx.ConnectError("refused"), OK)
    connection.send("POST", "/x", body={}, repeat="unsent")
    assert len(transport.requests) == 2
    for turn in (httpx.ReadError("reset"), busy("1")):
        connection, transport, _ = connected(turn)
        with pytest.raises(errors.OmnigraphError) as failed:
            connection.send("POST", "/x", body={}, repeat="unsent")
        assert failed.value.outcome == "unknown"
        assert len(transport.requests) == 1


def test_a_body_is_sent_whole_at_each_attempt() -> None:
    def pieces() -> Iterator[bytes]:
        yield from (b"one\n", b"two\n")

    connection, transport, _ = connected(httpx.ReadError("reset"), OK)
    connection.send("POST", "/x", content=pieces, content_type="application/x-ndjson", headers={"Idempotency-Key": "k"})
    assert [request.content for request in transport.requests] == [b"one\ntwo\n"] * 2
    assert {request.headers["idempotency-key"] for request in transport.requests} == {"k"}


@pytest.mark.parametrize("status", [400, 404, 409])
def test_a_refusal_is_final(status: int) -> None:
    connection, transport, _ = connected(
        httpx.Response(status, json={"error": "no", "problem": {"code": "usage_error"}})
    )
    with pytest.raises(errors.UsageError, match="no"):
        connection.send("GET", "/x")
    assert len(transport.requests) == 1


def test_an_answer_that_is_not_the_servers_own_is_no_answer() -> None:
    for answer in (httpx.Response(500, text="<html>"), httpx.Response(418, json=[1]), httpx.Response(302)):
        connection, _, _ = connected(*[answer] * ATTEMPTS)
        with pytest.raises(errors.ServerUnavailable):
            connection.send("GET", "/x")
    connection, _, _ = connected(httpx.Response(200, text="<html>"))
    with pytest.raises(errors.ServerUnavailable, match="not answer in JSON"):
        connection.send("GET", "/x").json()


def test_a_timeout_of_the_caller_is_a_query_timeout_and_final() -> None:
    connection, transport, _ = connected(httpx.ReadTimeout("slow"))
    with pytest.raises(errors.QueryTimeout):
        connection.send("GET", "/x", timeout=0.5)
    connection, transport, _ = connected(httpx.ReadTimeout("slow"), OK)
    assert connection.send("GET", "/x").status == 200
    assert len(transport.requests) == 2


def test_a_redirect_is_not_followed_with_the_token() -> None:
    moved = httpx.Response(307, headers={"Location": "http://evil.example/x"})
    connection, transport, _ = connected(*[moved] * ATTEMPTS)
    with pytest.raises(errors.ServerUnavailable):
        connection.send("GET", "/x")
    assert {request.url.host for request in transport.requests} == {"server"}


def test_a_token_is_sent_in_its_header_alone() -> None:
    connection, transport, _ = connected(OK)
    connection.send("POST", "/x", query={"a": "b", "c": None, "d": ["e", "f"], "g": True}, body={"h": 1})
    (request,) = transport.requests
    assert request.headers["authorization"] == "Bearer t"
    assert str(request.url) == "http://server/x?a=b&d=e&d=f&g=true"
    assert json.loads(request.content) == {"h": 1}
