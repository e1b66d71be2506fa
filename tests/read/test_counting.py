"""Counts over trees on a graph that is large enough for both ways: few nodes one by one, and whole arrays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from read.graphs import commit, new_graph, query

from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read import strategies
from omnigraph.read.executor import counting, matching
from omnigraph.read.explaining import explain
from omnigraph.read.strategies.arrays import ARRAYS
from omnigraph.read.strategies.strategy import InputChoice
from omnigraph.snapshot import View

SCHEMA = """
node Person { name: String @key  age: I32?  tier: enum(free, pro) }
node City { name: String @key  country: String }
node Topic { name: String @key  weight: I64? }
edge Knows: Person -> Person
edge LivesIn: Person -> City
edge Likes: Person -> Topic
"""
PEOPLE, CITIES, TOPICS = 400, 60, 20


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    chance = random.Random(5)
    people, cities, topics = (
        [f"{kind}{n}" for n in range(size)] for kind, size in {"p": PEOPLE, "c": CITIES, "t": TOPICS}.items()
    )
    records: list[dict[str, Any]] = [
        {
            "type": "Person",
            "data": {"name": one, "age": chance.choice([None, *range(20, 60)]), "tier": chance.choice(["free", "pro"])},
        }
        for one in people
    ]
    records += [{"type": "City", "data": {"name": one, "country": f"country {n % 7}"}} for n, one in enumerate(cities)]
    records += [{"type": "Topic", "data": {"name": one, "weight": chance.choice([None, 1, 5])}} for one in topics]
    records += [{"edge": "Knows", "from": chance.choice(people), "to": chance.choice(people[:80])} for _ in range(2000)]
    records += [
        {"edge": "LivesIn", "from": one, "to": chance.choice(cities)} for one in people if chance.random() < 0.9
    ]
    records += [{"edge": "Likes", "from": one, "to": chance.choice(topics)} for one in people for _ in range(2)]
    folder: Path = tmp_path_factory.mktemp("counting")
    return commit(new_graph(str(folder), SCHEMA), records)


QUERIES = [
    "match { $p likes $t $p livesIn $c $t.name = 't7' $c.name = 'c17' } return { count($p) as n, sum($p.age) as s }",
    "match { $p likes $t $p livesIn $c $t.name = 't7' $p.tier = 'pro' } return { $c.name as c, count($p) as n, avg($p.age) as a }",
    "match { $p likes $t $p livesIn $c $t.name = 't7' $p.age > 21 } return { $c.country as c, count($p) as n, count($p.age) as k }",
    "match { $a knows $b $b livesIn $c $c.name = 'c3' } return { $c.name as c, $b.name as b, count($a) as n, sum($a.age) as s }",
    "match { $a $e:knows $b $b livesIn $c $c.name = 'c3' } return { $b.name as b, count($e) as n }",
    "match { $a knows $b $b livesIn $c $c.name = 'c3' } return { $a.tier as t, $c.country as l, count($b) as n, sum($b.age) as s }",
    "match { $a knows $b $b knows $c $c.name = 'p11' } return { $a.tier as t, count($b) as n, avg($b.age) as m }",
    "match { $a <knows> $b $b livesIn $c $c.name in ['c1', 'c2'] $a.age > 30 } return { $b.tier as t, count($a) as n }",
    "match { $p livesIn $c $p likes $t $c.country = 'country 3' $t.weight = 5 } return { $t.name as t, $c.name as c, count($p) as n }",
    "match { $p livesIn $c $p.name in ['p1', 'p2', 'p3', 'p4'] $c.country != 'country 3' $c.country != 'country 1' } "
    "return { $c.name as c, count($p) as n }",
    "match { $p livesIn $c $c.name = 'nowhere' } return { $c.name as c, count($p) as n }",
    "match { $p livesIn $c $c.name = 'nowhere' } return { count($p) as n, sum($p.age) as s }",
    "match { $a knows $b $b likes $t $t.name = 't3' $b.tier = 'pro' } return { $t.name as t, sum($t.weight) as w, count($a) as n }",
    "match { $a knows $b $b livesIn $c } return { $b.name as b, $c.name as c, count($a) as n } order { n desc } limit 4",
    "match { $f knows $p $p livesIn $c $f.age < 22 } return { $p.tier as t, $c.country as l, count($f) as n } order { n } offset 2",
    "match { $f knows $p } return { $p.name as p, $p.age as age, count($f) as n } order { n desc, age } limit 3",
    "match { $f knows $p } return { $p.name as p, count($f) as n } order { n desc } limit 5 offset 30",
    "match { $f knows $p } return { $p.name as p, count($f.name) as n } order { n desc } limit 200",
    "match { $f knows $p } return { $p.name as p, count($f) as n } order { n desc } limit 9999",
    "match { $f knows $p } return { $p.name as p, count($f) as n } order { n } limit 3",
    "match { $f knows $p } return { $p.name as p, count($f) as n, count($f.age) as k } order { k desc } limit 3",
    "match { $f knows $p $p likes $t $p.tier = 'pro' } return { $p.name as p, count($t) as n } order { n desc } limit 4",
    "match { $f knows $p } return { $p.tier as t, count($f) as n } order { n desc } limit 1",
]


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("cost", [0, 1, counting.FOLLOWED_COST, 10**9])
@pytest.mark.parametrize("groups", [0, matching.MIN_GROUPED])
def test_counts_are_those_of_a_join(
    view: View, monkeypatch: pytest.MonkeyPatch, text: str, cost: int, groups: int
) -> None:
    written = f"query q() {{ {text.replace(chr(39), chr(34))} }}"
    expected = query(view, written, mode="scan").to_json()
    monkeypatch.setattr(counting, "FOLLOWED_COST", cost)
    monkeypatch.setattr(matching, "FOLLOWED_COST", cost)
    monkeypatch.setattr(matching, "MIN_GROUPED", groups)
    monkeypatch.setattr(matching, "GROUPED_SHARE", min(groups, matching.GROUPED_SHARE))
    monkeypatch.setattr(strategies, "order", lambda: (ARRAYS,))
    assert query(view, written).to_json() == expected


def explained(view: View, text: str) -> tuple[InputChoice, ...]:
    plan = compile_query(text, view.catalog)
    assert isinstance(plan, ReadPlan)
    return explain(view, plan, {}).choices


def test_few_nodes_are_followed_and_many_are_counted(view: View) -> None:
    few = 'query q() { match { $p likes $t $p livesIn $c $c.name = "c17" } return { count($p) as n } }'
    many = 'query q() { match { $p likes $t $p.tier = "pro" } return { count($t) as n } }'
    hops = {choice.what: choice for choice in explained(view, few)}
    assert hops["$p LivesIn $c"].estimate != "counted"
    assert 0 < (hops["$p LivesIn $c"].rows or 0) <= PEOPLE // 8
    assert [choice.estimate for choice in explained(view, many) if choice.path == "csr"] == ["counted"]


def test_counts_that_do_not_fit_are_left_to_the_engine(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "query q() { match { $a knows $b $b livesIn $c } return { $a.name as a, $c.name as c, count($b) as n } }"
    expected = query(view, text, mode="scan").to_json()
    assert "csr" in {choice.path for choice in explained(view, text) if choice.estimate == ""}
    monkeypatch.setattr(matching, "BYTES_PER_ROW", 2**40)
    assert {choice.estimate for choice in explained(view, text) if choice.path == "csr"} != {""}
    assert query(view, text).to_json() == expected
