"""Search by index against the same search by scan, on one deterministic graph.

    python bench/bench_search.py [--docs N] [--dimension N] [--repeat N]

Rows of both must agree before a time is printed, except for `nearest`, of which the share of the exact ten is printed.
The last column is the bare index call of the table format, without conditions, scores or order of ours.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph.language.query.mutations import bind_parameters, compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.execution import run_read
from omnigraph.read.strategies.strategy import Mode
from omnigraph.snapshot import Repository, View
from omnigraph.tables.searching import find_nearest, find_text

VOCABULARY = 50_000
QUERIES = {
    "search, a rare word": ('match { $d: Doc search($d.body, "w4711") } return { $d.slug as s }', ["w4711"]),
    "search, two words": ('match { $d: Doc search($d.body, "w40 w900") } return { $d.slug as s }', ["w40", "w900"]),
    "bm25, top ten": (
        'match { $d: Doc } return { $d.slug as s } order { bm25($d.body, "w300 w4711") } limit 10',
        ["w300"],
    ),
    "bm25 with a condition": (
        'match { $d: Doc $d.year = 2007 } return { $d.slug as s } order { bm25($d.body, "w300 w4711") } limit 10',
        ["w300"],
    ),
    "nearest ten": ("match { $d: Doc } return { $d.slug as s } order { nearest($d.vec, $v) } limit 10", None),
    "nearest ten with a condition": (
        "match { $d: Doc $d.year = 2007 } return { $d.slug as s } order { nearest($d.vec, $v) } limit 10",
        None,
    ),
    "rrf, top ten": (
        "match { $d: Doc } return { $d.slug as s }"
        ' order { rrf(nearest($d.vec, $v), bm25($d.body, "w300 w4711")) } limit 10',
        None,
    ),
}


def make_graph(folder: str, docs: int, dimension: int) -> tuple[View, np.ndarray]:
    numbers = np.random.default_rng(1)
    schema = f"node Doc {{ slug: String @key  year: I32 @index  body: String @index  vec: Vector({dimension}) @index }}"
    graph = og.init(f"{folder}/graph", schema=schema)
    centres = numbers.normal(size=(1000, dimension))
    made = (centres[numbers.integers(0, 1000, docs)] + numbers.normal(size=(docs, dimension)) * 0.5).astype(np.float32)
    chosen = np.minimum(numbers.zipf(1.2, size=(docs, 12)), VOCABULARY)
    table = pa.table(
        {
            "slug": [f"d{number:08}" for number in range(docs)],
            "year": pa.array(2000 + np.arange(docs) % 20, pa.int32()),
            "body": [" ".join(f"w{word}" for word in row) for row in chosen],
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(made.ravel()), dimension),
        }
    )
    graph.load({"Doc": table}, mode="append", engine="local")
    graph.maintenance.ensure_indexes()
    return Repository.open(f"{folder}/graph").head()[1], centres


def timed(run: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    result = run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000, result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--docs", type=int, default=200_000)
    arguments.add_argument("--dimension", type=int, default=128)
    arguments.add_argument("--repeat", type=int, default=5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        view, centres = make_graph(folder, options.docs, options.dimension)
        table = view.table("node:Doc")
        assert table is not None
        vector = (centres[3] + 0.1).tolist()
        print(f"{'query':32} {'index ms':>9} {'scan ms':>9} {'ratio':>6} {'bare ms':>8}  same")
        for name, (body, words) in QUERIES.items():
            parameter = f"$v: Vector({options.dimension})" if "$v" in body else ""
            plan = compile_query(f"query q({parameter}) {{ {body} }}", view.catalog)
            assert isinstance(plan, ReadPlan)
            given = bind_parameters(plan.parameters, {"v": vector} if parameter else {})

            def run(mode: Mode, plan: ReadPlan = plan, given: Any = given) -> list[Any]:
                return [row["s"] for row in run_read(view, plan, given, mode=mode).rows]

            def bare(words: list[str] | None = words) -> Any:
                if words is None:
                    return find_nearest(table, "vec", vector, ["id"], metric="cosine", filter=None, limit=10)
                return find_text(table, "body", words, ["id"], every=True, filter=None, limit=table.rows)

            by_index, found = timed(lambda run=run: run("auto"), options.repeat)  # type: ignore[misc]
            by_scan, expected = timed(lambda run=run: run("scan"), max(1, options.repeat // 2))  # type: ignore[misc]
            bare_ms, _ = timed(bare, options.repeat)
            same = len(set(found) & set(expected)) / max(len(expected), 1)
            assert "$v" in body or found == expected, f"{name}: {found} is not {expected}"
            ratio = by_scan / by_index
            print(
                f"{name:32} {by_index:9.1f} {by_scan:9.1f} {ratio:5.1f}x {bare_ms:8.1f}  {same:.0%} of {len(expected)}"
            )


if __name__ == "__main__":
    main()
