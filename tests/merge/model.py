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
UNKNOWN: Any = object()
"""A value on which merge bases contradict each other."""

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  nick: String?
  mail: String? @unique
}
node Note {
  title: String @key
  text: String?
}
edge Knows: Person -> Person @card(0..2) {
  since: I32?
}
edge WrittenBy: Note -> Person @card(1..2)
"""
EDGES = {"Knows": ("Person", "Person", 0, 2), "WrittenBy": ("Note", "Person", 1, 2)}
"""Source, target, and how many edges a source has at least and at most."""


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


@dataclass
class Base:
    """Where branches parted. `unsure` are entities that may or may not exist there."""

    state: State
    unsure: set[Key] = field(default_factory=set)


def merge(base: Base, source: State, target: State, *, by: str, strategy: str) -> Merged:
    """The three-way rule, entity by entity, then the rules of the schema over the whole result."""
    result = Merged({})
    for key in base.state.keys() | source.keys() | target.keys():
        b, s, t = (side.get(key, ABSENT) for side in (base.state, source, target))
        row, conflict = entity(b, s, t, by, strategy, unsure=key in base.unsure)
        if row is not ABSENT:
            result.state[key] = row
        if conflict:
            result.conflicts.add((conflict, key[1], key[2]))
    result.conflicts |= set(broken_rules(result.state))
    return result


def same(one: Any, other: Any) -> bool:
    """Of rows or of values; what nobody knows equals nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one[name], other[name]) for name in one)
    return one is not UNKNOWN and other is not UNKNOWN and bool(one == other)


def entity(b: Any, s: Any, t: Any, by: str, strategy: str, *, unsure: bool = False) -> tuple[Any, str | None]:
    if same(s, t):
        return t, None
    if s is not ABSENT and t is not ABSENT:
        b, unsure = settled(b, s, t), False
    if not unsure and same(s, b):
        return t, None
    if not unsure and same(t, b):
        return s, None
    if by == "property" and s is not ABSENT and t is not ABSENT:
        combined, clash = combine(b, s, t, strategy)
        if not clash or strategy != "fail":
            return combined, None
    if strategy == "fail":
        return t, _kind(b, s, t)
    return (t if strategy == "ours" else s), None


def settled(b: Any, s: Row, t: Row) -> Any:
    """Where both have the same answer to what was in doubt, that is what it was."""
    if b is ABSENT:
        return b
    alike = {name for names in values(s) if all(same(s[name], t[name]) for name in names) for name in names}
    return {name: s[name] if b[name] is UNKNOWN and name in alike else b[name] for name in b}


def values(row: Row) -> list[tuple[str, ...]]:
    """The columns of each value."""
    return ([("src", "dst")] if "src" in row else []) + [(name,) for name in row if name not in ("src", "dst")]


def combine(b: Any, s: Row, t: Row, strategy: str) -> tuple[dict[str, Any], set[str]]:
    """A row with the changes of both, and the names in which they contradict each other."""
    combined: dict[str, Any] = {}
    clashes: set[str] = set()
    for names in values(s):
        mine, theirs = {name: t[name] for name in names}, {name: s[name] for name in names}
        old = ABSENT if b is ABSENT else {name: b[name] for name in names}
        if same(mine, theirs) or same(theirs, old):
            chosen = mine
        elif same(mine, old):
            chosen = theirs
        else:
            clashes |= set(names)
            chosen = theirs if strategy == "theirs" else mine
        combined.update(chosen)
    return combined, clashes


def _kind(b: Any, s: Any, t: Any) -> str:
    if s is ABSENT or t is ABSENT:
        return "delete_vs_update"
    return "divergent_insert" if b is ABSENT else "divergent_update"


def broken_rules(state: State) -> Iterator[tuple[str, str, str]]:
    ids = {name: {key[2] for key in state if key[1] == name} for name in ("Person", "Note")}
    for name, (source, target, least, most) in EDGES.items():
        edges = {key[2]: row for key, row in state.items() if key[1] == name}
        for id, row in edges.items():
            if row["src"] not in ids[source] or row["dst"] not in ids[target]:
                yield ("orphan_edge", name, id)
        for node in ids[source]:
            if not least <= sum(row["src"] == node for row in edges.values()) <= most:
                yield ("cardinality_violation", name, node)
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
            last = todo.pop()
            if last not in found:
                found.add(last)
                todo += self.parents[last]
        return found

    def bases(self, a: int, b: int) -> list[int]:
        return self.best(self.ancestors(a) & self.ancestors(b))

    def best(self, commits: set[int]) -> list[int]:
        """Those that are no ancestors of others."""
        return sorted(c for c in commits if not any(c in self.ancestors(other) for other in commits - {c}))

    def base(self, commits: list[int]) -> Base:
        """Several commits merged: one after the other, each with what the ones before it came to, on the commits where
        those two parted, merged in the same way."""
        result = Base(self.states[commits[0]])
        reached = self.ancestors(commits[0])
        for commit in commits[1:]:
            shared = reached & self.ancestors(commit)
            older = self.base(self.best(shared))
            result = merged_bases(older, result, Base(self.states[commit]))
            reached |= self.ancestors(commit)
        return result

    def settle(self, base: Base, *heads: int) -> None:
        """A question that the bases left open is settled if both heads took the same answer from their shared history."""
        shared = set.intersection(*(self.ancestors(head) for head in heads))
        for key in list(base.unsure):
            answers = [answer for head in heads for answer in self.origins(head, shared, key, ())]
            if all(answer == answers[0] for answer in answers):
                base.unsure.remove(key)
                if answers[0] is ABSENT:
                    del base.state[key]
        for key, row in list(base.state.items()):
            for names in values(row):
                answers = [answer for head in heads for answer in self.origins(head, shared, key, names)]
                known = all(row[name] is not UNKNOWN for name in names)
                if not known and key not in base.unsure and answers[0] is not ABSENT and answers[1:] == answers[:-1]:
                    base.state[key] = row = {**row, **dict(zip(names, answers[0], strict=True))}

    def origins(self, commit: int, shared: set[int], key: Key, names: tuple[str, ...]) -> list[Any]:
        """A value at each shared commit that a head's value came from; without names, whether the entity exists."""

        def value(at: int) -> Any:
            row = self.states[at].get(key, ABSENT)
            return row if row is ABSENT else tuple(row[name] for name in names)

        if commit in shared:
            return [value(commit)]
        givers = [parent for parent in self.parents[commit] if value(parent) == value(commit)]
        return [each for parent in givers or self.parents[commit] for each in self.origins(parent, shared, key, names)]

    def merge(self, source: int, target: int, *, by: str, strategy: str) -> tuple[str, Merged]:
        bases = self.bases(source, target)
        if source in bases:
            return "already_up_to_date", Merged(self.states[target])
        if target in bases:
            return "fast_forward", Merged(self.states[source])
        base = self.base(bases)
        self.settle(base, source, target)
        merged = merge(base, self.states[source], self.states[target], by=by, strategy=strategy)
        return "conflicts" if merged.conflicts else "merged", merged


def merged_bases(base: Base, one: Base, other: Base) -> Base:
    result = Base({})
    for key in base.state.keys() | one.state.keys() | other.state.keys():
        b, s, t = (side.state.get(key, ABSENT) for side in (base, one, other))
        in_doubt = [key in side.unsure for side in (base, one, other)]
        row, unsure = merged_base_row(b, s, t, *in_doubt)
        if row is not ABSENT:
            result.state[key] = row
        if unsure:
            result.unsure.add(key)
    return result


def merged_base_row(b: Any, s: Any, t: Any, unsure_b: bool, unsure_s: bool, unsure_t: bool) -> tuple[Any, bool]:
    if not (unsure_s or unsure_t):
        row, conflict = entity(b, s, t, "property", "fail", unsure=unsure_b)
        if conflict is None:
            return row, False
    if s is not ABSENT and t is not ABSENT:
        b = settled(b, s, t)
        row, clashes = combine(b, s, t, "fail")
        if not unsure_s and same(s, b):
            return t, unsure_t
        if not unsure_t and same(t, b):
            return s, unsure_s
        return {name: UNKNOWN if name in clashes else row[name] for name in row}, unsure_s or unsure_t
    if not unsure_s and not unsure_b and same(s, b):
        return t, unsure_t
    if not unsure_t and not unsure_b and same(t, b):
        return s, unsure_s
    return (t if s is ABSENT else s), True
