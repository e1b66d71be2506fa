"""How a read would run, and how it ran: a tree whose numbers are those of the read itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.api.reads import ExplanationJson
from omnigraph.read.steps import Step, tree_text

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("explain") / "g", SCHEMA, durability="process")
    with made.transaction() as tx:
        for number in range(30):
            tx.insert("Person", name=f"p{number}", age=number)
        tx.insert("City", name="Rome")
        for number in range(10):
            tx.insert("LivesIn", **{"from": f"p{number}", "to": "Rome"})
            tx.insert("Knows", **{"from": "p0", "to": f"p{number + 1}"})
    return made


KNOWN = 'match { $p: Person { name: "p0" }  $p knows $q  $q livesIn $c } return { $q.name as name, $c.name as city } order { name } limit 5'
CASES = {
    "walk": (KNOWN, ["return name, city", "limit", "order by 1 key", "$p: Person where (`id` = 'p0')", "$p Knows $q", "$q LivesIn $c"]),
    "scan": ("match { $p: Person  $p.age > 3 } return { $p.name as name }", ["return name", "$p: Person where (`age` > 3)"]),
    "count": ("match { $p: Person } return { count($p) as n }", ["return n", "group and aggregate", "$p"]),
    "sums": ("match { $p: Person  $p knows $q } return { $p.name as name, count($q) as n }", ["return name, n", "group and aggregate"]),
    "distinct": ("match { $p: Person  $p livesIn $c } return distinct { $c.name as city }", ["return distinct city"]),
    "union": ("match { $p: Person } return { $p.name as n } union match { $c: City } return { $c.name as n }", ["union", "return n", "$p: Person", "return n", "$c: City"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_steps_of_a_read_that_was_run(graph: og.Graph, case: str) -> None:
    body, expected = CASES[case]
    text = f"query q() {{ {body} }}"
    ran = graph.explain(text, analyze=True)
    whats = [step.what for step in ran.steps]
    assert [what for what in whats if what in expected] == expected
    assert ran.steps[0].rows == len(graph.query(text))
    assert ran.timing is not None
    assert ran.steps[0].seconds == ran.timing.total_s
    own = [step.seconds for step in ran.steps[1:] if step.seconds is not None]
    if case != "union":
        assert 0 <= sum(own) <= ran.timing.total_s
    told = graph.explain(text)
    assert [step.what for step in told.steps] == whats
    assert all(step.seconds is None for step in told.steps)
    assert (told.timing, told.steps[0].rows) == (None, None)
    assert [step["step"] for step in ExplanationJson.to_json(ran)["steps"]] == whats


def test_rows_that_were_expected_stand_beside_those_that_there_were(graph: og.Graph) -> None:
    found = {
        step.what: (step.access, step.expected, step.rows) for step in graph.explain(f"query q() {{ {KNOWN} }}").steps
    }
    assert found["$p: Person where (`id` = 'p0')"] == ("lookup", 1, 1)
    access, expected, rows = found["$p Knows $q"]
    assert access in ("edge index", "adjacency")  # whichever is in memory already
    assert rows == 10
    assert expected == 0  # a third of an edge a person


def test_the_tree_is_drawn() -> None:
    steps = [
        Step(0, "return a", rows=1_234, seconds=0.0015),
        Step(1, "union"),
        Step(2, "x", "scan", 10, 9),
        Step(3, "y", "lookup"),
        Step(2, "z", note="why"),
    ]
    assert tree_text(steps, is_measured=True).splitlines() == [
        "step        access  expected   rows    ms",
        "return a                      1,234  1.50",
        "└─ union",
        "   ├─ x     scan          10      9",
        "   │  └─ y  lookup",
        "   └─ z                                    (why)",
    ]


def test_sql_is_shown_on_request_only(graph: og.Graph, tmp_path: Path) -> None:
    found = graph.explain(f"query q() {{ {KNOWN} }}")
    assert "SELECT" in found.sql
    assert "SELECT" not in str(found)
