"""What a read asks of an object store: counted, not timed."""

from __future__ import annotations

import pytest
from read.graphs import build_indexes, commit, new_graph, query
from s3_server import S3Server

import omnigraph as og
from omnigraph.snapshot import Repository, View

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
POINT = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
HOP = "query q($n: String) { match { $p: Person { name: $n } $p knows $q } return { $q.age } }"
MOST_KNOWN = (
    "query q() { match { $p knows $q } return { $q.age as age, count($p) as n } order { n desc, age } limit 3 }"
)
FAR_KEYS = "query q($n: String) { match { $p: Person { name: $n } $p knows $q } return { $q.name } }"

pytestmark = pytest.mark.s3


def _graph(s3: S3Server, commits: int) -> str:
    uri = f"s3://{s3.new_bucket()}/graph"
    repository = new_graph(uri, SCHEMA, s3.options)
    for number in range(commits):
        people = [{"type": "Person", "data": {"name": f"p{number}-{i}", "age": i}} for i in range(20)]
        edges = [
            {"edge": "Knows", "from": f"p{number}-{i}", "to": f"p{number}-{(i + 1) % 20}", "id": f"{number}-{i}"}
            for i in range(20)
        ]
        commit(repository, people + edges)
    build_indexes(repository.head()[1])
    return uri


def _large(s3: S3Server, bucket: str) -> str:
    """A load that builds its indexes: 60,000 people, each of whom knows the next three."""
    import pyarrow as pa

    uri = f"s3://{bucket}/graph"
    graph = og.init(uri, schema=SCHEMA, storage_options=s3.options)
    names = [f"person-{number:06d}" for number in range(60_000)]
    others = [names[(place + step) % len(names)] for step in (1, 2, 3) for place in range(len(names))]
    people = pa.table({"name": names, "age": pa.array(range(len(names)), pa.int32())})
    graph.load({"Person": people, "Knows": pa.table({"from": names * 3, "to": others})}, mode="append", engine="local")
    return uri


def _opened(s3: S3Server, uri: str) -> Repository:
    """As another process would: nothing is cached."""
    return Repository.open(uri, storage_options=s3.options, durability="process")


def _asked(s3: S3Server, repository: Repository, text: str, name: str, rows: int = 1) -> int:
    s3.reset()
    view: View = repository.head()[1]
    assert query(view, text, {"n": name}).num_rows == rows
    return len(s3.requests())


def test_a_warm_point_read_asks_at_most_three_times(s3: S3Server) -> None:
    uri = _graph(s3, 2)
    repository = _opened(s3, uri)
    _asked(s3, repository, POINT, "p0-1")
    assert _asked(s3, repository, POINT, "p0-1") <= 3
    assert _asked(s3, repository, POINT, "p0-7") <= 3


def _cold(s3: S3Server, uri: str, text: str, name: str) -> tuple[list[dict[str, object]], list[str]]:
    """What a process that has nothing finds, and what it asks for."""
    s3.reset()
    rows = og.open(uri, storage_options=s3.options).query(text, {"n": name}).rows
    asked = [
        request.kind if request.kind != "GET" else request.key.rpartition(".")[2] or request.key
        for request in s3.requests()
    ]
    return rows, asked


@pytest.mark.parametrize("state", ["new", "of another schema", "optimized"])
def test_a_cold_process_reads_its_first_row_with_six_requests(state: str, s3: S3Server) -> None:
    """The identity, a listing, the entry, the schema, the version, the file. A row that stands in a commit needs neither of the last two."""
    uri = f"s3://{s3.new_bucket()}/graph"
    graph = og.init(uri, schema=SCHEMA, storage_options=s3.options)
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": f"p{number}", "age": number} for number in range(100)])
    if state == "of another schema":
        graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  city: String?"))
    elif state == "optimized":
        graph.maintenance.optimize()
    with graph.transaction() as tx:
        tx.insert("Person", name="new", age=1)
    in_commit = ["json", "LIST", "json", "json"]
    in_file = [*in_commit, "manifest", "lance"]
    whole = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age, $p.name } }"
    assert _cold(s3, uri, POINT, "p7") == ([{"p.age": 7}], in_file)
    assert _cold(s3, uri, whole, "p7") == ([{"p.age": 7, "p.name": "p7"}], in_file)
    assert _cold(s3, uri, POINT, "new") == ([{"p.age": 1}], in_commit)


def test_a_cold_process_reads_small_fragments_whole(s3: S3Server) -> None:
    """Three fragments with an index: they are read whole, which needs fewer hops than the index would."""
    uri = f"s3://{s3.new_bucket()}/graph"
    repository = new_graph(uri, SCHEMA, s3.options)
    for first in (0, 300, 500):
        people = [{"type": "Person", "data": {"name": f"p{first + i}", "age": i}} for i in range(300 - first // 2)]
        commit(repository, people)
    view = repository.head()[1]
    table = view.table("node:Person")
    assert table is not None
    assert len(table.fragments) == 3
    build_indexes(view)
    rows, asked = _cold(s3, uri, POINT, "p301")
    assert rows == [{"p.age": 1}]
    assert asked == ["json", "LIST", "json", "json", "manifest", *["lance"] * 3]


def test_a_cold_first_query_asks_at_most_eight_times_a_table(s3: S3Server) -> None:
    uri = _graph(s3, 2)
    opened = _opened(s3, uri)
    point = _asked(s3, opened, POINT, "p1-3")
    hop = _asked(s3, _opened(s3, uri), HOP, "p1-3")
    assert point <= 8 + 2, "the branch's head and the schema come first"
    assert hop <= 16 + 2


def test_large_tables_are_read_with_as_few_requests(s3: S3Server) -> None:
    """First a process that has nothing, then any other key: what a lookup needs of the tables is known by then."""
    uri = _large(s3, s3.new_bucket())
    repository = _opened(s3, uri)
    assert _asked(s3, repository, POINT, "person-000077") <= 8 + 2
    assert _asked(s3, repository, POINT, "person-054321") <= 3
    repository = _opened(s3, _large(s3, s3.new_bucket()))
    assert _asked(s3, repository, HOP, "person-000077", rows=3) <= 16 + 2
    assert _asked(s3, repository, FAR_KEYS, "person-054321", rows=3) <= 3, "of the far nodes only the key is wanted"


def test_a_dense_question_reads_arrays_and_no_edges(s3: S3Server) -> None:
    """180,000 edges: the head, the schema, two tables, and for each of them a listing and a segment, which begins with all of it."""
    uri = _large(s3, s3.new_bucket())
    repository = _opened(s3, uri)
    asked: list[int] = []
    for _ in range(10):
        s3.reset()
        assert query(repository.head()[1], MOST_KNOWN).num_rows == 3
        asked.append(len(s3.requests()))
        if len(asked) == 1:
            edges = [each for each in s3.requests() if "/edges/" in str(each) and "/data/" in str(each)]
            assert edges == [], "no edge is read from the table"
    assert asked[0] <= 16
    assert asked[-1] == 1, "the head of the branch"
    with og.open(uri, storage_options=s3.options).transaction() as tx:
        tx.insert("Knows", from_="person-000001", to="person-000002")
    s3.reset()
    assert query(repository.head()[1], MOST_KNOWN).num_rows == 3
    assert len(s3.requests()) <= 6, "the head, the version and the rows of the commit"


def test_the_cost_of_a_read_does_not_grow_with_history(s3: S3Server) -> None:
    short, long = _graph(s3, 2), _graph(s3, 12)
    few, many = (_asked(s3, _opened(s3, uri), POINT, "p1-3") for uri in (short, long))
    assert many <= few + 2


def test_points_and_hops_that_are_read_often_ask_for_the_head_only(s3: S3Server) -> None:
    repository = _opened(s3, _graph(s3, 2))
    for name in ("p0-1", "p1-1"):
        _asked(s3, repository, POINT, name)
        _asked(s3, repository, HOP, name)
    assert _asked(s3, repository, POINT, "p1-7") == 1
    assert _asked(s3, repository, HOP, "p1-7") == 1
