"""Data from outside as typed rows: what is taken, what is refused, and with which words."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from omnigraph.errors import InputError, RecordError, ValueViolation
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.records.rows import edge_row, node_row, property_value

CATALOG = compile_schema("""
node Person { name: String @key  age: I32?  tier: String? @default("free") }
node City { country: String  title: String  @key(country, title) }
node Note { text: String }
edge Knows: Person -> Person { weight: F32? }
""")
PERSON, CITY, NOTE, KNOWS = (*(CATALOG.nodes[name] for name in ("Person", "City", "Note")), CATALOG.edges["Knows"])


def new_ids() -> Any:
    numbers = itertools.count(1)
    return lambda: f"new {next(numbers)}"


def test_a_keyed_node_has_the_id_of_its_key() -> None:
    assert node_row(PERSON, {"name": "Ada"}, new_ids()) == {"id": "Ada", "name": "Ada", "age": None, "tier": "free"}
    assert node_row(CITY, {"title": "Paris", "country": "FR", "id": '["FR","Paris"]'}, new_ids()) == {
        "id": '["FR","Paris"]',
        "country": "FR",
        "title": "Paris",
    }


def test_a_null_that_is_given_is_not_the_default() -> None:
    assert node_row(PERSON, {"name": "Ada", "tier": None}, new_ids())["tier"] is None


def test_an_unkeyed_node_has_a_given_or_a_new_id() -> None:
    new_id = new_ids()
    assert node_row(NOTE, {"text": "t", "id": "mine"}, new_id)["id"] == "mine"
    assert [node_row(NOTE, {"text": "t"}, new_id)["id"] for _ in range(2)] == ["new 1", "new 2"]


def test_an_edge_has_its_ends() -> None:
    assert edge_row(CATALOG, KNOWS, "a", "b", {"weight": 1}, new_ids()) == {
        "id": "new 1",
        "src": "a",
        "dst": "b",
        "weight": 1.0,
    }


REFUSED = [
    (lambda: node_row(PERSON, {}, new_ids()), ValueViolation, "key property Person.name is missing"),
    (lambda: node_row(PERSON, {"name": "A", "_rowid": 1}, new_ids()), RecordError, "'_rowid' is reserved and cannot be given"),
    (lambda: node_row(NOTE, {"id": 5}, new_ids()), RecordError, "id of Note expects String, got 5"),
    (lambda: node_row(NOTE, {"id": ""}, new_ids()), RecordError, "id of Note is empty"),
    (lambda: edge_row(CATALOG, KNOWS, "a", "b", {"src": "c"}, new_ids()), RecordError, "'src' is reserved and cannot be given"),
    (lambda: edge_row(CATALOG, KNOWS, "", "b", {}, new_ids()), RecordError, "Knows needs 'from', the id of a node; got ''"),
    (lambda: edge_row(CATALOG, KNOWS, "a", 7, {}, new_ids()), RecordError, "Knows needs 'to', the id of a node; got 7"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "says"), REFUSED)
def test_a_row_that_is_refused(make: Any, error: type[InputError], says: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == says


def test_a_refused_value_names_everything() -> None:
    with pytest.raises(RecordError) as caught:
        node_row(CITY, {"country": "FR", "title": "Paris", "size": 1}, new_ids())
    assert caught.value.hint == "City has: country, title"
    with pytest.raises(RecordError) as caught:
        node_row(PERSON, {"name": "Ada", "age": "x"}, new_ids())
    error = caught.value
    assert (error.type_name, error.property, error.entity_id, error.value) == ("Person", "age", "Ada", "x")
    with pytest.raises(RecordError) as caught:
        property_value(PERSON, PERSON.properties["age"], 1.5, "Bob")
    assert (caught.value.entity_id, caught.value.value) == ("Bob", 1.5)
