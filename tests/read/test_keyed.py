"""Reads from a key along a few edges are answered in numbers, and as a scan answers them."""

from __future__ import annotations

import datetime as dt

import pytest
from read.graphs import commit, new_graph, query

from omnigraph import Graph
from omnigraph.expressions.functions import Arguments
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.strategies.keyed import KEYED
from omnigraph.read.strategies.strategy import Read
from omnigraph.snapshot import View
from omnigraph.tables.adjacency import index

SCHEMA = """
node Person { number: I64 @key  name: String  age: I32?  born: DateTime?  tags: [String]?  photo: Blob? }
node City { name: String @key  size: I64? }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
KEYED_QUERIES = [
    "match { $p: Person { number: 3 } } return { $p.name as name, $p.age as age }",
    "match { $p: Person { number: 99 } } return { $p.name as name }",
    "match { $p: Person  $p.number in [2, 1, 99, 2] } return { $p.name as name }",
    "match { $p: Person  $p.number in [] } return { $p.name as name }",
    'match { $p: Person  $p.id = "4" } return { $p.id as id, $p.born as born, $p.tags as tags }',
    "match { $p: Person { number: 1 }  $p knows $q } return { $q.number as n, $q.name as name } order { name desc, n }",
    "match { $p: Person { number: 1 }  $p knows $q } return { $q.age as age } order { age } limit 3 offset 1",
    "match { $p: Person { number: 1 }  $p knows $q  $q.age > 31 } return { $q.name as name }",
    "match { $p: Person { number: 1 }  $p knows $q  $q.age > $p.age } return { $p.name as p, $q.name as q }",
    "match { $p: Person { number: 1 }  $p knows $q  $q knows $r } return { $q.number as q, $r.number as r }",
    "match { $p: Person { number: 1 }  $p knows $q  $q livesIn $c } return { $c.name as c, $c.size as s, $q.number as q }",
    "match { $q knows $p  $p.number = 2 } return { $q.number as q }",
    "match { $p <knows> $q  $p.number = 2 } return { $q.number as q }",
    "match { $p: Person { number: 1 }  $p knows $q } return { count($q) as n }",
    "match { $p: Person { number: 1 }  $p knows $q  $q knows $r } return { count($q) as n, count($r.name) as m }",
    "match { $p: Person { number: 1 }  $p knows $q  $q.age > 31 } return { count($q) as n }",
    'match { $c: City { name: "Rome" }  $p livesIn $c } return { $p.name as name }',
    "match { $p: Person { number: 1 }  $p.age + 2147483647 > 0 } return { $p.name as name }",
    "match { $p: Person  $p.number in [3, 10] } return { $p.id as id, $p.tags as tags, $p.born as born }",
    "match { $p: Person  $p.number in [3, 10] } return { $p.name as name, $p.age as age } order { age desc } limit 1",
    "match { $p: Person  $p.number in [10, 3]  $p.age > 31 } return { $p.name as name }",
    "match { $p: Person  $p.number in [10, 3] } return { count($p) as n }",
]
OTHER_QUERIES = [
    "match { $p: Person { number: 1 }  $p knows $q } return { $q }",
    "match { $p: Person { number: 1 }  $p knows $q } return distinct { $q.age as age }",
    "match { $p: Person { number: 1 }  $p knows{1,2} $q } return { $q.number as n }",
    "match { $p: Person { number: 1 }  $p $e:knows $q } return { $q.number as n }",
    "match { $p: Person { number: 1 }  $p knows $q  $q knows $p } return { $q.number as n }",
    "match { $p: Person { number: 1 }  $q: Person } return { $q.number as n }",
    "match { $p: Person { number: 1 }  $p knows $q } return { $q.age as age, count($p) as n }",
    "match { $p: Person { number: 1 }  $p knows $q } return { count($q.age) as n }",
    "match { $p: Person  $p.number > 1 } return { $p.name as name }",
    "match { $p: Person { number: 1 }  not { $p livesIn $_ } } return { $p.name as name }",
]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Persons some of which were replaced, removed, or came later than what was read first."""
    repository = new_graph(str(tmp_path_factory.mktemp("keyed")), SCHEMA)
    born = "2001-02-03T04:05:06Z"
    people = [{"number": n, "name": f"p{n % 4}", "age": 30 + n if n % 3 else None, "born": born} for n in range(1, 9)]
    records = [{"type": "Person", "data": person | {"tags": ["a", "b"]}} for person in people]
    records += [{"type": "City", "data": {"name": name, "size": len(name)}} for name in ("Rome", "Bonn")]
    pairs = [(1, n) for n in range(2, 9)] + [(2, 1), (3, 1), (3, 4), (1, 2), (8, 8), (2, 8)]
    records += [{"edge": "Knows", "from": str(a), "to": str(b)} for a, b in pairs]
    records += [{"edge": "LivesIn", "from": str(n), "to": "Rome" if n % 2 else "Bonn"} for n in range(1, 9)]
    first = commit(repository, records)
    query(first, f"query q() {{ {KEYED_QUERIES[5]} }}")
    commit(repository, [{"edge": "Knows", "from": "5", "to": "1"}], remove={"edge:Knows": ["~10"]}, first_number=90)
    later = [{"type": "Person", "data": {"number": 0, "name": "late", "age": 50}}]
    later += [{"edge": "Knows", "from": "1", "to": "0"}, {"edge": "Knows", "from": "0", "to": "2"}]
    commit(repository, later, first_number=100)
    with Graph(repository).transaction() as tx:  # rows that stand in the commit
        tx.upsert("Person", number=3, name="again", age=70, tags=["c"])
        tx.insert("Person", number=10, name="last", age=None)
        tx.insert("Knows", from_="1", to="10")
        tx.insert("Knows", from_="10", to="1")
        tx.delete("Person", "6")
    return repository.head()[1]


def answered(view: View, text: str) -> bool:
    plan = compile_query(text, view.catalog)
    assert isinstance(plan, ReadPlan)
    return KEYED.answer(Read(view, plan, Arguments({}, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)))) is not None


@pytest.mark.parametrize("body", KEYED_QUERIES)
def test_it_answers_as_a_scan_does(view: View, body: str) -> None:
    text = f"query q() {{ {body} }}"
    assert answered(view, text)
    by_scan, by_key = query(view, text, mode="scan"), query(view, text)
    assert by_key.rows == by_scan.rows
    assert by_key.num_rows == by_scan.num_rows
    assert by_key.to_arrow() == by_scan.to_arrow()


@pytest.mark.parametrize("body", OTHER_QUERIES)
def test_others_are_left_to_other_strategies(view: View, body: str) -> None:
    text = f"query q() {{ {body} }}"
    assert not answered(view, text)
    assert query(view, text).rows == query(view, text, mode="scan").rows


def test_a_large_table_without_stored_ids_is_not_read_for_a_key(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MIN_ROWS", 3)
    view.repository.tables.runtime.cache.clear()
    assert not answered(view, "query q() { match { $p: Person { number: 4 } } return { $p.name as name } }")
    assert answered(view, f"query q() {{ {KEYED_QUERIES[0]} }}"), "a row that stands in a commit"
    assert answered(view, 'query q() { match { $c: City { name: "Rome" } } return { $c.size as s } }')


def test_a_node_with_many_neighbours_is_left_to_an_engine(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.read.strategies.keyed.MAX_ROWS", 3)
    assert not answered(view, f"query q() {{ {KEYED_QUERIES[5]} }}")
    assert answered(view, f"query q() {{ {KEYED_QUERIES[13]} }}")
