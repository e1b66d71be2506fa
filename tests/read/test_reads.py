"""What a read gives back and how it gets there: results, access paths, caches, time travel, errors."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from read.graphs import build_indexes, commit, new_graph, query

import omnigraph as og
from omnigraph._internal.runtime import ByteCache
from omnigraph.api.reads import ExplanationJson
from omnigraph.errors import ArithmeticOverflow, ResourceExhausted, StorageTransient, UsageError
from omnigraph.indexing.indexes import index_specs, index_state
from omnigraph.language.query.mutations import bind_parameters, compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.entities import entity
from omnigraph.read.entity_history import history_of
from omnigraph.read.explaining import Explanation, explain
from omnigraph.read.inputs import sources
from omnigraph.read.inputs.adjacency import GraphArrays
from omnigraph.read.strategies.strategy import Mode
from omnigraph.relational import duck
from omnigraph.relational.duck import ConnectionPool
from omnigraph.snapshot import Repository, View
from omnigraph.tables.fragment_columns import MIN_LOOKUPS

SCHEMA = """
node Person {
  name: String @key
  age: I32? @index
  tier: enum(free, pro)? @index
  bio: String? @index
  seen: DateTime?
  big: I64?
  score: F64?
  tags: [String]?
  photo: Blob?
  vec: Vector(2)? @index
}
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def knows(a: str, b: str, **data: Any) -> dict[str, Any]:
    return {"edge": "Knows", "from": a, "to": b, "data": data, "id": f"{a}-{b}"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_graph(str(tmp_path / "graph"), SCHEMA)


@pytest.fixture
def view(repository: Repository) -> View:
    records = [
        person("ann", age=30, seen="2024-05-06T07:08:09.010Z", big=2**53, score=1e308, tags=["x"], vec=[1, 0]),
        person("bob", age=20, big=-(2**60), tier="pro", bio="likes graphs", photo="bytes"),
        person("cid", big=5),
        {"type": "City", "data": {"name": "Rome"}},
        knows("ann", "bob", since="2020-02-02"),
        knows("bob", "cid"),
        {"edge": "LivesIn", "from": "ann", "to": "Rome", "id": "home"},
    ]
    return commit(repository, records)


def explained(view: View, text: str, params: dict[str, Any] | None = None, mode: Mode = "auto") -> Explanation:
    plan = compile_query(text, view.catalog)
    assert isinstance(plan, ReadPlan)
    return explain(view, plan, bind_parameters(plan.parameters, params or {}), mode=mode)


# ---------------------------------------------------------------- results


def test_a_result_offers_rows_arrow_and_frames(view: View) -> None:
    result = query(view, "query q() { match { $p: Person } return { $p.name as n, $p.age as a, $p.seen as s } }")
    assert result.num_rows == 3
    assert result.rows[0] == {"n": "ann", "a": 30, "s": dt.datetime(2024, 5, 6, 7, 8, 9, 10_000, tzinfo=dt.UTC)}
    assert result.to_arrow().schema.types == [pa.utf8(), pa.int32(), pa.timestamp("us", tz="UTC")]
    assert list(result.to_pandas()["n"]) == ["ann", "bob", "cid"]
    assert result.to_polars()["a"].to_list() == [30, 20, None]
    assert [column.kind for column in result.columns] == ["string", "int", "datetime"]
    assert result.commit.id == view.snapshot.commit.id
    assert result.timing.total_s >= result.timing.engine_s


def test_json_is_safe_for_64_bits(view: View) -> None:
    text = "query q() { match { $p: Person } return { $p.big as b, $p.score as s, $p.tags as t, $p.seen as at } }"
    rows = query(view, text).to_json()
    assert rows[0] == {"b": "9007199254740992", "s": 1e308, "t": ["x"], "at": "2024-05-06T07:08:09.010Z"}
    assert rows[1] == {"b": str(-(2**60)), "s": None, "t": None, "at": None}
    assert rows[2]["b"] == 5
    assert json.loads(json.dumps(rows)) == rows


def test_counts_and_sums_have_their_types(view: View) -> None:
    text = "query q() { match { $p: Person } return { count($p) as n, sum($p.age) as s, avg($p.big) as a, max($p.age) as m } }"
    assert query(view, text).to_arrow().schema.types == [pa.int64(), pa.int64(), pa.float64(), pa.int32()]


@pytest.mark.parametrize("mode", ["auto", "scan", "index", "csr"])
def test_an_optional_hop_to_a_type_without_rows_has_null_keys(tmp_path: Path, mode: Mode) -> None:
    schema = "node P { name: String @key }\nnode C { name: String @key }\nedge E: P -> C"
    view = commit(new_graph(str(tmp_path / "g"), schema), [{"type": "P", "data": {"name": "a"}}])
    text = "query q() { match { $x: P optional { $x e $z } } return { $x.name as x, $z.id as i, $z.name as n } }"
    assert query(view, text, mode=mode).rows == [{"x": "a", "i": None, "n": None}]


def test_a_whole_entity_has_no_blob(view: View) -> None:
    row = query(view, 'query q() { match { $p: Person { name: "bob" } } return { $p } }').rows[0]["p"]
    assert row["id"] == "bob"
    assert row["bio"] == "likes graphs"
    assert "photo" not in row


# ---------------------------------------------------------------- access paths


def test_a_key_is_looked_up_and_a_hop_follows_the_adjacency(view: View) -> None:
    found = explained(view, 'query q() { match { $p: Person { name: "ann" } $p knows $q } return { $q.age } }')
    assert [(choice.what, choice.path, choice.estimate) for choice in found.choices] == [
        ("$p", "lookup", "1 ids, by number"),
        ("$p Knows $q", "csr", "by number"),
        ("$q", "lookup", "by number"),
    ]
    assert "SELECT" in found.sql


def test_a_hop_to_a_whole_entity_follows_the_adjacency(view: View) -> None:
    found = explained(view, 'query q() { match { $p: Person { name: "ann" } $p knows $q } return { $q.age, $q } }')
    assert [(choice.what, choice.path) for choice in found.choices] == [
        ("$p", "lookup"),
        ("$p Knows $q", "csr"),
    ]
    assert json.loads(json.dumps(ExplanationJson.to_json(found)))["access"][1]["path"] == "csr"
    assert "SELECT" in found.sql
    assert "SELECT" not in str(found)


def test_the_fixed_end_is_where_the_walk_starts(view: View) -> None:
    found = explained(view, 'query q() { match { $p knows $q $q.name = "cid" } return { $p.name } }')
    assert [choice.what for choice in found.choices] == ["$q", "$p Knows $q"]


def test_an_open_traversal_uses_the_adjacency(view: View) -> None:
    found = explained(view, "query q() { match { $p knows $q } return { $p.name, $q.name } }")
    assert found.keys == "numbers"
    assert {choice.path for choice in found.choices if "Knows" in choice.what} == {"csr"}


def test_deep_hops_use_the_adjacency(view: View) -> None:
    text = 'query q() { match { $p: Person { name: "ann" } $p knows{1,7} $q } return { $q.name } }'
    assert "csr" in {choice.path for choice in explained(view, text).choices}
    assert [row["q.name"] for row in query(view, text).rows] == ["bob", "cid"]


@pytest.mark.parametrize("mode", ["auto", "scan", "index", "csr"])
def test_very_deep_hops(view: View, repository: Repository, mode: Mode) -> None:
    chain = [person(f"n{number:02}") for number in range(25)]
    chain += [knows(f"n{number:02}", f"n{number + 1:02}") for number in range(24)]
    longer = commit(repository, chain)
    text = 'query q() { match { $p: Person { name: "n00" } $p knows{23,600} $q } return { $q.name as n } }'
    text = text if mode != "scan" else text.replace("600", "40")
    assert [row["n"] for row in query(longer, text, mode=mode).rows] == ["n23", "n24"]


def test_a_bare_count_reads_nothing(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(view), "table", lambda self, key: pytest.fail("a table was opened"))
    text = "query q() { match { $p: Person } return { count($p) as n } }"
    assert query(view, text).rows == [{"n": 3}]
    assert [choice.path for choice in explained(view, text).choices] == ["metadata"]


def test_only_needed_columns_are_read(view: View) -> None:
    found = explained(view, "query q() { match { $p: Person $p.age > 1 } return { count($p) as n } }")
    assert found.inputs[0].columns == ("id", "age")
    assert found.inputs[0].filter == "(`age` > 1)"


def test_a_node_known_by_its_edges_is_not_read(view: View) -> None:
    found = explained(view, "query q() { match { $p knows $q } return { count($p) as n } }")
    assert [one.tables for one in found.inputs] == [("edge:Knows",)]


def test_the_adjacency_of_a_version_is_built_once_and_shared(view: View, repository: Repository) -> None:
    before = GraphArrays(view).neighbours("Knows", "out")
    assert GraphArrays(view).neighbours("Knows", "out") is before
    later = commit(repository, [knows("cid", "ann")])
    assert GraphArrays(later).neighbours("Knows", "out") is not before
    text = "query q() { match { $p knows $q } return { count($p) as n } }"
    assert query(view, text).rows == [{"n": 2}]
    assert query(later, text).rows == [{"n": 3}]


def test_a_graph_that_is_read_often_is_answered_from_memory(tmp_path: Path) -> None:
    repository = new_graph(str(tmp_path), SCHEMA)
    commit(repository, [person(name, age=age) for age, name in enumerate(("ann", "bob", "cid"))])
    view = Repository.open(str(tmp_path)).head()[1]
    commit(repository, [knows("ann", "bob"), knows("ann", "cid")])
    later = Repository.open(str(tmp_path)).head()[1]
    point = 'query q() { match { $p: Person { name: "bob" } } return { $p.age, $p } }'
    hop = 'query q() { match { $p: Person { name: "ann" } $p knows $q $q.age > 1 } return { $q } }'
    assert explained(later, point, mode="index").choices[0].estimate == "1 ids"
    for _ in range(2 * MIN_LOOKUPS):
        assert [row["p"]["age"] for row in query(later, point, mode="index").rows] == [1]
        assert [row["q"]["name"] for row in query(later, hop, mode="index").rows] == ["cid"]
        assert query(view, hop, mode="index").rows == []
    assert explained(later, point, mode="index").choices[0].estimate == "1 ids, in memory"


def test_the_cache_is_bounded_and_drops_the_oldest() -> None:
    class Thing:
        def __init__(self, nbytes: int) -> None:
            self.nbytes = nbytes

    cache = ByteCache(100)
    for key in "abc":
        cache.get(key, lambda: Thing(40))
    assert "a" not in cache
    assert "b" in cache
    assert cache.nbytes == 80
    cache.get("huge", lambda: Thing(101))
    assert "huge" not in cache
    assert cache.nbytes == 80


def test_the_cache_makes_a_value_once_for_many_threads() -> None:
    class Thing:
        nbytes = 1

    cache, made, start = ByteCache(100), [], threading.Barrier(8)

    def ask() -> None:
        start.wait()
        cache.get("key", lambda: made.append(1) or Thing())  # type: ignore[func-returns-value]  # append, then the value

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_queries_from_many_threads(view: View) -> None:
    texts = [
        'query q() { match { $p: Person { name: "ann" } $p knows{1,2} $q } return { $q.name as n } }',
        "query q() { match { $p knows $q } return { $p.name as n } }",
        "query q() { match { $p: Person not { $p knows $x } } return { $p.name as n } }",
    ]
    expected = [[{"n": "bob"}, {"n": "cid"}], [{"n": "ann"}, {"n": "bob"}], [{"n": "cid"}]]
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(6):
            place = (number + turn) % 3
            rows = query(view, texts[place]).rows
            if rows != expected[place]:
                wrong.append((texts[place], rows))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_adjacency_that_does_not_fit_is_not_built(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view.repository.tables.runtime.cache, "capacity", 10)
    text = "query q() { match { $p knows $q } return { $p.name as p, $q.name as q } }"
    assert {choice.path for choice in explained(view, text).choices if "Knows" in choice.what} == {"sql"}
    assert query(view, text).rows == [{"p": "ann", "q": "bob"}, {"p": "bob", "q": "cid"}]


def test_a_large_scan_is_streamed(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "STREAMED_ROWS", 1)
    grouped = "query q() { match { $p: Person $p.age > 1 } return { $p.tier as t, count($p) as n } }"
    assert "streamed" in explained(view, grouped).choices[0].estimate
    assert query(view, grouped).rows == [{"t": None, "n": 1}, {"t": "pro", "n": 1}]
    ranked = 'query q() { match { $p: Person } return { $p.name as n } order { bm25($p.bio, "graphs") } }'
    assert query(view, ranked).rows == [{"n": "bob"}]
    product = "query q() { match { $p: Person $q: Person $p.age < $q.age } return { $p.name as p, $q.name as q } }"
    assert query(view, product).rows == [{"p": "bob", "q": "ann"}]
    fixed = 'query q() { match { $p: Person { name: "cid" } } return { $p.big as b } }'
    assert [choice.path for choice in explained(view, fixed).choices] == ["lookup"]


def test_what_breaks_a_stream_reaches_the_caller(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Iterator[pa.RecordBatch]:
        raise StorageTransient("no answer", key="people")
        yield  # makes it a stream

    monkeypatch.setattr(sources, "STREAMED_ROWS", 1)
    monkeypatch.setattr(sources, "scan_table", broken)
    with pytest.raises(StorageTransient, match="no answer"):
        query(view, "query q() { match { $p: Person $p.age > 1 } return { $p.tier as t, count($p) as n } }")


def test_an_engine_that_does_not_start_is_an_error_and_no_silence(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ResourceExhausted("no database")

    monkeypatch.setattr(duck.queries(view.memory.query_bytes), "connections", ConnectionPool(refuse))
    with pytest.raises(ResourceExhausted, match="no database"):
        query(view, "query q() { match { $p: Person } return { $p.age + 1 as a } }", mode="scan")


def test_what_does_not_fit_names_the_other_engine(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    def fail(*_: object, **__: object) -> None:
        raise duckdb.OutOfMemoryException("full")

    class Full:
        register = unregister = lambda *_: None
        sql = fail

    monkeypatch.setattr(duck.queries(view.memory.query_bytes), "connections", ConnectionPool(Full))
    with pytest.raises(ResourceExhausted) as error:
        query(view, "query q() { match { $p: Person } return { avg($p.age) as a } }", mode="scan")
    assert 'engine="spark"' in (error.value.hint or "")


# ---------------------------------------------------------------- indexes


def test_which_property_gets_which_index(view: View) -> None:
    person_type = view.catalog.nodes["Person"]
    assert {(spec.column, spec.kind, spec.variant) for spec in index_specs(person_type)} == {
        ("id", "BTREE", None), ("name", "BTREE", None), ("name", "INVERTED", "english"), ("age", "BTREE", None),
        ("tier", "BTREE", None), ("bio", "BTREE", None), ("bio", "INVERTED", "english"), ("vec", "IVF_FLAT", "cosine"),
    }  # fmt: skip
    assert {spec.column for spec in index_specs(view.catalog.edges["Knows"])} == {"id", "src", "dst"}


def test_the_state_of_indexes_shows_what_is_pending(view: View, repository: Repository) -> None:
    before = {(s.table_key, s.column, s.kind): s for s in index_state(view)}
    assert before[("node:Person", "age", "BTREE")].pending_rows == 3
    indexed = build_indexes(view)
    after = {(s.table_key, s.column, s.kind): s for s in index_state(indexed)}
    assert after[("node:Person", "age", "BTREE")].is_complete
    later = commit(repository, [person("dan", age=50)])
    pending = {(s.table_key, s.column, s.kind): s for s in index_state(later)}[("node:Person", "age", "BTREE")]
    assert (pending.covered_rows, pending.pending_rows) == (3, 1)
    text = "query q() { match { $p: Person $p.age in [20, 50] } return { $p.name as n } }"
    assert [row["n"] for row in query(later, text).rows] == ["bob", "dan"]


def test_search_is_right_while_an_index_covers_a_part(view: View, repository: Repository) -> None:
    build_indexes(view)
    later = commit(repository, [person("dan", bio="graphs and more graphs", vec=[0, 1])])
    text = 'query q() { match { $p: Person } return { $p.name as n } order { bm25($p.bio, "graphs") } }'
    assert [row["n"] for row in query(later, text).rows] == ["dan", "bob"]
    near = "query q() { match { $p: Person } return { $p.name as n } order { nearest($p.vec, [0.0, 1.0]) } limit 2 }"
    assert [row["n"] for row in query(later, near).rows] == ["dan", "ann"]


# ---------------------------------------------------------------- time travel


def test_an_older_snapshot_gives_older_rows(view: View, repository: Repository) -> None:
    later = commit(repository, [person("dan", age=1)], remove={"node:Person": ["cid"], "edge:Knows": ["bob-cid"]})
    text = "query q() { match { $p: Person } return { $p.name as n } }"
    assert [row["n"] for row in query(later, text).rows] == ["ann", "bob", "dan"]
    for revision in ("main~1", view.snapshot.commit.id):
        assert [row["n"] for row in query(repository.resolve(revision), text).rows] == ["ann", "bob", "cid"]
    hops = 'query q() { match { $p: Person { name: "ann" } $p knows{1,2} $q } return { $q.name as n } }'
    assert query(later, hops).num_rows == 1
    assert query(repository.resolve("main~1"), hops).num_rows == 2


def test_an_entity_at_any_snapshot(view: View, repository: Repository) -> None:
    commit(repository, [], remove={"node:Person": ["cid"], "edge:Knows": ["bob-cid"]})
    assert entity(repository.resolve("main"), "Person", "cid") is None
    old = entity(repository.resolve("main~1"), "Person", "cid")
    assert old is not None
    assert old["big"] == 5
    ann = entity(view, "Person", "ann")
    assert ann is not None
    assert ann["seen"] == dt.datetime(2024, 5, 6, 7, 8, 9, 10_000, tzinfo=dt.UTC)
    assert entity(view, "Person", "bob")["photo"] == b"bytes"  # type: ignore[index]  # bob is there
    edge = entity(view, "Knows", "ann-bob")
    assert edge == {"id": "ann-bob", "from": "ann", "to": "bob", "since": dt.date(2020, 2, 2)}
    assert entity(view, "Person", "nobody") is None
    with pytest.raises(UsageError, match="no type 'Ghost'"):
        entity(view, "Ghost", "x")


def test_the_history_of_an_entity_skips_commits_of_other_tables(view: View, repository: Repository) -> None:
    commit(repository, [{"type": "City", "data": {"name": "Oslo"}}])
    changed = commit(repository, [person("cid", big=6)], remove={"node:Person": ["cid"]})
    commit(repository, [person("zed")])
    gone = commit(repository, [], remove={"node:Person": ["cid"]})
    versions = list(history_of(repository, "Person", "cid", repository.history.chain.head("main")))
    assert [version.value and version.value["big"] for version in versions] == [None, 6, 5]
    assert [version.commit.id for version in versions] == [
        gone.snapshot.commit.id,
        changed.snapshot.commit.id,
        view.snapshot.commit.id,
    ]
    assert list(history_of(repository, "Person", "never", repository.history.chain.head("main"))) == []


# ---------------------------------------------------------------- errors


def test_overflow_is_an_error_not_a_wrong_number(view: View) -> None:
    text = "query q() { match { $p: Person } return { $p.big * 9223372036854775807 as x } }"
    with pytest.raises(ArithmeticOverflow):
        query(view, text)


def test_an_empty_graph_answers(repository: Repository) -> None:
    _, empty = repository.head()
    for mode in ("auto", "scan", "index", "csr"):
        text = "query q() { match { $p: Person $p knows{1,2} $q not { $q livesIn $c } } return { $p.name, $q } }"
        assert query(empty, text, mode=mode).rows == []  # type: ignore[arg-type]  # the names are modes
        counted = query(empty, "query q() { match { $p knows $q } return { count($p) as n } }", mode=mode)  # type: ignore[arg-type]
        assert counted.rows == [{"n": 0}]


@pytest.mark.parametrize("column", ["$q.name", "$q.id", "$q.age", "$q"])
def test_an_optional_part_whose_type_has_no_rows_is_null(column: str) -> None:
    graph = og.init(
        "memory://",
        schema="node Author { name: String @key }  node Book { name: String @key  age: I32? }  edge Wrote: Author -> Book",
    )
    with graph.transaction() as tx:
        tx.insert("Author", name="Ada")
    text = (
        f"query q() {{ match {{ $a: Author  optional {{ $a wrote $q }} }} return {{ $a.name as a, {column} as q }} }}"
    )
    assert graph.query(text).rows == [{"a": "Ada", "q": None}]
