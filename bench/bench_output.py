"""What `omnigraph query` takes to put 1,000,000 rows into a CSV file, a table and a Parquet file, against DuckDB doing the same.

    python bench/bench_output.py [--rows 1000000] [--rounds 3]

Both are whole processes, from starting Python to the last byte, with bytecode kept as installed programs have it; the first
line, one row, shows what starting costs. DuckDB reads the same rows from Parquet and writes CSV and Parquet by COPY. It draws no
table of more than 10,000 rows, so it writes that as padded text: the widths by one query, the lines by another. The order of
rows is not asked for. The ways take turns, so that a busy machine disturbs them alike. Printed per way: the best wall time and
the best CPU time, and how many times DuckDB's they are.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og

SCHEMA = "node Person { email: String @key  name: String  age: I32  score: F64  joined: DateTime }"
QUERY = """query all() {
  match { $p: Person }
  return { $p.email as email, $p.name as name, $p.age as age, $p.score as score, $p.joined as joined }
}"""
COLUMNS = "email, name, age, score, joined"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
OMNIGRAPH = str(Path(sys.executable).with_name("omnigraph"))
COPY = "duckdb.sql(\"COPY (SELECT {columns} FROM '{rows}') TO '{out}' ({options})\")"
DRAW = """
widths = duckdb.sql("SELECT " + ", ".join(f"max(length({{name}}::VARCHAR))" for name in names) + " FROM '{rows}'").fetchall()[0]
cells = [f"{{'lpad' if name in ('age', 'score') else 'rpad'}}({{name}}::VARCHAR, {{width}}, ' ')" for name, width in zip(names, widths)]
line = " || '  ' || ".join(cells)
duckdb.sql(f"COPY (SELECT rtrim({{line}}) FROM '{rows}') TO '{out}' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\\t')")
"""
DUCKDB = {
    "one row": COPY.replace("{options}", "FORMAT csv, HEADER").replace("FROM '{rows}'", "FROM '{rows}' LIMIT 1"),
    "csv": COPY.replace("{options}", "FORMAT csv, HEADER"),
    "parquet": COPY.replace("{options}", "FORMAT parquet"),
    "table": f"names = '{COLUMNS}'.split(', ')\n" + DRAW,
}


def make_graph(folder: Path, rows: int) -> og.Graph:
    numbers = range(rows)
    people = pa.table(
        {
            "email": [f"person{number}@example.org" for number in numbers],
            "name": [f"Person number {number % 1_000}" for number in numbers],
            "age": pa.array([number % 90 for number in numbers], pa.int32()),
            "score": [number / 7 for number in numbers],
            "joined": pa.array([1_767_236_645_000_000 + number for number in numbers], pa.timestamp("us")),
        }
    )
    graph = og.init(folder / "graph", SCHEMA, durability="process")
    graph.load({"Person": people}, mode="append", engine="local")
    pq.write_table(people, folder / "rows.parquet")
    return graph


def ways(folder: Path, format: str) -> dict[str, tuple[list[str], Path]]:
    """The two commands, and the file that each fills."""
    ours, theirs = folder / f"ours.{format}", folder / f"theirs.{format}"
    query = QUERY.replace("as joined }", "as joined }\n  limit 1") if format == "one row" else QUERY
    text = DUCKDB[format].format(columns=COLUMNS, rows=folder / "rows.parquet", out=theirs)
    asked = [OMNIGRAPH, "query", "--store", str(folder / "graph"), "-e", query, "--format"]
    asked += ["csv" if format == "one row" else format]
    if format != "table":
        asked += ["--output", str(ours), "--force", "--quiet"]
    return {"DuckDB": ([sys.executable, "-c", f"import duckdb\n{text}"], theirs), "omnigraph query": (asked, ours)}


def run(command: list[str], out: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a whole process. What it prints goes to the file, unless it writes that itself."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(out.with_suffix(".printed"), "w") as printed:
        subprocess.run(command, stdout=printed, check=True, env=ENVIRONMENT)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def lines(path: Path) -> int:
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def check(format: str, rows: int, out: Path) -> None:
    """Every row is there."""
    if format == "parquet":
        assert pq.read_metadata(out).num_rows == rows
    else:
        assert lines(out if out.exists() else out.with_suffix(".printed")) in range(rows, rows + 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        make_graph(folder, options.rows)
        print(f"{options.rows:,} rows of 5 columns, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        for format in ("one row", "csv", "table", "parquet"):
            asked = ways(folder, format)
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in asked}
            for _ in range(options.rounds):
                for name, (command, out) in asked.items():
                    taken[name].append(run(command, out))
            best = {name: [min(column) for column in zip(*times, strict=True)] for name, times in taken.items()}
            for name, (wall, cpu) in best.items():
                check(format, 1 if format == "one row" else options.rows, asked[name][1])
                ratios = wall / best["DuckDB"][0], cpu / best["DuckDB"][1]
                print(f"  {format:8} {name:16} {wall:6.2f} s ({ratios[0]:.2f}x)   CPU {cpu:6.2f} s ({ratios[1]:.2f}x)")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
