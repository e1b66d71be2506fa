"""Graph algorithms on random graphs, against igraph on the same edges in the same run.

    python bench/bench_algorithms.py [--edges 1000000] [--engines local spark] [--memory 4g]

igraph gets the edges as arrays of numbers; we start from the stored graph, with texts as ids. `cold` is the first run of a process, `warm`
one that finds the numbers of ids in the cache. Prints times, ratios to igraph (building its graph and the algorithm), and how far
the answers are apart.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph as og

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"


def timed(action: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.monotonic(), time.process_time()
    result = action()
    return time.monotonic() - wall, time.process_time() - cpu, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--engines", nargs="+", choices=["local", "spark"], default=["local"])
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        run(folder, options.edges, options.engines, options.memory)
    finally:
        shutil.rmtree(folder)


def run(folder: Path, edges: int, engines: list[str], memory: str) -> None:
    nodes = edges // 10
    dice = np.random.default_rng(7)
    src, dst = dice.integers(0, nodes, edges), dice.integers(0, nodes, edges)
    print(f"{nodes:,} nodes, {edges:,} edges, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    # Padded, so that the order of ids is the order of numbers.
    names = pa.array([f"p{number:09}" for number in range(nodes)])
    graph = og.init(folder / "graph", SCHEMA, durability="process")
    table = pa.table({"from": names.take(pa.array(src)), "to": names.take(pa.array(dst))})
    wall, cpu, _ = timed(
        lambda: graph.load({"Person": pa.table({"name": names}), "Knows": table}, mode="append", engine="local")
    )
    print(f"{'load, in process':44} {wall:8.1f} s  cpu {cpu:7.1f}", flush=True)
    expected, least = references(src, dst, nodes)
    for engine in engines:
        chosen: Any = "local"
        if engine == "spark":
            from omnigraph.spark.sessions import spark_session

            chosen = spark_session(memory=memory)
        for name in ("pagerank", "connected_components"):
            for state in ("cold", "warm") if engine == "local" else ("tasks",):
                wall, cpu, result = timed(
                    lambda name=name, chosen=chosen: getattr(graph.algorithms(chosen), name)("Knows")
                )
                rows = result.to_arrow()
                assert rows.column("id").equals(pa.chunked_array([names])), "ordered by id"
                said = compared(name, rows, expected[name], names)
                ratio = wall / least[name]
                title = f"{name}, {engine}, {state}, {result.steps} steps"
                print(f"{title:44} {wall:8.1f} s  cpu {cpu:7.1f}  {ratio:6.2f} times igraph; {said}", flush=True)
                result.close()
            if engine == "local":
                graph.close()
        if engine == "spark":
            chosen.stop()


def references(src: np.ndarray, dst: np.ndarray, nodes: int) -> tuple[dict[str, Any], dict[str, float]]:
    import igraph

    build, cpu, graph = timed(lambda: igraph.Graph(n=nodes, edges=np.column_stack([src, dst]), directed=True))
    print(f"{'igraph, build':44} {build:8.1f} s  cpu {cpu:7.1f}", flush=True)
    ranking, cpu, ranks = timed(graph.pagerank)
    print(f"{'igraph, pagerank':44} {ranking:8.1f} s  cpu {cpu:7.1f}", flush=True)
    connecting, cpu, members = timed(lambda: graph.connected_components(mode="weak").membership)
    print(f"{'igraph, connected components':44} {connecting:8.1f} s  cpu {cpu:7.1f}", flush=True)
    return (
        {"pagerank": np.array(ranks), "connected_components": np.array(members)},
        {"pagerank": build + ranking, "connected_components": build + connecting},
    )


def compared(name: str, rows: pa.Table, expected: np.ndarray, names: pa.Array) -> str:
    if name == "pagerank":
        error = float(np.abs(rows.column("rank").to_numpy() - expected).sum())
        assert error < 2e-8, error
        return f"the sum of all differences is {error:.1e}"
    _, firsts, places = np.unique(expected, return_index=True, return_inverse=True)
    assert rows.column("component").equals(pa.chunked_array([names.take(pa.array(firsts[places]))]))
    return f"the same {len(firsts):,} components"


if __name__ == "__main__":
    main()
