"""64 clients that do everything at once: every error is typed, and memory stays flat."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from server_processes import Running, running
from serving import ADD, ALL, QUERIES, make_people

CLIENTS = 64
SECONDS = float(os.environ.get("OMNIGRAPH_CROWD_SECONDS", "600"))
EXPECTED = {200, 404, 409, 415, 422, 429}
MAX_GROWTH_BYTES = 256 * 1024 * 1024


def memory_of(server: Running) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) * 1024


class Crowd:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.seen: Counter[tuple[str, int]] = Counter()
        self.untyped: list[str] = []

    async def act(self, number: int, chance: random.Random) -> None:
        name, branch = f"c{number}-{chance.randrange(50)}", f"b{chance.randrange(6)}"
        add = {"query": ADD, "params": {"name": name, "age": chance.randrange(90)}}
        line = f'{{"type": "Person", "data": {{"name": "{name}"}}}}\n'
        requests = {
            "query": ("POST", "query", {"json": {"query": ALL}}),
            "stored": ("POST", "queries/everyone", {}),
            "mutate": ("POST", "mutate", {"json": add, "headers": {"Idempotency-Key": str(chance.randrange(10_000))}}),
            "branch mutate": ("POST", "mutate", {"json": {**add, "branch": branch}}),
            "load": ("POST", "load/ndjson", {"content": line, "headers": {"Content-Type": "application/x-ndjson"}}),
            "create": ("POST", "branches", {"json": {"name": branch}}),
            "merge": ("POST", "branches/merge", {"json": {"source": branch}}),
            "delete": ("DELETE", f"branches/{branch}", {}),
            "export": ("POST", "export", {"json": {"type_names": ["Person"]}}),
            "changes": ("GET", "changes?start=beginning&limit=50", {}),
            "snapshot": ("GET", "snapshot", {}),
            "wrong": ("POST", "query", {"content": b"{"}),
        }
        what = chance.choice([*requests, *["query"] * 6, *["mutate"] * 3])
        method, path, options = requests[what]
        answer = await self.client.request(method, path, **options)  # type: ignore[arg-type]
        self.seen[what, answer.status_code] += 1
        if answer.status_code != 200 and "problem" not in answer.json():
            self.untyped.append(answer.text)


@pytest.mark.soak
def test_64_clients_get_typed_answers_only_and_memory_stays_flat(tmp_path: Path) -> None:
    make_people(tmp_path / "people")
    (tmp_path / "people.gq").write_text(QUERIES)
    arguments = (
        str(tmp_path / "people"),
        "--unauthenticated",
        "--queries",
        str(tmp_path / "people.gq"),
        "--memory",
        "32MiB",
    )
    with running(tmp_path, *arguments) as server:
        sizes: list[int] = []

        async def go() -> Crowd:
            limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
            base = f"{server.url}/graphs/people/"
            async with httpx.AsyncClient(base_url=base, limits=limits, timeout=120) as client:
                crowd = Crowd(client)
                end = time.monotonic() + SECONDS

                async def one(number: int) -> None:
                    chance = random.Random(number)
                    while time.monotonic() < end:
                        await crowd.act(number, chance)
                        if number == 0:
                            sizes.append(memory_of(server))

                await asyncio.gather(*map(one, range(CLIENTS)))
                return crowd

        crowd = asyncio.run(go())
        print(sorted(crowd.seen.items()), [size // 1_000_000 for size in sizes[:: max(len(sizes) // 10, 1)]])
        assert {status for _, status in crowd.seen} <= EXPECTED
        assert crowd.untyped == []
        assert " defect " not in server.log.read_text()
        warm = max(sizes[: len(sizes) // 3])
        assert max(sizes) < warm + MAX_GROWTH_BYTES
        assert server.stop() == 0
