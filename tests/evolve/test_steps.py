"""Every step × the data of the graph × where it is applied: the plan, the outcome, and what is read and written afterwards."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from evolve.steps import BASE, DATA, STEPS, Step, as_markdown

import omnigraph as og
from omnigraph.errors import SchemaChangeRefused
from omnigraph.language.schema.migration_steps import STEP_ORDER

PLACES = ("main", "a branch", "beside other branches")
HELD = ("no data", "data", "data in the way")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "schema-changes.md"


def graph_with(folder: Path, entities: list[tuple[str, dict[str, Any]]]) -> og.Graph:
    g = og.init(folder / "g", schema=BASE, durability="process")
    with g.transaction() as tx:
        for type, values in entities:
            tx.insert(type, values)
    return g


def contents(g: og.Graph, branch: str) -> dict[str, Any]:
    found = {}
    for type, values in DATA:
        id = str(values.get("id", values.get("name")))
        found[type, id] = g.entity(type, id, revision=branch)
    return found


def parts(held: str, step: Step) -> list[tuple[str, dict[str, Any]]]:
    if held == "no data":
        return []
    return [*DATA, *(step.breaking if held == "data in the way" else ())]


CASES = [
    case for case in itertools.product(STEPS, HELD, PLACES) if case[1] != "data in the way" or case[0].breaking
]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "held", "place"), CASES, ids=lambda value: value.title if isinstance(value, Step) else value
)
def test_step(tmp_path: Path, step: Step, held: str, place: str) -> None:
    g = graph_with(tmp_path, parts(held, step))
    branch, others = ("b", ["main"]) if place == "a branch" else ("main", [])
    if place != "main":
        others += [name for name in ("b", "c", "d") if name != branch]
        for name in ("b", "c", "d"):
            g.branches.create(name)
    before = {name: (g.show(name), contents(g, name)) for name in others}
    head = g.show(branch)

    assert tuple(g.schema.plan(step.schema, branch=branch).lines()) == step.lines
    is_broken = held == "data in the way" or (held == "data" and step.broken and not step.breaking)
    if step.outcome == "never" or is_broken:
        with pytest.raises(SchemaChangeRefused) as refused:
            g.schema.apply(step.schema, branch=branch)
        if step.outcome != "never":
            ((line, count, first),) = refused.value.violations
            assert (line, count, len(first)) == (step.lines[-1], step.broken, step.broken)
        assert g.show(branch) == head
    else:
        assert_applied(g, step, branch, head, with_data=held == "data")
    for name, known in before.items():
        assert (g.show(name), contents(g, name)) == known


def assert_applied(g: og.Graph, step: Step, branch: str, head: og.types.Commit, *, with_data: bool) -> None:
    receipt = g.schema.apply(step.schema, branch=branch)
    assert receipt.commit is not None
    assert (receipt.commit, receipt.commit.kind) == (g.show(branch), "schema")
    assert g.schema.apply(step.schema, branch=branch).commit is None
    if with_data:
        assert_read(g, step, branch)
    with g.transaction(branch) as tx:
        person = "handle" if "rename a key" in step.title else "name"
        values = {person: "new", "tier": "free", "nick": "C", "age": 50, "big": 1, "label": "n"}
        known = g.snapshot(branch).schema.nodes["Person"].properties
        nick = known.get("nick")
        if nick is not None and nick.type.is_list:
            values["nick"] = ["C"]
        tx.insert("Person", {name: value for name, value in values.items() if name in known})
        if "City" in g.snapshot(branch).schema.nodes and "Visited" in g.snapshot(branch).schema.edges:
            tx.insert("City", name="Lima")
            tx.insert("Visited", from_="new", to="Lima")
    written = g.entity("Person", "new", revision=branch)
    assert written is not None
    assert (written[person], written.get("age")) == ("new", 50)
    if with_data:
        assert_read(g, step, branch)
        assert g.entity("Person", "Ada", revision=head.id)["tier"] == "free"


def assert_read(g: og.Graph, step: Step, branch: str) -> None:
    type, id, expected = step.reads
    if expected is None:
        catalog = g.snapshot(branch).schema
        assert type not in {*catalog.nodes, *catalog.edges}
        return
    found = g.entity(type, id, revision=branch)
    assert found is not None
    assert {name: found[name] for name in expected} == expected
    assert set(found) == {"id", *(("from", "to") if type in g.snapshot(branch).schema.edges else ())} | set(
        {**g.snapshot(branch).schema.nodes, **g.snapshot(branch).schema.edges}[type].properties
    )


@pytest.mark.parametrize("step", [step for step in STEPS if step.consent], ids=lambda step: step.title)
def test_consent_to_lose_data(tmp_path: Path, step: Step) -> None:
    g = graph_with(tmp_path, [*DATA, *step.breaking])
    g.schema.apply(step.schema, allow_data_loss=True)
    type, values = step.breaking[0]
    found = g.entity(type, values["name"])
    assert found is not None
    assert {name: found[name] for name in step.consent} == step.consent


def test_every_kind_of_step_is_in_the_table() -> None:
    g = og.init("memory://", schema=BASE)
    shown = {step.kind for each in STEPS for step in g.schema.plan(each.schema).steps}
    assert shown == {step.kind for step in STEP_ORDER}


def test_the_page_is_up_to_date() -> None:
    """`tests/evolve/steps.py` makes it."""
    assert PAGE.read_text(encoding="utf-8") == as_markdown()
