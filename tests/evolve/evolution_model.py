"""Branches of typed data as plain Python values: schemas with identities, entities, and the three-way merge of both.

A type or property is an *identity*: its owner, the name it was added under, and a count that goes up when the name was used
before. Renaming changes the name, never the identity.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Identity = tuple[Any, str, int]
FIRST = -1
"""The count of what the first schema of the graph declares."""

Value = int | str | None
Row = dict[Identity, Value]
Range = tuple[int, int]


@dataclass(frozen=True)
class Property:
    """`fill`: what entities have that are older than the property."""

    name: str
    kind: Literal["I32", "I64", "enum"]
    words: frozenset[str] = frozenset()
    required: bool = False
    default: Value = None
    fill: Value = None
    range: Range | None = None

    def text(self) -> str:
        type = f"enum({', '.join(sorted(self.words))})" if self.kind == "enum" else self.kind
        default = f'"{self.default}"' if isinstance(self.default, str) else self.default
        return f"{self.name}: {type}{'' if self.required else '?'}" + (f" @default({default})" if self.required else "")

    def allows(self, value: Value) -> bool:
        if value is None:
            return not self.required
        if self.kind == "enum":
            return value in self.words
        return self.range is None or self.range[0] <= int(value) <= self.range[1]


@dataclass(frozen=True)
class Type:
    name: str
    properties: dict[Identity, Property] = field(default_factory=dict)


class Conflict(Exception):
    """`on` says of what: schema or rows."""

    def __init__(self, on: Literal["schema", "rows"]) -> None:
        super().__init__(on)
        self.on = on


@dataclass
class Branch:
    types: dict[Identity, Type] = field(default_factory=dict)
    rows: dict[Identity, dict[str, Row]] = field(default_factory=dict)
    used: set[Identity] = field(default_factory=set)
    hard: set[Identity] = field(default_factory=set)
    """What was dropped for good: no merge brings it back."""

    def copy(self) -> Branch:
        return copy.deepcopy(self)

    def new_identity(self, owner: Any, name: str) -> Identity:
        count = 0
        while (owner, name, count) in self.used:
            count += 1
        self.used.add((owner, name, count))
        return (owner, name, count)

    def text(self, renamed: dict[Identity, str] | None = None) -> str:
        """The schema; `renamed` has the names before of what is called otherwise now."""
        before = {id: f' @rename_from("{name}")' for id, name in (renamed or {}).items()}
        lines = []
        for id, each in self.types.items():
            lines.append(f"node {each.name}{before.get(id, '')} {{\n  name: String @key")
            lines += [f"  {said.text()}{before.get(at, '')}" for at, said in each.properties.items()]
            ranges = [said for said in each.properties.values() if said.range]
            lines += [f"  @range({said.name}, {said.range[0]}..{said.range[1]})" for said in ranges if said.range]
            lines.append("}")
        return "\n".join(lines) + "\n"

    def entities(self) -> dict[str, dict[str, dict[str, Value]]]:
        """What a reader sees, by names."""
        return {
            each.name: {
                key: {said.name: row[at] for at, said in each.properties.items()}
                for key, row in self.rows.get(id, {}).items()
            }
            for id, each in self.types.items()
        }

    def breaks_rules(self) -> bool:
        return any(
            not said.allows(row[at])
            for id, each in self.types.items()
            for row in self.rows.get(id, {}).values()
            for at, said in each.properties.items()
        )


# ---------------------------------------------------------------- merging


def merged(base: Branch, ours: Branch, theirs: Branch, strategy: str) -> Branch:
    """Raises Conflict."""
    result = Branch(used=ours.used | theirs.used, hard=ours.hard | theirs.hard)
    for id in dict.fromkeys([*ours.types, *theirs.types]):
        each = _merged_type(id, base, ours, theirs)
        if each is not None:
            result.types[id] = each
    _check_names(result)
    clashes = False
    for id, each in result.types.items():
        sides = [_seen(branch, id, each) for branch in (base, ours, theirs)]
        result.rows[id], is_clash = _merged_rows(*sides, strategy)
        clashes |= is_clash
    if clashes or result.breaks_rules():
        raise Conflict("rows")
    return result.copy()  # Declarations may be those of a branch, which goes on.


def _pick(bases: list[Any], ours: Any, theirs: Any) -> Any:
    if ours == theirs or theirs in bases:
        return ours
    if ours in bases:
        return theirs
    raise Conflict("schema")


def _merged_type(id: Identity, base: Branch, ours: Branch, theirs: Branch) -> Type | None:
    before, one, other = base.types.get(id), ours.types.get(id), theirs.types.get(id)
    if one is None or other is None:
        holder, declared = (ours, one) if one is not None else (theirs, other)
        if before is None:
            _check_not_hard(id, ours, theirs)
            return declared
        if declared != before or _is_written(base, holder, id, None):
            raise Conflict("schema")
        return None
    name = _pick([before.name] if before else [], one.name, other.name)
    known = before.properties if before else {}
    properties: dict[Identity, Property] = {}
    for at in dict.fromkeys([*one.properties, *other.properties]):
        a, b, c = one.properties.get(at), other.properties.get(at), known.get(at)
        if a is not None and b is not None:
            properties[at] = _merged_property(c, a, b)
        elif c is None:
            _check_not_hard(at, ours, theirs)
            properties[at] = a or b  # type: ignore[assignment]  # one of them has it
        elif (a or b) != c or _is_written(base, ours if a is not None else theirs, id, at):
            raise Conflict("schema")
    return Type(name, properties)


def _check_not_hard(id: Identity, ours: Branch, theirs: Branch) -> None:
    if id in ours.hard | theirs.hard:
        raise Conflict("schema")


def _merged_property(base: Property | None, ours: Property, theirs: Property) -> Property:
    bases = [] if base is None else [base]
    said: dict[str, Any] = {
        name: _pick([getattr(each, name) for each in bases], getattr(ours, name), getattr(theirs, name))
        for name in ("name", "kind", "required", "default", "fill")
    }
    # A range is a declaration beside the property: what was not there is a value too.
    said["range"] = _pick([each.range for each in bases] or [None], ours.range, theirs.range)
    old = frozenset().union(*(each.words for each in bases))
    said["words"] = (ours.words & theirs.words) | ((ours.words | theirs.words) - old)
    return replace(ours, **said)


def _is_written(base: Branch, side: Branch, id: Identity, at: Identity | None) -> bool:
    """Whether entities were inserted, or changed, with a value of the property (any)."""
    declared = side.types[id]
    before = _seen(base, id, declared)
    for key, row in side.rows.get(id, {}).items():
        old = before.get(key)
        if at is None and row != old:
            return True
        if at is not None and (row[at] is not None if old is None else row[at] != old[at]):
            return True
    return False


def _seen(branch: Branch, id: Identity, wanted: Type) -> dict[str, Row]:
    """The entities of a branch as entities of another declaration of their type."""
    return {
        key: {at: row.get(at, said.fill) for at, said in wanted.properties.items()}
        for key, row in branch.rows.get(id, {}).items()
    }


def _merged_rows(
    base: dict[str, Row], ours: dict[str, Row], theirs: dict[str, Row], strategy: str
) -> tuple[dict[str, Row], bool]:
    result: dict[str, Row] = {}
    is_clash = False
    for key in sorted({*base, *ours, *theirs}):
        before, one, other = base.get(key), ours.get(key), theirs.get(key)
        if one == other or other == before:
            chosen = one
        elif one == before:
            chosen = other
        else:
            is_clash |= strategy == "fail"
            chosen = one if strategy == "ours" else other
        if chosen is not None:
            result[key] = dict(chosen)
    return result, is_clash


def _check_names(branch: Branch) -> None:
    for names in _names(branch):
        if len(set(names)) < len(names):
            raise Conflict("schema")


def _names(branch: Branch) -> Iterator[list[str]]:
    yield [each.name for each in branch.types.values()]
    for each in branch.types.values():
        yield [said.name for said in each.properties.values()]
