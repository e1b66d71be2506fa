"""What rejected records cost: loads in one process of which every tenth record is refused, against the same load with good records only.

    python bench/bench_rejects.py [--rows 200000] [--rounds 5] [--only "csv types"]

The two take turns; printed are the medians of processor time, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import omnigraph as og

SCHEMA = """node Person { email: String @key  age: I32?  tier: enum(free, pro)?  score: F64?  joined: DateTime?
    @range(age, 0..150) }"""
Record = dict[str, object]
Spoil = Callable[[int, Record], str]


def record_of(number: int) -> Record:
    return {
        "email": f"p{number}@example.org",
        "age": number % 90,
        "tier": "pro" if number % 3 else "free",
        "score": number / 4,
        "joined": f"2026-01-{number % 28 + 1:02}T03:04:05Z",
    }


def line_of(record: Record, type: str = "Person") -> str:
    return json.dumps({"type": type, "data": record})


def cells_of(record: Record) -> str:
    return ",".join(str(value) for value in record.values())


def wrong_value(number: int, record: Record) -> str:
    return line_of({**record, "age": "old"})


def out_of_range(number: int, record: Record) -> str:
    return line_of({**record, "age": 200 + number})


def wrong_cell(number: int, record: Record) -> str:
    return cells_of({**record, "age": f"x{number}"})


def mixed(number: int, record: Record) -> str:
    """Something else each time."""
    return (
        lambda: line_of({**record, "age": f"{number} years"}),
        lambda: line_of({**record, "age": -number}),
        lambda: line_of({**record, "nick": "x"}),
        lambda: line_of(record)[:-3],
        lambda: line_of(record, "Persn"),
        lambda: line_of({**record, "joined": "yesterday"}),
        lambda: line_of({**record, "tier": "gold"}),
        lambda: line_of({**record, "email": None}),
    )[number // 10 % 8]()


CASES: dict[str, tuple[str, Spoil]] = {
    "wrong values": ("p.jsonl", wrong_value),
    "ranges": ("p.jsonl", out_of_range),
    "csv types": ("Person.csv", wrong_cell),
    "mixed": ("p.jsonl", mixed),
}


def write(path: Path, rows: int, spoil: Spoil | None) -> None:
    with path.open("w") as out:
        is_csv = path.suffix == ".csv"
        if is_csv:
            out.write("email,age,tier,score,joined\n")
        for number in range(rows):
            record = record_of(number)
            if spoil is not None and number % 10 == 5:
                out.write(spoil(number, record))
            else:
                out.write(cells_of(record) if is_csv else line_of(record))
            out.write("\n")


def seconds_of(folder: Path, path: Path) -> float:
    graph = og.init(folder / "graph", SCHEMA, durability="process")
    started = time.process_time()
    graph.load(path, mode="append", engine="local", rejects=folder / "rejects.jsonl")
    spent = time.process_time() - started
    shutil.rmtree(folder / "graph")
    (folder / "rejects.jsonl").unlink(missing_ok=True)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=list(CASES))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        for name, (file, spoil) in CASES.items():
            if options.only not in (None, name):
                continue
            paths = [folder / kind / file for kind in ("good", "bad")]
            for path, chosen in zip(paths, (None, spoil), strict=True):
                path.parent.mkdir(exist_ok=True)
                write(path, options.rows, chosen)
            turns = [[seconds_of(folder, path) for path in paths] for _ in range(options.rounds + 1)][1:]
            good, bad = (statistics.median(times) for times in zip(*turns, strict=True))
            print(f"{name:14} good {good:6.2f} s   10 % rejected {bad:6.2f} s   {bad / good:.2f}x", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
