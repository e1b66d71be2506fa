"""Every logic case that returns plain values, as an insert: it inserts what the case returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from logic.runner import NOW, Case, LogicFile, files, plan_of
from read.graphs import commit, new_graph

from omnigraph.language.query import syntax
from omnigraph.language.query.mutations import bind_parameters, compile_query
from omnigraph.language.query.parser import parse_queries
from omnigraph.language.query.plan import CountOf, EntityRef, Exists, MutationPlan, Ranking, ReadPlan
from omnigraph.language.query.printer import format_queries
from omnigraph.read.execution import matched_rows
from omnigraph.snapshot import View
from omnigraph.values.json_values import json_value
from omnigraph.write.group import GroupCommitter
from omnigraph.write.mutations import run_mutation
from omnigraph.write.transaction import WriteTransaction

FILES = [file for file in files() if file.path.stem != "aggregates"]  # no case of it returns plain values


def _returns_values(plan: ReadPlan) -> bool:
    expressions = [each.expression for each in (*plan.projections, *plan.order)]
    is_plain = not (plan.grouped or plan.distinct or plan.limit or plan.offset or plan.union or plan.pattern.start_rows)
    return is_plain and not any(isinstance(each, EntityRef | Ranking | Exists | CountOf) for each in expressions)


def _schema(plan: ReadPlan, name: str) -> str:
    types = [replace(each.expression.type, nullable=True, enum=()) for each in plan.projections]  # type: ignore[union-attr]  # no entities here
    return f"node {name} {{ {' '.join(f'c{number}: {type}' for number, type in enumerate(types))} }}"


def _insert(case: Case, name: str) -> str:
    """The case with its `return` as an insert."""
    (query,) = parse_queries(case.text).queries
    assert isinstance(query.body, syntax.ReadBody)
    given = [syntax.Assignment(f"c{number}", item.expression, item.at) for number, item in enumerate(query.body.items)]
    statement = syntax.InsertStatement("insert", name, tuple(given), query.body.clauses, query.at, query.at)
    return format_queries(syntax.QueryFile((replace(query, body=syntax.MutationBody((statement,))),)))


def _cases(folder: Path, file: LogicFile) -> tuple[View, list[tuple[str, Case]]]:
    bare = new_graph(str(folder / "bare"), file.schema).head()[1]
    chosen = [(case, plan) for case in file.cases if _returns_values(plan := plan_of(bare, case)[0])]
    named = [(f"Found{number}", case, plan) for number, (case, plan) in enumerate(chosen)]
    repository = new_graph(
        str(folder / "g"), "\n".join([file.schema, *(_schema(plan, name) for name, _, plan in named)])
    )
    return commit(repository, file.records), [(name, case) for name, case, _ in named]


@pytest.mark.parametrize("file", FILES, ids=[file.path.stem for file in FILES])
def test_an_insert_takes_the_rows_that_a_read_returns(file: LogicFile, tmp_path: Path) -> None:
    view, cases = _cases(tmp_path, file)
    assert cases or file.path.stem in ("grouping", "union", "texts", "stages"), (
        "an insert does not group, unite, rank, carry or hold a block"
    )
    for name, case in cases:
        plan = compile_query(_insert(case, name), view.catalog)
        assert isinstance(plan, MutationPlan)
        entry = view.repository.head()[0]
        transaction = WriteTransaction(view.repository, GroupCommitter(view.repository), at=(entry, view))
        transaction.now = NOW.replace(tzinfo=None)
        parameters = bind_parameters(plan.parameters, case.params)
        transaction.run(partial(run_mutation, plan=plan, parameters=parameters, reading=matched_rows))
        rows = transaction.pending(view.catalog.nodes[name]).rows.values()
        found = [[json_value(row.get(f"c{number}")) for number in range(len(row) - 1)] for row in rows]
        assert sorted(map(_text, found)) == sorted(_text(row.values()) for row in case.rows), case.name


def _text(values: Iterable[object]) -> str:
    """Zero has one sign here, as for whoever compares."""
    return repr([value or 0.0 if isinstance(value, float) else value for value in values])
