"""Reads with more matches than anything could hold end within the memory of their graph, or are refused by name: in the library and
through the server."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from server_processes import running

import omnigraph as og
from omnigraph.errors import ResourceExhausted

PEOPLE, LAYERS, DEGREE = 600, 6, 40
MEMORY_MB = 512
SCHEMA = "node P { name: String @key  rank: I32? }\nedge Knows: P -> P { weight: I32? }"
UNCONNECTED = " ".join(f"$v{n}: P" for n in range(300))
HOPS = " ".join(f"$v{n} knows $v{n + 1}" for n in range(12))
ALL_PATHS = "along knows{1,32} } return { $w.nodes as n }"
REFUSED = {
    "300 variables": f"match {{ {UNCONNECTED} }} return {{ $v0.name as a, $v299.name as b }} limit 3",
    "300 variables, counted": f"match {{ {UNCONNECTED} }} return {{ count($v0) as n }}",
    "300 variables, summed": f"match {{ {UNCONNECTED} }} return {{ sum($v7.rank) as n }}",
    "12 hops": f"match {{ {HOPS} }} return {{ $v0.name as a, $v12.name as b }} order {{ b }} limit 3",
    "12 hops, counted": f"match {{ {HOPS} }} return {{ count($v0) as n }}",
    "12 hops, summed": f"match {{ {HOPS} }} return {{ sum($v6.rank) as n, $v3.rank as r }}",
    "12 hops from a node": f'match {{ $v0: P {{ name: "p1" }} {HOPS} }} return {{ $v12.name as b, $v5.rank as c }}',
    "all paths from a node": f'match {{ $a: P {{ name: "p1" }} shortest paths $w from $a to $b {ALL_PATHS}',
    "all paths from all": f"match {{ $a: P shortest paths $w from $a to $b {ALL_PATHS}",
    "collected": "match { $a: P $b: P $c: P } return { collect($a.name) as n }",
}
ANSWERED = {
    "any number of hops": ("match { $a: P $a knows{1,} $b } return { count($b) as n }", PEOPLE * (PEOPLE - 1)),
    "any number of hops, listed": (
        "match { $a: P $a knows{1,} $b } return { $a.name as a, $b.name as b } limit 70000",
        70_000,
    ),
    "no match of many": (f"match {{ {UNCONNECTED} $v9.rank > 100 }} return {{ count($v0) as n }}", 0),
    "no match of many, listed": (f"match {{ {UNCONNECTED} $v9.rank > 100 }} return {{ $v3.name as a }}", 0),
    "lightest paths from a node": (
        'match { $a: P { name: "p1" } shortest path $w from $a to $b along knows{1,32} by weight } return { count($b) as n }',
        PEOPLE - 1,
    ),
}

READ = """
import json, re, sys
import omnigraph as og
from omnigraph.errors import OmnigraphError
def peak_mb():  # not getrusage: its peak is carried over from the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
with og.open(sys.argv[1], runtime=og.Runtime(memory=sys.argv[2])) as graph:
    graph.query('query q() { match { $a: P { name: "p1" } $a knows $b } return { $b.name as b } }')
    idle, outcomes = peak_mb(), {}
    for name, text in json.load(sys.stdin).items():
        try:
            rows = graph.query("query q() { " + text + " }").rows
            outcomes[name] = rows[0]["n"] if len(rows) == 1 and "n" in rows[0] else len(rows)
        except OmnigraphError as error:
            outcomes[name] = error.code
    print(json.dumps([peak_mb() - idle, outcomes]))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layers of people, each of whom knows many of the next layer; the last layer knows the first."""
    folder, draw, size = tmp_path_factory.mktemp("hostile"), random.Random(1), PEOPLE // LAYERS
    records: list[Any] = [{"type": "P", "data": {"name": f"p{n}", "rank": n % 7}} for n in range(PEOPLE)]
    for n in range(PEOPLE):
        first = (n // size + 1) * size
        far = draw.sample(range(first, first + size), DEGREE)
        records += [
            {"edge": "Knows", "from": f"p{n}", "to": f"p{m % PEOPLE}", "data": {"weight": draw.randrange(5)}}
            for m in far
        ]
    (folder / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    og.init(folder / "people", SCHEMA).load(folder / "x.jsonl", mode="append", engine="local")
    return folder / "people"


EXPECTED = dict.fromkeys(REFUSED, "resource_exhausted") | {name: n for name, (_, n) in ANSWERED.items()}
TEXTS = REFUSED | {name: text for name, (text, _) in ANSWERED.items()}


def test_in_the_library(place: Path) -> None:
    command = [sys.executable, "-c", READ, str(place), f"{MEMORY_MB}MiB"]
    answer = subprocess.run(command, input=json.dumps(TEXTS), capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    grown, outcomes = json.loads(answer.stdout)
    assert outcomes == EXPECTED
    assert grown < MEMORY_MB


def test_through_the_server(place: Path, tmp_path: Path) -> None:
    def peak_mb() -> int:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) // 1024

    with running(tmp_path, str(place), "--unauthenticated", "--memory", f"{MEMORY_MB}MiB") as server:
        with server.client() as client:
            first = {"query": 'query q() { match { $a: P { name: "p1" } $a knows $b } return { $b.name as b } }'}
            assert client.post("query", json=first).status_code == 200
            idle = peak_mb()
            statuses = {}
            for name, text in TEXTS.items():
                statuses[name] = client.post(
                    "query", json={"query": f"query q() {{ {text} }}"}, timeout=300
                ).status_code
        assert statuses == {name: 413 if name in REFUSED else 200 for name in TEXTS}
        assert peak_mb() - idle < MEMORY_MB
        assert server.stop() == 0


def test_what_is_refused_is_told_what_to_do(place: Path) -> None:
    with og.open(place) as graph:
        for name, message in (
            ("300 variables", "the pattern has more than 2\\^40 matches"),
            ("12 hops, counted", "the pattern has more than 2\\^63 matches"),
            ("all paths from a node", "do not fit in the memory of the graph"),
        ):
            with pytest.raises(ResourceExhausted, match=message) as caught:
                graph.query(f"query q() {{ {REFUSED[name]} }}")
            assert caught.value.hint
