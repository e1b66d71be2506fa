"""64 clients that read and commit, for minutes, and what attacks beside them do: latencies, and the memory of the server.

Three phases of the same length: alone, beside attackers, alone again. The attackers, who are one actor, send endless heads, reads that do not end,
and ask for results of thousands of columns. Every ten seconds a line: the resident memory of the server and what it grew
by. At the end p50 and p99 of each phase, and the growth a minute after the first quarter.

    python bench/server_steadiness.py [seconds of all phases] [clients]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench_server import SCHEMA, Connection, memory_of

import omnigraph as og
from omnigraph import cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from server_processes import Running, running

PEOPLE = 20_000
KNOWN = 1_000
ACTORS = 4
"""The clients are of so many; the attackers are one more."""
PHASES = ("alone", "beside attacks", "alone again")
SAMPLE_S = 10.0
WARM_SHARE = 0.25
MIB = 1024 * 1024
CLUSTER = """
version: 1
metadata: { name: bench }
graphs: { people: { schema: people.pg } }
policies: { data: { file: policy.yaml, applies_to: [people] } }
"""
POLICY = f"""
version: 1
groups: {{ clients: [{", ".join(f"client-{number}" for number in range(ACTORS))}], attackers: [eve] }}
rules:
  - id: clients-write
    allow: {{ actors: {{ group: clients }}, actions: [read, change] }}
  - id: attackers-read
    allow: {{ actors: {{ group: attackers }}, actions: [read] }}
"""
POINT = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age as age } }"
COUNT = "query count() { match { $p: Person } return { count($p) as people } }"
SET = "query set($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
ADD = "query add($name: String) { insert Person { name: $name } }"
ENDLESS = "query endless() { match { $a: Person  $b: Person  $c: Person  $a.age < $b.age  $b.age < $c.age } return { count($a) as n } }"
WIDE = "query wide() { match { $p: Person } return { " + ", ".join(f"$p.text as c{n}" for n in range(2_000)) + " } }"


class Latencies:
    """In milliseconds, by phase and kind of request."""

    def __init__(self) -> None:
        self.taken: dict[tuple[str, str], list[float]] = {}
        self.refused = 0

    def show(self, phase: str) -> None:
        for kind in ("read", "write"):
            taken = sorted(self.taken.get((phase, kind), [0.0]))
            p99 = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
            print(f"{phase:15} {kind:6} {len(taken):8,}  p50 {statistics.median(taken):8.1f} ms  p99 {p99:8.1f} ms")


async def use(server: Running, number: int, latencies: Latencies, phase: list[str]) -> None:
    """One client: four reads to one commit, each of its own names."""
    connection, chance = Connection(server.address, f"t-{number % ACTORS}"), random.Random(number)
    await connection.open()
    count = 0
    while phase[0]:
        count += 1
        is_write = chance.random() < 0.2
        name = f"p{chance.randrange(KNOWN)}"
        if is_write:
            body = (
                (ADD, {"name": f"w{number}-{count}"})
                if chance.random() < 0.5
                else (SET, {"name": name, "age": count % 90})
            )
        else:
            body = (COUNT, {}) if chance.random() < 0.05 else (POINT, {"name": name})
        asked_in, started = phase[0], time.perf_counter()
        status = await connection.post(
            "mutate" if is_write else "query", json.dumps({"query": body[0], "params": body[1]}).encode()
        )
        if status == 200:
            kind = "write" if is_write else "read"
            latencies.taken.setdefault((asked_in, kind), []).append((time.perf_counter() - started) * 1_000)
        else:
            latencies.refused += 1


async def attack(server: Running, number: int, phase: list[str]) -> None:
    host, port = server.address.split(":")
    while phase[0] == PHASES[1]:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            if number % 3 == 0:
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"GET /healthz HTTP/1.1\r\nX: ")
                for _ in range(64):
                    writer.write(b"a" * MIB)
                    await asyncio.wait_for(writer.drain(), 5)
                await reader.read()
                writer.close()
            else:
                connection = Connection(server.address, "t-eve")
                await connection.open()
                text = ENDLESS if number % 3 == 1 else WIDE
                await asyncio.wait_for(connection.post("query", json.dumps({"query": text}).encode()), 10)
        await asyncio.sleep(0.01)


async def measure(server: Running, seconds: float, clients: int) -> None:
    latencies, phase, started = Latencies(), [PHASES[0]], time.perf_counter()
    samples: list[tuple[float, int]] = []
    crowd = [asyncio.create_task(use(server, number, latencies, phase)) for number in range(clients)]
    for name in PHASES:
        phase[0] = name
        attackers = [asyncio.create_task(attack(server, each, phase)) for each in range(48 if name == PHASES[1] else 0)]
        end = time.perf_counter() + seconds / len(PHASES)
        while (left := end - time.perf_counter()) > 0:
            await asyncio.sleep(min(SAMPLE_S, left))
            samples.append((time.perf_counter() - started, memory_of(server)))
            grown = (samples[-1][1] - samples[-2][1]) / MIB if len(samples) > 1 else 0.0
            print(f"{samples[-1][0]:6.0f} s  {name:15} {samples[-1][1] / MIB:8.0f} MiB  {grown:+7.1f}", flush=True)
        phase[0] = name if name != PHASES[-1] else ""
        if attackers:
            phase[0] = PHASES[2]
            await asyncio.gather(*attackers, return_exceptions=True)
    await asyncio.gather(*crowd)
    for name in PHASES:
        latencies.show(name)
    steady = [sample for sample in samples if sample[0] > seconds * WARM_SHARE]
    if len(steady) > 1:
        slope = statistics.linear_regression(*zip(*steady, strict=True)).slope
        print(f"after warm-up: {slope * 60 / MIB:+.1f} MiB a minute; {latencies.refused} requests refused")


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    clients = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        data = folder / "people.jsonl"
        people = ({"name": f"p{number}", "age": number % 90, "text": "x" * 100} for number in range(PEOPLE))
        data.write_text("".join(json.dumps({"type": "Person", "data": person}) + "\n" for person in people))
        for name, text in (("people.pg", SCHEMA), ("policy.yaml", POLICY), ("cluster.yaml", CLUSTER)):
            (folder / name).write_text(text)
        applied = cluster.apply(cluster.read_config(folder)).ledger.resources
        og.open(applied["graph.people"]["uri"]).load(data, mode="append", engine="local")
        tokens = {f"client-{number}": f"t-{number}" for number in range(ACTORS)} | {"eve": "t-eve"}
        environment = {
            "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(tokens),
            "OMNIGRAPH_QUERY_SECONDS_MAX": "5",
        }
        with running(folder, "--cluster", str(folder), **environment) as server:
            asyncio.run(measure(server, seconds, clients))


if __name__ == "__main__":
    main()
