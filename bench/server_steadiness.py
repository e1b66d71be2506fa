"""64 clients that read and commit, for minutes, and what attacks beside them do: latencies, and the memory of the server.

Three phases of the same length, with the same clients: alone, beside attackers, alone again. The attackers are a process of their own: 16
connections without a token send endless heads; one actor sends reads that do not end over 16 more, and short reads as fast as they are answered
over 16; another asks for results of thousands of columns over 16. Clients and attackers have the last processor, and attackers only what
the clients leave of it; the server has the others. Every ten seconds a line: the resident memory of the server and what it grew by. At
the end p50 and p99 of each phase, its processor time, and the growth a minute after the first quarter.

    python bench/server_steadiness.py [seconds of all phases] [clients]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_server import SCHEMA, Connection, memory_of, processor_seconds

import omnigraph as og
from omnigraph._internal.runtime import size_in_bytes
from omnigraph.cluster.applying import apply
from omnigraph.cluster.config import read_config

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from server_processes import Running, running

PEOPLE = 20_000
KNOWN = 1_000
ACTORS = 4
"""The clients are of so many; the attackers are two more."""
ATTACKERS = 64
MEMORY = "512MiB"
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
groups: {{ clients: [{", ".join(f"client-{number}" for number in range(ACTORS))}], attackers: [eve, mallory] }}
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


async def attack(address: str, number: int) -> None:
    host, port = address.split(":")
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            if number % 4 == 0:
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"GET /healthz HTTP/1.1\r\nX: ")
                for _ in range(64):
                    writer.write(b"a" * MIB)
                    await asyncio.wait_for(writer.drain(), 5)
                await reader.read()
                writer.close()
            else:
                connection = Connection(address, "t-mallory" if number % 4 == 2 else "t-eve")
                await connection.open()
                body = {1: {"query": ENDLESS}, 2: {"query": WIDE}, 3: {"query": POINT, "params": {"name": "p1"}}}[
                    number % 4
                ]
                for _ in range(1_000 if number % 4 == 3 else 1):
                    await asyncio.wait_for(connection.post("query", json.dumps(body).encode()), 20)
        await asyncio.sleep(0.01)


async def attack_forever(address: str) -> None:
    await asyncio.gather(*(attack(address, number) for number in range(ATTACKERS)))


async def measure(server: Running, seconds: float, clients: int) -> None:
    latencies, phase, started = Latencies(), [PHASES[0]], time.perf_counter()
    samples: list[tuple[float, int]] = []
    crowd = [asyncio.create_task(use(server, number, latencies, phase)) for number in range(clients)]
    for name in PHASES:
        phase[0] = name
        used = processor_seconds(server)
        attackers = (
            [subprocess.Popen([sys.executable, __file__, "attack", server.address])] if name == PHASES[1] else []
        )
        end = time.perf_counter() + seconds / len(PHASES)
        while (left := end - time.perf_counter()) > 0:
            await asyncio.sleep(min(SAMPLE_S, left))
            samples.append((time.perf_counter() - started, memory_of(server)))
            grown = (samples[-1][1] - samples[-2][1]) / MIB if len(samples) > 1 else 0.0
            print(f"{samples[-1][0]:6.0f} s  {name:15} {samples[-1][1] / MIB:8.0f} MiB  {grown:+7.1f}", flush=True)
        for attacker in attackers:
            attacker.kill()
            attacker.wait()
        print(f"{name}: {processor_seconds(server) - used:.1f} s of processor in the server")
    phase[0] = ""
    await asyncio.gather(*crowd)
    for name in PHASES:
        latencies.show(name)
    budget = 2 * size_in_bytes(MEMORY) // MIB
    print(f"at most {max(size for _, size in samples) / MIB:.0f} MiB resident; held and reads under way: {budget} MiB")
    steady = [sample for sample in samples if sample[0] > seconds * WARM_SHARE]
    if len(steady) > 1:
        slope = statistics.linear_regression(*zip(*steady, strict=True)).slope
        print(f"after warm-up: {slope * 60 / MIB:+.1f} MiB a minute; {latencies.refused} requests refused")


def main() -> None:
    if sys.argv[1:2] == ["attack"]:
        os.nice(10)
        asyncio.run(attack_forever(sys.argv[2]))
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    clients = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        data = folder / "people.jsonl"
        people = ({"name": f"p{number}", "age": number % 90, "text": "x" * 100} for number in range(PEOPLE))
        data.write_text("".join(json.dumps({"type": "Person", "data": person}) + "\n" for person in people))
        for name, text in (("people.pg", SCHEMA), ("policy.yaml", POLICY), ("cluster.yaml", CLUSTER)):
            (folder / name).write_text(text)
        applied = apply(read_config(folder)).ledger.resources
        og.open(applied["graph.people"]["uri"]).load(data, mode="append", engine="local")
        tokens = {f"client-{number}": f"t-{number}" for number in range(ACTORS)} | {
            "eve": "t-eve",
            "mallory": "t-mallory",
        }
        environment = {
            "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(tokens),
            "OMNIGRAPH_QUERY_SECONDS_MAX": "5",
        }
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:-1] or cores)
        with running(folder, "--cluster", str(folder), "--memory", MEMORY, **environment) as server:
            os.sched_setaffinity(0, cores[-1:])
            asyncio.run(measure(server, seconds, clients))


if __name__ == "__main__":
    main()
