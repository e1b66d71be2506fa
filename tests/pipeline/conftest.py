"""A small graph with every kind of constraint, and both engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.load.job import LoadJob

SCHEMA = """
node Person {
  email: String @key
  age: I32?
  tier: enum(free, pro)?
  handle: String? @unique
  tags: [String]?
  vec: Vector(2)?
  photo: Blob?
  joined: DateTime?
  born: Date?
  big: U64?
  score: F64?
  small: F32?
  active: Bool?
  @range(age, 0..150)
  @check(email, "^[^ ]+$")
}
node Note { text: String  stars: I64? @default(3) }
node City { name: String  country: String  @key(country, name) }
edge Knows: Person -> Person @card(0..2) { weight: F64?  since: Date?  @unique(src, dst) }
edge LivesIn: Person -> City
"""


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Arguments that choose the engine; the Spark session is started for Spark only."""
    if request.param == "local":
        return {"engine": "local"}
    return {"engine": request.getfixturevalue("spark")}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", schema=SCHEMA, durability="process")


@pytest.fixture
def staged_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads of a few rows are staged and prepared like those of many."""
    monkeypatch.setattr(LoadJob, "_max_held_rows", 0)


Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write records (objects, or lines as they are) to a file; its path."""

    def to_file(name: str, *records: Any) -> str:
        path = tmp_path / name
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    return to_file


def person(email: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"email": email, **data}}


def knows(source: str, target: str, **data: Any) -> dict[str, Any]:
    return {"edge": "Knows", "from": source, "to": target, "data": data}


def content(graph: og.Graph, tmp_path: Path) -> list[dict[str, Any]]:
    """Everything in the graph, in order."""
    path = tmp_path / "content.jsonl"
    graph.export(path, overwrite=True, engine="local")
    return [json.loads(line) for line in path.read_text().splitlines()]
