"""Lint: the report as JSON and as text, and each piece of advice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph.api.reads import LintJson, OperationJson, QueryJson
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.lint import LINT_CODES, lint_queries
from omnigraph.language.query.mutations import compile_queries, compile_query
from omnigraph.language.query.plan import MutationPlan, QueryPlan, ReadPlan
from omnigraph.language.schema.compiler import compile_schema

ADVICE = [
    ("L201", 'query q($x: String) { update Doc set { text: $x } where slug = "a" }'),
    ("L202", 'query q() { delete Doc where slug = "a" }'),
    ("L203", "query q($x: I32) { match { $p: Person } return { $p } }"),
    ("L204", "query q() { match { $p: Person $p knows $q } return { $p } }"),
    ("L205", "query q() { match { $p: Person $c: City } return { $p, $c } }"),
    ("L206", "query q() { match { $p: Person } return { $p } limit 3 }"),
    ("L207", "query q() { match { $p: Person $p.age = null } return { $p } }"),
    ("L208", 'query q() { match { $d: Doc search($d.text, "x") } return { $d } }'),
    ("L209", "query q() { match { $p: Person $p knows $q } return { $p.email, count($q) as n } }"),
    ("L210", "query q() { match { $p: Person $p.age > 5 $p.age < 3 } return { $p } }"),
]

NEVER = [
    "$p.age >= 5 and $p.age < 5",
    '$p.tier = "pro" $p.tier = "vip"',
    '$p.tier in ["pro"] $p.tier != "pro"',
    "$p.age in [1, 2] 3 <= $p.age",
    "$p.age is null $p.age > 3",
    "$p.email is null",
    "$p.age != $p.age",
    "1 = 2",
    "false",
    "not { $p knows $q  $q.age < 3  $q.age > 3 }",
    "optional { $p knows $q  $q.age < 3  $q.age > 3 } $q is null",
]

CLEAN = [
    "query q() { match { $p: Person $p $e:knows $q } return { $p.email, count($e) as n, max($q.age) as oldest } }",
    "query q() { match { $p: Person $p knows $q } return { $p.email, max($q.age) as oldest } }",
    "query q($x: String) { match { $p: Person { email: $x } $p knows $_ } return { $p } order { $p.age } limit 3 }",
    "query q() { match { $p: Person $c: City $p.label = $c.label } return { $p, $c } }",
    "query q() { match { $p: Person $c: City not { $p livesIn $c } } return { $p, $c } }",
    'query q() { match { $p: Person search($p.bio, "x") } return { $p } }',
    "query q() { match { $p: Person $p.age > 3 $p.age <= 4 $p.age != 4 $p.age is not null } return { $p } }",
    'query q() { match { $p: Person $p.tier in ["pro", "vip"] $p.tier != "pro" } return { $p } }',
    "query q() { match { $p: Person ($p.age > 5 or $p.age < 3) 1 = 1 } return { $p } }",
    "query q() { match { $p: Person optional { $p livesIn $c } } return { $p.email, $c.name } }",
    "query q() { match { $p: Person unnest $p.tags as $t } return { $t, count($p) as n } }",
    "query q() { match { $p: Person } return { $p.email as n } union match { $c: City } return { $c.name as n } }",
    "query q() { match { $p: Person $p $e:knows $q $n: Note $e.since = $n.due } return { $p, $q, $n } }",
]


@pytest.mark.parametrize(("code", "text"), ADVICE)
def test_advice(code: str, text: str, library: Catalog) -> None:
    report = lint_queries(text, library)
    assert {finding.code for finding in report.findings} == {code}
    assert report.status == "ok"


@pytest.mark.parametrize("conditions", NEVER)
def test_conditions_that_never_hold(conditions: str, library: Catalog) -> None:
    report = lint_queries(f"query q() {{ match {{ $p: Person {conditions} }} return {{ $p }} }}", library)
    assert [finding.code for finding in report.findings if finding.code != "L204"] == ["L210"]


def test_each_part_of_a_union_is_looked_at(library: Catalog) -> None:
    text = "query q() { match { $p: Person } return { $p.email as n } union match { $c: City $d: Doc } return { $c.name as n } }"
    assert [finding.code for finding in lint_queries(text, library).findings] == ["L204", "L205"]


def test_counting_in_a_block_is_noticed_too(library: Catalog) -> None:
    counted = "query q() { match { $p: Person count { $p knows $_ } > 1 } return { $p } }"
    assert [finding.code for finding in lint_queries(counted, library).findings] == ["L209"]


def test_edges_that_are_unique_between_two_nodes_can_be_counted_by_their_ends() -> None:
    catalog = compile_schema("node A { x: String @key }\nedge To: A -> A { @unique(src, dst) }")
    counted = "query q() { match { $a: A $a to $b } return { $a.x, count($b) as n } }"
    assert lint_queries(counted, catalog).findings == ()


def test_edges_of_two_types_may_join_the_same_nodes() -> None:
    catalog = compile_schema(
        "node A { x: String @key }\nedge To: A -> A { @unique(src, dst) }\nedge By: A -> A { @unique(src, dst) }"
    )
    counted = "query q() { match { $a: A $a to|by $b } return { $a.x, count($b) as n } }"
    (finding,) = lint_queries(counted, catalog).findings
    assert (
        finding.message
        == "several To or By edges between two nodes count once; bind the edge ($e:to|by) to count edges"
    )


def test_what_an_insert_matches_should_be_connected(library: Catalog) -> None:
    pairs = "query q($n: String) { insert Note { label: $n } match { $p: Person $c: City } }"
    assert [finding.code for finding in lint_queries(pairs, library).findings] == ["L205"]


def test_every_code_has_a_case() -> None:
    assert [code for code, _ in ADVICE] == list(LINT_CODES)


@pytest.mark.parametrize("text", CLEAN)
def test_nothing_to_say(text: str, library: Catalog) -> None:
    assert lint_queries(text, library).findings == ()


def test_the_whole_report(fixtures: Path, library: Catalog) -> None:
    text = (fixtures / "lint.gq").read_text()
    report = lint_queries(text, library, file="lint.gq")
    shown = LintJson.to_json(report, schema_source={"kind": "file", "path": "library.pg"})
    assert json.loads(json.dumps(shown)) == json.loads((fixtures / "lint.json").read_text())
    assert f"{report}\n" == (fixtures / "lint.txt").read_text()


def test_a_parse_error_is_the_only_finding(library: Catalog) -> None:
    report = lint_queries("query q( {", library, file="q.gq")
    assert (report.status, report.queries) == ("error", ())
    assert [finding.code for finding in report.findings] == ["Q000"]
    assert str(report).startswith("error[Q000]")


def test_a_broken_query_does_not_hide_the_next(library: Catalog) -> None:
    good = "query q() { match { $p: Person } return { $p } }"
    report = lint_queries(good.replace("Person", "Nobody") + good + good.replace("q()", "r()"), library)
    assert [(query.name, query.error is None) for query in report.queries] == [
        ("q", False),
        ("q", False),
        ("r", True),
    ]
    assert [finding.code for finding in report.findings] == ["T1", "T27"]


def operation(plan: QueryPlan) -> dict[str, Any]:
    columns = plan.columns if isinstance(plan, ReadPlan) else ()
    writes = plan.writes if isinstance(plan, MutationPlan) else ()
    return OperationJson.to_json({"columns": columns, "reads": plan.reads, "writes": writes})


def test_descriptors_of_the_small_programs(fixtures: Path, people: Catalog) -> None:
    plans = compile_queries((fixtures / "programs.gq").read_text(), people)
    described = {name: {**QueryJson.to_json(plan), **operation(plan)} for name, plan in plans.items()}
    assert described == json.loads((fixtures / "programs.json").read_text())


def test_a_catalog_entry_carries_its_texts(library: Catalog) -> None:
    text = (
        'query q($v: Vector(3), $l: [Date]?) @description("d") @instruction("i") { match { $p: Person } return { $p } }'
    )
    assert QueryJson.to_json(compile_query(text, library)) == {
        "name": "q",
        "tool_name": "q",
        "description": "d",
        "instruction": "i",
        "mutation": False,
        "params": [
            {"name": "v", "kind": "vector", "vector_dim": 3, "nullable": False},
            {"name": "l", "kind": "list", "item_kind": "date", "nullable": True},
        ],
    }
