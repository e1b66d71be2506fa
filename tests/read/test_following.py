"""What is held in memory, and what is stored beside the tables, follows commits: every answer is that of a scan, and that of
somebody who opens the graph now."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from maintenance.aging import age
from read.graphs import query

from omnigraph import Graph, init, open as open_graph
from omnigraph.indexing.adjacency import StoredAdjacency, refresh_adjacency
from omnigraph.snapshot import Repository, View
from omnigraph.tables.adjacency import edges, index, segment

SCHEMA = """
node Person { name: String @key  age: I32?  tier: enum(free, pro) }
node Team { name: String @key }
edge Knows: Person -> Person
edge PlaysFor: Person -> Team
"""
QUERIES = [
    "match { $f knows $p } return { $p.name as p, $p.age as age, count($f) as n } order { n desc, p } limit 4",
    "match { $f knows $p } return { $p as p, count($f) as n } order { n desc } limit 3",
    "match { $a knows $b $b playsFor $t $a.age > 40 } return { $t.name as t, count($a) as n, sum($b.age) as s }",
    'match { $a knows $b $b knows $c $c.tier = "pro" } return { $b.tier as t, count($a) as n }',
    "match { $a $e:knows $b } return { $a.name as a, count($e) as n } order { n desc, a } limit 5",
    "match { $a knows $b $a.age < $b.age } return { $a.name as a, $b.name as b } order { b, a } limit 6",
    "match { $a <knows> $b } return { $b.tier as t, count($a) as n }",
    "match { $a knows{1,3} $b $b playsFor $t } return { $t.name as t, count($a) as n }",
    'match { $p: Person { name: "p7" } $p knows $f } return { $f.name as f, $f.age as age } order { f }',
]


@pytest.fixture(autouse=True)
def small_tables_have_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MIN_ROWS", 0)


class Story:
    """Random commits on branches of one graph that stays open."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.graph: Graph = init(str(folder / "graph"), SCHEMA, durability="process")
        self.branches = ["main"]
        self.people: dict[str, set[str]] = {"main": set()}
        self.made = 0
        with self.graph.transaction() as tx:
            for team in range(4):
                tx.insert("Team", name=f"t{team}")
            for number in range(30):
                self._add_person(tx, "main", number)
        with self.graph.transaction() as tx:
            for _ in range(90):
                self._add_edge(tx, "main")

    @property
    def repository(self) -> Repository:
        return self.graph._repository

    def _add_person(self, tx: object, branch: str, number: int | None = None) -> None:
        name = f"p{self.made if number is None else number}"
        self.made = max(self.made, int(name[1:])) + 1
        age = self.random.choice([None, *range(20, 70)])
        tx.upsert("Person", name=name, age=age, tier=self.random.choice(["free", "pro"]))  # type: ignore[attr-defined]
        self.people[branch].add(name)

    def _add_edge(self, tx: object, branch: str) -> None:
        people = sorted(self.people[branch])
        if self.random.random() < 0.3:
            tx.insert("PlaysFor", from_=self.random.choice(people), to=f"t{self.random.randrange(4)}")  # type: ignore[attr-defined]
        else:
            tx.insert("Knows", from_=self.random.choice(people), to=self.random.choice(people[:12]))  # type: ignore[attr-defined]

    def step(self) -> None:
        roll, branch = self.random.random(), self.random.choice(self.branches)
        people = self.people[branch]
        if roll < 0.04 and len(self.branches) < 3:
            name = f"b{self.made}"
            self.graph.branches.create(name, branch)
            self.branches.append(name)
            self.people[name] = set(people)
        elif roll < 0.08:
            self.graph.maintenance.optimize(branch)
        elif roll < 0.14:
            refresh_adjacency(self.repository, self.view(branch), min_rows=1)
        else:
            with self.graph.transaction(branch) as tx:
                for _ in range(self.random.choice([1, 1, 1, 2, 8])):
                    kind = self.random.random()
                    if kind < 0.25:
                        self._add_person(tx, branch)
                    elif kind < 0.35:
                        self._add_person(tx, branch, int(self.random.choice(sorted(people))[1:]))
                    elif kind < 0.45 and len(people) > 15:
                        gone = self.random.choice(sorted(people))
                        people.discard(gone)
                        tx.delete("Person", gone)
                    elif kind < 0.55:
                        tx.mutate(
                            "query d($p: String) { delete Knows where from = $p }",
                            {"p": self.random.choice(sorted(people))},
                        )
                    else:
                        self._add_edge(tx, branch)

    def view(self, branch: str) -> View:
        return self.repository.head(branch)[1]

    def check(self, *, cold: bool) -> None:
        branch = self.random.choice(self.branches)
        log = list(self.graph.commits(branch, limit=12))
        commit = log[self.random.choice([0, 0, 0, self.random.randrange(len(log))])]
        view = self.repository.view(self.repository.history.revisions.snapshot(commit.ref))
        text = f"query q() {{ {self.random.choice(QUERIES)} }}"
        expected = query(view, text, mode="scan").to_json()
        assert query(view, text).to_json() == expected, text
        assert query(view, text, mode="csr").to_json() == expected, text
        if cold:
            opened = Repository.open(str(self.graph.uri))
            cold_view = opened.view(opened.history.revisions.snapshot(commit.ref))
            assert query(cold_view, text).to_json() == expected, text


def play(folder: Path, seed: int, steps: int) -> None:
    story = Story(folder, seed)
    for number in range(steps):
        story.step()
        story.check(cold=number % 8 == 0)


@pytest.mark.parametrize(("seed", "rows"), [(1, index.CHANGED_ROWS), (2, 24)])
def test_answers_follow_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rows: int) -> None:
    """`rows`: how far a version may be from what is held before that is made again."""
    monkeypatch.setattr(index, "CHANGED_ROWS", rows)
    play(tmp_path, seed, 60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 20))
def test_answers_follow_many_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(index, "CHANGED_ROWS", [4_096, 100, 24][seed % 3])
    play(tmp_path, seed, 400)


# ---------------------------------------------------------------- damage


def _cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flip(file: Path, share: float) -> None:
    data = bytearray(file.read_bytes())
    data[int((len(data) - 1) * share)] ^= 0x40
    file.write_bytes(bytes(data))


HARMS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "cut short": _cut_short,
    "other bytes": lambda file: file.write_bytes(b"\xff" * file.stat().st_size),
    "a bit of the header": lambda file: _flip(file, 0.0001),
    "a bit of an array": lambda file: _flip(file, 0.5),
    "a bit near the end": lambda file: _flip(file, 0.9),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, dict[str, str]]:
    """A graph with stored segments of several blocks, and what its queries answer."""
    graph = init(str(tmp_path_factory.mktemp("stored") / "graph"), SCHEMA, durability="process")
    numbers = random.Random(3)
    with graph.transaction() as tx:
        tx.insert_many("Team", [{"name": f"t{number}"} for number in range(4)])
        tx.insert_many(
            "Person", [{"name": f"p{n}", "age": n % 50 + 18, "tier": ["free", "pro"][n % 2]} for n in range(3_000)]
        )
        pairs = {
            (numbers.randrange(3_000), min(numbers.randrange(3_000), numbers.randrange(3_000))) for _ in range(9_000)
        }
        tx.insert_many("Knows", [{"from": f"p{a}", "to": f"p{b}"} for a, b in sorted(pairs)])
        tx.insert_many("PlaysFor", [{"from": f"p{n}", "to": f"t{n % 4}"} for n in range(3_000)])
    view = graph._repository.head()[1]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index, "MIN_ROWS", 0)
        assert len(refresh_adjacency(graph._repository, view, min_rows=1).written) == 4
        assert refresh_adjacency(graph._repository, view, min_rows=1) == StoredAdjacency()
    texts = [f"query q() {{ {text} }}" for text in QUERIES if "{1,3}" not in text]
    return graph, {text: query(view, text, mode="scan").to_json() for text in texts}


def segments(graph: Graph) -> list[Path]:
    return sorted(Path(graph.uri).glob("*/*/_adjacency/*.adj"))


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_segment_makes_no_read_fail_or_differ(stored: tuple[Graph, dict[str, str]], harm: str) -> None:
    graph, answers = stored
    for file in segments(graph):
        before = file.read_bytes()
        HARMS[harm](file)
        try:
            view = Repository.open(graph.uri).head()[1]
            assert {text: query(view, text).to_json() for text in answers} == answers
            findings = graph.maintenance.verify().findings
            assert [finding.object_kind for finding in findings] == ([] if harm == "removed" else ["adjacency"])
        finally:
            file.write_bytes(before)
    assert graph.maintenance.verify().is_whole


def test_a_segment_that_goes_while_it_is_read_is_done_without(stored: tuple[Graph, dict[str, str]]) -> None:
    graph, answers = stored
    view = Repository.open(graph.uri).head()[1]
    text = next(iter(answers))
    query(view, 'query q() { match { $p: Person { name: "p7" } $p knows $f } return { count($f) as n } }')
    kept = {file: file.read_bytes() for file in segments(graph)}
    try:
        for file in kept:
            file.unlink()
        view.repository.tables.runtime.cache.drop(lambda key: key[0] in ("array", "block"))  # type: ignore[index]
        assert query(view, text).to_json() == answers[text]
    finally:
        for file, data in kept.items():
            file.write_bytes(data)


def test_a_fresh_reader_reads_segments_and_no_edges(
    stored: tuple[Graph, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, answers = stored

    def refuse(*_: object) -> None:
        raise AssertionError("edges were read")

    monkeypatch.setattr(index, "stored_ends", refuse)
    monkeypatch.setattr(index, "ids_of", refuse)
    view = Repository.open(graph.uri).head()[1]
    assert {text: query(view, text).to_json() for text in answers} == answers


def test_edges_to_a_small_table_are_not_read_either(
    stored: tuple[Graph, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of a few nodes are read from their table, and have the numbers that the stored edges have."""
    graph, answers = stored
    copy = tmp_path / "graph"
    shutil.copytree(graph.uri, copy)
    monkeypatch.setattr(index, "MIN_ROWS", 40)

    def refuse(*_: object) -> None:
        raise AssertionError("edges were read")

    monkeypatch.setattr(index, "stored_ends", refuse)
    opened = open_graph(str(copy))
    view = opened._repository.head()[1]
    assert {text: query(view, text).to_json() for text in answers} == answers
    with opened.transaction() as tx:
        tx.delete("Team", "t1")
        tx.insert("Team", name="t9")
        tx.insert("PlaysFor", from_="p1", to="t9")
    view = open_graph(str(copy))._repository.head()[1]
    for text in answers:
        assert query(view, text).to_json() == query(view, text, mode="scan").to_json(), text


def test_blocks_are_read_as_they_are_wanted(
    stored: tuple[Graph, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, answers = stored
    monkeypatch.setattr(segment, "SMALL_BYTES", 0)
    monkeypatch.setattr(segment, "WHOLE_SHARE", 0)
    view = Repository.open(graph.uri).head()[1]
    assert {text: query(view, text).to_json() for text in answers} == answers


def test_optimize_writes_a_damaged_segment_again(stored: tuple[Graph, dict[str, str]]) -> None:
    graph, _ = stored
    file = segments(graph)[0]
    before = file.read_bytes()
    _flip(file, 0.9)
    repository = Repository.open(graph.uri)
    again = refresh_adjacency(repository, repository.head()[1], min_rows=1)
    assert again.written == (file.relative_to(graph.uri).as_posix(),)
    assert file.read_bytes() == before


def test_segments_that_cleanup_takes_between_two_questions_are_not_missed(
    stored: tuple[Graph, dict[str, str]], tmp_path: Path
) -> None:
    """A process that has read a part of a segment does without the rest."""
    graph, answers = stored
    copy = tmp_path / "graph"
    shutil.copytree(graph.uri, copy)
    opened = open_graph(str(copy))
    key = 'query q() { match { $p: Person { name: "p7" } $p knows $f } return { $f.name as f } order { f } }'
    first = opened.query(key).rows
    with opened.transaction() as tx:
        tx.mutate('query d() { delete Knows where from != "" }')
    age(copy)
    open_graph(str(copy)).maintenance.cleanup(keep=1)
    assert [file for file in segments(opened) if "/edges/" in str(file) and "Knows" in str(file)] == []
    assert opened.query(key).rows == [] != first
    people = next(text for text in answers if "playsFor" in text)
    assert opened.query(people).to_json() == open_graph(str(copy)).query(people).to_json()


WRITER = """
import os, sys
from omnigraph.indexing.adjacency import refresh_adjacency
from omnigraph.storage import local
from omnigraph.snapshot import Repository

repository = Repository.open(sys.argv[1])
chunks = local.LocalStore.fill

def killed(self, key, parts):
    def some():
        yield next(iter(parts))[: int(sys.argv[2])]
        os.kill(os.getpid(), 9)
    return chunks(self, key, some())

local.LocalStore.fill = killed
refresh_adjacency(repository, repository.head()[1], min_rows=1)
"""


@pytest.mark.parametrize("written", [0, 100, 5_000])
def test_a_process_killed_while_it_writes_a_segment_leaves_nothing_that_is_read(
    stored: tuple[Graph, dict[str, str]], tmp_path: Path, written: int
) -> None:
    graph, answers = stored
    copy = tmp_path / "graph"
    shutil.copytree(graph.uri, copy, ignore=shutil.ignore_patterns("*.adj"))
    ran = subprocess.run([sys.executable, "-c", WRITER, str(copy), str(written)], check=False, capture_output=True)
    assert ran.returncode == -9, ran.stderr.decode()
    view = Repository.open(str(copy)).head()[1]
    assert {text: query(view, text).to_json() for text in answers} == answers
    opened = open_graph(str(copy))
    assert segments(opened) == []
    assert opened.maintenance.verify().is_whole
    assert len(refresh_adjacency(opened._repository, view, min_rows=1).written) == 4
    age(copy)
    opened.maintenance.cleanup()
    assert not [file for file in copy.rglob("_adjacency/*") if file.suffix != ".adj"]
    assert len(segments(opened)) == 4


def test_edges_that_commits_hold_are_not_repeated_for_a_reader_that_came_after_them(tmp_path: Path) -> None:
    """The newest edges are rows of a commit when the reader first asks; then come nodes, edges, and both."""
    schema = "node N { key: String @key }  edge Link: N -> N { number: I32 }"
    writer = init(str(tmp_path / "graph"), schema, durability="process")
    text = "query q() { match { $a $e:link $b } return { $e.number as number } order { number } }"
    sql = "SELECT number FROM Link ORDER BY number"
    count = 0

    def add(nodes: int, links: int) -> None:
        nonlocal count
        with writer.transaction() as tx:
            for _ in range(nodes):
                count += 1
                tx.insert("N", key=f"n{count}")
            for number in range(links):
                tx.insert("Link", from_=f"n{number + 1}", to=f"n{count}", number=count)

    add(3, 1)
    add(1, 1)
    reader = open_graph(writer.uri)
    for nodes, links in [(0, 0), (1, 0), (1, 1), (0, 2), (2, 2)]:
        add(nodes, links)
        for revision in ("main", "main~1"):
            assert reader.query(text, revision=revision).rows == reader.sql(sql, revision=revision).rows


def test_a_commit_that_adds_rows_is_added_to_what_is_held(
    stored: tuple[Graph, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No version is compared with what is stored as long as commits only add rows; edges between nodes that were there before, and
    a second edge between the same two, are no exception."""
    graph, _ = stored
    copy = tmp_path / "graph"
    shutil.copytree(graph.uri, copy)
    opened = open_graph(str(copy))
    texts = [f"query q() {{ {text} }}" for text in QUERIES[:5]]

    def ask() -> None:
        view = opened._repository.head()[1]
        for text in texts:
            assert query(view, text).to_json() == query(view, text, mode="scan").to_json(), text

    def add(number: int) -> None:
        with opened.transaction() as tx:
            tx.insert("Person", name=f"new {number}", age=number, tier="pro")
            tx.insert("Knows", from_=f"new {number}", to="p7")
            tx.insert("Knows", from_=f"p{number}", to="p8")

    add(1)
    ask()
    compared: list[str] = []
    for name in ("nodes_at", "edges_at"):
        original = getattr(index, name)
        monkeypatch.setattr(
            index, name, lambda table, *rest, original=original: compared.append(table.path) or original(table, *rest)
        )
    for number in range(2, 8):
        add(number)
        ask()
    assert compared == []
    with opened.transaction() as tx:
        tx.insert("Knows", from_="new 3", to="p7")
    ask()
    assert [path.partition("-")[0] for path in compared] == ["edges/Knows"], "a pair that is there already"
    compared.clear()
    with opened.transaction() as tx:
        tx.delete("Person", "new 4")
    ask()
    assert {path.partition("-")[0] for path in compared} >= {"nodes/Person", "edges/Knows"}
    compared.clear()
    add(4)  # the id had a number before
    ask()
    assert {path.partition("-")[0] for path in compared} >= {"nodes/Person", "edges/Knows"}


@pytest.mark.parametrize("most", [0, edges.FEW_PARALLEL])
def test_few_parallel_edges_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Where neighbours count once, the targets of all edges are read only if many edges have the ends of another."""
    monkeypatch.setattr(edges, "FEW_PARALLEL", most)
    graph = init(str(tmp_path / "graph"), SCHEMA, durability="process")
    pairs = [(1, 2), (1, 2), (1, 3), (2, 7), (3, 7), (3, 7), (3, 7), (4, 5)]
    with graph.transaction() as tx:
        tx.insert_many("Team", [{"name": f"t{number}"} for number in range(4)])
        tx.insert_many("Person", [{"name": f"p{n}", "age": 30 + 5 * n, "tier": "pro"} for n in range(9)])
        tx.insert_many("Knows", [{"from": f"p{a}", "to": f"p{b}"} for a, b in pairs])
    refresh_adjacency(graph._repository, graph._repository.head()[1], min_rows=1)
    made: list[str] = []
    once = edges.EdgeBase.once
    monkeypatch.setattr(edges.EdgeBase, "once", lambda self, way: made.append(way) or once(self, way))  # type: ignore[func-returns-value]
    opened = open_graph(graph.uri)

    def ask() -> None:
        view = opened._repository.head()[1]
        for text in (f"query q() {{ {text} }}" for text in QUERIES):
            expected = query(view, text, mode="scan").to_json()
            assert query(view, text).to_json() == expected, text
            assert query(view, text, mode="csr").to_json() == expected, text

    ask()
    for change in (
        'delete Knows where from = "p1"',
        'insert Knows { from: "p3", to: "p7" }',
        'insert Knows { from: "p1", to: "p2" }',
        'delete Knows where from = "p3"',
    ):
        with opened.transaction() as tx:
            tx.mutate(f"query c() {{ {change} }}")
        ask()
    assert bool(made) == (most == 0)
