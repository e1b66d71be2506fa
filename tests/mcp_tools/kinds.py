"""A graph with a property of every kind, and a stored query for each."""

from __future__ import annotations

from pathlib import Path

SCHEMA = """
node Thing {
  name: String @key
  flag: Bool?
  small: I32?
  big: I64?
  real: F64?
  day: Date?
  at: DateTime?
  data: Blob?
  place: Vector(3)?
  words: [String]?
}
edge Near: Thing -> Thing
"""

PROPERTIES = {
    "flag": ("Bool", True),
    "small": ("I32", -7),
    "big": ("I64", "9007199254740993"),
    "real": ("F64", 2.5),
    "day": ("Date", "2026-11-16"),
    "at": ("DateTime", "2026-11-16T12:30:00Z"),
    "data": ("Blob", "AAEC"),
    "place": ("Vector(3)", [1.0, 2.0, 3.0]),
    "words": ("[String]", ["a", "b"]),
}
"""Property, the type of its parameter, and a value as a tool takes it."""

SHOWN = {
    "at": "2026-11-16T12:30:00.000Z",
}
"""Values that come back in another spelling."""


def write_queries(folder: Path) -> Path:
    folder.mkdir()
    lines = [
        f"query set_{name}($name: String, $v: {type}) {{ update Thing set {{ {name}: $v }} where name = $name }}"
        for name, (type, _) in PROPERTIES.items()
    ]
    shown = ", ".join(f"$t.{name} as {name}" for name in PROPERTIES if name != "data")
    lines += [
        'query look($name: String) @description("One thing.") @instruction("Name it.") '
        f"{{ match {{ $t: Thing {{ name: $name }} }} return {{ {shown} }} }}",
        "query all() { match { $t: Thing } return { $t.name as name } order { name } }",
        "query query($branch: String? = null) { match { $t: Thing } return { $t.name as name } }",
        "query add($name: String) { insert Thing { name: $name } }",
        "query add_words($idempotency_key: String, $if_graph_commit: [String]) "
        "{ insert Thing { name: $idempotency_key, words: $if_graph_commit } }",
    ]
    (folder / "things.gq").write_text("\n".join(lines), encoding="utf-8")
    return folder
