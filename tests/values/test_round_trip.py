"""What a transaction accepts leaves through every format and loads back as the same graph.

Four hundred graphs share a commit and travel together, which makes thousands of them cheap: they have no node in common,
except nodes that are nothing but their key.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from conftest import EXPLORING
from values.hostile_graphs import SCHEMA, HostileGraph

import omnigraph as og

GRAPHS = 2_000
TOGETHER = 400


def rows(graph: og.Graph) -> dict[str, dict[str, str]]:
    """Every stored row by table and id, as text that tells -0.0 from 0.0 and 1 from 1.0."""
    view = graph._repository.resolve("main")
    found = {}
    for key in view.catalog.tables:
        table = view.table(key)
        found[key] = {} if table is None else {row["id"]: repr(row) for row in table.read().to_pylist()}
    return found


def new_graph(path: Path) -> og.Graph:
    return og.init(path, schema=SCHEMA, durability="process")


@pytest.mark.parametrize("batch", range(GRAPHS // TOGETHER))
def test_every_accepted_graph_comes_back_from_every_format(batch: int, tmp_path: Path) -> None:
    seed = random.SystemRandom().getrandbits(32) if EXPLORING else batch
    taken: set[str] = set()
    graphs = [HostileGraph(random.Random(f"{seed}-{number}"), taken) for number in range(TOGETHER)]
    original = new_graph(tmp_path / "original")
    with original.transaction() as tx:
        accepted = sum(graph.fill(tx) for graph in graphs)
    assert accepted > 4 * TOGETHER, "most of what is tried must be accepted"
    assert sum(graph.refused for graph in graphs) > TOGETHER // 2, "some of it must be refused"
    wanted = rows(original)
    original.export(tmp_path / "first.jsonl", engine="local")
    for format in ("jsonl", "csv", "parquet"):
        out: Any = tmp_path / "first.jsonl" if format == "jsonl" else tmp_path / format
        if format != "jsonl":
            original.export(out, format=format, engine="local")
        copy = new_graph(tmp_path / f"copy-{format}")
        copy.load(out, mode="append", engine="local")
        assert differences(wanted, rows(copy)) == [], f"{format}, seed {seed}"
        copy.export(tmp_path / f"again-{format}.jsonl", engine="local")
        again = (tmp_path / f"again-{format}.jsonl").read_bytes()
        assert again == (tmp_path / "first.jsonl").read_bytes(), f"{format}, seed {seed}"


def differences(wanted: dict[str, dict[str, str]], found: dict[str, dict[str, str]]) -> list[tuple[Any, ...]]:
    return [
        (key, id, wanted[key].get(id), found[key].get(id))
        for key in wanted
        for id in sorted(wanted[key].keys() | found[key].keys())
        if wanted[key].get(id) != found[key].get(id)
    ]
