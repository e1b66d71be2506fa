"""Every form of expression over hostile values means one thing: in SQL, interpreted, as a scan filter, and naively."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from expressions.forms import NOW, OVERFLOWS, SCHEMA, Form, forms, rows, same
from read.graphs import build_indexes, commit, new_graph
from read.oracle import Oracle

from omnigraph.errors import ArithmeticOverflow
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import Interpreter, satisfying
from omnigraph.expressions.predicates import Predicate
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import Expression, ReadPlan
from omnigraph.read.execution import run_read
from omnigraph.snapshot import View

FORMS = forms()
BATCH = 100
"""Forms that one query returns, as columns."""


def _written(value: Any) -> Any:
    if isinstance(value, list):
        return [_written(item) for item in value]
    if isinstance(value, dt.datetime):
        return value.isoformat() + "Z"
    return value.isoformat() if isinstance(value, dt.date) else value


def graph(folder: Path) -> View:
    records = [{"type": "Row", "data": {name: _written(value) for name, value in row.items()}} for row in rows()]
    repository = new_graph(str(folder / "g"), SCHEMA)
    commit(repository, records[:20])
    return commit(repository, records[20:])


def compiled(batch: Sequence[Form], view: View, suffix: str = "") -> tuple[ReadPlan, Arguments]:
    """A query with each form as a column (c0 …), the rows in the order of their keys."""
    parameters = [one for form in batch for one in form.parameters]
    declared = ", ".join(f"${name}: {type}" for name, type, _ in dict.fromkeys((n, t, "") for n, t, _ in parameters))
    columns = ", ".join(f"{form.text} as c{place}" for place, form in enumerate(batch))
    text = f"query q({declared}) {{ match {{ $p: Row }} return {{ $p.name as k, {columns} }} order {{ k }} {suffix} }}"
    plan = compile_query(text, view.catalog)
    assert isinstance(plan, ReadPlan)
    return plan, Arguments({name: value for name, _, value in parameters}, NOW)


def batches(size: int = BATCH) -> Iterator[list[Form]]:
    places = iter(FORMS)
    while batch := list(itertools.islice(places, size)):
        yield batch


def expressions(plan: ReadPlan) -> list[Expression]:
    return [projection.expression for projection in plan.projections[1:]]


def _stored(view: View) -> pa.Table:
    table = view.table("node:Row")
    assert table is not None
    return table.read().sort_by("name")


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    return graph(tmp_path_factory.mktemp("agreement"))


@pytest.fixture(scope="module")
def truth(view: View) -> dict[Form, list[Any]]:
    """What each form is for each row, according to a naive interpreter that shares nothing with the others."""
    data = {"node:Row": _stored(view).to_pylist()}
    found: dict[Form, list[Any]] = {}
    for batch in batches():
        plan, arguments = compiled(batch, view)
        out = Oracle(view.catalog, data, arguments.parameters, NOW).run(plan)
        found |= {form: [row[f"c{place}"] for row in out] for place, form in enumerate(batch)}
    return found


def _check(found: Sequence[Any], truth: Sequence[Any], form: Form, data: pa.Table) -> None:
    for place, (one, expected) in enumerate(zip(found, truth, strict=True)):
        if not same(one, expected):
            row = data.slice(place, 1).to_pylist()[0]
            values = [value for _, _, value in form.parameters]
            raise AssertionError(f"{form.text} with {values} gives {one!r}, not {expected!r}, for {row}")


def test_there_are_enough_forms(truth: dict[Form, list[Any]]) -> None:
    assert len(FORMS) > 1_500
    answers = [value for form in FORMS for value in truth[form] if value is None or isinstance(value, bool)]
    assert min(answers.count(None), answers.count(True), answers.count(False)) > 5_000


def test_sql_agrees(view: View, truth: dict[Form, list[Any]]) -> None:
    data = _stored(view)
    for batch in batches():
        plan, arguments = compiled(batch, view)
        table = run_read(view, plan, arguments.parameters, mode="scan", now=NOW).to_arrow()
        for place, form in enumerate(batch):
            _check(table.column(f"c{place}").to_pylist(), truth[form], form, data)


def test_the_interpreter_agrees(view: View, truth: dict[Form, list[Any]]) -> None:
    data = _stored(view)
    for batch in batches():
        plan, arguments = compiled(batch, view)
        interpreter = Interpreter(arguments, data.num_rows, lambda _, name: data.column(name))
        for form, expression in zip(batch, expressions(plan), strict=True):
            _check(interpreter.evaluate(expression).to_pylist(), truth[form], form, data)


@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "indexed"])
def test_filters_keep_what_is_true_and_nothing_else_when_they_are_exact(
    view: View, truth: dict[Form, list[Any]], indexed: bool
) -> None:
    data, searched = _stored(view), build_indexes(view) if indexed else view
    table = searched.table("node:Row")
    assert table is not None
    stated = 0
    for batch in batches():
        plan, arguments = compiled(batch, view)
        for form, expression in zip(batch, expressions(plan), strict=True):
            predicate = Predicate((expression,), arguments)
            true = {
                name for name, holds in zip(data.column("name").to_pylist(), truth[form], strict=True) if holds is True
            }
            for column, values in predicate.fixed.items():
                having = data.filter(pa.compute.is_in(data.column("name"), value_set=pa.array(true, pa.utf8())))
                assert {*having.column(column).to_pylist()} <= {*values}, form
            if predicate.filter is None or (indexed and not predicate.fixed):
                continue
            stated += 1
            kept = table.read(None, predicate.filter)
            if predicate.remaining:
                assert true <= {*kept.column("name").to_pylist()}, (form, predicate.filter)
                kept = satisfying(kept, predicate.remaining, arguments)
            assert true == {*kept.column("name").to_pylist()}, (form, predicate.filter)
    assert stated > (100 if indexed else 800)


@pytest.mark.parametrize("text", OVERFLOWS)
def test_a_number_beyond_its_type_is_the_same_error(view: View, text: str) -> None:
    plan, arguments = compiled([Form(text)], view)
    data = _stored(view)
    with pytest.raises(ArithmeticOverflow):
        run_read(view, plan, {}, mode="scan", now=NOW)
    with pytest.raises(ArithmeticOverflow):
        Interpreter(arguments, data.num_rows, lambda _, name: data.column(name)).evaluate(expressions(plan)[0])


@pytest.mark.spark
def test_spark_agrees(spark: Any, view: View, truth: dict[Form, list[Any]]) -> None:
    from omnigraph.spark.queries import run_read_on_spark

    data = _stored(view)
    sample = FORMS[::4]
    plan, arguments = compiled(sample, view)
    table = run_read_on_spark(view, plan, arguments.parameters, spark, now=NOW).to_arrow()
    for place, form in enumerate(sample):
        _check(table.column(f"c{place}").to_pylist(), truth[form], form, data)
