"""Reads beside other engines on one deterministic graph: 100,000 persons, 1,000,000 power-law follows.

    python bench/bench_reads.py [--persons N] [--edges N] [--repeat N] [--folder PATH] [--peers PYTHON] [--phase PHASE]...

Nine analytical queries in the shape of the public "kuzu study", a filter with a hop and groups, and short reads, through
`g.query`. Every engine's answer is reduced to a check sum; no time is printed for a query whose check sums differ. Phases:

* warm: the first time and the median of the rest, in a process that stays.
* fresh: the first question of a process of its own, after its imports and a question to another table.
* varied: short reads with keys in turn, none of them twice, and a filter with a hop and groups with ages in turn.
* commit: a question after each of some commits of one node and one edge, beside the same question just before it.
* cli: whole commands.
* build: what storing adjacency costs beside the load.
* profile: microseconds for each step of a key read and of a hop, where it stands.

Milliseconds of the clock, and of the processor where other programs share it. `--peers` names the Python of an environment that has
`real_ladybug` and/or `lance-graph`; they are never a dependency of this project.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph
from omnigraph.history.chain import MAIN
from omnigraph.history.history import new_ulid
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import TableState
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.maintenance.optimize import maintain
from omnigraph.snapshot import Repository, View
from omnigraph.write.publishing import publish

SCHEMA = """
node Person {
  pid: I64 @key
  name: String
  gender: enum(female, male)
  age: I32
  married: Bool
}
node City { cid: I64 @key  city: String }
node State { sid: I64 @key  state: String }
node Country { oid: I64 @key  country: String }
node Interest { iid: I64 @key  interest: String }
edge Follows: Person -> Person
edge LivesIn: Person -> City
edge CityIn: City -> State
edge StateIn: State -> Country
edge HasInterest: Person -> Interest
"""
SHORT_REPEAT = 200
PROFILED, PROFILE_ROUNDS = 300, 7
WARMED = 10
CITIES, STATES, COUNTRIES, INTERESTS = 600, 60, 3, 41
COUNTRY_NAMES = ["United States", "United Kingdom", "Canada"]


@dataclass(frozen=True)
class Query:
    name: str
    gq: str
    sql: str
    cypher: str
    params: dict[str, Any]

    def repeats(self, least: int) -> int:
        """Short reads are measured as a server sees them that has answered some: often."""
        return max(least, SHORT_REPEAT) if self.name.startswith("s") else least


QUERIES = [
    Query(
        "1 most followed",
        "match { $f follows $p } return { $p.pid as id, $p.name as name, count($f) as n } order { n desc, id } limit 3",
        "SELECT p.pid, p.name, count(*) n FROM follows f JOIN person p ON p.pid = f.dst GROUP BY ALL ORDER BY n DESC, p.pid LIMIT 3",
        "MATCH (f:Person)-[:Follows]->(p:Person) RETURN p.pid, p.name, count(f) AS n ORDER BY n DESC, p.pid LIMIT 3",
        {},
    ),
    Query(
        "2 city of the most followed",
        "match { $f follows $p $p livesIn $c } return { $p.pid as id, $c.city as city, count($f) as n } order { n desc, id } limit 1",
        "SELECT p.pid, c.city, count(*) n FROM follows f JOIN person p ON p.pid = f.dst JOIN livesin l ON l.src = p.pid "
        "JOIN city c ON c.cid = l.dst GROUP BY ALL ORDER BY n DESC, p.pid LIMIT 1",
        "MATCH (f:Person)-[:Follows]->(p:Person)-[:LivesIn]->(c:City) RETURN p.pid, c.city, count(f) AS n ORDER BY n DESC, p.pid LIMIT 1",
        {},
    ),
    Query(
        "3 youngest cities of a country",
        "match { $p livesIn $c $c cityIn $s $s stateIn $o $o.country = $country } return { $c.city as city, avg($p.age) as age } order { age, city } limit 5",
        "SELECT c.city, avg(p.age) age FROM person p JOIN livesin l ON l.src = p.pid JOIN city c ON c.cid = l.dst "
        "JOIN cityin ci ON ci.src = c.cid JOIN statein si ON si.src = ci.dst JOIN country o ON o.oid = si.dst "
        "WHERE o.country = $country GROUP BY ALL ORDER BY age, c.city LIMIT 5",
        "MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(o:Country) WHERE o.country = $country "
        "RETURN c.city, avg(p.age) AS age ORDER BY age, c.city LIMIT 5",
        {"country": "Canada"},
    ),
    Query(
        "4 persons of an age by country",
        "match { $p livesIn $c $c cityIn $s $s stateIn $o $p.age >= $low $p.age <= $high } return { $o.country as country, count($p) as n } order { n desc, country } limit 3",
        "SELECT o.country, count(*) n FROM person p JOIN livesin l ON l.src = p.pid JOIN cityin ci ON ci.src = l.dst "
        "JOIN statein si ON si.src = ci.dst JOIN country o ON o.oid = si.dst WHERE p.age >= $low AND p.age <= $high "
        "GROUP BY ALL ORDER BY n DESC, o.country LIMIT 3",
        "MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(o:Country) WHERE p.age >= $low AND p.age <= $high "
        "RETURN o.country, count(p) AS n ORDER BY n DESC, o.country LIMIT 3",
        {"low": 30, "high": 40},
    ),
    Query(
        "5 men of a city with an interest",
        "match { $p hasInterest $i $p livesIn $c $i.interest = $interest $p.gender = $gender $c.city = $city } return { count($p) as n }",
        "SELECT count(*) FROM person p JOIN hasinterest h ON h.src = p.pid JOIN interest i ON i.iid = h.dst "
        "JOIN livesin l ON l.src = p.pid JOIN city c ON c.cid = l.dst WHERE i.interest = $interest AND p.gender = $gender AND c.city = $city",
        "MATCH (p:Person)-[:HasInterest]->(i:Interest), (p)-[:LivesIn]->(c:City) WHERE i.interest = $interest AND p.gender = $gender "
        "AND c.city = $city RETURN count(p)",
        {"interest": "interest 7", "gender": "male", "city": "city 17"},
    ),
    Query(
        "6 women with an interest by city",
        "match { $p hasInterest $i $p livesIn $c $i.interest = $interest $p.gender = $gender } return { $c.city as city, count($p) as n } order { n desc, city } limit 5",
        "SELECT c.city, count(*) n FROM person p JOIN hasinterest h ON h.src = p.pid JOIN interest i ON i.iid = h.dst "
        "JOIN livesin l ON l.src = p.pid JOIN city c ON c.cid = l.dst WHERE i.interest = $interest AND p.gender = $gender "
        "GROUP BY ALL ORDER BY n DESC, c.city LIMIT 5",
        "MATCH (p:Person)-[:HasInterest]->(i:Interest), (p)-[:LivesIn]->(c:City) WHERE i.interest = $interest AND p.gender = $gender "
        "RETURN c.city, count(p) AS n ORDER BY n DESC, c.city LIMIT 5",
        {"interest": "interest 12", "gender": "female"},
    ),
    Query(
        "7 state with most of an age and interest",
        "match { $p livesIn $c $c cityIn $s $s stateIn $o $p hasInterest $i $p.age >= $low $p.age <= $high $o.country = $country $i.interest = $interest } "
        "return { $s.state as state, count($p) as n } order { n desc, state } limit 1",
        "SELECT s.state, count(*) n FROM person p JOIN livesin l ON l.src = p.pid JOIN cityin ci ON ci.src = l.dst JOIN state s ON s.sid = ci.dst "
        "JOIN statein si ON si.src = s.sid JOIN country o ON o.oid = si.dst JOIN hasinterest h ON h.src = p.pid JOIN interest i ON i.iid = h.dst "
        "WHERE p.age >= $low AND p.age <= $high AND o.country = $country AND i.interest = $interest GROUP BY ALL ORDER BY n DESC, s.state LIMIT 1",
        "MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(o:Country), (p)-[:HasInterest]->(i:Interest) "
        "WHERE p.age >= $low AND p.age <= $high AND o.country = $country AND i.interest = $interest "
        "RETURN s.state, count(p) AS n ORDER BY n DESC, s.state LIMIT 1",
        {"low": 23, "high": 30, "country": "United States", "interest": "interest 3"},
    ),
    Query(
        "8 all two-hop paths",
        "match { $a follows $b $b follows $c } return { count($a) as n }",
        "SELECT count(*) FROM follows x JOIN follows y ON y.src = x.dst",
        "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) RETURN count(*)",
        {},
    ),
    Query(
        "9 two-hop paths by ages",
        "match { $a follows $b $b follows $c $b.age < $low $c.age > $high } return { count($a) as n }",
        "SELECT count(*) FROM follows x JOIN follows y ON y.src = x.dst JOIN person b ON b.pid = x.dst JOIN person c ON c.pid = y.dst "
        "WHERE b.age < $low AND c.age > $high",
        "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) WHERE b.age < $low AND c.age > $high RETURN count(*)",
        {"low": 50, "high": 25},
    ),
    Query(
        "10 follows of an age by gender",
        "match { $a follows $b $a.age >= $low $a.age <= $high } return { $b.gender as gender, count($a) as n } order { n desc, gender }",
        "SELECT b.gender, count(*) n FROM person a JOIN follows f ON f.src = a.pid JOIN person b ON b.pid = f.dst "
        "WHERE a.age >= $low AND a.age <= $high GROUP BY ALL ORDER BY n DESC, b.gender",
        "MATCH (a:Person)-[:Follows]->(b:Person) WHERE a.age >= $low AND a.age <= $high RETURN b.gender, count(a) AS n ORDER BY n DESC, b.gender",
        {"low": 30, "high": 40},
    ),
    Query(
        "s1 person by key",
        "match { $p: Person { pid: $id } } return { $p.name as name, $p.age as age, $p.gender as gender }",
        "SELECT name, age, gender FROM person WHERE pid = $id",
        "MATCH (p:Person {pid: $id}) RETURN p.name, p.age, p.gender",
        {"id": 4321},
    ),
    Query(
        "s2 one hop from a key",
        "match { $p: Person { pid: $id } $p follows $f } return { $f.pid as id, $f.name as name } order { id }",
        "SELECT p.pid, p.name FROM follows f JOIN person p ON p.pid = f.dst WHERE f.src = $id ORDER BY p.pid",
        "MATCH (p:Person {pid: $id})-[:Follows]->(f:Person) RETURN f.pid, f.name ORDER BY f.pid",
        {"id": 4321},
    ),
    Query(
        "s3 followers of a key, counted",
        "match { $f follows $p $p.pid = $id } return { count($f) as n }",
        "SELECT count(*) FROM follows WHERE dst = $id",
        "MATCH (f:Person)-[:Follows]->(p:Person {pid: $id}) RETURN count(f)",
        {"id": 4321},
    ),
    Query(
        "s4 two hops from a key, counted",
        "match { $p: Person { pid: $id } $p follows $f $f follows $g } return { count($g) as n }",
        "SELECT count(*) FROM follows x JOIN follows y ON y.src = x.dst WHERE x.src = $id",
        "MATCH (p:Person {pid: $id})-[:Follows]->(f:Person)-[:Follows]->(g:Person) RETURN count(g)",
        {"id": 4321},
    ),
    Query(
        "s5 reached within three hops, counted",
        "match { $p: Person { pid: $id } $p follows{1,3} $f } return { count($f) as n }",
        "WITH l1 AS (SELECT DISTINCT dst d FROM follows WHERE src = $id), "
        "l2 AS (SELECT DISTINCT f.dst d FROM l1 JOIN follows f ON f.src = l1.d), "
        "l3 AS (SELECT DISTINCT f.dst d FROM l2 JOIN follows f ON f.src = l2.d) "
        "SELECT count(*) FROM (SELECT d FROM l1 UNION SELECT d FROM l2 UNION SELECT d FROM l3) WHERE d <> $id",
        "MATCH (p:Person {pid: $id})-[:Follows*1..3]->(f:Person) WHERE f.pid <> $id RETURN count(DISTINCT f.pid)",
        {"id": 4321},
    ),
]
DECLARED = {
    "country": "String",
    "low": "I32",
    "high": "I32",
    "interest": "String",
    "gender": "String",
    "city": "String",
    "id": "I64",
}


# ---------------------------------------------------------------- the graph


def generate(persons: int, edges: int) -> dict[str, pa.Table]:
    """The graph as plain tables with integer keys; the same for the same sizes, everywhere."""
    random = np.random.default_rng(7)
    pids = np.arange(1, persons + 1)
    rank = random.permutation(persons)
    weights = 1.0 / np.power(np.arange(1, persons + 1), 0.6)
    popular = rank[random.choice(persons, size=edges * 2, p=weights / weights.sum())] + 1
    source = random.integers(1, persons + 1, size=edges * 2)
    pairs = np.unique(source.astype(np.int64) * (persons + 1) + popular)
    pairs = pairs[(pairs // (persons + 1)) != (pairs % (persons + 1))]
    pairs = np.sort(random.permutation(pairs)[:edges])
    interests = [(p, i) for p, n in zip(pids, random.integers(1, 4, persons), strict=True) for i in range(n)]
    chosen = (np.array([p for p, _ in interests]) * 7 + np.array([i for _, i in interests]) * 11) % INTERESTS + 1
    return {
        "person": pa.table(
            {
                "pid": pids,
                "name": [f"person {p}" for p in pids],
                "gender": np.where(random.random(persons) < 0.5, "female", "male"),
                "age": random.integers(18, 80, persons).astype(np.int32),
                "married": random.random(persons) < 0.5,
            }
        ),
        "city": pa.table({"cid": np.arange(1, CITIES + 1), "city": [f"city {i}" for i in range(1, CITIES + 1)]}),
        "state": pa.table({"sid": np.arange(1, STATES + 1), "state": [f"state {i}" for i in range(1, STATES + 1)]}),
        "country": pa.table({"oid": np.arange(1, COUNTRIES + 1), "country": COUNTRY_NAMES}),
        "interest": pa.table(
            {"iid": np.arange(1, INTERESTS + 1), "interest": [f"interest {i}" for i in range(1, INTERESTS + 1)]}
        ),
        "follows": pa.table({"src": pairs // (persons + 1), "dst": pairs % (persons + 1)}),
        "livesin": pa.table({"src": pids, "dst": random.integers(1, CITIES + 1, persons)}),
        "cityin": pa.table({"src": np.arange(1, CITIES + 1), "dst": np.arange(CITIES) % STATES + 1}),
        "statein": pa.table({"src": np.arange(1, STATES + 1), "dst": np.arange(STATES) % COUNTRIES + 1}),
        "hasinterest": pa.table({"src": np.array([p for p, _ in interests]), "dst": chosen}),
    }


def load(folder: Path, tables: dict[str, pa.Table]) -> View:
    """The graph as one commit, then its indexes as another."""
    repository = Repository.create(str(folder), compile_schema(SCHEMA), durability="process")
    _, view = repository.head()
    changes = []
    for key, entity in view.catalog.tables.items():
        rows = tables[entity.name.lower()]
        if key.startswith("node:"):
            ids = {"id": rows.column(0).cast(pa.utf8())}
        else:
            numbers = pa.array([f"{index:08}" for index in range(rows.num_rows)])
            ids = {"id": numbers, "src": rows.column("src").cast(pa.utf8()), "dst": rows.column("dst").cast(pa.utf8())}
            rows = rows.drop_columns(["src", "dst"])
        full = pa.table({**ids, **dict(zip(rows.column_names, rows.columns, strict=True))}).cast(view.schema(key))
        staged = repository.tables.stage(view.table_or_new(key), rows=full)
        changes.append(TableChange(key, "strict", None, TableState(staged.path, staged.version, 1, staged.rows)))
    _publish(repository, view, tuple(changes))
    maintain(repository, MAIN, rewrite=False)
    return repository.head()[1]


def _publish(repository: Repository, view: View, changes: tuple[TableChange, ...]) -> None:
    entry = repository.history.chain.head(MAIN)
    publish(
        repository.history,
        PublishPlan(
            commit_id=new_ulid(), branch=MAIN, incarnation=entry.incarnation, base=view.snapshot.commit.ref,
            schema=view.snapshot.schema, changes=changes,
        )
    )  # fmt: skip


# ---------------------------------------------------------------- engines


def checksum(rows: list[tuple[Any, ...]]) -> str:
    """Rows as text: whole numbers as such, fractions to six digits."""
    return json.dumps([[round(v, 6) if isinstance(v, float) else v for v in row] for row in rows], default=str)


def text_of(query: Query) -> str:
    declared = ", ".join(f"${name}: {DECLARED[name]}" for name in query.params)
    return f"query q({declared}) {{ {query.gq} }}"


def ours(graph: omnigraph.Graph, branch: str = MAIN) -> Callable[[Query], list[tuple[Any, ...]]]:
    return lambda query: [
        tuple(row.values()) for row in graph.query(text_of(query), query.params, revision=branch).rows
    ]


def plain_duckdb(tables: dict[str, pa.Table]) -> Callable[[Query], list[tuple[Any, ...]]]:
    engine = duckdb.connect()
    for name, table in tables.items():
        engine.register("incoming", table)
        engine.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        engine.unregister("incoming")
    engine.execute("CREATE UNIQUE INDEX person_pid ON person (pid)")
    engine.execute("CREATE INDEX follows_src ON follows (src)")
    engine.execute("CREATE INDEX follows_dst ON follows (dst)")
    return lambda query: engine.execute(query.sql, query.params or None).fetchall()


def measure(run: Callable[[Query], list[tuple[Any, ...]]], query: Query, repeat: int) -> tuple[str, float, float]:
    """(check sum, first time, median of the rest), in milliseconds."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        rows = run(query)
        times.append((time.perf_counter() - start) * 1e3)
    return checksum(rows), times[0], statistics.median(times[1:])


def peers(python: str, folder: Path, repeat: int) -> dict[str, dict[str, tuple[str, float, float]]]:
    """Run the other engines in their own environment; what does not install is left out."""
    request = {"folder": str(folder), "queries": [[q.name, q.cypher, q.params, q.repeats(repeat)] for q in QUERIES]}
    script = Path(__file__).with_name("peers.py")
    answer = subprocess.run(
        [python, str(script)], input=json.dumps(request), capture_output=True, text=True, check=False
    )
    print(answer.stderr, end="", file=sys.stderr)
    if answer.returncode != 0:
        return {}
    return json.loads(answer.stdout.splitlines()[-1])


# ---------------------------------------------------------------- phases

FRESH = [
    "1 most followed",
    "10 follows of an age by gender",
    "s1 person by key",
    "s2 one hop from a key",
    "s3 followers of a key, counted",
]
SHORT = [
    "s1 person by key",
    "s2 one hop from a key",
    "s3 followers of a key, counted",
    "s4 two hops from a key, counted",
]
CHILD = """
import json, sys, time
import lance, duckdb, numpy, pyarrow.compute
import omnigraph
from omnigraph.read import engine, execution
from omnigraph.read.explaining import explain
from omnigraph.read.strategies import arrays, dense, direct, scan
graph, text, params = json.load(sys.stdin)
opened = omnigraph.open(graph)
opened.query("query q($id: I64) { match { $s: State { sid: $id } } return { $s.state as state } }", {"id": 1})
times = []
for _ in range(2):
    began, used = time.perf_counter(), time.process_time()
    rows = opened.query(text, params).rows
    times.append([(time.perf_counter() - began) * 1e3, (time.process_time() - used) * 1e3])
print(json.dumps([times, len(rows)]))
"""


def named(name: str) -> Query:
    return next(query for query in QUERIES if query.name == name)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of the clock and of the processor."""
    began, used = time.perf_counter(), time.process_time()
    run()
    return (time.perf_counter() - began) * 1e3, (time.process_time() - used) * 1e3


def middle(times: list[tuple[float, float]]) -> str:
    clock, processor = (statistics.median(each) for each in zip(*times, strict=True))
    return f"{clock:10.2f} (cpu {processor:.2f})"


def fresh(graph: Path, repeat: int) -> None:
    print("first question of a fresh process, and the second")
    for name in FRESH:
        query, firsts, seconds = named(name), [], []
        for _ in range(repeat):
            request = json.dumps([str(graph), text_of(query), query.params])
            ran = subprocess.run(
                [sys.executable, "-c", CHILD], input=request, capture_output=True, text=True, check=True
            )
            (first, second), _ = json.loads(ran.stdout)
            firsts.append(tuple(first))
            seconds.append(tuple(second))
        print(f"{name:42}{middle(firsts)}{middle(seconds)}")


def varied(graph: omnigraph.Graph, plain: Callable[[Query], list[tuple[Any, ...]]], persons: int) -> None:
    print("keys and ages in turn: omnigraph, duckdb")
    keys = np.random.default_rng(5).permutation(np.arange(1, persons + 1))[: SHORT_REPEAT * 2].tolist()
    for name in SHORT:
        query = named(name)
        cells = ""
        for run in (ours(graph), plain):
            asked = [replace(query, params={"id": int(key)}) for key in keys]
            for each in asked[:SHORT_REPEAT]:
                run(each)
            cells += middle([timed(partial(run, each)) for each in asked[SHORT_REPEAT:]])
        print(f"{name:42}{cells}")
    query = named("10 follows of an age by gender")
    cells = ""
    for run in (ours(graph), plain):
        asked = [replace(query, params={"low": low, "high": low + 10}) for low in range(20, 60)]
        run(asked[0])
        cells += middle([timed(partial(run, each)) for each in asked[1:]])
    print(f"{query.name:42}{cells}")


def after_commits(graph: omnigraph.Graph, persons: int, repeat: int) -> None:
    """On a branch, so that the graph can be asked again."""
    print("before, and after each of some commits of a node and an edge, in turn")
    branch = f"commits-{time.time_ns()}"
    graph.branches.create(branch)
    for name in (*FRESH, "s4 two hops from a key, counted"):
        run, query, before, after = ours(graph, branch), named(name), [], []
        for _ in range(WARMED):  # Until the columns that are read again and again are held.
            run(query)
        for _ in range(repeat):
            before.append(timed(partial(run, query)))
            added = int(time.time_ns())
            with graph.transaction(branch) as tx:
                tx.insert("Person", pid=added, name="new", gender="female", age=20, married=False)
                tx.insert("Follows", from_=str(added), to=str(added % persons + 1))
            after.append(timed(partial(run, query)))
        print(f"{name:42}{middle(before)}{middle(after)}")


def commands(graph: Path, repeat: int) -> None:
    print("whole commands")
    query = named("s1 person by key")
    file = graph.with_suffix(".gq")
    file.write_text(text_of(query))
    lines = {
        "omnigraph query by key": [
            "query",
            "q",
            "--query",
            str(file),
            "--params",
            json.dumps(query.params),
            "--store",
            str(graph),
        ],
        "omnigraph commit list": ["commit", "list", str(graph)],
    }
    for title, arguments in lines.items():
        times = []
        for _ in range(repeat):
            began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [str(Path(sys.executable).with_name("omnigraph")), *arguments], capture_output=True, check=True
            )
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
            times.append(((time.perf_counter() - began) * 1e3, spent * 1e3))
        print(f"{title:42}{middle(times)}")


def build(graph: Path) -> None:
    """What is stored is made again from nothing."""
    from omnigraph.indexing.adjacency import refresh_adjacency

    for file in graph.glob("*/*/_adjacency/*.adj"):
        file.unlink()
    repository = Repository.open(str(graph))
    spent = timed(lambda: refresh_adjacency(repository, repository.head()[1]))
    size = sum(file.stat().st_size for file in graph.glob("*/*/_adjacency/*.adj"))
    print(f"{'storing adjacency':42}{middle([spent])}   {size / 2**20:.0f} MiB")


class Stopwatch:
    """Time that functions take where they stand, each without those inside of it. In a loop of its own, where the caches of the
    processor are warm, a step takes little more than half of that."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = {}
        self._inner: list[int] = []

    def watch(self, patched: ExitStack, owner: Any, name: str, step: str) -> None:
        function = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            self._inner.append(0)
            began = time.perf_counter_ns()
            try:
                return function(*arguments, **options)
            finally:
                whole = time.perf_counter_ns() - began
                self.spent[step] = self.spent.get(step, 0) + whole - self._inner.pop()
                if self._inner:
                    self._inner[-1] += whole

        patched.enter_context(patch.object(owner, name, timed))


def profile(graph: omnigraph.Graph, name: str, persons: int) -> None:
    """Microseconds of each step of a short read; the best of some rounds, keys in turn."""
    from omnigraph.graph import reading
    from omnigraph.read import execution
    from omnigraph.read.inputs.adjacency import GraphArrays
    from omnigraph.read.strategies.keyed import KeyedForm
    from omnigraph.tables.adjacency.csr import Adjacency
    from omnigraph.tables.adjacency.nodes import Nodes

    text = text_of(named(name))
    keys = np.random.default_rng(5).permutation(np.arange(1, persons + 1))[:PROFILED].tolist()
    for key in keys:
        graph.query(text, {"id": key})
    watched = [
        (Repository, "resolve", "the head of the branch: one look at the disk"),
        (reading, "compiled_read", "plan and parameters, remembered by text and schema"),
        (KeyedForm, "ids", "the id that the key stands for"),
        (Nodes, "find", "its number, among the sorted ids"),
        (GraphArrays, "neighbours_at_hand", "its neighbours"),
        (Adjacency, "expand", "its neighbours"),
        (GraphArrays, "values", "columns of the nodes"),
        (execution, "run_read", "the rest of the read: strategy, tables, matches, order, explanation"),
    ]
    best: tuple[int, dict[str, int]] | None = None
    with ExitStack() as patched:
        watch = Stopwatch()
        for owner, function, step in watched:
            watch.watch(patched, owner, function, step)
        for _ in range(PROFILE_ROUNDS):
            watch.spent.clear()
            began = time.perf_counter_ns()
            for key in keys:
                graph.query(text, {"id": key}).rows  # noqa: B018  # the rows are made now
            whole = time.perf_counter_ns() - began
            best = (whole, dict(watch.spent)) if best is None or whole < best[0] else best
    assert best is not None
    whole, steps = best
    steps["the call, and rows as dictionaries"] = whole - sum(steps.values())
    print(f"microseconds of {name}, {whole / len(keys) / 1e3:.1f} in all")
    for step in dict.fromkeys([*(step for _, _, step in watched), *steps]):
        if step in steps:
            print(f"  {step:72}{steps[step] / len(keys) / 1e3:8.1f}")


PHASES = ["warm", "fresh", "varied", "commit", "cli", "build", "profile"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--peers", default=None)
    parser.add_argument("--phase", choices=PHASES, action="append")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    tables = kept_tables(folder / f"tables-{options.persons}-{options.edges}", options.persons, options.edges)
    place = folder / f"graph-{options.persons}-{options.edges}"
    if not place.exists():
        print(f"{'load and indexes':42}{middle([timed(lambda: load(place, tables))])}")
    phases = options.phase or PHASES
    if "build" in phases:
        build(place)
    if "fresh" in phases:
        fresh(place, options.repeat)
    if "cli" in phases:
        commands(place, options.repeat)
    plain = plain_duckdb(tables) if {"warm", "varied"} & set(phases) else None
    graph = omnigraph.open(str(place))
    if "warm" in phases and plain is not None:
        warm(graph, plain, tables, folder, options.peers, options.repeat)
    if "varied" in phases and plain is not None:
        varied(graph, plain, options.persons)
    if "profile" in phases:
        for name in ("s1 person by key", "s2 one hop from a key"):
            profile(graph, name, options.persons)
    if "commit" in phases:
        after_commits(graph, options.persons, options.repeat)
    print(
        f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB; {graph._repository.tables.runtime}"
    )


def kept_tables(folder: Path, persons: int, edges: int) -> dict[str, pa.Table]:
    """Made once: the graph of ten million edges takes a while."""
    if not folder.exists():
        made = generate(persons, edges)
        folder.mkdir()
        for name, table in made.items():
            pq.write_table(table, folder / f"{name}.parquet")
    return {file.stem: pq.read_table(file) for file in folder.glob("*.parquet")}


def warm(
    graph: omnigraph.Graph,
    plain: Callable[[Query], list[tuple[Any, ...]]],
    tables: dict[str, pa.Table],
    folder: Path,
    python: str | None,
    repeat: int,
) -> None:
    engines = {"omnigraph": ours(graph), "duckdb": plain}
    results = {name: {q.name: measure(run, q, q.repeats(repeat)) for q in QUERIES} for name, run in engines.items()}
    if python:
        exchange = folder / "tables"
        exchange.mkdir(exist_ok=True)
        for name, table in tables.items():
            pq.write_table(table, exchange / f"{name}.parquet")
        results |= peers(python, exchange, repeat)
    report(results)


def report(results: dict[str, dict[str, tuple[str, float, float]]]) -> None:
    names = list(results)
    print(
        f"{'query (ms: first, then median)':42}" + "".join(f"{name:>24}" for name in names) + "   ratios to omnigraph"
    )
    for query in QUERIES:
        reference = results["omnigraph"][query.name]
        cells, ratios = "", []
        for name in names:
            found = results[name].get(query.name)
            if found is None:
                cells += f"{'-':>24}"
            elif found[0] != reference[0]:
                cells += f"{'DIFFERENT ANSWER':>24}"
                print(f"  {name} {query.name}: {found[0][:200]} != {reference[0][:200]}", file=sys.stderr)
            else:
                cells += f"{found[1]:12.2f}{found[2]:12.2f}"
                if name != "omnigraph":
                    ratios.append(f"{name} {found[2] / reference[2]:.2f}x")
        print(f"{query.name:42}{cells}   {', '.join(ratios)}")


if __name__ == "__main__":
    main()
