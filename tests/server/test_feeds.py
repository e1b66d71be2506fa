"""Changes as they come: polls that wait, streams of events that are resumed, links that work once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from serving import ADD, Fixed, people_client, tokens
from starlette.testclient import TestClient

import omnigraph as og
from omnigraph.errors import Unauthorized
from omnigraph.server.auth import TICKET_SECONDS, Actor, Tickets
from omnigraph.server.handlers import feeds

PATIENCE_S = 60.0


def add(client: TestClient, name: str) -> str:
    answer = client.post("mutate", json={"query": ADD, "params": {"name": name}})
    assert answer.status_code == 200, answer.text
    commit: str = answer.json()["commit"]["graph_commit_id"]
    return commit


# ---------------------------------------------------------------- long poll


def test_a_poll_that_waits_answers_when_something_is_written(client: TestClient) -> None:
    cursor = client.get("changes").json()["cursor"]
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.get, f"changes?cursor={cursor}&wait=60")
        commit = add(client, "Wanda")
        page = waiting.result(PATIENCE_S).json()
    assert [block["cause"]["graph_commit_id"] for block in page["blocks"]] == [commit]


def test_a_poll_notices_what_another_process_writes(client: TestClient, people: Path) -> None:
    cursor = client.get("changes").json()["cursor"]
    other = og.open(people)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.get, f"changes?cursor={cursor}&wait=60")
        with other.transaction() as tx:
            tx.insert("Person", name="Otto")
        assert len(waiting.result(PATIENCE_S).json()["blocks"]) == 1


def test_a_poll_whose_time_is_over_is_caught_up(client: TestClient) -> None:
    page = client.get("changes?wait=1").json()
    assert (page["blocks"], page["caught_up"]) == ([], True)
    assert client.get("changes?wait=61").status_code == 413
    assert client.get("changes?wait=soon").status_code == 400


def test_a_poll_that_has_changes_does_not_wait(client: TestClient) -> None:
    add(client, "Now")
    assert client.get("changes?start=beginning&limit=1&wait=60").json()["blocks"]


# ---------------------------------------------------------------- server-sent events


class Stream:
    """The events of a stream, taken from the application itself: a test client waits for the end of an answer."""

    def __init__(self, client: TestClient, query: str = "", headers: dict[str, str] | None = None) -> None:
        self._app: Any = client.app
        self._query = query
        self._headers = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        self.status = 0

    async def events(self) -> AsyncGenerator[tuple[str, str | None, Any], None]:
        sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        path = "/graphs/people/changes/stream"
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "scheme": "http",
                 "query_string": self._query.encode(), "headers": [(b"host", b"localhost"), *self._headers],
                 "server": ("localhost", 80), "http_version": "1.1", "asgi": {"version": "3.0", "spec_version": "2.4"}}  # fmt: skip
        running = asyncio.ensure_future(self._app(scope, receive, sent.put))
        try:
            text = b""
            while True:
                message = await asyncio.wait_for(sent.get(), PATIENCE_S)
                self.status = message.get("status", self.status)
                text += message.get("body", b"")
                *whole, text = text.split(b"\n\n")
                for part in whole:
                    if not part.startswith(b":"):
                        fields = dict(line.split(": ", 1) for line in part.decode().split("\n"))
                        yield fields["event"], fields.get("id"), json.loads(fields["data"])
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    return
        finally:
            gone.set()
            running.cancel()


def test_a_stream_gives_commits_as_they_come_and_goes_on_from_its_last_event(client: TestClient) -> None:
    async def follow() -> None:
        loop = asyncio.get_running_loop()
        stream = Stream(client).events()
        name, cursor, _ = await anext(stream)
        assert name == "caught_up"
        commits = [await loop.run_in_executor(None, add, client, each) for each in ("S1", "S2")]
        found: list[tuple[str, str | None, Any]] = []
        while len(found) < 2:  # Between the two it may have been caught up.
            found += [each for each in [await anext(stream)] if each[0] == "block"]
        await stream.aclose()
        assert [(name, data["cause"]["graph_commit_id"]) for name, _, data in found] == [
            ("block", commits[0]),
            ("block", commits[1]),
        ]
        assert [change["id"] for _, _, data in found for change in data["changes"]] == ["S1", "S2"]
        for last_seen, rest in ((cursor, commits), (found[0][1], commits[1:])):
            resumed = Stream(client, headers={"Last-Event-ID": str(last_seen)}).events()
            again = [await anext(resumed) for _ in range(len(rest) + 1)]
            await resumed.aclose()
            assert [data["cause"]["graph_commit_id"] for name, _, data in again if name == "block"] == rest
            assert again[-1][0] == "caught_up"

    asyncio.run(follow())


def test_a_commit_larger_than_a_page_has_its_cursor_at_its_end(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = feeds._poll
    monkeypatch.setattr(
        feeds, "_poll", lambda call, cursor, start, token, limit, most=128: poll(call, cursor, start, token, 2, most)
    )
    cursor = client.get("changes").json()["cursor"]
    text = "query q() { " + " ".join(f'insert Person {{ name: "big{n}" }}' for n in range(5)) + " }"
    client.post("mutate", json={"query": text})

    async def follow() -> list[tuple[str, str | None, Any]]:
        stream = Stream(client, f"cursor={cursor}").events()
        found = [await anext(stream) for _ in range(4)]
        await stream.aclose()
        return found

    found = asyncio.run(follow())
    assert [(name, id is not None) for name, id, _ in found] == [
        ("block", False), ("block", False), ("block", True), ("caught_up", True)
    ]  # fmt: skip
    assert sum(len(data["changes"]) for name, _, data in found if name == "block") == 5


def test_a_quiet_stream_says_that_it_is_there_and_ends_when_the_server_drains(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "COMMENT_SECONDS", 0.01)
    client = people_client(Fixed({"people": people}))
    app: Any = client.app
    service = app.service

    async def follow() -> list[str]:
        stream = Stream(client).events()
        first = await anext(stream)
        service.drain()
        return [first[0], *[name async for name, _, _ in stream]]

    assert asyncio.run(follow()) == ["caught_up"]


@pytest.mark.parametrize(
    ("query", "status"),
    [("cursor=x", 400), ("start=later", 400), ("branch=nowhere", 404), ("cursor=a&start=now", 400), ("more=1", 400)],
)
def test_what_cannot_be_followed_is_refused_before_the_stream_begins(
    client: TestClient, query: str, status: int
) -> None:
    assert client.get(f"changes/stream?{query}").status_code == status


# ---------------------------------------------------------------- tickets


def test_a_ticket_opens_one_path_once_with_the_rights_of_its_holder(start: Callable[..., TestClient]) -> None:
    guarded = start(verifiers=(tokens(ada="a"),))
    path = "/graphs/people/entity?type=Person&id=Ada"
    assert guarded.get(path).status_code == 401
    answer = guarded.post("tickets", json={"path": path}, headers={"Authorization": "Bearer a"})
    assert answer.json()["expires_in"] == TICKET_SECONDS
    ticket = answer.json()["ticket"]
    assert guarded.get(f"/graphs/people/entity?type=Person&id=Bo&ticket={ticket}").status_code == 401
    assert guarded.post("query", json={"query": "query"}, params={"ticket": ticket}).status_code == 401
    assert guarded.get(f"{path}&ticket={ticket}").json()["id"] == "Ada"
    assert guarded.get(f"{path}&ticket={ticket}").status_code == 401
    assert guarded.post("tickets", json={"path": path}).status_code == 401


@pytest.mark.parametrize("path", ["/graphs/other/blob", "http://elsewhere/graphs/people/blob", "entity", "/healthz"])
def test_a_ticket_is_for_a_path_below_its_graph(client: TestClient, path: str) -> None:
    assert client.post("tickets", json={"path": path}).status_code == 400


def test_a_ticket_grows_old() -> None:
    now = [0.0]
    tickets = Tickets(clock=lambda: now[0])
    ticket = tickets.issue(Actor("ada"), "/graphs/g/blob?a=1&b=2")
    now[0] = TICKET_SECONDS - 0.1
    assert tickets.redeem(ticket, "/graphs/g/blob?b=2&a=1&ticket=x") == Actor("ada")
    ticket = tickets.issue(Actor("ada"), "/graphs/g/blob")
    now[0] += TICKET_SECONDS
    with pytest.raises(Unauthorized):
        tickets.redeem(ticket, "/graphs/g/blob")
