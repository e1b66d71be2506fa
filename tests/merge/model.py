"""Merge as plain Python over dictionaries: what the real one is checked against. Nothing here knows about tables.

A state maps ("node"|"edge", type, id) to a row. A commit is a number; its parents and its state are written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from omnigraph.snapshot import View

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
class Maybe:
    """An entity where branches parted: every answer to whether it exists (ABSENT or not), and for each value every value
    that it may have. More than one where merge bases contradict each other."""

    exists: list[bool]
    cells: dict[tuple[str, ...], list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Any) -> Maybe:
        if row is ABSENT:
            return cls([False])
        return cls([True], {names: [tuple(row[name] for name in names)] for names in values(row)})

    @property
    def row(self) -> Any:
        if True not in self.exists:
            return ABSENT
        row: dict[str, Any] = {}
        for names, cell in self.cells.items():
            row.update(zip(names, cell[0] if len(cell) == 1 else [UNKNOWN] * len(names), strict=True))
        return row


@dataclass
class Base:
    """Where branches parted. Entities that are not mentioned did not exist."""

    entities: dict[Key, Maybe]

    @classmethod
    def of(cls, state: State) -> Base:
        return cls({key: Maybe.of(row) for key, row in state.items()})

    def get(self, key: Key) -> Maybe:
        return self.entities.get(key, Maybe([False]))


def merge(base: Base, source: State, target: State, *, by: str, strategy: str) -> Merged:
    """The three-way rule, entity by entity, then the rules of the schema over the whole result."""
    result = Merged({})
    for key in base.entities.keys() | source.keys() | target.keys():
        b, s, t = base.get(key), source.get(key, ABSENT), target.get(key, ABSENT)
        row, conflict = entity(b.row, s, t, by, strategy, unsure=len(b.exists) > 1)
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
        """Several commits merged: one after the other, newest first, each with what the ones before it came to, on the
        commits where those two parted, merged in the same way."""
        first, *others = sorted(commits, reverse=True)
        result = Base.of(self.states[first])
        reached = self.ancestors(first)
        for commit in others:
            older = self.base(self.best(reached & self.ancestors(commit)))
            result = merged_bases(older, result, Base.of(self.states[commit]))
            reached |= self.ancestors(commit)
        return result

    def settle(self, base: Base, *heads: int) -> None:
        """A question that the bases left open is settled if both heads took the same answer from their shared history."""
        shared = set.intersection(*(self.ancestors(head) for head in heads))
        for key, each in base.entities.items():
            for names in ((), *each.cells):
                answers = [answer for head in heads for answer in self.origins(head, shared, key, names)]
                if answers[1:] != answers[:-1]:
                    continue
                if names == () and len(each.exists) > 1:
                    each.exists = [answers[0] is not ABSENT]
                elif names != () and len(each.exists) == 1 and len(each.cells[names]) > 1 and answers[0] is not ABSENT:
                    each.cells[names] = [answers[0]]

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
    keys = base.entities.keys() | one.entities.keys() | other.entities.keys()
    return Base({key: merged_maybe(base.get(key), one.get(key), other.get(key)) for key in keys})


def merged_maybe(base: Maybe, one: Maybe, other: Maybe) -> Maybe:
    """Nobody knows what was changed where the base is in doubt. Otherwise: what both have, and what is new in either."""

    def three_way(old: list[Any], left: list[Any], right: list[Any]) -> list[Any]:
        every = [*left, *(each for each in right if each not in left)]
        if sorted(map(repr, left)) == sorted(map(repr, right)) or len(old) > 1:
            return every
        return [each for each in every if each not in old or (each in left and each in right)]

    def existence(side: Maybe) -> list[str]:
        """An entity that was changed exists anew: so deleting it contradicts that."""
        kept = True in base.exists and all(
            sorted(map(repr, side.cells[n])) == sorted(map(repr, base.cells[n])) for n in side.cells
        )
        return ["gone" if not exists else "kept" if kept else "new" for exists in side.exists]

    exists = three_way(existence(base), existence(one), existence(other))
    answers = list(dict.fromkeys(answer != "gone" for answer in exists))
    holders = [side for side in (one, other) if True in side.exists]
    if True not in answers:
        return Maybe([False])
    if len(holders) == 1:
        return Maybe(answers, dict(holders[0].cells))
    cells = {n: three_way(base.cells.get(n, []), one.cells[n], other.cells[n]) for n in one.cells}
    return Maybe(answers, cells)
