"""Declarations of JSON objects: what is encoded, described and decoded follows from one class."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

import omnigraph as og
from omnigraph import api
from omnigraph.api.structs import Count, Struct, at, maybe, unless_empty


@dataclass(frozen=True)
class Part:
    name: str
    size: int = 0


@dataclass(frozen=True)
class Whole:
    title: str
    parts: tuple[Part, ...]
    by_name: dict[str, Part] = field(default_factory=dict)
    owner: str | None = None
    note: str | None = None
    is_done: bool = False
    seconds: float = 0.0
    kind: str = "plain"
    left: int | None = None


class PartJson(Struct, of="Part"):
    name: str
    size: Count


class WholeJson(Struct, of="Whole", renamed={"from_": "from"}):
    heading: str = at("title")
    from_: str
    parts: list[PartJson]
    by_name: dict[str, PartJson]
    owner: str | None
    note: str = maybe()
    done: bool = unless_empty("is_done")
    ms: float = at("seconds", lambda seconds: seconds * 1_000, lambda ms: ms / 1_000)
    first: str = at("kind")
    count: Count = at(lambda whole: len(whole.parts))
    left: Count = maybe()


class WithNulls(WholeJson, of="Whole", nulls=True):
    kind: Literal["plain", "odd"] = maybe()


@pytest.fixture(autouse=True)
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    for value_class in (Part, Whole):
        monkeypatch.setattr(og.types, value_class.__name__, value_class, raising=False)


WHOLE = Whole("t", (Part("a", 1),), {"a": Part("a", 1)}, seconds=0.5, left=0)


def test_members_are_read_where_the_declaration_says() -> None:
    assert WholeJson.to_json(WHOLE, **{"from": "x"}) == {
        "heading": "t",
        "from": "x",
        "parts": [{"name": "a", "size": 1}],
        "by_name": {"a": {"name": "a", "size": 1}},
        "ms": 500.0,
        "first": "plain",
        "count": 1,
        "left": 0,
    }
    assert list(WholeJson.to_json(WHOLE, **{"from": "x"}))[:3] == ["heading", "from", "parts"]


def test_what_is_none_is_left_out_or_null_and_what_is_empty_is_left_out() -> None:
    done = dataclasses.replace(WHOLE, is_done=True, note="n", left=None)
    plain, nulls = WholeJson.to_json(done, **{"from": "x"}), WithNulls.to_json(done, **{"from": "x"})
    assert (plain["done"], plain["note"]) == (True, "n")
    assert "owner" not in plain
    assert nulls["owner"] is None
    assert not {"left"} & (plain.keys() | nulls.keys())


def test_members_become_the_value_again() -> None:
    assert WholeJson.from_json(WholeJson.to_json(WHOLE, **{"from": "x"})) == WHOLE
    assert WholeJson.from_json({"heading": "t"}, is_done=True) == Whole("t", None, is_done=True)  # type: ignore[arg-type]


def test_the_schema_has_what_is_always_there_first() -> None:
    schema = WithNulls.json_schema()
    assert list(schema["properties"])[-4:] == ["note", "done", "left", "kind"]
    assert schema["required"] == ["heading", "from", "parts", "by_name", "owner", "ms", "first", "count"]
    assert schema["properties"]["owner"] == {"type": ["string", "null"]}
    assert schema["properties"]["by_name"] == {"type": "object"}
    assert schema["properties"]["kind"] == {"type": "string", "enum": ["plain", "odd"]}
    assert schema["properties"]["parts"]["items"]["properties"]["size"] == {"type": "integer", "minimum": 0}


def test_a_help_page_shows_the_members() -> None:
    assert WholeJson.described() == (
        "{heading, from, parts: [{name, size}], by_name: {name: {name, size}}, owner?, note?, done?, ms, first, count, left?}"
    )
    assert "owner, note?" in WithNulls.described()


def declared() -> list[type[Struct]]:
    modules = [importlib.import_module(f"omnigraph.api.{found.name}") for found in pkgutil.iter_modules(api.__path__)]
    return [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, Struct)
        and each is not Struct
        and each.__module__ == module.__name__
    ]


@pytest.mark.parametrize("struct", declared(), ids=lambda struct: struct.__name__)
def test_every_declaration_can_be_described_and_names_fields_of_its_class(struct: type[Struct]) -> None:
    assert struct.described().startswith("{")
    assert struct.json_schema()["properties"]
    if not struct._of:
        return
    value_class: Any = getattr(og.types, struct._of)
    own = {item.name for item in dataclasses.fields(value_class)} | set(dir(value_class))
    assert {member.attribute.partition(".")[0] for member in struct._members()} - own <= UNLIKE


UNLIKE = {
    *("uri", "branch", "dry_run", "branches", "tags", "commits", "run"),
    *(
        "graph_branch",
        "parent_commit_id",
        "merged_parent_commit_id",
        "actor_id",
        "nodes",
        "edges",
        "mutation",
        "params",
    ),
}
"""Members that a function reads, or that are not told by the value."""
