"""Search through indexes: text gives what a scan gives, vectors what an exact search gives, wherever the rows are."""

from __future__ import annotations

import random
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings, strategies as st
from read.graphs import build_indexes, commit, new_graph, query

from omnigraph.errors import QueryError
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.read.explaining import explain
from omnigraph.read.inputs import sources
from omnigraph.read.search import candidates, text, text as vectors
from omnigraph.read.search.candidates import Candidates
from omnigraph.snapshot import View

SCHEMA = """
node Doc {
  slug: String @key
  body: String? @index
  year: I32? @index
  vec: Vector(8)? @index
  far: Vector(8)? @index @metric("l2")
  dot: Vector(8)? @index @metric("dot")
}
node Tag { name: String @key }
edge Has: Doc -> Tag
"""
WORDS = (
    "graph", "Graph", "graph_db", "db", "GRAPHS", "Straße", "STRASSE", "ΟΔΟΣ", "οδος", "naïve", "nai\u0308ve",
    "हिन्दी", "İstanbul", "istanbul", "ﬁsh", "fish", "x²", "Ⓐb", "a-b", "don't", "the", "running", "run",
    "w" * 60, "日本語", "①", "😀",
)  # fmt: skip


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """How each input was found, None for a scan."""
    ways: list[str | None] = []

    def noted(*given: Any, **options: Any) -> Candidates | None:
        found = candidates.find_candidates(*given, **options)
        ways.append(None if found is None else found.how)
        return found

    monkeypatch.setattr(sources, "find_candidates", noted)
    return ways


def doc(number: int, chance: random.Random) -> dict[str, Any]:
    body = None if number % 11 == 0 else " ".join(chance.choices(WORDS, k=chance.randint(0, 6)))
    near = [chance.gauss(0, 1) for _ in range(8)]
    vector = None if number % 7 == 0 else near
    data = {"slug": f"d{number:04}", "body": body, "year": 2000 + number % 10, "vec": vector, "far": near, "dot": near}
    return {"type": "Doc", "data": data}


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Indexes that cover most of the rows: some rows came later, some covered ones are gone."""
    chance = random.Random(7)
    repository = new_graph(str(tmp_path_factory.mktemp("search") / "graph"), SCHEMA)
    build_indexes(commit(repository, [doc(number, chance) for number in range(400)]))
    commit(repository, [doc(number, chance) for number in range(400, 500)], remove={"node:Doc": ["d0001", "d0017"]})
    tags = [{"type": "Tag", "data": {"name": name}} for name in ("even", "odd")]
    edges = [
        {"edge": "Has", "from": f"d{number:04}", "to": "odd" if number % 2 else "even", "id": f"h{number:04}"}
        for number in range(400, 500)
    ]
    return commit(repository, [*tags, *edges])


QUERIES = (
    'match { $d: Doc search($d.body, "{q}") } return { $d.slug as s }',
    'match { $d: Doc match_text($d.body, "{q}") $d.year > 2004 } return { $d.slug as s }',
    'match { $d: Doc all_words($d.body, "{q}") } return { $d.slug as s }',
    'match { $d: Doc phrase($d.body, "{q}") } return { $d.slug as s }',
    'match { $d: Doc search($d.body, "{q}") search($d.body, "graph") } return { $d.slug as s }',
    'match { $d: Doc } return { $d.slug as s, bm25($d.body, "{q}") as score } order { bm25($d.body, "{q}") }',
    'match { $d: Doc $d.year = 2003 } return { $d.slug as s, bm25($d.body, "{q}") as n }'
    ' order { bm25($d.body, "{q}") } limit 7',
    'match { $d: Doc search($d.body, "{q}") $d has $t } return { $d.slug as s, $t.name as t }',
    'match { $d: Doc search($d.body, "{q}") } return { $d.slug as s } order { nearest($d.vec, {v}) } limit 5',
    'match { $d: Doc } return { $d.slug as s } order { rrf(nearest($d.vec, {v}), bm25($d.body, "{q}")) } limit 9',
)
VECTOR = "[1.0, 0.5, 0.0, -1.0, 0.25, 0.0, 2.0, -0.5]"


@pytest.mark.parametrize("form", QUERIES)
def test_every_word_is_found_through_the_index_as_by_a_scan(view: View, form: str, seen: list[str | None]) -> None:
    for words in (*WORDS, "graph db", "the fish", "Graph run", "nothing", "don t"):
        asked = "query q() { " + form.replace("{q}", words).replace("{v}", VECTOR) + " }"
        expected = query(view, asked, mode="scan").rows
        seen.clear()
        assert query(view, asked, mode="index").rows == expected, words
        if text.terms(words, "english") and words != "İstanbul":
            assert any(one is not None and "text index" in one for one in seen), words


@pytest.mark.parametrize(("property", "metric"), [("vec", "cosine"), ("far", "l2"), ("dot", "dot")])
@pytest.mark.parametrize("condition", ["", " $d.year in [2001, 2002]", ' $d.slug = "d0003"', " $d.year = 1900"])
def test_the_nearest_rows_are_found_through_the_index(
    view: View, property: str, metric: str, condition: str, seen: list[str | None]
) -> None:
    asked = (
        f"query q() {{ match {{ $d: Doc{condition} }} return {{ $d.slug as s, nearest($d.{property}, {VECTOR}) as d }}"
        f" order {{ nearest($d.{property}, {VECTOR}) }} limit 10 offset 2 }}"
    )
    expected = query(view, asked, mode="scan").rows
    seen.clear()
    assert query(view, asked, mode="index").rows == expected
    if "slug" not in condition:
        assert seen == [f"vector index of {property}"]


def test_metrics_are_what_their_names_say() -> None:
    cells = pa.array([[3.0, 4.0], [0.0, 0.0], None], pa.list_(pa.float32(), 2))
    assert vectors.distances(cells, [3.0, 0.0], "cosine").to_pylist() == [pytest.approx(0.4), None, None]
    assert vectors.distances(cells, [3.0, 0.0], "l2").to_pylist() == [4.0, 3.0, None]
    assert vectors.distances(cells, [3.0, 0.0], "dot").to_pylist() == [-9.0, 0.0, None]
    huge = pa.array([[3e38, 3e38]], pa.list_(pa.float32(), 2))
    assert vectors.distances(huge, [3e38, 3e38], "dot").to_pylist() == [None]


def test_types_that_measure_differently_are_not_ranked_together() -> None:
    catalog = compile_schema(
        "interface Placed { at: Vector(2)? }\n"
        'node A implements Placed { name: String @key at: Vector(2)? @metric("l2") }\n'
        "node B implements Placed { name: String @key }"
    )
    asked = "query q() { match { $p: Placed } return { $p.id } order { nearest($p.at, [1.0, 0.0]) } limit 1 }"
    with pytest.raises(QueryError, match=r"differ in @metric: B has cosine, A has l2"):
        compile_query(asked, catalog)


def test_explain_says_which_index_was_read(view: View) -> None:
    asked = 'query q() { match { $d: Doc search($d.body, "fish") $d has $t } return { $d.slug as s } }'
    plan = compile_query(asked, view.catalog)
    assert isinstance(plan, ReadPlan)
    told = explain(view, plan, {}, mode="index").choices[0]
    assert (told.what, told.path, told.estimate) == ("$d", "search", "text index of body")


# ---------------------------------------------------------------- when the index is not used


def rows_of(view: View, asked: str, **limits: int) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(candidates, name, value)
        return query(view, asked).rows


def test_small_tables_and_frequent_words_are_scanned(view: View, seen: list[str | None]) -> None:
    asked = 'query q() { match { $d: Doc search($d.body, "graph") } return { $d.slug as s } }'
    expected = query(view, asked, mode="scan").rows
    seen.clear()
    assert rows_of(view, asked) == expected
    assert rows_of(view, asked, MIN_TEXT_ROWS=0) == expected
    assert rows_of(view, asked, MIN_TEXT_ROWS=0, TEXT_SHARE=1) == expected
    assert seen == [None, None, "text index of body"]


def test_few_vectors_are_compared_one_by_one(view: View, seen: list[str | None]) -> None:
    asked = (
        f"query q() {{ match {{ $d: Doc }} return {{ $d.slug as s }} order {{ nearest($d.vec, {VECTOR}) }} limit 3 }}"
    )
    expected = query(view, asked, mode="scan").rows
    seen.clear()
    assert rows_of(view, asked) == rows_of(view, asked, EXACT_BYTES=0) == expected
    assert seen == [None, "vector index of vec"]


def test_a_join_or_a_condition_the_search_cannot_apply_ranks_every_row(view: View, seen: list[str | None]) -> None:
    order = f"order {{ nearest($d.vec, {VECTOR}) }} limit 3"
    for pattern in ("$d: Doc $d has $t", '$d: Doc $d.slug starts_with "d00"', "$d: Doc not { $d has $t }"):
        asked = f"query q() {{ match {{ {pattern} }} return {{ $d.slug as s }} {order} }}"
        expected = query(view, asked, mode="scan").rows
        seen.clear()
        assert rows_of(view, asked, EXACT_BYTES=0) == expected
        assert not any(seen), pattern


def test_rows_at_the_same_distance_are_cut_by_id(tmp_path: Path, seen: list[str | None]) -> None:
    repository = new_graph(str(tmp_path / "graph"), "node Doc { slug: String @key vec: Vector(2)? @index }")
    same = [{"type": "Doc", "data": {"slug": f"d{number:03}", "vec": [1.0, 1.0]}} for number in range(100)]
    chance = random.Random(3)
    chance.shuffle(same)
    view = build_indexes(commit(repository, same))
    asked = "query q() { match { $d: Doc } return { $d.slug as s } order { nearest($d.vec, [0.0, 1.0]) } limit 4 }"
    assert [row["s"] for row in query(view, asked, mode="index").rows] == ["d000", "d001", "d002", "d003"]
    assert seen == [None]


def test_an_index_that_covers_little_is_not_used(tmp_path: Path, seen: list[str | None]) -> None:
    chance = random.Random(5)
    repository = new_graph(str(tmp_path / "graph"), SCHEMA)
    build_indexes(commit(repository, [doc(number, chance) for number in range(10)]))
    view = commit(repository, [doc(number, chance) for number in range(10, 60)])
    asked = 'query q() { match { $d: Doc search($d.body, "graph") } return { $d.slug as s } }'
    assert query(view, asked, mode="index").rows == query(view, asked, mode="scan").rows
    assert not any(seen)


def test_large_tables_find_nearly_all_of_the_nearest(tmp_path: Path, seen: list[str | None]) -> None:
    numbers = np.random.default_rng(11)
    centres = numbers.normal(size=(200, 16))
    made = (centres[numbers.integers(0, 200, 40_000)] + numbers.normal(size=(40_000, 16)) * 0.4).astype(np.float32)
    repository = new_graph(str(tmp_path / "graph"), "node Doc { slug: String @key vec: Vector(16)? @index }")
    records = [{"type": "Doc", "data": {"slug": f"d{n:05}", "vec": row.tolist()}} for n, row in enumerate(made)]
    view = build_indexes(commit(repository, records))
    asked = (
        "query q($v: Vector(16)) { match { $d: Doc } return { $d.slug as s } order { nearest($d.vec, $v) } limit 10 }"
    )
    same = 0
    for place in range(20):
        wanted = {"v": (centres[place] + numbers.normal(size=16) * 0.4).tolist()}
        exact = {row["s"] for row in query(view, asked, wanted, mode="scan").rows}
        same += len(exact & {row["s"] for row in query(view, asked, wanted, mode="index").rows})
    assert "vector index of vec" in seen
    assert same >= 190


# ---------------------------------------------------------------- words


def test_both_definitions_of_a_word_agree_on_every_character() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
    counted = pc.count_substring_regex(pa.array(characters), text._COUNTED_WORD).to_pylist()
    pattern = text._word()
    for character, count in zip(characters, counted, strict=True):
        known = unicodedata.category(character) != "Cn"
        assert not known or (pattern.fullmatch(character) is not None) == bool(count), hex(ord(character))


@given(st.text(st.characters(codec="utf-8", max_codepoint=0x24FF), max_size=30))
@settings(max_examples=200)
def test_words_split_alike_whether_or_not_a_text_is_plain(written: str) -> None:
    found = text.words(written + "é")
    assert text.words(written) == found[:-1] or found[-1] != "é"
    assert all(word == word.lower() or "İ" in written for word in found)
    assert text.totals(pa.array([written, None])) == text.TextTotals(1, len(text.words(written)))
    if written.isascii():
        assert text.words(written) == re.findall(r"\w+", written.lower())


def test_edits_are_counted_as_by_the_book_and_long_words_cost_their_length() -> None:
    from itertools import product

    from read.oracle import edits

    words = ["".join(letters) for size in range(5) for letters in product("ab", repeat=size)]
    for first, second, most in product(words, words, range(3)):
        assert text.within_edits(first, second, most) == (edits(first, second) <= most), (first, second, most)
    long = "ab" * 50_000
    assert text.within_edits(long, long[:-1] + "c", 1)
    assert not text.within_edits(long, "c" * len(long), 2)
