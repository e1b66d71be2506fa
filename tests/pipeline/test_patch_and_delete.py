"""Loads that change parts of entities, and loads that delete: what they mean, against a naive model, on both engines, beside other
writers, and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from pipeline.conftest import Write, content, knows, person

import omnigraph as og
from omnigraph import errors
from omnigraph.load import fragments, keyed_rows
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all, raising

FIRST: list[Any] = [
    person("a", age=7, tags=["x"], vec=[0.5, 1.0], photo="base64:aGk=", handle="ah", joined="2026-01-02T03:04:05.678Z"),
    person("b", age=8, tier="pro"),
    person("c", score=0.5),
    person("d"),
    {"type": "Note", "data": {"id": "n", "text": "t", "stars": 5}},
    {"type": "City", "data": {"name": "P", "country": "FR"}},
    knows("a", "b", id="k1", weight=1.5, since="2020-01-01"),
    knows("b", "c", id="k2"),
    knows("c", "d", id="k3"),
    {"edge": "LivesIn", "from": "a", "to": '["FR","P"]', "data": {"id": "l1"}},
]


def node(type_name: str, **data: Any) -> dict[str, Any]:
    return {"type": type_name, "data": data}


def edge(type_name: str, **data: Any) -> dict[str, Any]:
    return {"edge": type_name, "data": data}


def state(graph: og.Graph, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Every entity by type and id, with its values and its ends."""
    found = {}
    for record in content(graph, tmp_path):
        ends = {name: record[name] for name in ("from", "to") if name in record}
        name = record.get("type") or record["edge"]
        found[f"{name} {record['data']['id']}"] = ends | record["data"]
    return found


def counts(receipt: og.types.LoadReceipt) -> dict[str, list[int]]:
    return {key.partition(":")[2]: list(asdict(each).values()) for key, each in receipt.types.items()}


@pytest.fixture
def filled(graph: og.Graph, write: Write) -> og.Graph:
    graph.load(write("first.jsonl", *FIRST), mode="append", engine="local")
    return graph


@pytest.fixture(params=["as it is", "a few records at a time, without lookups"])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks elsewhere take many records at a time whatever is set here."""
    if request.param != "as it is":
        monkeypatch.setattr(fragments, "MAX_HELD_RECORDS", 2)
        monkeypatch.setattr(keyed_rows, "MAX_LOOKUP", 0)


def test_a_patch_changes_what_is_there_and_nothing_else(
    filled: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path, step: None
) -> None:
    before = state(filled, tmp_path)
    receipt = filled.load(
        write(
            "patch.jsonl",
            person("a", age=9, tags=None),  # null is a value
            node("Person", id="b", score=2.5),  # by its id
            person("c", score=0.5),  # as it was
            person("e", age=1),  # new
            node("Note", id="n", stars=None),
            node("Note", id="m", text="new"),  # with the default of stars
            edge("Knows", id="k1", weight=2.0),  # its ends stay
            {"edge": "Knows", "to": "d", "data": {"id": "k2"}},  # one end moves
        ),
        mode="patch",
        **engine,
    )
    assert counts(receipt) == {"Person": [1, 2, 1, 0], "Note": [1, 1, 0, 0], "Knows": [0, 2, 0, 0]}
    a = {name: value for name, value in before["Person a"].items() if name != "tags"}
    expected = before | {
        "Person a": a | {"age": 9},
        "Person b": before["Person b"] | {"score": 2.5},
        "Person e": {"id": "e", "email": "e", "age": 1},
        "Note n": {"id": "n", "text": "t", "stars": None},
        "Note m": {"id": "m", "text": "new", "stars": 3},
        "Knows k1": before["Knows k1"] | {"weight": 2.0},
        "Knows k2": before["Knows k2"] | {"to": "d"},
    }
    assert state(filled, tmp_path) == expected
    assert filled.load({"Person": pd.DataFrame({"id": ["a"], "age": [9]})}, mode="patch", engine="local").commit is None


def test_a_delete_takes_entities_and_the_edges_at_nodes(
    filled: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path, step: None
) -> None:
    before = state(filled, tmp_path)
    names = [
        person("b", age="ignored"),
        node("Person", id="nobody"),
        edge("Knows", id="k3"),
        node("City", name="P", country="FR"),
    ]
    receipt = filled.load(write("names.jsonl", *names), mode="delete", **engine)
    assert counts(receipt) == {
        "Person": [0, 0, 1, 1],
        "Knows": [0, 0, 0, 3],
        "City": [0, 0, 0, 1],
        "LivesIn": [0, 0, 0, 1],
    }
    gone = ("Person b", "Knows k1", "Knows k2", "Knows k3", 'City ["FR","P"]', "LivesIn l1")
    assert state(filled, tmp_path) == {name: row for name, row in before.items() if name not in gone}
    again = filled.load(write("names.jsonl", *names), mode="delete", **engine)
    assert (again.commit, counts(again)) == (
        None,
        {"Person": [0, 0, 2, 0], "Knows": [0, 0, 1, 0], "City": [0, 0, 1, 0]},
    )


def test_a_flag_deletes_among_other_records(
    filled: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    before = state(filled, tmp_path)
    records = [
        {**person("c"), "_delete": True},
        {**person("d", age=3), "_delete": False},
        {"edge": "Knows", "from": "d", "to": "a", "data": {"id": "k2"}},  # moved away from c, which goes
    ]
    receipt = filled.load(write("mixed.jsonl", *records), mode="merge", **engine)
    assert counts(receipt) == {"Person": [0, 1, 0, 1], "Knows": [0, 1, 0, 1]}
    gone = ("Person c", "Knows k3")
    moved = {"Person d": {"id": "d", "email": "d", "age": 3}, "Knows k2": {"from": "d", "to": "a", "id": "k2"}}
    assert state(filled, tmp_path) == {name: row for name, row in (before | moved).items() if name not in gone}
    csv = tmp_path / "Person.csv"
    csv.write_text("email,age,_delete\na,70,\nb,,true\nd,4,false\n")
    assert counts(filled.load(csv, mode="patch", **engine)) == {"Person": [0, 2, 0, 1], "Knows": [0, 0, 0, 1]}


REFUSED: dict[str, tuple[str, list[Any], str]] = {
    "a new node by its id": ("patch", [node("Person", id="z", age=1)], "Person 'z' does not exist, and a new one needs 'email'"),
    "a new edge without ends": ("patch", [edge("Knows", id="z")], "Knows 'z' does not exist, and a new one needs 'from'"),
    "a new node without a required value": ("patch", [node("Note", id="z")], "required property Note.text is missing"),
    "null where it is required": ("patch", [node("Note", id="n", text=None)], "required property Note.text is missing"),
    "an edge without an id": ("patch", [knows("a", "b")], "the record names no Knows: it needs 'id'"),
    "part of a key": ("patch", [node("City", name="P")], "key property City.country is missing"),
    "a node without a name": ("delete", [node("Person", age=1)], "the record names no Person: it needs 'email' or 'id'"),
    "an unknown property": ("delete", [person("a", nope=1)], "unknown property 'nope' on Person"),
    "another id than the key's": ("delete", [person("a", id="b")], "id 'b' of Person does not match its key: expected 'a'"),
    "a flag that is none": ("merge", [{**person("a"), "_delete": "yes"}], "'_delete' must be true or false"),
    "a flag in an append": ("append", [{**person("z"), "_delete": True}], "unknown member '_delete'"),
    "a value out of its range": ("patch", [person("a", age=200)], "@range violation on Person.age: value 200 > max 150"),
}  # fmt: skip
BOTH = {
    "an id that stays and goes": [{**person("a"), "_delete": True}, person("a", age=1)],
    "an id that comes and goes": [{**person("z"), "_delete": True}, person("z", age=1)],
    "an id twice": [person("z"), person("z", age=1)],
}


def test_what_a_patch_or_delete_refuses(filled: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path) -> None:
    before = state(filled, tmp_path)
    for name, (mode, records, reason) in REFUSED.items():
        with pytest.raises(errors.RejectedRecords) as caught:
            filled.load(write("bad.jsonl", *records), mode=mode, **engine)  # type: ignore[arg-type]
        (reject,) = caught.value.rejects
        assert (reject["reason"], reject["line"]) == (reason, 1), name
    for name, records in BOTH.items():
        with pytest.raises(errors.UniqueViolation) as twice:
            filled.load(write("bad.jsonl", *records), mode="patch", **engine)
        id = records[0]["data"]["email"]
        assert (twice.value.message, twice.value.line) == (f"duplicate id '{id}' for Person in one batch", 2), name
        advice = "keep one of the records, or load them one after the other: the last one stays"
        assert twice.value.hint == advice, name
    (tmp_path / "Knows.csv").write_text("from,to,weight\na,b,1\n")
    with pytest.raises(errors.UnreadableInput, match="missing column 'id' for Knows"):
        filled.load(tmp_path / "Knows.csv", mode="patch", **engine)
    rejects = tmp_path / "rejects.jsonl"
    mixed = write("mixed.jsonl", person("a", age=200), person("b", age=1))
    assert filled.load(mixed, mode="patch", rejects=rejects, **engine).rejected == 1
    assert json.loads(rejects.read_text())["record"] == '{"type":"Person","data":{"id":"a","email":"a","age":200}}'
    assert state(filled, tmp_path) == before | {"Person b": before["Person b"] | {"age": 1}}


def test_the_vector_of_a_text_follows_it(tmp_path: Path) -> None:
    schema = 'node Doc { slug: String @key  text: String?  n: I32?  vec: Vector(4)? @embed("text", model="mock") }'
    graph = og.init(tmp_path / "graph", schema, durability="process")

    def load(mode: str, **columns: Any) -> dict[str, Any]:
        graph.load({"Doc": pd.DataFrame({name: [value] for name, value in columns.items()})}, mode=mode, engine="local")  # type: ignore[arg-type]
        return state(graph, tmp_path)["Doc a"]

    first = load("append", slug="a", text="one")["vec"]
    assert load("patch", slug="a", n=1)["vec"] == first
    second = load("patch", slug="a", text="two")["vec"]
    assert second != first
    assert load("patch", slug="a", text="two", vec=[1.0, 0.0, 0.0, 0.0])["vec"] == [1.0, 0.0, 0.0, 0.0]
    assert load("patch", slug="a", text="two", n=2)["vec"] == [1.0, 0.0, 0.0, 0.0]
    assert "vec" not in load("patch", slug="a", text=None)


# ---------------------------------------------------------------- beside others

PUT = 'query q() {{ update Person set {{ age: {1} }} where email = "{0}" }}'
NEW = 'query q() {{ insert Person {{ email: "{0}" }} }}'
DROP = 'query q() {{ delete Person where email = "{0}" }}'
TIE = 'query q() {{ insert Knows {{ from: "{0}", to: "{1}" }} }}'
SCORE = [person("a", score=1.0), person("b", score=2.0)]
MISMATCH = "expected_version_mismatch"
BESIDE: dict[str, tuple[str, list[Any], str, str | None]] = {
    "another entity changes": ("patch", SCORE, PUT.format("d", 1), None),
    "another entity comes": ("patch", SCORE, NEW.format("z"), None),
    "an entity of the patch changes": ("patch", SCORE, PUT.format("a", 1), MISMATCH),
    "an entity of the patch goes": ("patch", SCORE, DROP.format("b"), MISMATCH),
    "an entity of the patch comes": ("patch", [person("z", score=1.0)], NEW.format("z"), MISMATCH),
    "an edge of the patch": ("patch", [edge("Knows", id="k1", weight=2.0)], TIE.format("d", "a"), None),
    "another entity changes beside a delete": ("delete", [edge("Knows", id="k3")], PUT.format("d", 1), None),
    "what is deleted changes": ("delete", [node("Note", id="n")], 'query q() { update Note set { stars: 1 } where id = "n" }', MISMATCH),
    "what is deleted goes": ("delete", [person("d")], DROP.format("d"), MISMATCH),
    "an edge comes to what is deleted": ("delete", [person("d")], TIE.format("a", "d"), MISMATCH),
    "an edge comes to a node without edges": ("delete", [person("e")], TIE.format("a", "e"), "endpoint_missing"),
    "an entity of a flag changes": ("merge", [{**person("d"), "_delete": True}], PUT.format("d", 1), MISMATCH),
}  # fmt: skip


@pytest.mark.parametrize("few", [True, False], ids=["few rows", "staged as many rows are"])
@pytest.mark.parametrize("case", BESIDE)
def test_beside_another_writer(
    case: str, few: bool, filled: og.Graph, write: Write, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A patch of many rows lands on rows as it read them, or not at all, and one of few rows on the newest ones: nothing that
    another writer wrote is lost."""
    mode, records, mutation, refusal = BESIDE[case]
    if few:
        refusal = None
    else:
        request.getfixturevalue("staged_loads")
    filled.mutate(NEW.format("e"))
    other = og.open(filled.uri, durability="process")
    arm(Failpoint.LOAD_BEFORE_PUBLISH, lambda: other.mutate(mutation))
    source = write("mine.jsonl", *records)
    if refusal is None:
        filled.load(source, mode=mode, engine="local")  # type: ignore[arg-type]
    else:
        with pytest.raises(errors.OmnigraphError) as caught:
            filled.load(source, mode=mode, engine="local")  # type: ignore[arg-type]
        assert caught.value.code == refusal
        filled.load(source, mode=mode, engine="local")  # type: ignore[arg-type]
    assert filled.recovery.list() == []
    now = state(filled, tmp_path)
    for record in records:
        name = f"{record.get('type') or record['edge']} {record['data'].get('id') or record['data']['email']}"
        if mode == "delete" or record.get("_delete"):
            assert name not in now
        else:
            assert record["data"].items() <= now[name].items()
    if mutation == PUT.format("a", 1):
        assert now["Person a"]["age"] == 1, "what the other wrote is still there"
    assert not filled.maintenance.verify().findings


@pytest.mark.parametrize(
    ("since", "lands"), [(None, True), (NEW.format("z"), False), ('query q() { insert Note { text: "x" } }', True)]
)
@pytest.mark.parametrize("mode", ["patch", "delete"])
@pytest.mark.usefixtures("staged_loads")
def test_a_prepared_one_holds_for_the_state_of_its_tables(
    mode: str, since: str | None, lands: bool, filled: og.Graph, write: Write, tmp_path: Path
) -> None:
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        filled.load(write("mine.jsonl", person("d", age=3)), mode=mode, engine="local")  # type: ignore[arg-type]
    disarm_all()
    (prepared,) = filled.recovery.list()
    if since is not None:
        filled.mutate(since)
    if lands:
        filled.recovery.resume(prepared.commit_id)
        now = state(filled, tmp_path)
        assert ("Person d" not in now) if mode == "delete" else (now["Person d"]["age"] == 3)
    else:
        with pytest.raises(errors.ExpectedVersionMismatch):
            filled.recovery.resume(prepared.commit_id)
        assert len(filled.recovery.list()) == 1


# ---------------------------------------------------------------- against a model

SMALL = """
node P { k: String @key  x: I32?  d: I32 @default(5)  s: [String]? }
edge E: P -> P { w: I32? }
"""
Nodes = dict[str, dict[str, Any]]
KEYS = list("abc")
EDGES = ["e1", "e2"]


class Model:
    """Entities by id, changed by whole loads; a load that cannot be is refused whole."""

    def __init__(self) -> None:
        self.nodes: Nodes = {}
        self.edges: Nodes = {}

    def load(self, mode: str, records: list[dict[str, Any]]) -> None:
        nodes, edges = {**self.nodes}, {**self.edges}
        ids = [record["data"].get("id", record["data"].get("k")) for record in records]
        if len(set(ids)) < len(ids) and not (mode == "delete"):
            raise ValueError("twice")
        gone = {id for record, id in zip(records, ids, strict=True) if mode == "delete" or record.get("_delete")}
        moved = set()
        for record, id in zip(records, ids, strict=True):
            if id in gone:
                continue
            if "type" in record:
                old = nodes.get(id, {"id": id, "k": id, "x": None, "d": 5, "s": None}) if mode == "patch" else None
                nodes[id] = {**(old or {"id": id, "k": id, "x": None, "d": 5, "s": None}), **record["data"]}
                if nodes[id]["d"] is None:
                    raise ValueError("required")
            else:
                ends = {name: record[name] for name in ("from", "to") if name in record}
                old = edges.get(id) if mode == "patch" else None
                if old is None and len(ends) < 2:
                    raise ValueError("ends")
                edges[id] = {**(old or {"id": id, "w": None}), **record["data"], **ends}
                moved.add(id)
        for id in gone:
            nodes.pop(id, None)
            edges.pop(id, None)
        lost = gone & self.nodes.keys()
        for id, found in list(edges.items()):
            if lost & {found["from"], found["to"]} and id not in moved:
                del edges[id]
            elif not {found["from"], found["to"]} <= nodes.keys():
                raise ValueError("endpoint")
        self.nodes, self.edges = nodes, edges


def drawn_records(draw: Any, mode: str) -> Iterator[dict[str, Any]]:
    for _ in range(draw(st.integers(1, 4))):
        flag = {"_delete": True} if mode in ("merge", "patch") and draw(st.integers(0, 3)) == 0 else {}
        if draw(st.booleans()):
            id = draw(st.sampled_from(KEYS))
            values = {
                "x": st.sampled_from([None, 1, 2]),
                "d": st.sampled_from([6, 7]),
                "s": st.sampled_from([None, [], ["q"]]),
            }
            chosen = {name: draw(value) for name, value in values.items() if draw(st.booleans())}
            yield {"type": "P", "data": {"k": id, **chosen}, **flag}
        else:
            ends = {
                name: draw(st.sampled_from(KEYS)) for name in ("from", "to") if mode != "patch" or draw(st.booleans())
            }
            w = {"w": draw(st.integers(0, 2))} if draw(st.booleans()) else {}
            yield {"edge": "E", **ends, "data": {"id": draw(st.sampled_from(EDGES)), **w}, **flag}


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_sequence_of_loads_is_that_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("model")
    graph = og.init(folder / "graph", SMALL, durability="process")
    model = Model()
    model.load("append", [{"type": "P", "data": {"k": key}} for key in KEYS])
    graph.load({"P": pd.DataFrame({"k": KEYS})}, mode="append", engine="local")
    for number in range(3):
        mode: Any = data.draw(st.sampled_from(["merge", "patch", "patch", "delete"]))
        records = list(drawn_records(data.draw, mode))
        path = folder / f"{number}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        try:
            model.load(mode, records)
        except ValueError:
            with pytest.raises(errors.InputError):
                graph.load(path, mode=mode, engine="local")
        else:
            graph.load(path, mode=mode, engine="local")
        found = state(graph, folder)
        nodes = {
            name.partition(" ")[2]: {"x": None, "d": 5, "s": None} | row
            for name, row in found.items()
            if name[0] == "P"
        }
        edges = {name.partition(" ")[2]: {"w": None} | row for name, row in found.items() if name[0] == "E"}
        assert (nodes, edges) == (model.nodes, model.edges)
