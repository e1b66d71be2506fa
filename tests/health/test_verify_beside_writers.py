"""Verification beside writers: whatever is half done is no damage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

import omnigraph as og
from omnigraph.errors import Conflict, NotFound

SCHEMA = "node Person { name: String @key  age: I32? @index }\nedge Knows: Person -> Person"
LOOKS = 5


def test_verification_beside_writers_finds_nothing(tmp_path: Path) -> None:
    place = tmp_path / "graph"
    og.init(place, SCHEMA, durability="process")
    ended = threading.Event()

    def repeated(step: Callable[[og.Graph, int], object]) -> int:
        graph, number = og.open(place, durability="process"), 0
        while not ended.is_set():
            number += 1
            try:
                step(graph, number)
            except (Conflict, NotFound):
                continue
        return number

    def write(graph: og.Graph, number: int) -> None:
        with graph.transaction() as tx:
            tx.upsert("Person", name=f"p{number % 7}", age=number)
            tx.upsert("Person", name="hub")
            tx.insert("Knows", from_=f"p{number % 7}", to="hub")

    def branch(graph: og.Graph, number: int) -> None:
        graph.branches.create("side")
        with graph.transaction("side") as tx:
            tx.upsert("Person", name=f"side{number}")
        graph.tags.create(f"t{number}", "side")
        graph.branches.delete("side", force=True)
        graph.tags.delete(f"t{number}")

    def load(graph: og.Graph, number: int) -> None:
        graph.load({"Person": pa.table({"name": [f"l{number}"]})}, mode="merge", engine="local")

    steps = [write, branch, load, lambda graph, _: graph.maintenance.optimize()]
    with ThreadPoolExecutor(len(steps)) as pool:
        running = [pool.submit(repeated, step) for step in steps]
        try:
            graph = og.open(place)
            for _ in range(LOOKS):
                assert graph.maintenance.verify(all=True, deep=True).findings == ()
        finally:
            ended.set()
        assert all(each.result() for each in running)
    assert og.open(place).maintenance.verify(all=True, deep=True).findings == ()
