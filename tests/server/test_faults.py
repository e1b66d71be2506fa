"""Clients that go away, clients that read slowly, and two servers on one graph in S3."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from s3_server import S3Server
from server_processes import running
from serving import ADD, RECORDS, SCHEMA, Fixed

import omnigraph as og
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog

ENDLESS = """query endless() {
  match { $a: Person $b: Person $c: Person $d: Person  $a.age * $b.age + $c.age * $d.age > 0 }
  return { count($a) as n, sum($a.age * $b.age + $c.age * $d.age) as total }
}"""


class Wire:
    """One request to the application, byte by byte: the client decides when it goes and how fast it reads."""

    def __init__(
        self,
        app: Application,
        path: str,
        pieces: list[bytes],
        media_type: str = "application/json",
        *,
        stops_short: bool = False,
    ) -> None:
        """With `stops_short` the body would go on after its pieces, and the client goes instead."""
        self.app = app
        self.pieces = pieces
        self.stops_short = stops_short
        self.gone = asyncio.Event()
        self.may_read = asyncio.Event()
        self.status: int | None = None
        self.received: list[bytes] = []
        self.scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", media_type.encode())],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
            "scheme": "http",
        }

    async def run(self) -> None:
        await self.app(self.scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self.pieces:
            return {
                "type": "http.request",
                "body": self.pieces.pop(0),
                "more_body": bool(self.pieces) or self.stops_short,
            }
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message.get("body"):
            self.received.append(message["body"])
            if message.get("more_body"):
                await self.may_read.wait()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with enough people that a product of them does not end."""
    place = tmp_path_factory.mktemp("crowd") / "people"
    graph = og.init(place, SCHEMA)
    lines = place.parent / "crowd.jsonl"
    lines.write_text(
        "".join(f'{{"type": "Person", "data": {{"name": "{"p" * 60}{n}", "age": 1}}}}\n' for n in range(6_000))
    )
    graph.load(lines, mode="append", engine="local")
    return place


@pytest.fixture
def served(crowd: Path) -> Iterator[tuple[Application, StringIO]]:
    log = StringIO()
    source = Fixed({"people": crowd}, queries="")
    app = Application(source, source.load(), log=RequestLog("json", log))
    yield app, log
    app.service.close()


def within(work: Callable[[], Awaitable[None]]) -> None:
    """Run it; a minute is much longer than it takes."""
    asyncio.run(asyncio.wait_for(work(), 60))  # type: ignore[arg-type]


def statuses(log: StringIO) -> list[int]:
    return [json.loads(line)["status"] for line in log.getvalue().splitlines() if '"request"' in line]


def test_a_query_ends_when_its_client_goes(served: tuple[Application, StringIO]) -> None:
    app, log = served

    async def go() -> None:
        wire = Wire(app, "/graphs/people/query", [json.dumps({"query": ENDLESS}).encode()])
        asking = asyncio.ensure_future(wire.run())
        wire.gone.set()
        await asking
        assert wire.status is None

    within(go)
    assert statuses(log) == [499]
    assert "defect" not in log.getvalue()


def test_a_load_whose_client_goes_leaves_nothing(
    served: tuple[Application, StringIO], crowd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, log = served
    before = og.open(crowd).head()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def go() -> None:
        line = b'{"type": "Person", "data": {"name": "half"}}\n'
        wire = Wire(app, "/graphs/people/load/ndjson", [line, line], "application/x-ndjson", stops_short=True)
        wire.gone.set()
        await wire.run()
        assert wire.status is None

    within(go)
    assert statuses(log) == [499]
    assert og.open(crowd).head() == before
    assert list(tmp_path.iterdir()) == []
    assert not app.service.admission._writes


def test_slow_readers_of_exports_hold_no_thread_and_nothing_runs_ahead(
    served: tuple[Application, StringIO],
) -> None:
    app, log = served

    async def go() -> None:
        slow = [Wire(app, "/graphs/people/export", [b"{}"]) for _ in range(40)]
        reading = [asyncio.ensure_future(wire.run()) for wire in slow]
        while not all(wire.received for wire in slow):
            await asyncio.sleep(0)
        count = Wire(
            app, "/graphs/people/query", [b'{"query": "query n() { match { $p: Person } return { count($p) as n } }"}']
        )
        await count.run()
        assert count.status == 200
        assert all(len(wire.received) == 1 for wire in slow)
        for wire in slow:
            wire.may_read.set()
        await asyncio.gather(*reading)
        sizes = {sum(map(len, wire.received)) for wire in slow}
        assert len(sizes) == 1
        assert all(len(wire.received) > 5 for wire in slow)

    within(go)
    assert set(statuses(log)) == {200}


@pytest.mark.s3
def test_two_servers_on_one_graph_in_s3_make_each_write_once(s3: S3Server, tmp_path: Path) -> None:
    uri = f"s3://{s3.new_bucket()}/people"
    graph = og.init(uri, SCHEMA, storage_options=s3.options)
    records = tmp_path / "people.jsonl"
    records.write_text(RECORDS.strip() + "\n")
    graph.load(records, mode="merge", engine="local")
    before = len(graph.commits())
    environment = {name.upper(): value for name, value in s3.options.items()}
    with (
        running(tmp_path, uri, "--unauthenticated", **environment) as one,
        running(tmp_path, uri, "--unauthenticated", **environment) as other,
    ):
        answers: list[tuple[int, str]] = []

        def write(url: str) -> None:
            for number in range(6):
                made = httpx.post(
                    f"{url}/graphs/people/mutate",
                    json={"query": ADD, "params": {"name": f"s3 {number}"}},
                    headers={"Idempotency-Key": f"write-{number}"},
                    timeout=60,
                )
                answers.append((made.status_code, made.json()["commit"]["graph_commit_id"]))

        threads = [threading.Thread(target=write, args=(server.url,)) for server in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {status for status, _ in answers} == {200}
    assert len({commit for _, commit in answers}) == 6
    assert len(graph.commits()) == before + 6
