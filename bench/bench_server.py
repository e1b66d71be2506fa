"""What HTTP adds to the library, as ratios of one run.

A point read over HTTP beside the same call of the library and beside a bare Starlette that says hello; reads a second over 32
connections beside those of the library in a loop; writes a second of 64 clients beside 16 threads of the library, which share commits;
an export beside the library's and beside reading its file; what idle readers of a change stream cost; the start. Times are of the clock and, where a machine has other work,
more truly of the processor.

    python bench/bench_server.py [people]
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

import omnigraph as og

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from server_processes import Running, running

SCHEMA = "node Person { name: String @key  age: I32?  text: String? }"
POINT = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age as age } }"
ADD = "query add($name: String) { insert Person { name: $name } }"
HELLO = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def hello(request):
    await request.body()
    return JSONResponse({"hello": "world"})

uvicorn.run(Starlette(routes=[Route("/hello", hello, methods=["POST"])]), port=int(sys.argv[1]), log_level="critical")
"""
READS = 400
WARM_READS = 20
CONNECTIONS = 32
CLIENTS = 64
SECONDS = 5.0
IDLE_READERS = 100
IDLE_SECONDS = 20.0


def median_ms(work: Callable[[int], object], times: int = READS) -> float:
    for number in range(WARM_READS):
        work(number)
    taken = []
    for number in range(times):
        started = time.perf_counter()
        work(number)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1000


@contextmanager
def bare_starlette() -> Iterator[httpx.Client]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", HELLO, str(port)])
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}")
    try:
        while True:
            try:
                client.post("/hello", json={})
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait()


class Connection:
    """A client that costs little, so that the server is what is measured."""

    def __init__(self, address: str, token: str = "") -> None:
        self._host, port = address.split(":")
        self._port = int(port)
        self._token = f"Authorization: Bearer {token}\r\n" if token else ""

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def post(self, path: str, body: bytes) -> int:
        head = f"POST /graphs/people/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{self._token}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        size = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
        await self._reader.readexactly(size)
        return int(answer[9:12])


async def a_second(server: Running, connections: int, path: str, body: Callable[[int, int], bytes]) -> float:
    """Requests that are answered with 200, over so many connections that never wait."""
    opened = [Connection(server.address) for _ in range(connections)]
    for connection in opened:
        await connection.open()
    end = time.perf_counter() + SECONDS

    async def ask(number: int) -> int:
        done = 0
        while time.perf_counter() < end:
            assert await opened[number].post(path, body(number, done)) == 200
            done += 1
        return done

    return sum(await asyncio.gather(*map(ask, range(connections)))) / SECONDS


def point(number: int, done: int) -> bytes:
    return json.dumps({"query": POINT, "params": {"name": f"p{(number * 31 + done) % 1000}"}}).encode()


def addition(number: int, done: int) -> bytes:
    return json.dumps({"query": ADD, "params": {"name": f"w{number}-{done}"}}).encode()


def writes_of_library(graph: og.Graph, threads: int) -> float:
    counts = [0] * threads
    end = time.perf_counter() + SECONDS

    def write(number: int) -> None:
        while time.perf_counter() < end:
            graph.mutate(ADD, {"name": f"l{number}-{counts[number]}"})
            counts[number] += 1

    running_threads = [threading.Thread(target=write, args=(number,)) for number in range(threads)]
    for thread in running_threads:
        thread.start()
    for thread in running_threads:
        thread.join()
    return sum(counts) / SECONDS


def export_over_http(server: Running) -> tuple[int, float]:
    started, size = time.perf_counter(), 0
    plain = {"Accept-Encoding": "identity"}
    with server.client() as client, client.stream("POST", "export", json={}, headers=plain) as answer:
        assert answer.status_code == 200
        for piece in answer.iter_raw():
            size += len(piece)
    return size, time.perf_counter() - started


def processor_seconds(server: Running) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def memory_of(server: Running) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


def main() -> None:
    people = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        data = folder / "people.jsonl"
        with data.open("w") as lines:
            for number in range(people):
                lines.write(
                    f'{{"type": "Person", "data": {{"name": "p{number}", "age": {number % 90}, "text": "{"x" * 100}"}}}}\n'
                )
        graph = og.init(folder / "people", SCHEMA)
        graph.load(data, mode="append", engine="local")
        started = time.perf_counter()
        with running(
            folder,
            str(folder / "people"),
            "--unauthenticated",
            OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX="64",
            PYTHONDONTWRITEBYTECODE="",
        ) as server:
            used = processor_seconds(server)
            print(f"start to listening: {time.perf_counter() - started:.2f} s, processor {used:.2f} s")
            compare_reads(server, graph)
            compare_crowds(
                "point reads",
                server,
                lambda: asyncio.run(a_second(server, CONNECTIONS, "query", point)),
                reads_of(graph),
            )
            compare_exports(server, graph, folder)
            asyncio.run(measure_idle_readers(server))
            compare_crowds(
                "writes",
                server,
                lambda: asyncio.run(a_second(server, CLIENTS, "mutate", addition)),
                lambda: writes_of_library(graph, 16),
            )


def compare_reads(server: Running, graph: og.Graph) -> None:
    library = median_ms(lambda number: graph.query(POINT, {"name": f"p{number}"}).to_json())
    with server.client() as client:
        used = processor_seconds(server)
        asked = median_ms(
            lambda number: client.post("query", json={"query": POINT, "params": {"name": f"p{number}"}}).json()
        )
    used = (processor_seconds(server) - used) * 1000 / (READS + WARM_READS)
    own = time.process_time()
    for number in range(READS):
        graph.query(POINT, {"name": f"p{number}"}).to_json()
    own = (time.process_time() - own) * 1000 / READS
    with bare_starlette() as hello:
        bare = median_ms(
            lambda number: hello.post("/hello", json={"query": POINT, "params": {"name": f"p{number}"}}).json()
        )
    print(
        f"point read, median: library {library:.2f} ms, HTTP {asked:.2f} ms (+{asked - library:.2f}),"
        f" bare Starlette {bare:.2f} ms; HTTP / (library + bare) = {asked / (library + bare):.2f}"
    )
    print(f"point read, processor: library {own:.2f} ms, server {used:.2f} ms (+{used - own:.2f})")


def reads_of(graph: og.Graph) -> Callable[[], float]:
    """Point reads a second, one after the other."""

    def work() -> float:
        end, done = time.perf_counter() + SECONDS, 0
        while time.perf_counter() < end:
            graph.query(POINT, {"name": f"p{done % 1000}"}).to_json()
            done += 1
        return done / SECONDS

    return work


def compare_crowds(name: str, server: Running, over_http: Callable[[], float], in_library: Callable[[], float]) -> None:
    """Both give work a second; processor seconds are those of the server, and of this process."""
    used = processor_seconds(server)
    asked = over_http()
    used = (processor_seconds(server) - used) * 1000 / (asked * SECONDS)
    own = time.process_time()
    called = in_library()
    own = (time.process_time() - own) * 1000 / (called * SECONDS)
    print(
        f"{name} a second: HTTP {asked:,.0f}, library {called:,.0f}, ratio {asked / called:.2f};"
        f" processor for each: server {used:.2f} ms, library {own:.2f} ms, ratio {own / used:.2f}"
    )


def compare_exports(server: Running, graph: og.Graph, folder: Path) -> None:
    export_over_http(server)
    before, used = memory_of(server), processor_seconds(server)
    size, seconds = export_over_http(server)
    used, grown = processor_seconds(server) - used, memory_of(server) - before
    for _ in range(2):  # the first loads what it needs
        own = time.process_time()
        assert sum(map(len, graph.export_stream())) == size
        own = time.process_time() - own
    place = folder / "export.jsonl"
    place.write_bytes(b"x" * size)
    started = time.perf_counter()
    with place.open("rb") as file:
        while file.read(65_536):
            pass
    read = time.perf_counter() - started
    megabytes = size / 1e6
    print(
        f"export: {megabytes:.0f} MB, {megabytes / seconds:.0f} MB/s over HTTP, {megabytes / read:,.0f} MB/s reading the file;"
        f" a processor second makes {megabytes / used:.0f} MB over HTTP, {megabytes / own:.0f} MB in the library;"
        f" {grown / 1e6:.0f} MB more memory in the server"
    )


async def measure_idle_readers(server: Running) -> None:
    """Processor time of the server while nobody writes and many clients follow the changes of a branch."""
    host, port = server.address.split(":")
    request = b"GET /graphs/people/changes/stream HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    writers = []
    for _ in range(IDLE_READERS):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        await reader.readuntil(b"caught_up")
        writers.append(writer)
    used = processor_seconds(server)
    await asyncio.sleep(IDLE_SECONDS)
    used = processor_seconds(server) - used
    for writer in writers:
        writer.close()
    print(f"{IDLE_READERS} idle readers of a change stream: {used / IDLE_SECONDS:.2%} of a processor")


if __name__ == "__main__":
    main()
