"""A small graph with every kind of constraint, and its content as plain values."""

from __future__ import annotations

from typing import Any

import omnigraph as og

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  nick: String? @unique
  tier: enum(free, pro)?
  code: String?
  score: F64?
  @range(age, 0..150)
  @range(score, 0.0..1.0)
  @check(code, "[A-Z]+")
}
node Team { title: String @key }
node Note {
  text: String
  shelf: String?
  place: I32?
  @unique(shelf, place)
}
edge Knows: Person -> Person @card(0..2) {
  since: Date?
  @unique(src, dst)
}
node Chief { name: String @key  rank: I32? }
edge Leads: Chief -> Team @card(1..2)
"""

Content = dict[str, dict[str, dict[str, Any]]]


def fill(tx: og.Transaction) -> None:
    """Three people who know each other a little, a team with its two chiefs, a note."""
    tx.insert("Person", name="Ada", age=36, nick="a")
    tx.insert("Person", name="Bob", age=20)
    tx.insert("Person", name="Cy")
    tx.insert("Team", title="T")
    tx.insert("Team", title="U")
    tx.insert("Note", id="n1", text="one", shelf="s", place=1)
    tx.insert("Knows", id="k1", from_="Ada", to="Bob")
    tx.insert("Knows", id="k2", from_="Ada", to="Cy")
    for number, name in enumerate(("Max", "Moe"), 1):
        tx.insert("Chief", name=name)
        tx.insert("Leads", id=f"l{number}", from_=name, to="T")


FILLED: Content = {
    "node:Person": {"Ada": {"name": "Ada", "age": 36, "nick": "a"}, "Bob": {"name": "Bob", "age": 20}, "Cy": {"name": "Cy"}},
    "node:Team": {"T": {"title": "T"}, "U": {"title": "U"}},
    "node:Note": {"n1": {"text": "one", "shelf": "s", "place": 1}},
    "edge:Knows": {"k1": {"src": "Ada", "dst": "Bob"}, "k2": {"src": "Ada", "dst": "Cy"}},
    "node:Chief": {"Max": {"name": "Max"}, "Moe": {"name": "Moe"}},
    "edge:Leads": {"l1": {"src": "Max", "dst": "T"}, "l2": {"src": "Moe", "dst": "T"}},
}  # fmt: skip


def content(graph: og.Graph, branch: str = "main") -> Content:
    """Every row by table and id, without its nulls. Tables without rows are left out."""
    view = graph._repository.resolve(branch)
    found: Content = {}
    for key in view.catalog.tables:
        table = view.table(key)
        rows = [] if table is None else table.read().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows), f"{key} has an id twice"
        assert len(rows) == view.rows(key), f"{key}: the commit's count of rows is wrong"
        if rows:
            found[key] = {
                row["id"]: {name: value for name, value in row.items() if name != "id" and value is not None}
                for row in rows
            }
    return found


def changed(base: Content, **tables: dict[str, dict[str, Any] | None]) -> Content:
    """`base` with some rows put or (None) taken away. Tables by `node_Person` for "node:Person"."""
    result = {key: dict(rows) for key, rows in base.items()}
    for name, rows in tables.items():
        table = result.setdefault(name.replace("_", ":", 1), {})
        for id, row in rows.items():
            if row is None:
                table.pop(id, None)
            else:
                table[id] = row
    return {key: rows for key, rows in result.items() if rows}
