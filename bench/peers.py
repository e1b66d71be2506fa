"""Other engines on the benchmark's tables, run in an environment of their own (see bench_reads.py).

Reads a request from standard input (folder of Parquet tables, repeats, queries) and answers, on the last line of
standard output, {engine: {query: [check sum, first ms, median ms]}}. A request with `tables` names the tables of Ladybug itself
({name: [statement that creates it, statement that fills it]}) and gives several sets of parameters for each query: the answer is
{query: [[rows, ms of the processor, ms of the clock], for each set]}. An engine that is not installed is left out, and so
is a query that an engine refuses; standard error says why.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NODES = {
    "Person": ("person", "pid INT64 PRIMARY KEY, name STRING, gender STRING, age INT32, married BOOL"),
    "City": ("city", "cid INT64 PRIMARY KEY, city STRING"),
    "State": ("state", "sid INT64 PRIMARY KEY, state STRING"),
    "Country": ("country", "oid INT64 PRIMARY KEY, country STRING"),
    "Interest": ("interest", "iid INT64 PRIMARY KEY, interest STRING"),
}
EDGES = {
    "Follows": ("follows", "Person", "Person"),
    "LivesIn": ("livesin", "Person", "City"),
    "CityIn": ("cityin", "City", "State"),
    "StateIn": ("statein", "State", "Country"),
    "HasInterest": ("hasinterest", "Person", "Interest"),
}


def checksum(rows: list[list[Any]]) -> str:
    return json.dumps([[round(v, 6) if isinstance(v, float) else v for v in row] for row in rows], default=str)


def measure(run: Any, query: str, params: dict[str, Any], repeat: int) -> tuple[str, float, float]:
    times, rows = [], []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        rows = run(query, params)
        times.append((time.perf_counter() - start) * 1e3)
    return checksum(rows), times[0], statistics.median(times[1:])


def ladybug(folder: Path) -> Any:
    import real_ladybug as engine

    connection = engine.Connection(engine.Database(str(Path(tempfile.mkdtemp()) / "peer.db")))
    for name, (file, columns) in NODES.items():
        connection.execute(
            f"CREATE NODE TABLE {name}({columns.replace(' PRIMARY KEY', '')}, PRIMARY KEY({columns.split()[0]}))"
        )
        connection.execute(f'COPY {name} FROM "{folder / file}.parquet"')
    for name, (file, source, target) in EDGES.items():
        connection.execute(f"CREATE REL TABLE {name}(FROM {source} TO {target})")
        connection.execute(f'COPY {name} FROM "{folder / file}.parquet"')

    def run(query: str, params: dict[str, Any]) -> list[list[Any]]:
        result = connection.execute(query, params)
        rows = []
        while result.has_next():
            rows.append(list(result.get_next()))
        return rows

    return run


def ladybug_on(tables: dict[str, list[str]]) -> Any:
    """Ladybug on tables of the request."""
    import real_ladybug as engine

    connection = engine.Connection(engine.Database(str(Path(tempfile.mkdtemp()) / "peer.db")), num_threads=2)
    for statements in tables.values():
        for statement in statements:
            connection.execute(statement)
    return connection


def answer_sets(request: dict[str, Any]) -> dict[str, list[tuple[Any, float, float]]]:
    connection = ladybug_on(request["tables"])
    answers: dict[str, list[tuple[Any, float, float]]] = {}
    for name, cypher, sets in request["queries"]:
        try:
            prepared = connection.prepare(cypher)
            answers[name] = []
            for warm in (False, True):
                for texts in sets:
                    params = {
                        key: dt.datetime.fromisoformat(value["at"]) if isinstance(value, dict) else value
                        for key, value in texts.items()
                    }
                    cpu, clock = time.process_time(), time.perf_counter()
                    result = connection.execute(prepared, params)
                    rows = []
                    while result.has_next():
                        rows.append(list(result.get_next()))
                    took = ((time.process_time() - cpu) * 1e3, (time.perf_counter() - clock) * 1e3)
                    if warm:
                        answers[name].append((rows, *took))
        except (ValueError, RuntimeError) as error:
            answers.pop(name, None)
            print(f"ladybug refuses {name}: {str(error)[:300]}", file=sys.stderr)
    return answers


def lance_graph(folder: Path) -> Any:
    """Its own dialect: values are written out, and matches are counted with `count(*)`, which is the same here."""
    import lance_graph as engine
    import pyarrow.parquet as pq

    builder = engine.GraphConfig.builder()
    for name, (_, columns) in NODES.items():
        builder = builder.with_node_label(name, columns.split()[0])
    for name in EDGES:
        builder = builder.with_relationship(name, "src", "dst")
    config = builder.build()
    files = {name: spec[0] for name, spec in (NODES | EDGES).items()}
    tables = {name: pq.read_table(folder / f"{file}.parquet") for name, file in files.items()}

    def run(query: str, params: dict[str, Any]) -> list[list[Any]]:
        text = re.sub(r"count\(\w+\)", "count(*)", query)
        text = re.sub(r"\$(\w+)", lambda found: json.dumps(params[found[1]]).replace('"', "'"), text)
        table = engine.CypherQuery(text).with_config(config).execute(tables)
        return [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]

    return run


def main() -> None:
    request = json.loads(sys.stdin.read())
    if "tables" in request:
        print(json.dumps(answer_sets(request), default=str))
        return
    answers: dict[str, dict[str, tuple[str, float, float]]] = {}
    for engine, opened in (("ladybug", ladybug), ("lance-graph", lance_graph)):
        try:
            run = opened(Path(request["folder"]))
        except ImportError as error:
            print(f"{engine} is left out: {error}", file=sys.stderr)
            continue
        answers[engine] = {}
        for name, cypher, params, repeat in request["queries"]:
            try:
                answers[engine][name] = measure(run, cypher, params, repeat)
            except (ValueError, RuntimeError) as error:
                print(f"{engine} refuses {name}: {str(error)[:200]}", file=sys.stderr)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
