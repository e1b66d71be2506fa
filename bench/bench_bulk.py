"""Diff, merge, verify and optimize of a type of which many rows were changed: where the work is done, and what the driver holds.

    python bench/bench_bulk.py [--nodes 2000000] [--changed 100000,1000000] [--engine local|spark]

Printed of each: wall and processor time, the processor time of the driver alone, and by how much its memory grew at its peak.
"""

from __future__ import annotations

import argparse
import gc
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench_scan import cpu_seconds

import omnigraph as og

SCHEMA = "node P { email: String @key  age: I32?  text: String? }"


def people(first: int, last: int, text: str) -> pa.Table:
    numbers = range(first, last)
    return pa.table(
        {
            "email": [f"p{number:08}@example.org" for number in numbers],
            "age": pa.array([number % 90 for number in numbers], pa.int32()),
            "text": pa.repeat(pa.scalar(text), len(numbers)),
        }
    )


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class PeakGrowth:
    """By how much the memory of this process has grown at its peak."""

    def __enter__(self) -> PeakGrowth:
        gc.collect()
        pa.default_memory_pool().release_unused()
        self._start = self._peak = resident_bytes()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            self._peak = max(self._peak, resident_bytes())

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._peak = max(self._peak, resident_bytes())

    @property
    def mib(self) -> float:
        return (self._peak - self._start) / 2**20


def measured(name: str, changed: int, action: Callable[[], object]) -> None:
    own, every, started = time.process_time(), cpu_seconds(), time.monotonic()
    with PeakGrowth() as memory:
        action()
    print(
        f"{name:10} {changed:>10,} changed  {time.monotonic() - started:7.1f} s  CPU {cpu_seconds() - every:6.1f} s, driver "
        f"{time.process_time() - own:6.1f} s  driver's memory +{memory.mib:,.0f} MiB ({memory.mib * 2**20 / changed:,.0f} bytes a change)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--changed", default="100000,1000000")
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    options = parser.parse_args()
    engine: Any = options.engine
    if engine == "spark":
        from omnigraph.spark.sessions import spark_session

        engine = spark_session(memory="2g")
    folder = Path(tempfile.mkdtemp())
    try:
        graph = og.init(folder / "graph", SCHEMA, durability="process")
        graph.load({"P": people(0, options.nodes, "x")}, mode="append", engine="local")
        for changed in (int(count) for count in options.changed.split(",")):
            branch = f"b{changed}"
            graph.load({"P": people(0, changed, branch)}, mode="merge", branch=branch, from_="main", engine="local")
            measured("diff", changed, lambda b=branch: sum(1 for _ in graph.diff("main", b, engine=engine)))
            # A commit on main, so that the merge is not a fast-forward.
            graph.load(
                {"P": people(options.nodes, options.nodes + 1000, branch)}, mode="merge", branch="main", engine="local"
            )
            measured("merge", changed, lambda b=branch: graph.branches.merge(b, engine=engine))
            measured("verify", changed, lambda: graph.maintenance.verify(engine=engine))
            measured("optimize", changed, lambda: graph.maintenance.optimize(engine=engine))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
