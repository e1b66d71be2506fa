"""Every question of docs/reference/queries-by-example.md has the answer that the page shows: in process, on Spark, and naively."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from docs.blocks import blocks_of
from logic.runner import NOW, engines
from read.graphs import commit, new_graph
from read.oracle import Oracle

from omnigraph.language.query.lint import lint_queries
from omnigraph.language.query.mutations import bind_parameters, compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.snapshot import View
from omnigraph.values.json_values import json_value

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "queries-by-example.md"
SCHEMA, DATA, *BLOCKS = list(blocks_of(PAGE))
QUESTIONS = re.findall(r"^### (\d+)\. (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
ASKED = [
    pytest.param(query.text, [json.loads(line) for line in answer.text.splitlines()], id=question)
    for (_, question), query, answer in zip(QUESTIONS, BLOCKS[::2], BLOCKS[1::2], strict=True)
]
EVERY = 4
"""One question in so many is asked on Spark each time; all of them in the soak."""


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    repository = new_graph(str(tmp_path_factory.mktemp("ports") / "g"), SCHEMA.text)
    return commit(repository, [json.loads(line) for line in DATA.text.splitlines()])


def plan_of(text: str, view: View) -> tuple[ReadPlan, dict[str, object]]:
    plan = compile_query(text, view.catalog)
    assert isinstance(plan, ReadPlan)
    return plan, bind_parameters(plan.parameters, {})


def test_the_page_is_up_to_date() -> None:
    """`python tools/ports_page.py` makes it from examples/ports."""
    assert PAGE.read_text(encoding="utf-8") == runpy.run_path(str(ROOT / "tools" / "ports_page.py"))["page"]()


def test_there_are_sixty_questions_in_order() -> None:
    assert len(QUESTIONS) >= 60
    assert [int(number) for number, _ in QUESTIONS] == list(range(1, len(QUESTIONS) + 1))


@pytest.mark.parametrize(("text", "answer"), ASKED)
def test_question(text: str, answer: list[Any], view: View) -> None:
    plan, parameters = plan_of(text, view)
    tables = {key: view.table(key) for key in view.catalog.tables}
    data = {key: [] if table is None else table.read().to_pylist() for key, table in tables.items()}
    naive = Oracle(view.catalog, data, parameters, NOW).run(plan)
    assert [{name: json_value(value) for name, value in row.items()} for row in naive] == answer
    for name, engine in engines.items():
        assert engine(view, plan, parameters).to_json() == answer, name
    assert lint_queries(text, view.catalog).count("error") == 0


def _ask_spark(chosen: list[Any], view: View, spark: Any) -> None:
    from omnigraph.spark.queries import run_read_on_spark

    for asked in chosen:
        text, answer = asked.values
        plan, parameters = plan_of(text, view)
        assert run_read_on_spark(view, plan, parameters, spark, now=NOW).to_json() == answer, asked.id


@pytest.mark.spark
def test_a_sample_of_questions_on_spark(view: View, spark: Any) -> None:
    _ask_spark(ASKED[::EVERY], view, spark)


@pytest.mark.soak
@pytest.mark.spark
def test_every_question_on_spark(view: View, spark: Any) -> None:
    _ask_spark(ASKED, view, spark)
