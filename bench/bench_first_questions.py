"""The first questions of a process: requests and bytes on an S3 server, milliseconds of the processor and memory on local disk.

    python bench/bench_first_questions.py [--edges 10000000] [--stores local s3] [--folder DIR]

A tenth as many nodes. The graph is loaded in this process; each first question is asked of a graph that was just opened and of which
nothing is held: a hop from a key, the three nodes with most edges coming in (dense), the same question ten times, and an edge by its id.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
import tempfile
import time
from pathlib import Path

import omnigraph as og

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bench_edges import SCHEMA, rows
from s3_server import S3Server

HOP = "query q($name: String) { match { $p: Person { name: $name }  $p knows $q } return { $q.name } }"
DENSE = "query q() { match { $f knows $p } return { $p.name as name, count($f) as n } order { n desc, name } limit 3 }"


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def ask(graph: og.Graph, name: str) -> None:
    if name == "hop":
        graph.query(HOP, {"name": "aaaaaa"})
    elif name == "dense":
        graph.query(DENSE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--stores", nargs="+", choices=["local", "s3"], default=["local", "s3"])
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    nodes, edges = rows(arguments.edges)
    if "local" in arguments.stores:
        folder = Path(tempfile.mkdtemp(dir=arguments.folder))
        try:
            load(og.init(folder / "graph", SCHEMA), nodes, edges)
            del nodes, edges
            gc.collect()
            before = resident_mb()
            for question in ("hop", "dense", "dense, ten times"):
                graph = og.open(folder / "graph")
                started = time.process_time()
                for _ in range(10 if "ten" in question else 1):
                    ask(graph, question.partition(",")[0])
                print(f"local {question:20} {1000 * (time.process_time() - started):8.1f} ms of the processor")
            print(f"memory: {before:.0f} MB before, {resident_mb():.0f} MB after, with what the load left")
        finally:
            shutil.rmtree(folder)
        nodes, edges = rows(arguments.edges)
    if "s3" in arguments.stores:
        with S3Server() as s3:
            uri = f"s3://{s3.new_bucket()}/graph"
            load(og.init(uri, SCHEMA, storage_options=s3.options), nodes, edges)
            for question in ("hop", "dense"):
                graph = og.open(uri, storage_options=s3.options)
                for turn in range(1, 11):
                    s3.reset()
                    ask(graph, question)
                    if turn in (1, 10):
                        asked = s3.requests()
                        size = sum(each.bytes_out for each in asked) / 1e6
                        print(
                            f"s3    {question:6} asked for the {turn:2}. time: {len(asked):3} requests, {size:8.2f} MB",
                            flush=True,
                        )


def load(graph: og.Graph, nodes: object, edges: object) -> None:
    started = time.monotonic()
    receipt = graph.load({"Person": nodes, "Knows": edges}, mode="append", engine="local")
    stages = {stage.stage: stage.seconds for stage in receipt.stages}
    whole = time.monotonic() - started
    print(f"loaded in {whole:.0f} s, {100 * stages['adjacency'] / whole:.0f} % of it for adjacency", flush=True)


if __name__ == "__main__":
    main()
