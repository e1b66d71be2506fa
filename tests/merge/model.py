"""Merge as plain Python over dictionaries: what the real one is checked against. Nothing here knows about tables.

A state maps ("node"|"edge", type, id) to a row. A commit is a number; its parents and its state are written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from omnigraph.views import View

Key = tuple[str, str, str]
Row = Mapping[str, Any]
State = dict[Key, Row]
ABSENT: Any = object()
MAX_CARD = 2

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  nick: String?
  mail: String? @unique
}
edge Knows: Person -> Person @card(0..2) {
  since: I32?
}
"""


def read_state(view: View) -> State:
    """Every row of a snapshot, read the plain way."""
    state: State = {}
    for key in view.snapshot.tables:
        kind, _, type_name = key.partition(":")
        table = view.table(key)
        assert table is not None
        rows = table.read().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows), f"an id is there twice in {key}"
        assert len(rows) == view.rows(key), f"{key} counts {view.rows(key)} rows and has {len(rows)}"
        state.update({(kind, type_name, row["id"]): row for row in rows})
    return state


def state_of(graph: og.Graph, revision: str) -> State:
    return read_state(graph._repository.resolve(revision))


@dataclass
class Merged:
    state: State
    conflicts: set[tuple[str, str, str]] = field(default_factory=set)
    """(kind, type, id); uniqueness without an id, for either holder may be named."""


def merge(
    base: State, source: State, target: State, *, by: str, strategy: str, unknown: frozenset[Key] = frozenset()
) -> Merged:
    """The three-way rule, entity by entity, then the rules of the schema over the whole result."""
    result = Merged({})
    for key in base.keys() | source.keys() | target.keys() | unknown:
        b, s, t = (side.get(key, ABSENT) for side in (base, source, target))
        row, conflict = entity(b, s, t, by, strategy, key in unknown)
        if row is not ABSENT:
            result.state[key] = row
        if conflict:
            result.conflicts.add((conflict, key[1], key[2]))
    result.conflicts |= set(broken_rules(result.state))
    return result


def entity(b: Any, s: Any, t: Any, by: str, strategy: str, unknown: bool) -> tuple[Any, str | None]:
    if s == t:
        return t, None
    if not unknown and s == b:
        return t, None
    if not unknown and t == b:
        return s, None
    if by == "property" and s is not ABSENT and t is not ABSENT:
        combined, clash = _properties(ABSENT if unknown else b, s, t, strategy)
        if not clash or strategy != "fail":
            return combined, None
    if strategy == "fail":
        return t, _kind(b, s, t, unknown)
    return (t if strategy == "ours" else s), None


def _properties(b: Any, s: Row, t: Row, strategy: str) -> tuple[dict[str, Any], bool]:
    combined: dict[str, Any] = {}
    clash = False
    for names in ([("src", "dst")] if "src" in s else []) + [(name,) for name in s if name not in ("src", "dst")]:
        mine, theirs = [t[name] for name in names], [s[name] for name in names]
        old = ABSENT if b is ABSENT else [b[name] for name in names]
        if mine == theirs or theirs == old:
            chosen = mine
        elif mine == old:
            chosen = theirs
        else:
            clash = True
            chosen = theirs if strategy == "theirs" else mine
        combined.update(zip(names, chosen, strict=True))
    return combined, clash


def _kind(b: Any, s: Any, t: Any, unknown: bool) -> str:
    if s is ABSENT or t is ABSENT:
        return "delete_vs_update"
    return "divergent_insert" if b is ABSENT and not unknown else "divergent_update"


def broken_rules(state: State) -> Iterator[tuple[str, str, str]]:
    people = {key[2] for key in state if key[1] == "Person"}
    edges = {key[2]: row for key, row in state.items() if key[1] == "Knows"}
    for id, row in edges.items():
        if row["src"] not in people or row["dst"] not in people:
            yield ("orphan_edge", "Knows", id)
    for person in people:
        if sum(row["src"] == person for row in edges.values()) > MAX_CARD:
            yield ("cardinality_violation", "Knows", person)
    mails = [row["mail"] for key, row in state.items() if key[1] == "Person" and row["mail"] is not None]
    if len(mails) > len(set(mails)):
        yield ("unique_violation", "Person", "")


def comparable(conflicts: Any) -> set[tuple[str, str, str]]:
    """Real conflicts in the model's terms."""
    return {
        (each.kind, each.type_name, "" if each.kind == "unique_violation" else each.entity_id) for each in conflicts
    }


# ---------------------------------------------------------------- history


@dataclass
class Commits:
    """A graph of commits with their states."""

    parents: list[tuple[int, ...]] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def add(self, state: State, *parents: int) -> int:
        self.parents.append(parents)
        self.states.append(state)
        return len(self.states) - 1

    def ancestors(self, commit: int) -> set[int]:
        """The commit itself too."""
        found, todo = set[int](), [commit]
        while todo:
            one = todo.pop()
            if one not in found:
                found.add(one)
                todo += self.parents[one]
        return found

    def bases(self, a: int, b: int) -> list[int]:
        shared = self.ancestors(a) & self.ancestors(b)
        return sorted(one for one in shared if not any(one in self.ancestors(o) for o in shared - {one}))

    def base_state(self, bases: list[int]) -> tuple[State, frozenset[Key]]:
        """The virtual base of several: each entity's value, and the entities that have none."""
        if len(bases) == 1:
            return self.states[bases[0]], frozenset()
        above = sorted({one for other in bases[1:] for one in self.bases(bases[0], other)})
        origin, lost = self.base_state(above)
        result: State = {}
        unknown: set[Key] = set()
        for key in {key for one in bases for key in self.states[one]} | origin.keys() | lost:
            values = [self.states[one].get(key, ABSENT) for one in bases]
            distinct = [value for i, value in enumerate(values) if value not in values[:i]]
            if len(distinct) > 1:
                distinct = [value for value in distinct if key in lost or value != origin.get(key, ABSENT)]
            if len(distinct) != 1:
                unknown.add(key)
            elif distinct[0] is not ABSENT:
                result[key] = distinct[0]
        return result, frozenset(unknown)

    def merge(self, source: int, target: int, *, by: str, strategy: str) -> tuple[str, Merged]:
        bases = self.bases(source, target)
        if source in bases:
            return "already_up_to_date", Merged(self.states[target])
        if target in bases:
            return "fast_forward", Merged(self.states[source])
        base, unknown = self.base_state(bases)
        return "merged", merge(
            base, self.states[source], self.states[target], by=by, strategy=strategy, unknown=unknown
        )
