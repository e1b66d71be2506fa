"""Parameters of a call: what is misspelt or left out is refused before anything is read or written."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ParameterError

SCHEMA = "node Person { name: String @key  age: I32? }"
SET = "query set($name: String, $age: I32?) { update Person set { age: $age } where name = $name }"
SET_OR_CLEAR = SET.replace("$age: I32?", "$age: I32? = null")


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada", age=36)
    return graph


@pytest.mark.parametrize("params", [{"name": "Ada", "aeg": 6}, {"name": "Ada", "age": 6, "agee": 7}, {"age": 6}])
def test_a_misspelt_or_missing_parameter_changes_nothing(graph: og.Graph, params: dict[str, object]) -> None:
    before = graph.commits()
    with pytest.raises(ParameterError):
        graph.mutate(SET, params)
    with graph.transaction() as tx, pytest.raises(ParameterError):
        tx.mutate(SET, params)
    assert graph.entity("Person", "Ada") == {"id": "Ada", "name": "Ada", "age": 36}
    assert graph.commits() == before


@pytest.mark.parametrize("text", [SET, SET_OR_CLEAR])
@pytest.mark.parametrize("params", [{"name": "Ada", "age": None}, {"name": "Ada"}])
def test_a_nullable_parameter_that_is_null_or_left_out_sets_null(
    graph: og.Graph, text: str, params: dict[str, object]
) -> None:
    graph.mutate(text, params)
    assert graph.entity("Person", "Ada") == {"id": "Ada", "name": "Ada", "age": None}


def test_a_read_refuses_what_it_does_not_know(graph: og.Graph) -> None:
    text = (
        "query q($least: I32? = null) { match { $p: Person  ($p.age > $least or $least is null) } return { $p.name } }"
    )
    assert len(graph.query(text)) == 1
    assert len(graph.query(text, {"least": 36})) == 0
    for call in (graph.query, graph.explain):
        with pytest.raises(ParameterError, match=r"the query has no parameter \$lest") as caught:
            call(text, {"lest": 36})
        assert caught.value.hint == "did you mean 'least'?"
