"""A result in every form that other tools take."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import duckdb
import igraph
import networkx
import polars
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import UsageError

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key  born: DateTime?  seen: [DateTime]? }
node City implements Named { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""
BORN = dt.datetime(1815, 12, 10, 6, 30, 0, 123_456, tzinfo=dt.UTC)
EVERYONE = (
    "query q() { match { $p: Person } return { $p.name as name, $p.born as born, $p.seen as seen } order { name } }"
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(tmp_path_factory.mktemp("results") / "graph", SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada", born=BORN, seen=[BORN])
        tx.insert("Person", name="<Bo>")
        tx.insert("Person", name="Cy")
        tx.insert("City", name="Ada")
        tx.insert("Knows", from_="Ada", to="<Bo>", since="2020-05-01")
        tx.insert("Knows", from_="Ada", to="<Bo>", since="2021-05-01")
        tx.insert("Knows", from_="<Bo>", to="Cy")
        tx.insert("LivesIn", from_="Cy", to="Ada")
    return graph


def test_a_result_has_a_length_and_is_iterated(graph: og.Graph) -> None:
    result = graph.query(EVERYONE)
    assert len(result) == result.num_rows == 3
    assert list(result) == result.rows
    assert [row["name"] for row in result] == ["<Bo>", "Ada", "Cy"]
    assert not graph.query('query q() { match { $p: Person { name: "x" } } return { $p.name } }')
    assert repr(result) == f"<Result of q: 3 rows of (name, born, seen) at {graph.head().id}>"


FRAMES: dict[str, Callable[[og.types.Result], pa.Table]] = {
    "to_arrow": lambda result: result.to_arrow(),
    "pyarrow.table": lambda result: pa.table(result),
    "polars.DataFrame": lambda result: polars.DataFrame(result).to_arrow(),
    "to_polars": lambda result: result.to_polars().to_arrow(),
    "duckdb": lambda result: duckdb.sql("from result").to_arrow_table(),
    "to_pandas": lambda result: pa.Table.from_pandas(result.to_pandas(), preserve_index=False),
}


@pytest.mark.parametrize("form", FRAMES)
def test_every_form_has_the_rows_and_the_time_zone(graph: og.Graph, form: str) -> None:
    result = graph.query(EVERYONE)
    table = FRAMES[form](result)
    assert table.column_names == ["name", "born", "seen"]
    assert table.schema.field("born").type.tz is not None
    shown = [{**row, "born": row["born"] and row["born"].astimezone(dt.UTC)} for row in table.to_pylist()]
    assert [row["born"] for row in shown] == [row["born"] for row in result.rows]
    assert [row["name"] for row in shown] == ["<Bo>", "Ada", "Cy"]


def test_instants_inside_lists_and_entities_have_the_time_zone_too(graph: og.Graph) -> None:
    query = 'query q() { match { $p: Person { name: "Ada" } } return { $p, $p.seen as seen } }'
    table = graph.query(query).to_arrow()
    assert table.schema.field("seen").type.value_type.tz == "UTC"
    assert table.schema.field("p").type.field("born").type.tz == "UTC"
    assert table.to_pylist()[0]["p"]["born"] == BORN


def test_a_notebook_shows_a_table_of_the_first_rows(graph: og.Graph) -> None:
    html = graph.query(EVERYONE)._repr_html_()
    assert "<th>name</th><th>born</th>" in html
    assert "<td>&lt;Bo&gt;</td><td></td>" in html
    assert "<td>1815-12-10T06:30:00.123456Z</td>" in html
    assert html.endswith("<p>3 rows</p>")
    lines = str(graph.query(EVERYONE)).split("\n")
    assert [line.split()[:2] for line in lines] == [
        ["name", "born"],
        ["<Bo>"],
        ["Ada", "1815-12-10T06:30:00.123456Z"],
        ["Cy"],
        ["(3", "rows)"],
    ]
    with graph.transaction() as tx:
        tx.insert_many("City", [{"name": f"c{number}"} for number in range(60)])
    cities = graph.query("query q() { match { $c: City } return { $c } }")
    many = cities._repr_html_()
    assert many.count("<tr>") == 51
    assert many.endswith("<p>50 of 61 rows</p>")
    assert str(cities).endswith("\n(50 of 61 rows)")


def test_nodes_that_are_returned_whole_make_a_graph(graph: og.Graph) -> None:
    found = graph.query("query q() { match { $a: Person  $a knows $b } return { $a, $b } }").to_networkx()
    assert isinstance(found, networkx.MultiDiGraph)
    assert set(found.nodes) == {("Person", "Ada"), ("Person", "<Bo>"), ("Person", "Cy")}
    assert found.nodes["Person", "Ada"]["born"] == BORN
    assert sorted((source[1], target[1], data) for source, target, data in found.edges(data=True)) == [
        ("<Bo>", "Cy", {"type": "Knows"}),
        ("Ada", "<Bo>", {"type": "Knows"}),
    ]


def test_edges_of_a_graph_have_what_the_query_returns_of_them(graph: og.Graph) -> None:
    result = graph.query(
        "query q() { match { $a: Person  $a $e:knows $b } return { $b, $e.since as since, $e.from, $a } }"
    )
    edges = [data for _, _, data in result.to_networkx().edges(data=True)]
    assert len(edges) == 3
    assert {"type": "Knows", "since": dt.date(2021, 5, 1), "from": "Ada"} in edges
    other = result.to_igraph()
    assert isinstance(other, igraph.Graph)
    assert sorted(other.vs["id"]) == ["<Bo>", "Ada", "Cy"]
    assert set(other.vs["type"]) == {"Person"}
    pairs = [(other.vs[edge.source]["id"], other.vs[edge.target]["id"], edge["since"]) for edge in other.es]
    assert ("Ada", "<Bo>", dt.date(2021, 5, 1)) in pairs


def test_a_hop_is_followed_in_the_direction_of_its_edge(graph: og.Graph) -> None:
    text = "query q() { match { $c: City  $p livesIn $c } return { $c, $p } }"
    (edge,) = graph.query(text).to_networkx().edges
    assert edge[:2] == (("Person", "Cy"), ("City", "Ada"))


def test_a_longer_hop_is_no_edge(graph: og.Graph) -> None:
    far = graph.query("query q() { match { $a: Person  $a knows{1,2} $b } return { $a, $b } }").to_networkx()
    assert far.number_of_nodes() == 3
    assert far.number_of_edges() == 0


def test_a_result_without_nodes_is_no_graph(graph: og.Graph) -> None:
    for make in (og.types.Result.to_networkx, og.types.Result.to_igraph):
        with pytest.raises(UsageError, match="holds no nodes"):
            make(graph.query(EVERYONE))
    nobody = 'query q() { match { $p: Person { name: "x" } } return { $p } }'
    assert graph.query(nobody).to_networkx().number_of_nodes() == 0
    assert graph.query(nobody).to_igraph().vcount() == 0
