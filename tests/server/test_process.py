"""Servers as programs: the line that says where they listen, signals, workers, and a kill in the middle of a write."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import httpx
import pytest
from server_processes import Running, running
from serving import ADD, ALL, QUERIES, make_people

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.testing.failpoints import FilePark

OPEN = "--unauthenticated"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return make_people(tmp_path / "people")


def mutation(name: str) -> dict[str, object]:
    return {"query": ADD, "params": {"name": name}}


def test_a_local_server_has_a_token_of_its_own_and_reloads_its_queries(graph: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries"
    queries.mkdir()
    (queries / "people.gq").write_text(QUERIES)
    with running(tmp_path, str(graph), "--queries", str(queries)) as server, server.client() as client:
        assert client.get("snapshot").status_code == 401
        found = re.search(r"#token=(\S+)", server.log.read_text())
        assert found is not None
        client.headers["Authorization"] = f"Bearer {found[1]}"
        assert client.post("queries/everyone").json()["row_count"] == 2
        made = client.post("mutate", json=mutation("Local")).json()
        assert made["commit"]["actor_id"] == "local"
        listed = client.get(f"{server.url}/graphs").json()["graphs"]
        assert [each["graph_id"] for each in listed] == ["people"]

        (queries / "more.gq").write_text("query ages() { match { $p: Person } return { $p.age as age } }")
        assert client.post(f"{server.url}/-/reload").status_code == 200
        assert client.post("queries/ages").status_code == 200
        (queries / "more.gq").write_text("query ages() { wrong }")
        refused = client.post(f"{server.url}/-/reload")
        assert refused.status_code == 400
        assert client.post("queries/ages").status_code == 200
        assert server.stop() == 0
        assert found[1] not in server.log.read_text().replace(found[0], "")


def test_sigterm_lets_a_write_end_and_exits_with_0(graph: Path, tmp_path: Path) -> None:
    park = FilePark(tmp_path / "park")
    armed = f"publish.before_create=park:{tmp_path / 'park'}"
    with running(tmp_path, str(graph), OPEN, OMNIGRAPH_FAILPOINTS=armed) as server, server.client() as client:
        answers: list[int] = []
        writing = threading.Thread(
            target=lambda: answers.append(client.post("mutate", json=mutation("Late")).status_code)
        )
        writing.start()
        park.wait_until_reached()
        server.process.send_signal(signal.SIGTERM)
        _wait_until_refused(server.address)
        park.release()
        writing.join(60)
        assert answers == [200]
        assert server.process.wait(60) == 0
    assert og.open(graph).entity("Person", "Late") is not None


def test_connections_opened_before_sigterm_are_answered_and_never_reset(graph: Path, tmp_path: Path) -> None:
    """Some are not accepted yet, some have sent nothing, half a request, or a request before: a stopped process keeps them all."""
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(tmp_path, str(graph), OPEN) as server, contextlib.ExitStack() as opened:
        host, port = server.address.split(":")

        def connect() -> socket.socket:
            return opened.enter_context(socket.create_connection((host, int(port)), timeout=60))

        idle = [connect() for _ in range(4)]
        for connection in idle:
            connection.sendall(request)
            while not connection.recv(65_536).endswith(b"}"):
                pass
        silent = [connect() for _ in range(4)]
        half = [connect() for _ in range(4)]
        for connection in half:
            connection.sendall(request[:20])
        server.process.send_signal(signal.SIGSTOP)
        waiting = [connect() for _ in range(20)]
        server.process.send_signal(signal.SIGTERM)
        for connection in waiting + silent + idle:
            connection.sendall(request)
        for connection in half:
            connection.sendall(request[20:])
        server.process.send_signal(signal.SIGCONT)
        answers = [_read_to_end(connection) for connection in waiting + silent + half + idle]
        assert {answer.partition(b"\r\n")[0] for answer in answers} == {b"HTTP/1.1 200 OK"}
        assert server.process.wait(60) == 0


def _read_to_end(connection: socket.socket) -> bytes:
    pieces = []
    while piece := connection.recv(65_536):
        pieces.append(piece)
    return b"".join(pieces)


def _wait_until_refused(address: str) -> None:
    """Until the server does not listen any more. Each try ends by itself."""
    host, port = address.split(":")
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError:
            return


CROWD = 12
ENOUGH_WRITES = 40


class Writer(threading.Thread):
    """Sends one write after the other until the server takes no more."""

    def __init__(self, server: Running, number: int, enough: threading.Semaphore) -> None:
        super().__init__()
        self.server, self.number, self.enough = server, number, enough
        self.commits: dict[str, str] = {}
        self.refused: list[httpx.Response] = []

    def run(self) -> None:
        with self.server.client() as client:
            for count in itertools.count():
                name = f"w{self.number}-{count}"
                try:
                    answer = client.post("mutate", json=mutation(name))
                except httpx.TransportError:
                    return
                if answer.status_code != 200:
                    self.refused.append(answer)
                    return
                self.commits[name] = answer.json()["commit"]["graph_commit_id"]
                self.enough.release()


def test_sigterm_amid_a_crowd_of_writers_leaves_exactly_the_writes_that_were_answered(
    graph: Path, tmp_path: Path
) -> None:
    enough = threading.Semaphore(0)
    with running(tmp_path, str(graph), OPEN, OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX=str(CROWD)) as server:
        writers = [Writer(server, number, enough) for number in range(CROWD)]
        for writer in writers:
            writer.start()
        for _ in range(ENOUGH_WRITES):
            assert enough.acquire(timeout=120)
        assert server.stop() == 0
        for writer in writers:
            writer.join(60)
            assert not writer.is_alive()
    answered = {name: commit for writer in writers for name, commit in writer.commits.items()}
    assert all("problem" in answer.json() for writer in writers for answer in writer.refused)
    people = og.open(graph)
    names = {row["name"] for row in people.query(ALL).rows}
    assert {name for name in names if name.startswith("w")} == set(answered)
    assert all(people.show(commit).id == commit for commit in set(answered.values()))


def test_a_write_that_was_killed_and_sent_again_elsewhere_under_its_key_is_one_commit(
    graph: Path, tmp_path: Path
) -> None:
    before = len(og.open(graph).commits())
    points = ("publish.before_create", "publish.after_create")
    for point in points:
        with (
            running(tmp_path, str(graph), OPEN, OMNIGRAPH_FAILPOINTS=f"{point}=kill") as first,
            first.client() as client,
        ):
            with pytest.raises(httpx.TransportError):
                client.post("mutate", json=mutation(point), headers={"Idempotency-Key": point})
            assert first.process.wait(60) == -signal.SIGKILL
    with running(tmp_path, str(graph), OPEN) as second, second.client() as client:
        for point, is_replayed in zip(points, (False, True), strict=True):
            answer = client.post("mutate", json=mutation(point), headers={"Idempotency-Key": point})
            assert (answer.status_code, answer.json()["affected_nodes"]) == (200, 1)
            assert ("idempotent-replayed" in answer.headers) == is_replayed
    assert len(og.open(graph).commits()) == before + len(points)


def test_the_second_entry_point_takes_the_same_flags() -> None:
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["omnigraph-server"].partition(":")
    program = f"import sys; from {module} import {name}; sys.argv = ['omnigraph-server', '--help']; {name}()"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "--require-all-graphs" in shown.stdout


def test_several_workers_share_one_address_and_one_graph(graph: Path, tmp_path: Path) -> None:
    with running(tmp_path, str(graph), OPEN, "--workers", "2", "--log-format", "json") as server:
        commits = set()
        for number in range(6):
            with server.client() as client:
                made = client.post(
                    "mutate", json=mutation(f"worker {number}"), headers={"Idempotency-Key": str(number)}
                )
                commits.add(made.json()["commit"]["graph_commit_id"])
        assert len(commits) == 6
        server.process.send_signal(signal.SIGHUP)
        with server.client() as client:
            assert client.post("query", json={"query": ALL}).json()["row_count"] == 8
        assert server.stop(signal.SIGINT) == 0
    events = [json.loads(line)["event"] for line in server.log.read_text().splitlines()]
    assert events.count("stopped") == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{graph}", "--bind", "0.0.0.0:0"], "no tokens"),
        (["{graph}", "--bind", "nowhere"], "not an address"),
        ([], "name the graphs"),
        (["{graph}/nothing", "--bind", "127.0.0.1:0"], "nothing"),
        (["{graph}", "--tls-cert", "x"], "need each other"),
    ],
)
def test_a_server_that_cannot_start_says_why(
    graph: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["serve", *(word.format(graph=graph) for word in arguments)])
    told = capsys.readouterr()
    assert code in (1, 2)
    assert said in told.err
    assert told.out == ""
