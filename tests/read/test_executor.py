"""The executor on arrays of node numbers: what it covers, how it follows commits, and what it refuses."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections import deque
from typing import Any
from unittest.mock import patch

import pytest
from read.graphs import commit, new_graph

from omnigraph._internal.deadlines import Deadline
from omnigraph._internal.runtime import WorkingMemory
from omnigraph.errors import QueryTimeout, ResourceExhausted
from omnigraph.expressions.functions import Arguments
from omnigraph.language.query.mutations import bind_parameters, compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.execution import run_read
from omnigraph.read.executor import matching, sources
from omnigraph.read.explaining import explain
from omnigraph.read.strategies.arrays import ARRAYS, SEEDED
from omnigraph.read.strategies.strategy import Answer, Read, Strategy
from omnigraph.snapshot import Repository, View

SCHEMA = """
interface Named { name: String }
node Person implements Named { @key(name)  rank: I32?  born: Date?  tags: [String]?  note: String? }
node City implements Named { @key(name) }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PEOPLE = 40


def records() -> list[dict[str, Any]]:
    draw = random.Random(5)
    people = [
        {
            "type": "Person",
            "data": {"name": f"p{n:02}", "rank": n % 7 or None, "born": "2000-02-03", "tags": ["a"] * (n % 3)},
        }
        for n in range(PEOPLE)
    ]
    cities = [{"type": "City", "data": {"name": name}} for name in ("Rome", "Oslo")]
    # A ring, so that long paths exist, and a few chords, one of them twice.
    ring = [(n, (n + 1) % PEOPLE) for n in range(PEOPLE)]
    chords = [(draw.randrange(PEOPLE), draw.randrange(PEOPLE)) for _ in range(6)]
    knows = [
        {"edge": "Knows", "from": f"p{a:02}", "to": f"p{b:02}", "data": {"since": 1990 + a}}
        for a, b in [*ring, *chords, chords[0]]
    ]
    lives = [{"edge": "LivesIn", "from": f"p{n:02}", "to": ("Rome", "Oslo")[n % 2]} for n in range(0, PEOPLE, 3)]
    return [*people, *cities, *knows, *lives]  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    made = new_graph(str(tmp_path_factory.mktemp("executor") / "g"), SCHEMA)
    commit(made, records())
    return made


def plan_of(view: View, body: str) -> ReadPlan:
    plan = compile_query(f"query q() {{ {body} }}", view.catalog)
    assert isinstance(plan, ReadPlan)
    return plan


def asked(view: View, body: str, strategy: Strategy = ARRAYS, memory: WorkingMemory | None = None) -> Answer | None:
    plan = plan_of(view, body)
    arguments = Arguments(bind_parameters(plan.parameters, {}), NOW, memory=memory or view.memory)
    return strategy.answer(Read(view, plan, arguments))


COVERED = [
    'match { $p: Person { name: "p01" }  $p <knows>{1,3} $q  $q livesIn $c } return { $q.name as q, $c.name as c } order { q desc } limit 3',
    "match { $p: Person  $p $k:knows $q  $k.since > 2000 } return { $p.name as p, max($k.since) as s } order { s desc, p } limit 4",
    "match { $p: Person  not { $p livesIn $c } } return { $p.name as p, coalesce($p.rank, 0) as r } order { r desc, p }",
    "match { $p: Person  count { $p knows $q } > 1 } return { count($p) as n }",
    "match { $p: Person  optional { $p livesIn $c } } return { $c.name as c, count($p) as n, collect($p.rank) as r } order { n }",
    "match { $p: Person  unnest $p.tags as $t } return { $t as t, count(distinct $p) as n }",
    "match { $n: Named } return distinct { $n.name as n } order { n } limit 3 offset 39",
    "match { $p: Person  $q: City } return { year($p.born) as y, $q.name as q, sum($p.rank) / count($p) as m } having { count($p) > 1 }",
    'match { $p: Person { name: "p01" }  shortest path $d from $p to $q along knows{1,9} } return { $q.name as q, $d.nodes as n, $d.edges as e }',
    'match { $p: Person { name: "p01" }  $q: Person { name: "p30" }  shortest paths $d from $p to $q along <knows>{1,20} } return { $d.nodes as n, $d.edges as e }',
    'match { $p: Person { name: "p01" }  shortest paths $d from $p to $q along knows{2,9} } return { $q.name as q, $d.nodes as n, $d.edges as e, $d.length as l }',
    'match { $p: Person { name: "p01" }  shortest paths $d from $q to $p along knows{0,9} } return { $q.name as q, $d.nodes as n, $d.edges as e } order { q desc }',
    'match { $p: Person { name: "p01" }  shortest paths $d from $p to $q along <knows>{1,6} } return { $q.name as q, count($p) as n, max($d.cost) as c }',
    'match { $p: Person { name: "p01" }  shortest path $d from $p to $q along <knows>{0,32} by since } return { $q.name as q, $d.nodes as n, $d.edges as e, $d.cost as c }',
    'match { $p: Person { name: "p01" }  $q: Person  shortest path $d from $p to $q along knows{1,5} by since } return { $q.name as q, $d.nodes as n, $d.edges as e, $d.cost as c }',
    'match { $p: Person { name: "p01" } } return { $p as whole }',
    "match { $p: Person  $p knows $q  $q knows $r  $r knows $p } return { count($p) as n }",
    "match { $p: Person  exists { $p <knows> $a  $a <knows> $b  $b livesIn $c  $a != $b } } return { $p.name as p } order { p }",
    "match { $p: Person  $q: Person  $p.name < $q.name  exists { $p livesIn $c  $a livesIn $c  $a knows $b  $b livesIn $d  $q livesIn $d  $a.rank < $b.rank } } return { count($p) as n, min($q.name) as q }",
    'match { $p: Person  not { $p <knows> $a  not { $a knows $b  $b livesIn $c  $c.name = "Rome" }  $a $e:knows $z  $e.since > 2000 } } return { $p.name as p } order { p }',
    "match { $p: Person  exists { $x knows $y  $y knows $p  $z livesIn $c } } return { $p.name as p } order { p }",
    "match { $p: Person } return distinct { [$p.rank, 1] as pair, {rank: $p.rank, born: $p.born} as both }",
]
COUNTED = [
    "match { $a <knows> $b  $b <knows> $c  $c livesIn $t  $a != $c } return { count($t) as n }",
    "match { $a <knows> $b  $b <knows> $c  $c livesIn $t  $a != $c } return { $a.name as a, count($t) as n, count($b) + 1 as m } order { n desc, a } limit 5",
    "match { $a <knows> $b  $b <knows> $c  $a != $c  not { $a <knows> $c } } return { count($a) as n }",
    "match { $a: Person  $b: Person  $c: City  $a.rank = 3 } return { $c.name as c, count($b) as n }",
    "match { $a $e:knows $b  $b <knows> $a } return { count($e) as n }",
    "match { $a <knows> $b  $b <knows> $c  $c <knows> $a  $a livesIn $x  $b livesIn $y  $x = $y } return { count($c) as n }",
    "match { $a knows $a } return { count($a) as n }",
    "match { $a knows $b  $a knows $c  $b != $c } return { count($b) as n, count($c) as m }",
    "match { $a $e:knows $b  $b livesIn $t  $c livesIn $t  $a != $c } return { count($e) as n }",
    "match { $p: Person  optional { $p <knows> $q }  optional { $p livesIn $c } } return { count($p) as n }",
    "match { $p knows $o  optional { $q knows $p } } return { $o.name as o, count($p) as n } order { n desc, o }",
    "match { $p <knows> $q  $q <knows> $r  not { $p <knows> $r } } return { $p.name as p, count($r) as n } order { p }",
]
STAGED = [
    "match { $p: Person  $p knows $q } with { $q, count($p) as n } order { n desc } limit 9 match { $q <knows> $r  $r.rank > (n) } return { $q.name as q, $r.name as r, n } order { r }",
    "match { $p: Person  optional { $p livesIn $c } } with { $p, $c, $p.rank as n } match { $c: City  $p knows $q } return { $c.name as c, count($q) as q, max(n) as n } order { c }",
    "match { $p: Person  optional { $p livesIn $c } } with { $p, $c } match { optional { $q livesIn $c  $q.rank = $p.rank } } return { $p.name as p, $c.name as c, count($q) as q } order { p }",
]


@pytest.mark.parametrize("body", COVERED)
def test_it_covers_the_operators_and_agrees_with_the_engine(repository: Repository, body: str) -> None:
    """A read that it leaves to the engine would pass every other test."""
    view = repository.head()[1]
    answered, plan = asked(view, body), plan_of(view, body)
    assert answered is not None
    assert answered.table.to_pylist() == run_read(view, plan, {}, mode="scan", now=NOW).to_arrow().to_pylist()


@pytest.mark.parametrize("body", [*COVERED, *COUNTED])
def test_pieces_and_planned_orders_have_the_rows_of_the_whole(repository: Repository, body: str) -> None:
    view = repository.head()[1]
    with patch.object(matching, "PIECE_EDGES", 3), patch.object(matching, "PLANNED_EDGES", 0):
        answered = asked(view, body)
    assert answered is not None
    assert (
        answered.table.to_pylist()
        == run_read(view, plan_of(view, body), {}, mode="scan", now=NOW).to_arrow().to_pylist()
    )


def test_matches_that_are_only_counted_are_not_held(repository: Repository) -> None:
    """Eleven hops from 40 people have 5,000,000 matches; eleven variables that nothing connects have 4 * 10^17."""
    view = repository.head()[1]
    hops = "  ".join(f"$p{n} <knows> $p{n + 1}" for n in range(11))
    memory = WorkingMemory(0)
    with patch.object(matching, "PIECE_EDGES", 200):
        walks = asked(view, f"match {{ {hops}  $p0 != $p11 }} return {{ count($p3) as n }}", memory=memory)
    assert walks is not None
    assert walks.table.to_pylist() == [{"n": walks_of(11)}]
    people = "  ".join(f"$p{n}: Person" for n in range(11))
    apart = asked(view, f"match {{ {people} }} return {{ count($p3) as n }}", memory=memory)
    assert apart is not None
    assert apart.table.to_pylist() == [{"n": PEOPLE**11}]
    both = f"match {{ {people}  {people.replace('$p', '$q')} }} return {{ count($q1) as n }}"
    with pytest.raises(ResourceExhausted, match="more than 2\\^63 matches"):
        run_read(view, plan_of(view, both), {}, now=NOW)
    assert memory._taken == 0


def test_matches_of_which_one_is_enough_are_held_once(repository: Repository) -> None:
    """12 hops from 40 people have 17,000,000 matches, and reach 40 people."""
    view = repository.head()[1]
    hops = "$p <knows> $a1  " + "  ".join(f"$a{n} <knows> $a{n + 1}" for n in range(1, 11)) + "  $a11 <knows> $q"
    body = f"match {{ $p: Person  $q: Person  $p.name < $q.name  not {{ {hops} }} }} return {{ count($p) as n }}"
    memory = WorkingMemory(0)
    memory.array_bytes = 1_000_000
    answered = asked(view, body, memory=memory)
    assert answered is not None
    neighbours = neighbours_of_people()
    reached = {start: {start} for start in neighbours}
    for _ in range(12):
        reached = {start: set().union(*(neighbours[node] for node in nodes)) for start, nodes in reached.items()}
    apart = sum(start < end and end not in reached[start] for start in neighbours for end in neighbours)
    assert answered.table.to_pylist() == [{"n": apart}]


def neighbours_of_people() -> dict[str, set[str]]:
    neighbours: dict[str, set[str]] = {}
    for a, b in {(r["from"], r["to"]) for r in records() if r.get("edge") == "Knows"}:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    return neighbours


def walks_of(hops: int) -> int:
    """How many walks of so many hops end elsewhere than they begin, by the naive sum over neighbours."""
    neighbours, total = neighbours_of_people(), 0
    for start in neighbours:
        counts = {start: 1}
        for _ in range(hops):
            further: dict[str, int] = {}
            for node, count in counts.items():
                for neighbour in neighbours[node]:
                    further[neighbour] = further.get(neighbour, 0) + count
            counts = further
        total += sum(counts.values()) - counts.get(start, 0)
    return total


@pytest.mark.parametrize("body", STAGED)
def test_it_goes_on_from_a_stage(repository: Repository, body: str) -> None:
    view = repository.head()[1]
    plan = plan_of(view, body)
    assert [choice.what for choice in explain(view, plan, {}, now=NOW).choices].count("stage") == 1
    rows = run_read(view, plan, {}, now=NOW).to_arrow().to_pylist()
    assert rows
    assert rows == run_read(view, plan, {}, mode="scan", now=NOW).to_arrow().to_pylist()


def test_a_condition_that_holds_for_null_is_not_decided_by_codes(repository: Repository) -> None:
    view = repository.head()[1]
    body = "match { $p: Person  optional { $p livesIn $c }  $c.name is null } return { count($p) as n }"
    with patch.object(sources, "MIN_CODED", 1):
        answered = asked(view, body)
    assert answered is not None
    assert answered.table.to_pylist() == [{"n": PEOPLE - len(range(0, PEOPLE, 3))}]


def test_reads_from_a_key_come_first_and_scans_later(repository: Repository) -> None:
    view = repository.head()[1]
    named = 'match { $p: Person { name: "p01" }  $p knows{1,2} $q } return { $q.name as q, coalesce($q.rank, 1) as r }'
    assert asked(view, named, SEEDED) is not None
    assert asked(view, "match { $p: Person  $p.rank > 1 } return { $p.name as p }", SEEDED) is None


def test_edges_follow_commits(tmp_path: Any) -> None:
    """Edge numbers are those of the stored rows; edges that come and go are added and left out."""
    repository = new_graph(str(tmp_path / "g"), SCHEMA)
    commit(repository, records())
    body = "match { $p: Person  $p $k:<knows> $q } return { $p.name as p, $q.name as q, $k.since as s, $k.id as id } order { id, p }"
    view = repository.head()[1]
    first = asked(view, body)
    assert first is not None
    ids = first.table.column("id").to_pylist()
    commit(
        repository,
        [
            {"type": "Person", "data": {"name": "p00a", "rank": 5}},
            {"edge": "Knows", "from": "p00a", "to": "p00a", "data": {"since": 1}},
            {"edge": "Knows", "from": "p01", "to": "p00a", "data": {"since": 2}},
        ],
        remove={"edge:Knows": ids[:4:2]},
        first_number=1_000,
    )
    later = repository.head()[1]
    for state in (view, later):
        answered = asked(state, body)
        assert answered is not None
        expected = run_read(state, plan_of(state, body), {}, mode="scan", now=NOW).to_arrow().to_pylist()
        assert answered.table.to_pylist() == expected
    assert [row["s"] for row in expected if row["q"] == "p00a"] == [1, 2]


def test_a_path_inside_optional_is_searched_from_both_ends(repository: Repository) -> None:
    view = repository.head()[1]
    edges: dict[str, set[str]] = {}
    for row in records():
        if row.get("edge") == "Knows":
            edges.setdefault(row["from"], set()).add(row["to"])

    def hops(start: str, end: str) -> int | None:
        seen, queue = {start}, deque([(start, 0)])
        while queue:
            near, length = queue.popleft()
            for far in edges.get(near, set()) - seen:
                if far == end:
                    return length + 1
                seen.add(far)
                queue.append((far, length + 1))
        return None

    for start, end in (("p00", "p39"), ("p05", "p04"), ("p10", "p10"), ("p07", "p08")):
        body = (
            f'match {{ $a: Person {{ name: "{start}" }} $b: Person {{ name: "{end}" }} '
            "optional { shortest path $d from $a to $b along knows{1,32} } } return { $d.length as hops }"
        )
        answered = asked(view, body, SEEDED)
        assert answered is not None
        length = None if start == end else hops(start, end)
        assert answered.table.to_pylist() == [{"hops": length if length is not None and length <= 32 else None}]


def test_of_equal_paths_the_shortest_with_the_smallest_ids_is_taken(tmp_path: Any) -> None:
    """From s to t: by b, twice by a, and by c and d at the same cost in one hop more."""
    made = new_graph(str(tmp_path / "g"), SCHEMA)
    edges = [
        ("s", "b", 1),
        ("b", "t", 1),
        ("s", "c", 1),
        ("c", "d", 0),
        ("d", "t", 1),
        ("s", "a", 1),
        ("a", "t", 1),
        ("a", "t", 1),
    ]
    people = [{"type": "Person", "data": {"name": name}} for name in "tsbadc"]
    knows = [
        {"edge": "Knows", "id": f"e{n}", "from": a, "to": b, "data": {"since": w}} for n, (a, b, w) in enumerate(edges)
    ]
    view = commit(made, [*people, *knows])

    def paths(kind: str, by: str = "", end: str = '$q: Person { name: "t" }') -> list[dict[str, Any]]:
        pattern = (
            f'$p: Person {{ name: "s" }} {end} shortest {kind} $w from $p to $q along knows{{1,5}}{by}  $q.name = "t"'
        )
        answered = asked(view, f"match {{ {pattern} }} return {{ $w.nodes as n, $w.edges as e, $w.cost as c }}")
        assert answered is not None
        return answered.table.to_pylist()

    for end in ('$q: Person { name: "t" }', ""):
        best = {"n": ["s", "a", "t"], "e": ["e5", "e6"], "c": 2.0}
        assert paths("path", end=end) == [best]
        assert paths("path", " by since", end) == [best]
        assert paths("paths", end=end) == [
            {"n": ["s", "b", "t"], "e": ["e0", "e1"], "c": 2.0}, best, {**best, "e": ["e5", "e7"]},
        ]  # fmt: skip


def test_more_rows_than_fit_are_left_to_the_engine_and_nothing_stays_reserved(repository: Repository) -> None:
    view = repository.head()[1]
    memory = WorkingMemory(0)
    memory.array_bytes = 4_096
    assert asked(view, "match { $p: Person  $q: Person } return { max($q.rank) as n }", memory=memory) is None
    assert asked(view, 'match { $p: Person { name: "p01" } } return { $p.rank as r }', memory=memory) is not None
    memory.take(memory.array_bytes)


def test_a_deadline_ends_it(repository: Repository) -> None:
    view = repository.head()[1]
    plan = plan_of(view, "match { $p: Person  $p knows{1,} $q } return { count($q) as n }")
    ticks = itertools.count()
    with pytest.raises(QueryTimeout):
        ARRAYS.answer(Read(view, plan, Arguments({}, NOW, Deadline(1, clock=lambda: next(ticks)))))


def test_collected_records_are_in_the_order_of_their_values_nulls_first() -> None:
    import omnigraph as og

    g = og.init("memory://", schema="node P { n: String @key  a: I32?  b: String? }\nedge Knows: P -> P")
    rows = [("u", 2, "x"), ("v", 1, "z"), ("w", 1, None), ("x", None, "y"), ("y", 2, "a")]
    with g.transaction() as tx:
        for name, a, b in rows:
            tx.insert("P", n=name, a=a, b=b)
        for name, _, _ in rows:
            tx.insert("Knows", from_="u", to=name)
    found = g.query(
        "query q() { match { $q: P  $q knows $p } return { collect({a: $p.a, b: $p.b}) as all, last({b: $p.b} by $p.a) as top } }"
    )
    pairs = [(None, "y"), (1, None), (1, "z"), (2, "a"), (2, "x")]
    assert found.rows == [{"all": [{"a": a, "b": b} for a, b in pairs], "top": {"b": "x"}}]
