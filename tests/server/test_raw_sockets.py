"""What a client can send that no library for HTTP would: bytes on a socket, before anybody asks who it is."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from server.hostile import hostile_request
from server_processes import Running, running
from serving import ADD, ALL, make_people

from omnigraph.server import process, process as connection
from omnigraph.server.process import HEAD_PIECE_BYTES
from omnigraph.server.settings import Limits

LIMITS = Limits()
BEYOND = LIMITS.header_bytes + 2 * HEAD_PIECE_BYTES
MUCH = 512 * 2**20
LINE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("raw")
    with running(folder, str(make_people(folder / "people"))) as server:
        yield server


class Raw:
    """A connection on which bytes are sent as they are."""

    def __init__(self, server: Running) -> None:
        host, port = server.address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)

    def send(self, data: bytes) -> Raw:
        with suppress(ConnectionError):  # the server has read enough
            self.socket.sendall(data)
        return self

    def rest(self) -> bytes:
        """All that the server sends until it ends the connection."""
        received = b""
        with self.socket, suppress(ConnectionResetError):
            while piece := self.socket.recv(65_536):
                received += piece
        return received

    def answer(self) -> tuple[int, dict[str, object]]:
        """The status and the JSON of the only answer."""
        head, _, body = self.rest().partition(b"\r\n\r\n")
        assert b"connection: close" in head.lower()
        return int(head.split()[1]), json.loads(body)


def token_of(server: Running) -> str:
    """The token that was printed at the start."""
    found = re.search(r"#token=(\S+)", server.log.read_text())
    assert found is not None
    return found[1]


def closing(head: bytes) -> bytes:
    return head + b"Connection: close\r\n\r\n"


def memory_of(server: Running) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * BEYOND,
        LINE + b"X: " + b"a" * BEYOND,
        LINE + b"a" * BEYOND,
        LINE + (b"X-A: " + b"a" * 900 + b"\r\n") * 80,
        b"\r\n" * LIMITS.header_bytes,
    ],
    ids=["target", "value", "name", "many", "empty lines"],
)
def test_a_head_beyond_64_kib_is_refused_whether_it_ends_or_not(server: Running, head: bytes) -> None:
    status, body = Raw(server).send(head + b"\r\n").answer()
    assert (status, body["code"]) == (431, "bad_request")
    assert body["problem"]["code"] == "head_too_large"  # type: ignore[index]
    assert body["resource_limit"]["limit"] == LIMITS.header_bytes  # type: ignore[index]


def test_more_than_100_headers_are_refused(server: Running) -> None:
    headers = b"".join(b"X-%d: a\r\n" % number for number in range(LIMITS.headers - 2))
    assert Raw(server).send(closing(LINE + headers)).rest().startswith(b"HTTP/1.1 200")
    status, body = Raw(server).send(LINE + headers + b"X: a\r\nY: a\r\n\r\n").answer()
    assert (status, body["resource_limit"]) == (  # type: ignore[comparison-overlap]
        431,
        {"resource": "request_headers", "limit": 100, "actual": 101},
    )


def test_a_head_of_just_64_kib_is_read(server: Running) -> None:
    used = len(b"/healthz" + b"HostlocalhostXConnectionclose")
    head = LINE + b"X: " + b"a" * (LIMITS.header_bytes - used) + b"\r\n"
    assert Raw(server).send(closing(head)).rest().startswith(b"HTTP/1.1 200")


def test_trailers_are_bounded_like_headers(server: Running) -> None:
    head = b"POST /graphs/people/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    for trailers in (b"X: " + b"a" * 2 * BEYOND, b"X: a\r\n" * (LIMITS.headers + 1)):
        assert b"HTTP/1.1 200" not in Raw(server).send(head + trailers).rest()  # and it ends


def test_an_answer_that_is_being_made_is_sent_before_the_refusal(server: Running) -> None:
    answers = Raw(server).send(LINE + b"\r\n" + LINE + b"X: " + b"a" * BEYOND).rest()
    assert answers.startswith(b"HTTP/1.1 200")
    assert answers.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 431" in answers


def test_headers_without_end_take_neither_memory_nor_the_event_loop(server: Running) -> None:
    with server.client() as client:
        # The engine loads in the background until the first answer: it is not what is measured.
        client.headers["Authorization"] = f"Bearer {token_of(server)}"
        assert client.post("query", json={"query": ALL}).status_code == 200
    assert Raw(server).send(closing(LINE)).rest().startswith(b"HTTP/1.1 200")
    before = memory_of(server)
    attackers = [Raw(server).send(LINE + b"X-Endless: " + b"a" * 1_000) for _ in range(20)]
    for attacker in attackers:
        attacker.send(b"a" * 4 * 2**20)
    assert Raw(server).send(closing(LINE)).rest().startswith(b"HTTP/1.1 200")
    for attacker in attackers:
        attacker.socket.close()
    assert memory_of(server) - before < 40 * 2**20


def test_little_is_read_of_a_client_that_was_refused(server: Running) -> None:
    """More than the buffers of both kernels hold is not taken, however fast it comes."""
    attacker, sent = Raw(server), 0
    with attacker.socket, suppress(OSError):
        attacker.send(LINE + b"X: " + b"a" * BEYOND)
        while sent < MUCH:
            sent += attacker.socket.send(b"a" * 2**20)
    assert sent < MUCH


def test_refused_heads_are_in_the_log(server: Running) -> None:
    Raw(server).send(LINE + b"X: " + b"a" * BEYOND).answer()
    assert " 431 " in server.log.read_text() or "status=431" in server.log.read_text()


def status_of(server: Running, head: bytes) -> int:
    return int(Raw(server).send(closing(head)).rest().split()[1])


def test_two_hosts_are_refused(server: Running) -> None:
    assert status_of(server, LINE + b"Host: localhost\r\n") == 400


def test_a_target_with_a_host_must_name_this_server(server: Running) -> None:
    line = b"GET http://%s/healthz HTTP/1.1\r\nHost: %s\r\n"
    assert status_of(server, line % (server.address.encode(), b"evil.example")) == 200
    assert status_of(server, line % (b"evil.example", b"localhost")) == 403
    assert status_of(server, line % (b"evil.example:8080", b"localhost")) == 403


def test_a_page_of_the_same_host_and_another_scheme_may_not_write(server: Running) -> None:
    line = b"POST /graphs/people/mutate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nOrigin: %s\r\n%s"
    assert status_of(server, line % (b"https://localhost", b"")) == 403
    assert status_of(server, line % (b"http://localhost", b"")) == 401
    assert status_of(server, line % (b"https://localhost", b"X-Forwarded-Proto: https\r\n")) == 401


def test_a_ticket_given_twice_is_refused(server: Running) -> None:
    line = b"GET /graphs/people/snapshot?ticket=a&ticket=b HTTP/1.1\r\nHost: localhost\r\n"
    assert status_of(server, line) == 400


def test_a_request_that_was_on_its_way_when_the_server_stopped_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LAST_REQUEST_S", 60.0)

    async def app(_scope: object, _receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def stopped() -> list[bytes]:
        listens = asyncio.Event()
        http: Any = partial(connection.HttpConnection, limits=LIMITS)
        with process.bound_socket("127.0.0.1", 0) as bound:
            address = bound.getsockname()
            settings = uvicorn.Config(app, http=http, log_config=None, lifespan="off", ws="none")
            server = process._Server(settings, listens.set)
            serving = asyncio.create_task(server.serve(sockets=[bound]))
            await listens.wait()
            silent, idle = [await asyncio.open_connection(*address) for _ in range(2)]
            idle[1].write(LINE + b"\r\n")
            await idle[0].readuntil(b"ok")
            server.should_exit = True
            with suppress(OSError):
                while True:
                    (await asyncio.open_connection(*address))[1].close()
            answers = []
            for reader, writer in (silent, idle):
                writer.write(LINE + b"\r\n")
                answers.append(await reader.read())
                writer.close()
            await serving
        return answers

    for answer in asyncio.run(asyncio.wait_for(stopped(), 60)):
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(b"ok")
        assert b"connection: close" in answer


# ---------------------------------------------------------------- requests that are made up


def refusal_of(server: Running, request: bytes) -> str:
    """What is wrong with the answers to a request; nothing, as a rule."""
    connection = Raw(server).send(request)
    with suppress(OSError):
        connection.socket.shutdown(socket.SHUT_WR)
    received = connection.rest()
    if not received:
        return ""  # It was not HTTP, or not to its end.
    head, _, body = received.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 100"):
        head, _, body = body.partition(b"\r\n\r\n")
    if not re.match(rb"HTTP/1.1 [1234]\d\d ", head):
        return f"{head[:200]!r} {body[:300]!r}"
    if b"injected" in head.lower() or b"evil.example" in head:
        return f"the request is in the head: {head!r}"
    # The list of graphs says where they are, to those who may list them.
    if b"Traceback" in body or (str(server.log.parent).encode() in received and not request.startswith(b"GET /graphs")):
        return f"it tells of the server: {body[:500]!r}"
    if int(head.split()[1]) >= 400 and b"application/json" in head and request[:5] != b"HEAD ":
        whole = body if b"chunked" not in head.lower() else None
        if whole is not None and "problem" not in json.loads(whole):
            return f"a refusal without its reason: {body[:300]!r}"
    return ""


def attack(server: Running, seed: int, count: int) -> None:
    """Hostile requests from several threads, beside a client that reads and writes as it should."""
    chance = random.Random(seed)
    token = token_of(server)
    requests = [hostile_request(chance, token.encode()) for _ in range(count)]
    with ThreadPoolExecutor(8) as pool, server.client() as client:
        client.headers["Authorization"] = f"Bearer {token}"
        refusals = pool.map(partial(refusal_of, server), requests)
        for number in range(count // 20):
            body = {"query": ADD, "params": {"name": f"good {seed}-{number}", "age": 1}}
            assert client.post("mutate", json=body).status_code == 200
            assert client.get("snapshot").status_code == 200
        wrong = [
            f"{request[:700]!r}\n  {refusal}" for request, refusal in zip(requests, refusals, strict=True) if refusal
        ]
        assert wrong == [], "\n".join(wrong)
        assert "defect" not in server.log.read_text()
        assert client.get("snapshot").status_code == 200


def test_hostile_requests_are_answered_like_wrong_ones(server: Running) -> None:
    attack(server, 1, 120)


@pytest.mark.soak
def test_a_thousand_hostile_requests_are_answered_like_wrong_ones(server: Running) -> None:
    attack(server, int(os.environ.get("OMNIGRAPH_HOSTILE_SEED", "2")), 1_000)
