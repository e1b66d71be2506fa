"""SQL over a snapshot: the right rows through any schema, one snapshot, and nothing but the graph within reach."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pytest

import omnigraph as og
from omnigraph.errors import Cancelled, Damaged, QueryTimeout, SqlRefused
from omnigraph.tables.table import Table

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]?  born: DateTime?  taste: Vector(2)?  photo: Blob?  big: U64? }
node Order { number: I64 @key  from: String? }
node Empty { name: String @key }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge PERSON: Person -> Order
"""
BORN = dt.datetime(1815, 12, 10, 6, 30, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("sql") / "g", SCHEMA, durability="process")
    with made.transaction() as tx:
        tx.insert(
            "Person", name="Ada", age=36, tags=["x", "y"], born=BORN, taste=[1.0, 2.0], photo=b"\0\1", big=2**64 - 1
        )
        tx.insert("Person", name="Bo", age=27)
        tx.insert("Person", name='O\'Neil "q" 東')
        tx.insert("Order", number=7, **{"from": "here"})
        tx.insert("Knows", **{"from": "Ada", "to": "Bo", "since": dt.date(2020, 5, 1), "weight": 0.5, "id": "k1"})
        tx.insert("PERSON", **{"from": "Ada", "to": "7", "id": "k2"})
    return made


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT name FROM Person ORDER BY name", [("Ada",), ("Bo",), ("O'Neil \"q\" 東",)]),
        ("SELECT p.name, k.since FROM Person p JOIN Knows k ON k.to = p.id", [("Bo", dt.date(2020, 5, 1))]),
        ('SELECT "from", "to", id FROM Knows', [("Ada", "Bo", "k1")]),
        ("SELECT k.from, o.number FROM PERSON_2 k JOIN \"Order\" o ON o.id = k.to", [("Ada", 7)]),
        ('SELECT "from", number FROM "Order"', [("here", 7)]),
        ("SELECT count(*) FROM Empty", [(0,)]),
        ("SELECT tags, born, taste, photo, big FROM Person WHERE name = 'Ada'", [(["x", "y"], BORN, [1.0, 2.0], b"\0\1", 2**64 - 1)]),
        ("SELECT name FROM Person WHERE age > 30", [("Ada",)]),
        ("SELECT name FROM Person WHERE age IS NULL", [("O'Neil \"q\" 東",)]),
        ("SELECT count(*) FROM Person WHERE name IN ('Ada', 'age', 'Bo') AND age BETWEEN 20 AND 30", [(1,)]),
        ("SELECT count(*) FROM Person WHERE name = 'O''Neil \"q\" 東'", [(1,)]),
        ("SELECT count(*) FROM Person WHERE born < TIMESTAMP '1900-01-01'", [(1,)]),
        ("SELECT name FROM Person WHERE born = TIMESTAMPTZ '1815-12-10 06:30:00+00'", [("Ada",)]),
        ("SELECT count(*) FROM Person WHERE list_contains(tags, 'x') OR age < 30", [(2,)]),
        ("SELECT sum(age) AS s, 1.5 AS d, INTERVAL 1 DAY AS i, TIME '10:00' AS t FROM Person", [(63, 1.5, "1 day", "10:00:00")]),
        ("SELECT sum(big) * 10 FROM Person", [("184467440737095516150",)]),
        ("SELECT a.id, b.id FROM Person a, Person b WHERE a.id < b.id ORDER BY 1, 2 LIMIT 1", [("Ada", "Bo")]),
        ("FROM Person SELECT count(*)", [(3,)]),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT max(n) FROM r", [(3,)]),
        ("SELECT name FROM person WHERE AGE = $age", [("Bo",)]),
    ],
)  # fmt: skip
def test_rows(graph: og.Graph, sql: str, rows: list[tuple[Any, ...]]) -> None:
    result = graph.sql(sql, {"age": 27} if "$age" in sql else None)
    assert [tuple(row.values()) for row in result.rows] == rows
    assert result.commit_id == graph.head().id
    assert len(result.to_json()) == len(result.to_arrow()) == len(result) == len(rows)


REFUSED = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM parquet_scan('/x.parquet')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "FROM '/etc/passwd'",
    "FROM 'https://example.com/x.csv'",
    "SELECT getenv('HOME')",
    "SELECT * FROM frame_of_this_test",
    "SELECT * FROM query('COPY Person TO ''out.csv''')",
    "COPY Person TO 'out.csv'",
    "COPY (SELECT 1) TO 'out.parquet'",
    "EXPORT DATABASE 'out'",
    "IMPORT DATABASE 'out'",
    "ATTACH 'out.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET GLOBAL temp_directory = 'out'",
    "RESET enable_external_access",
    "SET lock_configuration = false",
    "PRAGMA profiling_output = 'out'",
    "PRAGMA enable_profiling",
    "CALL enable_logging(storage = 'file')",
    "CREATE PERSISTENT SECRET s (TYPE s3)",
    "DELETE FROM Person",
    "UPDATE Person SET age = 1",
    "INSERT INTO Person VALUES ('x')",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_sql_reaches_the_graph_only(graph: og.Graph, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    monkeypatch.chdir(tmp_path)
    frame_of_this_test = pa.table({"secret": [1]})
    with pytest.raises(SqlRefused):
        graph.sql(sql)
    with graph.duckdb() as connection, pytest.raises(duckdb.Error):
        connection.execute(sql).fetchall()
    assert list(tmp_path.iterdir()) == []
    assert len(frame_of_this_test) == 1


@pytest.mark.parametrize("sql", ["", "SELECT 1; SELECT 2", "CREATE TABLE t (a INT)", "ATTACH ':memory:' AS m", "SELEC", "SELECT nme FROM Person"])  # fmt: skip
def test_only_one_read_is_taken(graph: og.Graph, sql: str) -> None:
    with pytest.raises(SqlRefused):
        graph.sql(sql)


def test_a_connection_stays_at_its_snapshot(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node P { name: String @key }", durability="process")
    graph.mutate('query q() { insert P { name: "a" } }')
    with graph.duckdb() as connection:
        graph.mutate('query q() { insert P { name: "b" } }')
        connection.execute("CREATE TABLE mine AS SELECT name || '!' AS name FROM P")
        assert connection.sql("SELECT * FROM mine").fetchall() == [("a!",)]
        assert connection.sql("SELECT count(*) FROM P").fetchall() == [(1,)]
    assert graph.sql("SELECT count(*) AS n FROM P").rows == [{"n": 2}]
    assert graph.sql("SELECT count(*) AS n FROM P", revision="main~2").rows == [{"n": 0}]


def test_older_rows_are_what_the_schema_makes_of_them(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node P { name: String @key  age: I32?  city: String? }", durability="process")
    graph.mutate('query q() { insert P { name: "a", age: 3, city: "Rome" } }')
    wider = (
        'node P { name: String @key  years: I64? @rename_from("age")  city: [String]?  level: I32 @default(5) }'
        "  edge E: P -> P"
    )
    graph.schema.apply(wider)
    graph.mutate('query q() { insert P { name: "b", years: 5000000000, city: ["Oslo", "Bern"], level: 9 } }')
    expected = [
        {"id": "a", "name": "a", "years": 3, "city": ["Rome"], "level": 5},
        {"id": "b", "name": "b", "years": 5_000_000_000, "city": ["Oslo", "Bern"], "level": 9},
    ]
    assert graph.sql("SELECT * FROM P ORDER BY name").rows == expected
    assert graph.sql("SELECT name FROM P WHERE years < 4000000000 AND level = 5").rows == [{"name": "a"}]
    assert graph.sql("SELECT name FROM P WHERE level > 5").rows == [{"name": "b"}]
    assert graph.sql("SELECT count(*) AS n FROM E").rows == [{"n": 0}]
    assert graph.sql("SELECT age FROM P", revision="main~2").rows == [{"age": 3}]


def test_only_the_columns_of_a_query_are_read_and_never_a_whole_table(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    scan = Table.scan

    def noted(self: Table, columns: Any = None, *arguments: Any, **options: Any) -> Any:
        asked.append(list(columns))
        return scan(self, columns, *arguments, **options)

    monkeypatch.setattr(Table, "scan", noted)
    monkeypatch.setattr(Table, "read", lambda *_a, **_o: pytest.fail("a whole table was read"))
    graph.sql("SELECT name FROM Person WHERE age > 3")
    graph.sql("SELECT count(*) FROM Person")
    assert asked == [["name", "age"], ["id"]]


def test_sql_ends_when_it_is_told_to(graph: og.Graph) -> None:
    endless = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = -1"
    with pytest.raises(QueryTimeout):
        graph.sql(endless, timeout=0.05)
    stop = og.Cancellation()
    stop.cancel()
    with pytest.raises(Cancelled):
        graph.sql(endless, cancel=stop)
    assert graph.sql("SELECT 1 AS n").rows == [{"n": 1}]


def test_damage_is_said_as_damage(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node P { name: String @key }", durability="process")
    lines = "".join(f'{{"type": "P", "data": {{"name": "p{n}"}}}}\n' for n in range(2_000))
    (tmp_path / "p.jsonl").write_text(lines)
    graph.load(tmp_path / "p.jsonl", mode="append", engine="local")
    for file in (tmp_path / "g" / "nodes").rglob("data/*"):
        file.unlink()
    with pytest.raises(Damaged):
        og.open(tmp_path / "g").sql("SELECT name FROM P")
