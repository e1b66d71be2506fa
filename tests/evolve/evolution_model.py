"""Branches of typed data as plain Python values: schemas with identities, entities, and the three-way merge of both.

A type or property is an *identity*: its owner, the name it was added under, and a count that goes up when the name was used
before. Renaming changes the name, never the identity.

An entity has a value for every property that its type had when it was written, or that was added since. It keeps the values of
dropped properties, which nobody sees: they are seen again if a merge or a revert declares the property again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Identity = tuple[Any, str, int]
FIRST = -1
"""The count of what the first schema of the graph declares."""

Value = Any
Row = dict[Identity, Value]
Range = tuple[int, int]
WIDER = {"I32": ("I64", "F64"), "I64": ("F64",), "U32": ("U64", "I64", "F64"), "U64": ("F64",), "F32": ("F64",)}


@dataclass(frozen=True)
class Property:
    """`kind`: a scalar type, one in brackets for a list of them, or enum. `fill`: what entities have that are older than the
    property."""

    name: str
    kind: str
    words: frozenset[str] = frozenset()
    required: bool = False
    default: Value = None
    fill: Value = None
    range: Range | None = None
    is_indexed: bool = False

    def text(self) -> str:
        type = f"enum({', '.join(sorted(self.words))})" if self.kind == "enum" else self.kind
        default = f'"{self.default}"' if isinstance(self.default, str) else self.default
        return (
            f"{self.name}: {type}{'' if self.required else '?'}"
            + ("" if default is None else f" @default({default})")
            + (" @index" if self.is_indexed else "")
        )

    def allows(self, value: Value) -> bool:
        if value is None:
            return not self.required
        if self.kind == "enum":
            return value in self.words
        return self.range is None or self.range[0] <= int(value) <= self.range[1]

    def seen(self, value: Value) -> Value:
        """A value, which may have been written under a narrower type, as a value of this one."""
        scalar = self.kind.strip("[]")
        if value is None or isinstance(value, list):
            return value if value is None else [_as_scalar(scalar, each) for each in value]
        own = _as_scalar(scalar, value)
        return [own] if self.is_list else own

    @property
    def is_list(self) -> bool:
        return self.kind.startswith("[")

    def widened(self, kind: str) -> Property:
        """With a wider type. A list has no default."""
        wider = replace(self, kind=kind, default=None if kind.startswith("[") else self.default)
        return replace(wider, fill=wider.seen(self.fill))


def _as_scalar(kind: str, value: Value) -> Value:
    if kind == "F32":
        return struct.unpack("f", struct.pack("f", value))[0]
    return float(value) if kind == "F64" else value


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of a kind is a value of another."""
    scalar, own = wide.strip("[]"), narrow.strip("[]")
    return (scalar == own or scalar in WIDER.get(own, ())) and (wide.startswith("[") or not narrow.startswith("["))


@dataclass(frozen=True)
class Type:
    name: str
    properties: dict[Identity, Property] = field(default_factory=dict)
    is_edge: bool = False
    """Edges join the node `x` of a type `X`, which is no part of the model, with itself."""


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
    open: dict[tuple[Identity, str, Identity], list[Value]] = field(default_factory=dict)
    """Values that a merge may have chosen as well, by type, entity and property: only a branch that had dropped the property had
    the value that the model chose."""

    def copy(self) -> Branch:
        return Branch(
            {id: replace(each, properties=dict(each.properties)) for id, each in self.types.items()},
            {id: {key: dict(row) for key, row in rows.items()} for id, rows in self.rows.items()},
            set(self.used),
            set(self.hard),
            dict(self.open),
        )

    def new_identity(self, owner: Any, name: str) -> Identity:
        count = 0
        while (owner, name, count) in self.used:
            count += 1
        self.used.add((owner, name, count))
        return (owner, name, count)

    def text(self, renamed: dict[Identity, str] | None = None) -> str:
        """The schema; `renamed` has the names before of what is called otherwise now."""
        before = {id: f' @rename_from("{name}")' for id, name in (renamed or {}).items()}
        lines = ["node X { name: String @key }"] if any(each.is_edge for each in self.types.values()) else []
        for id, each in self.types.items():
            if each.is_edge:
                lines.append(f"edge {each.name}: X -> X{before.get(id, '')} {{")
            else:
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
                key: {said.name: said.seen(row[at]) for at, said in each.properties.items()}
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

    def under(self, other: Branch) -> Branch:
        """These entities through another schema."""
        rows = {id: _seen(self, id, declared) for id, declared in other.types.items()}
        return Branch(other.types, rows, self.used, self.hard)

    def settle(self, found: dict[str, dict[str, dict[str, Value]]]) -> None:
        """Take over what a graph has where it was free to choose."""
        for (id, key, at), values in self.open.items():
            declared = self.types.get(id)
            row = self.rows.get(id, {}).get(key)
            if declared is None or row is None or at not in declared.properties:
                continue
            said = declared.properties[at]
            value = found.get(declared.name, {}).get(key, {}).get(said.name)
            if any(same(said.seen(each), value) for each in values):
                row[at] = value
        self.open = {}


def same(value: Value, other: Value) -> bool:
    """Equal and of the same Python type: 1 is not 1.0."""
    return repr(value) == repr(other)


# ---------------------------------------------------------------- merging


def merged(base: Branch, ours: Branch, theirs: Branch, strategy: str, by: str = "row") -> Branch:
    """Raises Conflict."""
    result = Branch(used=ours.used | theirs.used, hard=ours.hard | theirs.hard)
    for id in dict.fromkeys([*ours.types, *theirs.types]):
        each = _merged_type(id, base, ours, theirs, strategy)
        if each is not None:
            result.types[id] = each
    _check_names(result)
    clashes = False
    for id, each in result.types.items():
        # A branch that dropped a type which the merge keeps has the entities of the base.
        holders = [branch if id in branch.types else base for branch in (base, ours, theirs)]
        sides = [_seen(branch, id, each) for branch in holders]
        result.rows[id], is_clash = _merged_rows(*sides, each, strategy, by)
        clashes |= is_clash
        for key, row in result.rows[id].items():
            for at, said in each.properties.items():
                if values := _other_values(base, ours, theirs, id, key, at, said):
                    result.open[id, key, at] = [row[at], *values]
                    # A required property that comes back has a value again in a row that was written without it.
                    row[at] = next(filter(said.allows, result.open[id, key, at]), row[at])
    if clashes or result.breaks_rules():
        raise Conflict("rows")
    return result.copy()  # Declarations may be those of a branch, which goes on.


def _other_values(
    base: Branch, ours: Branch, theirs: Branch, id: Identity, key: str, at: Identity, said: Property
) -> list[Value]:
    """What an entity may have in a property that one of the branches dropped."""
    declares = [at in branch.types[id].properties for branch in (ours, theirs) if id in branch.types]
    rows = {
        name: branch.rows.get(id, {}).get(key) for name, branch in (("base", base), ("ours", ours), ("theirs", theirs))
    }
    if all(declares):
        return []
    visible = [
        row[at]
        for branch, row in ((base, rows["base"]), (ours, rows["ours"]), (theirs, rows["theirs"]))
        if row is not None and id in branch.types and at in branch.types[id].properties
    ]
    return visible or [said.fill]


def _pick(bases: list[Any], ours: Any, theirs: Any, strategy: str = "fail") -> Any:
    if ours == theirs or (theirs in bases and ours not in bases):
        return ours
    if ours in bases and theirs not in bases:
        return theirs
    if strategy != "fail":
        return ours if strategy == "ours" else theirs
    raise Conflict("schema")


def _merged_type(id: Identity, base: Branch, ours: Branch, theirs: Branch, strategy: str) -> Type | None:
    before, one, other = base.types.get(id), ours.types.get(id), theirs.types.get(id)
    if one is None or other is None:
        holder, declared = (ours, one) if one is not None else (theirs, other)
        assert declared is not None
        wins = strategy == ("ours" if holder is ours else "theirs")
        is_changed = declared != before or _is_written(base, holder, id, None) if before is not None else True
        return declared if _is_kept(id, before is not None, ours, theirs, strategy, is_changed, wins) else None
    name = _pick([before.name] if before else [], one.name, other.name, strategy)
    known = before.properties if before else {}
    properties: dict[Identity, Property] = {}
    for at in dict.fromkeys([*one.properties, *other.properties]):
        a, b, c = one.properties.get(at), other.properties.get(at), known.get(at)
        if a is not None and b is not None:
            properties[at] = _merged_property(c, a, b, strategy)
            continue
        declared_property = a if a is not None else b
        assert declared_property is not None
        holder = ours if a is not None else theirs
        is_changed = declared_property != c or _is_written(base, holder, id, at)
        wins = strategy == ("ours" if holder is ours else "theirs")
        if _is_kept(at, c is not None, ours, theirs, strategy, is_changed, wins):
            properties[at] = declared_property
    return Type(name, properties, one.is_edge)


def _is_kept(
    id: Identity, was_in_base: bool, ours: Branch, theirs: Branch, strategy: str, is_changed: bool, wins: bool
) -> bool:
    """Whether the merge has what only one branch has, which wins or does not."""
    is_hard = id in ours.hard | theirs.hard
    if not was_in_base and not is_hard:
        return True
    if not is_changed:
        return False
    if is_hard or strategy == "fail":
        raise Conflict("schema")
    return wins


def _merged_property(base: Property | None, ours: Property, theirs: Property, strategy: str) -> Property:
    bases = [] if base is None else [base]
    said: dict[str, Any] = {
        name: _pick([getattr(each, name) for each in bases], getattr(ours, name), getattr(theirs, name), strategy)
        for name in ("name", "required", "default")
    }
    said["kind"] = _pick([each.kind for each in bases], ours.kind, theirs.kind)
    if not (holds(said["kind"], ours.kind) and holds(said["kind"], theirs.kind)):
        raise Conflict("schema")
    wide = replace(ours, kind=said["kind"])
    fills = [wide.seen(each.fill) for each in (*bases, ours, theirs)]
    said["fill"] = _pick(fills[:-2], *fills[-2:], strategy)
    # A range is a declaration beside the property: what was not there is a value too.
    said["range"] = _pick([each.range for each in bases] or [None], ours.range, theirs.range, strategy)
    old = frozenset().union(*(each.words for each in bases))
    said["words"] = (ours.words & theirs.words) | ((ours.words | theirs.words) - old)
    result = replace(ours, **said)
    if result.is_list and (result.default is not None or result.range is not None):
        raise Conflict("schema")
    return result


def _is_written(base: Branch, side: Branch, id: Identity, at: Identity | None) -> bool:
    """Whether entities were inserted, or changed, with a value of the property (any)."""
    declared = side.types[id]
    before = _seen(base, id, declared)
    for key, row in _seen(side, id, declared).items():
        old = before.get(key)
        if at is None and (old is None or any(row[each] != old[each] for each in declared.properties)):
            return True
        if at is not None and (row[at] is not None if old is None else row[at] != old[at]):
            return True
    return False


def _seen(branch: Branch, id: Identity, wanted: Type) -> dict[str, Row]:
    """The entities of a branch as entities of another declaration of their type, with all they hide."""
    return {
        key: {**row, **{at: said.seen(row.get(at, said.fill)) for at, said in wanted.properties.items()}}
        for key, row in branch.rows.get(id, {}).items()
    }


def _merged_rows(
    base: dict[str, Row], ours: dict[str, Row], theirs: dict[str, Row], declared: Type, strategy: str, by: str
) -> tuple[dict[str, Row], bool]:
    def visible(row: Row | None) -> list[Value] | None:
        return None if row is None else [row[at] for at in declared.properties]

    result: dict[str, Row] = {}
    is_clash = False
    for key in sorted({*base, *ours, *theirs}):
        one, other = ours.get(key), theirs.get(key)
        before, seen, others = visible(base.get(key)), visible(one), visible(other)
        if others in (seen, before):
            chosen = one
        elif seen == before:
            chosen = other
        elif by == "property" and one is not None and other is not None:
            chosen = dict(one)
            for at in declared.properties:
                olds = [base[key][at]] if key in base else []
                if one[at] == other[at] or other[at] in olds:
                    continue
                is_clash |= one[at] not in olds and strategy == "fail"
                if one[at] in olds or strategy == "theirs":
                    chosen[at] = other[at]
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
    yield [each.name for each in branch.types.values() if not each.is_edge]
    yield [each.name for each in branch.types.values() if each.is_edge]
    for each in branch.types.values():
        yield [said.name for said in each.properties.values()]
