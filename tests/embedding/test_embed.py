"""`embed`: vectors of texts that are stored, kept as far as they were made, of rows as they are now."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from embedding import misbehaving_server as says

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.errors import EmbeddingRefused, UsageError
from omnigraph.maintenance import embed as job

SCHEMA = """
node Doc { slug: String @key  text: String?  title: String?  vec: Vector(3)? @embed("text")  short: Vector(2)? @embed("title") }
node Plain { slug: String @key }
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[says.Misbehaving]:
    def answer(handler: says.Handler, body: dict[str, Any]) -> None:
        rows = [
            {"index": i, "embedding": [1.0] * (body["dimensions"] - 1) + [len(text)]}
            for i, text in enumerate(body["input"])
        ]
        handler.send(200, json.dumps({"data": rows}).encode())

    with says.misbehaving(answer) as server:
        monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "openai")
        monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", server.url)
        yield server


@pytest.fixture
def g(server: says.Misbehaving, tmp_path: Path) -> og.Graph:
    """Five rows without vectors, of which three have a text and one has a title; and one that was given a vector."""
    g = og.init(tmp_path / "graph", SCHEMA, durability="process")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_EMBED_PROVIDER", "none")
        with g.transaction() as tx:
            rows = [("a", "one"), ("b", "three"), ("c", None), ("d", "  "), ("e", "eleven")]
            tx.insert_many("Doc", [{"slug": slug, "text": text} for slug, text in rows])
            tx.update("Doc", "e", title="e")
            tx.insert("Doc", slug="f", text="own", vec=[9.0, 0.0, 0.0])
    return g


def vectors(g: og.Graph, name: str = "vec") -> dict[str, Any]:
    rows = g.query(f"query q() {{ match {{ $d: Doc }} return {{ $d.slug as s, $d.{name} as v }} order {{ s }} }}").rows
    return {row["s"]: row["v"] for row in rows}


def lengths(g: og.Graph) -> dict[str, int]:
    """Of the text that each vector was made of."""
    return {slug: round(v[2] / v[0]) for slug, v in vectors(g).items() if v is not None and v[0]}


def test_missing_vectors_are_made_as_one_commit(g: og.Graph, server: says.Misbehaving) -> None:
    planned = g.embed(dry_run=True)
    assert (planned.rows, planned.commits, server.asked) == (4, (), [])
    report = g.embed(actor="ada", message="vectors")
    assert [(each.property, each.rows) for each in report.properties] == [("vec", 3), ("short", 1)]
    (commit,) = report.commits
    assert (commit.actor, commit.message, g.head().id) == ("ada", "vectors", commit.id)
    assert lengths(g) == {"a": 3, "b": 5, "e": 6, "f": 0}
    assert [slug for slug, v in vectors(g, "short").items() if v is not None] == ["e"]
    assert sorted(text for asked in server.asked for text in asked.body["input"]) == ["e", "eleven", "one", "three"]
    assert (g.embed().rows, g.head().id) == (0, commit.id)


def test_all_makes_those_anew_that_were_given(g: og.Graph) -> None:
    assert g.embed(which="all", types=["Doc"]).rows == 5
    assert lengths(g) == {"a": 3, "b": 5, "e": 6, "f": 3}


def test_what_was_made_before_a_provider_failed_is_kept_and_the_next_run_goes_on(
    g: og.Graph, server: says.Misbehaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "ROWS_AT_ONCE", 2)
    right = server.answers[0]
    server.answers[:] = [right, says.status(401)]
    with pytest.raises(EmbeddingRefused, match="status 401"):
        g.embed()
    assert lengths(g) == {"a": 3, "b": 5, "f": 0}
    server.answers[:] = [right]
    server.asked.clear()
    assert g.embed().rows == 2
    assert sorted(text for asked in server.asked for text in asked.body["input"]) == ["e", "eleven"]
    assert lengths(g) == {"a": 3, "b": 5, "e": 6, "f": 0}


def test_many_vectors_are_many_commits(g: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "MAX_VECTOR_BYTES", 2 * 4 * 5)
    assert len(g.embed().commits) == 2
    assert lengths(g) == {"a": 3, "b": 5, "e": 6, "f": 0}


def test_rows_that_others_change_meanwhile_are_embedded_as_they_are_then(g: og.Graph, server: says.Misbehaving) -> None:
    right = server.answers[0]

    def late(handler: says.Handler, body: dict[str, Any]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OMNIGRAPH_EMBED_PROVIDER", "none")
            g.mutate(
                'query q() { update Doc set { text: "seventeen letters" } where slug = "a"  delete Doc where slug = "b" }'
            )
        right(handler, body)

    server.answers[:] = [late, right]
    report = g.embed()
    assert lengths(g) == {"a": 17, "e": 6, "f": 0}
    assert len(report.commits) == 1
    assert "eleven" not in [text for asked in server.asked[1:] for text in asked.body["input"]]


def test_types_without_vectors_of_texts_are_refused(g: og.Graph) -> None:
    for name in ("Plain", "Ghost"):
        with pytest.raises(UsageError, match=f"'{name}' has no property with @embed") as error:
            g.embed(types=[name])
        assert error.value.hint == "types that have one: Doc"
    with pytest.raises(UsageError, match="'some' is not a choice of rows"):
        g.embed(which="some")  # type: ignore[arg-type]


def test_the_command_does_the_same(g: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        assert run(["embed", g.uri, *arguments]) == 0
        return capsys.readouterr().out

    planned = json.loads(said("--dry-run", "--json"))
    assert (planned["rows"], planned["commits"]) == (4, [])
    assert "4 texts embedded" in said("--type", "Doc")
    assert said() == "nothing to do\n"
    model = "openai/text-embedding-3-large"
    first = {"type": "Doc", "property": "vec", "model": model, "rows": 4}
    assert json.loads(said("--all", "--json"))["properties"][0] == first
