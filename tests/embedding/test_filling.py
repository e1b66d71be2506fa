"""Vectors of rows: made of their texts at every write that brings a text without one, asked for once, never by a merge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from embedding import misbehaving_server as says

import omnigraph as og
from omnigraph._internal.deadlines import NEVER
from omnigraph.embedding.providers import Mock
from omnigraph.errors import EmbeddingRefused, QueryError, UsageError, ValueViolation

SCHEMA = """
node Note { slug: String @key  text: String?  other: String?  vec: Vector(3) @embed("text") }
node Doc { slug: String @key  text: String?  other: String?  vec: Vector(3)? @embed("text") @index }
"""
GIVEN = [0.0, 0.0, 1.0]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[says.Misbehaving]:
    """Makes the vectors that `mock` makes, and counts how often it is asked."""

    def answer(handler: says.Handler, body: dict[str, Any]) -> None:
        rows = [{"index": place, "embedding": embedded(text)} for place, text in enumerate(body["input"])]
        handler.send(200, json.dumps({"data": rows}).encode())

    with says.misbehaving(answer) as server:
        monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "openai")
        monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", server.url)
        yield server


@pytest.fixture
def g(server: says.Misbehaving, tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA, durability="process")


def embedded(text: str) -> list[float]:
    vector = Mock().embed([text], 3, "document", NEVER)[0]
    return list((vector / np.linalg.norm(vector)).tolist())


def vector_of(g: og.Graph, id: str, type: str = "Doc", revision: str = "main") -> Any:
    entity = g.entity(type, id, revision=revision)
    assert entity is not None
    return entity["vec"]


def is_made_of(vector: Any, text: str) -> bool:
    return vector is not None and np.allclose(vector, embedded(text), atol=1e-6)


def run(g: og.Graph, statements: str, **parameters: object) -> None:
    declared = ", ".join(f"${name}: String" for name in parameters)
    g.mutate(f"query q({declared}) {{ {statements} }}", parameters)


def test_a_row_whose_required_vector_is_embedded_is_inserted(g: og.Graph) -> None:
    run(g, 'insert Note { slug: "a", text: $t }', t="red fox")
    assert is_made_of(vector_of(g, "a", "Note"), "red fox")


def test_a_required_vector_needs_a_text(g: og.Graph, server: says.Misbehaving) -> None:
    for text in ("null", '"  "'):
        with pytest.raises(ValueViolation, match=r"required property Note\.vec is missing") as error:
            run(g, f'insert Note {{ slug: "a", text: {text} }}')
        assert "Note.text" in str(error.value.hint)
    with pytest.raises(QueryError, match="needs 'vec'"):
        run(g, 'insert Note { slug: "a" }')
    assert server.asked == []


def test_a_vector_that_is_given_is_stored_and_nothing_is_asked(g: og.Graph, server: says.Misbehaving) -> None:
    run(g, 'insert Doc { slug: "a", text: "red fox", vec: [0, 0, 1] }')
    run(g, 'insert Doc { slug: "b" }')
    assert (vector_of(g, "a"), vector_of(g, "b"), server.asked) == (GIVEN, None, [])


@pytest.mark.parametrize(
    ("assigned", "made_of", "asks"),
    [
        ('text: "blue bird"', "blue bird", 1),
        ('text: "red fox"', "red fox", 0),
        ('text: "blue bird", vec: [0, 0, 1]', GIVEN, 0),
        ("vec: [0, 0, 1]", GIVEN, 0),
        ("vec: null", None, 0),
        ("text: null", None, 0),
        ('text: " "', None, 0),
        ('other: "x"', "red fox", 0),
    ],
)
def test_an_update_makes_the_vector_anew_when_the_text_is_another(
    g: og.Graph, server: says.Misbehaving, assigned: str, made_of: Any, asks: int
) -> None:
    run(g, 'insert Doc { slug: "a", text: "red fox" }')
    server.asked.clear()
    run(g, f'update Doc set {{ {assigned} }} where slug = "a"')
    vector = vector_of(g, "a")
    assert is_made_of(vector, made_of) if isinstance(made_of, str) else vector == made_of
    assert len(server.asked) == asks


def test_an_update_of_something_else_needs_no_provider(g: og.Graph, server: says.Misbehaving) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_EMBED_PROVIDER", "none")
        run(g, 'insert Doc { slug: "a", text: "red fox" }')
    assert vector_of(g, "a") is None
    server.answers[:] = [says.status(400)]
    run(g, 'update Doc set { other: "x" } where slug = "a"')
    with pytest.raises(EmbeddingRefused, match=r"Doc\.vec: openai refused to embed: status 400"):
        run(g, 'update Doc set { text: "blue bird" } where slug = "a"')
    assert vector_of(g, "a") is None


def test_the_rows_of_a_transaction_are_embedded_together_and_seen_by_its_queries(
    g: og.Graph, server: says.Misbehaving
) -> None:
    with g.transaction() as tx:
        tx.insert_many("Doc", [{"slug": f"d{i}", "text": f"text {i}"} for i in range(300)])
        tx.upsert("Doc", slug="d0", text="red fox")
        tx.update("Doc", "d1", text="blue bird")
        tx.delete("Doc", "d2")
        near = 'query q() { match { $d: Doc } return { $d.slug as s } order { nearest($d.vec, "red fox") } limit 1 }'
        assert tx.query(near).rows == [{"s": "d0"}]
    assert [len(asked.body["input"]) for asked in server.asked] == [299, 1]
    assert is_made_of(vector_of(g, "d1"), "blue bird")
    assert is_made_of(vector_of(g, "d299"), "text 299")


RECORDS = [
    {"slug": "a", "text": "red fox", "vec": None},
    {"slug": "b", "text": "blue bird", "vec": GIVEN},
    {"slug": "c", "text": None},
    {"slug": "d", "text": " "},
]


@pytest.mark.parametrize("form", ["jsonl", "arrow", "csv"])
def test_a_load_embeds_what_has_no_vector(g: og.Graph, server: says.Misbehaving, tmp_path: Path, form: str) -> None:
    if form == "jsonl":
        file = tmp_path / "docs.jsonl"
        file.write_text("\n".join(json.dumps({"type": "Doc", "data": record}) for record in RECORDS))
        g.load(file, mode="append", engine="local")
    elif form == "csv":
        file = tmp_path / "Doc.csv"
        rows = [f'{r["slug"]},{r["text"] or ""},"{json.dumps(r["vec"]) if r.get("vec") else ""}"' for r in RECORDS]
        file.write_text("\n".join(["slug,text,vec", *rows]).replace('""', ""))
        g.load(file, mode="append", type="Doc", engine="local")
    else:
        g.load({"Doc": pa.Table.from_pylist(RECORDS)}, mode="append", engine="local")
    assert is_made_of(vector_of(g, "a"), "red fox")
    assert [vector_of(g, id) for id in "bcd"] == [GIVEN, None, None]
    assert [asked.body["input"] for asked in server.asked] == [["red fox"]]
    g.load({"Note": pa.Table.from_pylist([{"slug": "n", "text": "red fox"}])}, mode="merge", engine="local")
    assert is_made_of(vector_of(g, "n", "Note"), "red fox")


def test_a_load_whose_texts_cannot_be_embedded_commits_nothing(g: og.Graph, server: says.Misbehaving) -> None:
    server.answers[:] = [says.vectors(5)]
    before = g.head().id
    with pytest.raises(EmbeddingRefused, match=r"Doc\.vec: openai.* makes vectors of 5 numbers") as error:
        g.load({"Doc": pa.Table.from_pylist(RECORDS)}, mode="append", engine="local")
    assert "Vector(5)" in str(error.value.hint)
    assert g.head().id == before


def test_merging_and_overtaken_writes_ask_no_provider(g: og.Graph, server: says.Misbehaving) -> None:
    run(g, 'insert Doc { slug: "a", text: "red fox" } insert Doc { slug: "b", text: "blue bird" }')
    g.branches.create("side")
    g.mutate('query q() { update Doc set { text: "grey goose" } where slug = "a" }', branch="side")
    late = g.transaction()
    late.insert("Doc", slug="c", text="old owl")
    run(g, 'update Doc set { other: "x" } where slug = "b"')
    asked = len(server.asked)
    g.branches.merge("side")
    assert len(server.asked) == asked
    server.answers[:] = [server.answers[0], says.status(400)]
    late.commit()
    assert len(server.asked) == asked + 1  # for the text of its own row, though it was checked and staged twice
    assert is_made_of(vector_of(g, "a"), "grey goose")
    assert is_made_of(vector_of(g, "c"), "old owl")


def test_a_text_is_embedded_once_for_a_query(g: og.Graph, server: says.Misbehaving) -> None:
    run(g, 'insert Doc { slug: "a", text: "red fox" } insert Doc { slug: "b", text: "blue bird" }')
    server.asked.clear()
    returned = "return { $d.slug as s, nearest($d.vec, $t) as far } order { nearest($d.vec, $t) } limit 1"
    asked = f"query q($t: String) {{ match {{ $d: Doc }} {returned} }}"
    assert [row["s"] for row in g.query(asked, {"t": "red bird of fire"}).rows] == ["a"]
    assert [each.body["input"] for each in server.asked] == [["red bird of fire"]]
    shown = str(g.explain(asked, {"t": "red bird of fire"}))
    assert shown.count("(with openai/text-embedding-3-large)") == 1


@pytest.mark.parametrize(("text", "said"), [(None, "null"), ("  ", "a text without words")])
def test_nothing_is_near_to_no_text(g: og.Graph, text: str | None, said: str) -> None:
    asked = "query q($t: String?) { match { $d: Doc } return { $d.slug as s } order { nearest($d.vec, $t) } limit 1 }"
    with pytest.raises(UsageError, match=f"nearest was given {said}"):
        g.query(asked, {"t": text})


def test_a_text_for_a_vector_that_is_not_made_of_texts_is_refused(tmp_path: Path) -> None:
    schema = """
    interface Named { vec: Vector(3)? }
    node A implements Named { text: String?  vec: Vector(3)? @embed("text", model="mock/a") }
    node B implements Named { text: String?  vec: Vector(3)? @embed("text", model="mock/b") }
    node C { vec: Vector(3)? }
    """
    g = og.init(tmp_path / "graph", schema)
    asked = 'query q() {{ match {{ $x: {} }} return {{ $x }} order {{ nearest($x.vec, "fox") }} limit 1 }}'
    with pytest.raises(QueryError, match=r"C\.vec is not computed from a text") as error:
        g.query(asked.format("C"))
    assert error.value.rule == "T15"
    assert "@embed" in str(error.value.hint)
    with pytest.raises(QueryError, match=r"differ in the model of @embed: A has mock/a, B has mock/b"):
        g.query(asked.format("Named"))
    assert g.query(asked.format("A")).rows == []


def test_the_schema_and_the_environment_must_name_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = og.init(tmp_path / "graph", 'node D { text: String  vec: Vector(64)? @embed("text", model="openai/m") }')
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "wordllama")
    with pytest.raises(EmbeddingRefused, match=r"D\.vec: the schema embeds with openai/m, and .* is wordllama"):
        run(g, 'insert D { text: "fox" }')
    with pytest.raises(EmbeddingRefused, match=r"D\.vec: the schema embeds with openai/m"):
        g.query('query q() { match { $d: D } return { $d } order { nearest($d.vec, "fox") } limit 1 }')


def test_without_a_provider_a_vector_that_may_be_missing_is_and_one_that_may_not_is_refused(tmp_path: Path) -> None:
    g = og.init(tmp_path / "graph", SCHEMA)
    run(g, 'insert Doc { slug: "a", text: "red fox" }')
    assert vector_of(g, "a") is None
    with pytest.raises(
        EmbeddingRefused, match=r"Note\.vec: wordllama makes vectors of 64, 128 or 256 numbers"
    ) as error:
        run(g, 'insert Note { slug: "a", text: "red fox" }')
    assert "OMNIGRAPH_EMBED_PROVIDER" in str(error.value.hint)


def test_without_anything_set_up_wordllama_embeds_offline(tmp_path: Path) -> None:
    g = og.init(tmp_path / "graph", 'node D { text: String @key  vec: Vector(128) @embed("text") @index }')
    run(g, 'insert D { text: "a graph database with branches" } insert D { text: "cats sat on the mat" }')
    asked = "query q($t: String) { match { $d: D } return { $d.text as t } order { nearest($d.vec, $t) } limit 1 }"
    assert g.query(asked, {"t": "versioned data store like git"}).rows == [{"t": "a graph database with branches"}]
