"""A load of edges in one process, from Arrow: bytes an edge by what they are for, and time beside DuckDB with the same rows.

    python bench/bench_edges.py [--edges 1000000] [--turns 3] [--folder DIR]

A tenth as many nodes with ids of six letters, and one integer for each edge. DuckDB checks the primary key and has an index of the
sources; omnigraph checks keys, endpoints and cardinality, and has ids, both ends, a text index of the key, adjacency and one commit
that can be undone. The two take turns; ratios are of the best turns, by the clock and by the processor. The share of the adjacency is
that of its stage.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import omnigraph as og

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person @card(0..1000) { weight: I32 }
"""
PARTS = {"data": "data", "_indices": "indexes", "_adjacency": "adjacency and zones", "_versions": "versions"}


def names(count: int) -> pa.Array:
    """Texts of six letters, spread over all of them."""
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    numbers = np.arange(count, dtype=np.int64) * (26**6 // count)
    text = np.stack([letters[numbers // 26**place % 26] for place in range(5, -1, -1)], axis=1)
    ends = np.arange(0, 6 * count + 1, 6, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(text)))


def rows(edges: int) -> tuple[pa.Table, pa.Table]:
    random, people = np.random.default_rng(1), names(edges // 10)

    def anybody(count: int) -> pa.Array:
        return people.take(pa.array(random.integers(0, len(people), count)))

    nodes = pa.table({"name": people.take(pa.array(random.permutation(len(people))))})
    weights = pa.array(random.integers(0, 1000, edges), pa.int32())
    return nodes, pa.table({"from": anybody(edges), "to": anybody(edges), "weight": weights})


def measured(action: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def into_duckdb(folder: Path, nodes: pa.Table, edges: pa.Table) -> None:
    connection = duckdb.connect(str(folder / "peer.duckdb"))
    connection.register("nodes", nodes)
    connection.register("edges", edges)
    connection.execute("CREATE TABLE person(name VARCHAR PRIMARY KEY)")
    connection.execute("INSERT INTO person SELECT * FROM nodes")
    connection.execute("CREATE TABLE knows(source VARCHAR, target VARCHAR, weight INTEGER)")
    connection.execute("INSERT INTO knows SELECT * FROM edges")
    connection.execute("CREATE INDEX by_source ON knows(source)")
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    nodes, edges = rows(arguments.edges)
    ours, theirs, shares = [], [], []
    try:
        for turn in range(arguments.turns):
            peer = folder / f"peer-{turn}"
            peer.mkdir()
            theirs.append(measured(lambda peer=peer: into_duckdb(peer, nodes, edges)))  # type: ignore[misc]  # bound now
            graph = og.init(folder / f"graph-{turn}", SCHEMA)
            receipts: list[og.types.LoadReceipt] = []
            ours.append(
                measured(
                    lambda graph=graph, receipts=receipts: receipts.append(  # type: ignore[misc]  # bound now
                        graph.load({"Person": nodes, "Knows": edges}, mode="append", engine="local")
                    )
                )
            )
            stages = {stage.stage: stage.seconds for stage in receipts[0].stages}
            shares.append(stages.get("adjacency", 0.0) / ours[-1][0])
            print(
                f"turn {turn}: {ours[-1][0]:.2f} s ({ours[-1][1]:.2f} s of the processor); DuckDB {theirs[-1][0]:.2f} s"
            )
            print("   ", ", ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items()), flush=True)
        for place, kind in enumerate(("clock", "processor")):
            best, peer_best = min(each[place] for each in ours), min(each[place] for each in theirs)
            print(f"{kind:10} {best:6.2f} s, DuckDB {peer_best:6.2f} s, ratio {best / peer_best:.1f}")
        print(f"adjacency takes {100 * min(shares):.0f} to {100 * max(shares):.0f} % of the load")
        show_bytes(folder / f"graph-{arguments.turns - 1}" / "edges", arguments.edges)
        database = sum(file.stat().st_size for file in peer.iterdir())
        print(f"{'DuckDB, all':28} {database / arguments.edges:6.2f} bytes an edge")
    finally:
        shutil.rmtree(folder)


def show_bytes(folder: Path, edges: int) -> None:
    sizes: dict[str, int] = {}
    for file in folder.rglob("*"):
        kind = PARTS.get(file.relative_to(folder).parts[1] if len(file.relative_to(folder).parts) > 2 else "")
        if kind is not None and file.is_file():
            sizes[kind] = sizes.get(kind, 0) + file.stat().st_size
    for kind, size in sizes.items():
        print(f"{kind:28} {size / edges:6.2f} bytes an edge")
    print(f"{'all':28} {sum(sizes.values()) / edges:6.2f} bytes an edge")


if __name__ == "__main__":
    main()
