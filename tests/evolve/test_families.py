"""Edges between interfaces, against a model: random writes in every way, schema changes, branches, merges and time travel."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import EndpointMissing, OmnigraphError, RejectedRecords

Rows = dict[tuple[str, str, str], int | None]
"""The day of each edge, by the type and the id of its source and the name of the person."""
TYPES = ("Post", "Comment", "Photo")


class World:
    """A graph with two branches, each of which writes its own messages, and what they should hold."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.family, self.types = "By", ["Post", "Comment"]
        self.graph = og.init(folder / "g", self.schema(), durability="process")
        with self.graph.transaction() as tx:
            for name in ("ann", "bo"):
                tx.insert("Person", name=name)
            for type_ in self.types:
                for number in "1234":
                    tx.insert(type_, number=number, length=int(number))
        self.graph.branches.create("x")
        self.rows: dict[str, Rows] = {"main": {}, "x": {}}
        self.past: list[tuple[str, str, list[str], Rows]] = []

    def schema(self, rename: str = "") -> str:
        nodes = "\n".join(f"node {name} implements Message {{ number: String @key }}" for name in self.types)
        return (
            f"interface Message {{ length: I32 }}\nnode Person {{ name: String @key }}\n{nodes}\n"
            f"edge {self.family}: Message -> Person @key(src, dst) {rename} {{ day: I32? }}\n"
            "edge Cites: Message -> Message\n"
        )

    def messages(self, branch: str) -> tuple[str, str]:
        type_ = self.random.choice([name for name in self.types if name != "Photo"])
        return type_, self.random.choice("12" if branch == "main" else "34")

    def step(self) -> None:
        branch = self.random.choice(["main", "x"])
        getattr(self, self.random.choice(["load", "load", "insert", "mutate", "delete", "cut", "evolve", "merge"]))(
            branch
        )

    def load(self, branch: str) -> None:
        mode = self.random.choice(["merge", "append", "patch", "delete"])
        rows = self.rows[branch]
        (type_, number), person, day = (
            self.messages(branch),
            self.random.choice(["ann", "bo"]),
            self.random.randrange(9),
        )
        record = {"edge": self.family, "from": number, "to": person, "from_type": type_}
        if self.random.random() < 0.3:
            record = {"edge": f"{self.family}_{type_}", "from": number, "to": person}
        record |= {} if mode == "delete" else {"data": {"day": day}}
        file = self.folder / "edges.jsonl"
        file.write_text(json.dumps(record) + "\n")
        key, is_refused = (type_, number, person), False
        if mode == "append":
            is_refused = key in rows
        try:
            self.graph.load(file, mode=mode, branch=branch, missing="refuse")
        except OmnigraphError:
            assert is_refused, record
            return
        assert not is_refused, record
        if mode == "delete":
            rows.pop(key, None)
        else:
            rows[key] = day

    def insert(self, branch: str) -> None:
        (type_, number), person = self.messages(branch), self.random.choice(["ann", "bo"])
        with self.graph.transaction(branch) as tx:
            tx.upsert(self.family, from_=number, to=person, from_type=type_, day=3)
        self.rows[branch][type_, number, person] = 3

    def mutate(self, branch: str) -> None:
        (type_, number), person = self.messages(branch), self.random.choice(["ann", "bo"])
        text = f"upsert {self.family} {{ from: $m.id, to: $p.id, day: 7 }}"
        match = f'$m: {type_} {{ number: "{number}" }} $p: Person {{ name: "{person}" }}'
        self.graph.mutate(f"query q() {{ {text} match {{ {match} }} }}", branch=branch)
        if self.has(branch, type_, number):
            self.rows[branch][type_, number, person] = 7

    def has(self, branch: str, type_: str, number: str) -> bool:
        return self.graph.entity(type_, number, revision=branch) is not None

    def delete(self, branch: str) -> None:
        day, own = self.random.randrange(9), "12" if branch == "main" else "34"
        numbers = " or ".join(f'from = "{number}"' for number in own)
        self.graph.mutate(f"query q() {{ delete {self.family} where day = {day} and ({numbers}) }}", branch=branch)
        rows = self.rows[branch]
        self.rows[branch] = {key: value for key, value in rows.items() if value != day or key[1] not in own}

    def cut(self, branch: str) -> None:
        type_, number = self.messages(branch)
        with self.graph.transaction(branch) as tx:
            tx.delete(type_, number)
        self.rows[branch] = {key: value for key, value in self.rows[branch].items() if key[:2] != (type_, number)}
        with self.graph.transaction(branch) as tx:
            tx.upsert(type_, number=number, length=int(number))

    def evolve(self, branch: str) -> None:
        """Both branches are merged first: what a rename means on one of them only is the affair of other tests."""
        self.merge("x"), self.merge("main")
        rename = ""
        if self.random.random() < 0.5 and "Photo" not in self.types:
            self.types.append("Photo")
        else:
            rename = f'@rename_from("{self.family}")'
            self.family = "WrittenBy" if self.family == "By" else "By"
        self.graph.schema.apply(self.schema(rename), branch=branch)
        other = "x" if branch == "main" else "main"
        assert self.graph.branches.merge(branch, other).outcome != "conflicts"

    def merge(self, source: str) -> None:
        target = "x" if source == "main" else "main"
        self.graph.branches.merge(source, target)
        own = "12" if source == "main" else "34"
        kept = {key: value for key, value in self.rows[target].items() if key[1] not in own}
        taken = {key: value for key, value in self.rows[source].items() if key[1] in own}
        self.rows[target] = {**kept, **taken}

    def check(self) -> None:
        for branch, rows in self.rows.items():
            commit = self.graph.head(branch).id
            self.past.append((commit, self.family, [*self.types], dict(rows)))
            self.check_at(*self.past[-1])

    def check_at(self, revision: str, family: str, types: list[str], rows: Rows) -> None:
        word = family[0].lower() + family[1:]
        found: Rows = {}
        columns = "return { $m.number as m, $p.name as p, $e.day as d }"
        for type_ in types:
            text = f"query q() {{ match {{ $m: {type_}  $m $e:{word} $p }} {columns} }}"
            for row in self.graph.query(text, revision=revision).rows:
                found[type_, row["m"], row["p"]] = row["d"]
        assert found == rows
        count = f"query q() {{ match {{ $p: Person  $p $e:{word} $m }} return {{ count($e) as n, count(distinct $m) as m }} }}"
        (counts,) = self.graph.query(count, revision=revision).rows
        assert counts == {"n": len(rows), "m": len({key[:2] for key in rows})}


@pytest.mark.parametrize("seed", range(4))
def test_random_histories(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    for _ in range(14):
        world.step()
        world.check()
    for past in world.past:
        world.check_at(*past)
    file = tmp_path / "all.jsonl"
    world.graph.export(file)
    again = og.init(tmp_path / "again", world.graph.schema.catalog.source)
    again.load(file, mode="append")
    world.graph = again
    world.check_at("main", world.family, world.types, world.rows["main"])
    assert again.maintenance.verify().is_whole


SCHEMA = """
interface Message { length: I32? }
node Person { name: String @key }
node Post implements Message { number: String @key }
node Comment implements Message { number: String @key }
edge By: Message -> Person { day: I32? }
edge ReplyOf: Comment -> Message
"""


def graph_of(folder: Path) -> og.Graph:
    graph = og.init(folder / "g", SCHEMA)
    with graph.transaction() as tx:
        tx.insert("Person", name="ann")
        tx.insert("Post", number="1", length=1)
        tx.insert("Comment", number="1", length=2)
        tx.insert("By", from_="1", to="ann", from_type="Post")
        tx.insert("By", from_="1", to="ann", from_type="Comment")
    return graph


def loaded(graph: og.Graph, folder: Path, record: dict[str, Any], **options: Any) -> Any:
    file = folder / "one.jsonl"
    file.write_text(json.dumps(record) + "\n")
    return graph.load(file, mode="append", **options)


def test_an_end_of_several_types_has_to_be_named(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    with pytest.raises(RejectedRecords, match=r"give 'from_type': Comment, Post"):
        loaded(graph, tmp_path, {"edge": "By", "from": "1", "to": "ann"})
    with pytest.raises(RejectedRecords, match="'from_type' is Photo, and not one of Comment, Post"):
        loaded(graph, tmp_path, {"edge": "By", "from": "1", "to": "ann", "from_type": "Photo"})
    with pytest.raises(RejectedRecords, match="'from_type' and 'to_type' are for edges between interfaces"):
        loaded(graph, tmp_path, {"edge": "By_Post", "from": "1", "to": "ann", "from_type": "Post"})
    with pytest.raises(EndpointMissing, match="from '9' not found in Post"):
        loaded(graph, tmp_path, {"edge": "By", "from": "9", "to": "ann", "from_type": "Post"})
    loaded(graph, tmp_path, {"edge": "By", "from": "9", "to": "ann", "from_type": "Post"}, missing="skip")
    loaded(graph, tmp_path, {"edge": "By", "from": "9", "to": "ann", "from_type": "Post"}, missing="stub")
    assert graph.entity("Post", "9") == {"id": "9", "length": None, "number": "9"}


def test_widening_an_end_keeps_its_edges(tmp_path: Path) -> None:
    narrow = SCHEMA.replace("By: Message", "By: Post")
    graph = og.init(tmp_path / "g", narrow)
    with graph.transaction() as tx:
        tx.insert("Person", name="ann")
        tx.insert("Post", number="1")
        tx.insert("By", from_="1", to="ann", day=4)
    assert "rename edge type 'By' -> 'By_Post'" in graph.schema.plan(SCHEMA).lines()
    graph.schema.apply(SCHEMA)
    rows = graph.query("query q() { match { $m $e:by $p } return { $m.id as m, $e.day as d } }").rows
    assert rows == [{"m": "1", "d": 4}]


def test_a_new_type_of_one_branch_has_the_new_property_of_the_other(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    graph.branches.create("x")
    graph.schema.apply(SCHEMA + "node Photo implements Message { number: String @key }\n")
    graph.schema.apply(SCHEMA.replace("{ day: I32? }", "{ note: String? }"), branch="x")
    graph.branches.merge("x", "main")
    catalog = graph.schema.catalog
    assert {name: [*edge.properties] for name, edge in catalog.edges.items() if name.startswith("By")} == {
        "By_Comment": ["note"], "By_Photo": ["note"], "By_Post": ["note"]
    }  # fmt: skip
    assert "edge By: Message -> Person {\n  note: String?\n}" in catalog.source


@pytest.mark.parametrize("into", ["main", "x"])
def test_a_new_type_of_one_branch_follows_the_renames_of_the_other(tmp_path: Path, into: str) -> None:
    graph = graph_of(tmp_path)
    graph.branches.create("x")
    renamed = SCHEMA.replace("edge By: Message -> Person", 'edge WrittenBy: Message -> Person @rename_from("By")')
    graph.schema.apply(renamed.replace("day: I32?", 'written: I64? @rename_from("day")'))
    graph.schema.apply(SCHEMA + "node Photo implements Message { number: String @key }\n", branch="x")
    with graph.transaction("x") as tx:
        tx.insert("Photo", number="1", length=3)
        tx.insert("By", from_="1", from_type="Photo", to="ann", day=5)
    graph.branches.merge("x" if into == "main" else "main", into)
    with graph.transaction(into) as tx:
        tx.insert("WrittenBy", from_="1", from_type="Photo", to="ann", written=2**40)
    text = "query q() { match { $m $e:writtenBy $p } return { $m.length as n, $e.written as w } order { n, w } }"
    rows = graph.query(text, revision=into).rows
    assert [(row["n"], row["w"]) for row in rows] == [(1, None), (2, None), (3, 5), (3, 2**40)]
    assert [*graph.snapshot(into).schema.families] == ["ReplyOf", "WrittenBy"]


def test_the_edge_and_a_node_type_are_renamed_on_two_branches(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    graph.branches.create("x")
    graph.schema.apply(
        SCHEMA.replace("edge By: Message -> Person", 'edge WrittenBy: Message -> Person @rename_from("By")')
    )
    graph.schema.apply(SCHEMA.replace("node Post", 'node Article @rename_from("Post")'), branch="x")
    graph.branches.merge("x", "main")
    assert [*graph.schema.catalog.families["WrittenBy"]] == [
        graph.schema.catalog.edges[name] for name in ("WrittenBy_Article", "WrittenBy_Comment")
    ]
    rows = graph.query("query q() { match { $m: Message $m writtenBy $p } return { $m.length as n } order { n } }").rows
    assert rows == [{"n": 1}, {"n": 2}]


def test_a_type_that_leaves_the_interface_takes_its_edges_with_it(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    without = SCHEMA.replace("node Comment implements Message {", "node Comment { length: I32? ")
    assert "drop edge type 'By_Comment' (soft mode)" in graph.schema.plan(without).lines()
    graph.schema.apply(without)
    assert [*graph.schema.catalog.edges] == ["By_Post", "ReplyOf_Post"]
    with pytest.raises(OmnigraphError):
        graph.query("query q() { match { $c: Comment $c by $p } return { $p.name } }")


def test_statements_name_the_member_by_their_ends(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    graph.mutate("query q() { insert ReplyOf { from: $c.id, to: $m.id } match { $c: Comment  $m: Post } }")
    graph.mutate('query q() { insert ReplyOf { from: "1", to: "1", to_type: "Comment" } }')
    found = "query q() { match { $c $e:replyOf $m } return { count($e) as n, count(distinct $m) as m } }"
    assert graph.query(found).rows == [{"n": 2, "m": 2}]
    for text, error in (
        ('insert ReplyOf { from: "1", to: "1" }', "give 'to_type': Comment, Post"),
        ("insert ReplyOf { from: $c.id, to: $m.id } match { $c: Comment $m: Message $c replyOf $m }", "give 'to_type'"),
        ('insert ReplyOf { from: "1", to: "1", to_type: 3 }', "is the name of a node type, as a text"),
        ("update By set { day: 1 } where day = 2", "is an edge between interfaces, of the types By_Comment, By_Post"),
    ):
        with pytest.raises(OmnigraphError, match=error):
            graph.mutate(f"query q() {{ {text} }}")
    graph.mutate('query q() { delete ReplyOf where from = "1" }')
    assert graph.query(found).rows == [{"n": 0, "m": 0}]


@pytest.mark.spark
def test_loads_and_queries_on_spark(tmp_path: Path, spark: Any) -> None:
    graph = graph_of(tmp_path)
    records = [{"edge": "ReplyOf", "from": "1", "to": "1", "to_type": type_} for type_ in ("Post", "Comment")]
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert graph.load(file, mode="append", engine="spark").total_entities == 2
    text = "query q() { match { $c $e:replyOf $m  $m by $p } return { $m.length as n, $p.name as p } order { n } }"
    rows = graph.query(text).rows
    assert rows == graph.query(text, engine="spark").rows == [{"n": 1, "p": "ann"}, {"n": 2, "p": "ann"}]
