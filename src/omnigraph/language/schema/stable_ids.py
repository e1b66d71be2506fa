"""Stable ids: types and properties keep theirs across renames, and a name that is dropped and added again gets a new one.

The ids of a graph's first schema count from 1: types first (interfaces, nodes, edges; each by name), then properties by
(id of the owner, name). What a later schema adds has an id that is derived from its owner and its name, so two branches
that add the same name mean the same thing and can be merged. An exact name always wins over `@rename_from`, which has no effect
without a previous catalog.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence

from omnigraph.language.catalog import Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.language.catalog_json import property_type_json
from omnigraph.language.schema.properties import PropertyDraft, TypeDraft
from omnigraph.language.schema.rules import SchemaText
from omnigraph.language.schema.syntax import DeclarationKind

AnyType = InterfaceType | NodeType | EdgeType

_KIND_ORDER: dict[DeclarationKind, int] = {"interface": 0, "node": 1, "edge": 2}
_NOUNS: dict[DeclarationKind, str] = {"interface": "interface", "node": "node type", "edge": "edge type"}

FIRST_DERIVED_ID = 2**51
"""Derived ids have 52 bits with the highest one set: JSON readers keep them exact, and they are larger than all ids of first
schemas."""


def give_ids(
    drafts: Sequence[TypeDraft],
    previous: Catalog | None,
    new_table_id: Callable[[str], str] | None,
    source: SchemaText,
) -> int:
    """Sets id, property_ids and table_id of every draft; returns the `next_id` of the catalog. `new_table_id` names the tables of
    a first schema; the names of tables that a later schema adds are derived from their declarations.
    """
    ordered = sorted(drafts, key=lambda draft: (_KIND_ORDER[draft.kind], draft.name))
    origins = _type_origins(ordered, previous, source)
    ids = _Counted() if previous is None else _Derived(previous)
    for draft in ordered:
        origin = origins.get((draft.kind, draft.name))
        draft.id = ids.next(draft.kind, draft.name) if origin is None else origin.id
    missing: list[tuple[TypeDraft, str]] = []
    for draft in ordered:
        origin = origins.get((draft.kind, draft.name))
        draft.property_ids = _kept_property_ids(draft, origin, previous, source)
        missing.extend((draft, name) for name in draft.properties if name not in draft.property_ids)
    for draft, name in sorted(missing, key=lambda pair: (pair[0].id, pair[1])):
        draft.property_ids[name] = ids.next(draft.id, name)
    for draft in sorted(drafts, key=lambda draft: draft.id):
        origin = origins.get((draft.kind, draft.name))
        if isinstance(origin, NodeType | EdgeType):
            draft.table_id = origin.table_id
        elif draft.kind != "interface":
            named = None if previous is not None else new_table_id
            draft.table_id = named(f"{draft.kind}:{draft.name}") if named else _derived_table_id(draft)
    return ids.next_id


class _Counted:
    """The ids of a first schema."""

    def __init__(self) -> None:
        self.next_id = 1

    def next(self, _owner: int | str, _name: str) -> int:
        self.next_id += 1
        return self.next_id - 1


class _Derived:
    """The ids of what a later schema adds: the first of a sequence of numbers, derived from the owner and the name, that no
    earlier schema of the branch has used."""

    def __init__(self, previous: Catalog) -> None:
        self.next_id = previous.next_id
        self._used = {*ids_of(previous), *previous.retired}

    def next(self, owner: int | str, name: str) -> int:
        count = 0
        while (id := _derived_id(owner, name, count)) in self._used:
            count += 1
        self._used.add(id)
        return id


def _derived_id(owner: int | str, name: str, count: int) -> int:
    digest = hashlib.sha256(json.dumps([owner, name, count]).encode()).digest()
    return FIRST_DERIVED_ID + int.from_bytes(digest[:8]) % FIRST_DERIVED_ID


def ids_of(catalog: Catalog) -> set[int]:
    """Every id that a schema uses, for types and properties."""
    types: list[AnyType] = [*catalog.interfaces.values(), *catalog.nodes.values(), *catalog.edges.values()]
    return {type_.id for type_ in types} | {property.id for type_ in types for property in type_.properties.values()}


def retired_ids(previous: Catalog | None, ids: set[int]) -> tuple[int, ...]:
    """The derived ids that `previous` and the schemas before it have used and that are not among `ids`."""
    if previous is None:
        return ()
    used = {*previous.retired, *(id for id in ids_of(previous) if id >= FIRST_DERIVED_ID)}
    return tuple(sorted(used - ids))


def _derived_table_id(draft: TypeDraft) -> str:
    """A table id that depends on the columns too: branches that declare the same name differently must not share a table."""
    columns = sorted((name, property_type_json(declared.property.type)) for name, declared in draft.properties.items())
    text = f"{draft.kind}:{draft.name}#{draft.id}#{json.dumps(columns, sort_keys=True)}"
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _types_of(catalog: Catalog, kind: DeclarationKind) -> Mapping[str, AnyType]:
    if kind == "interface":
        return catalog.interfaces
    return catalog.nodes if kind == "node" else catalog.edges


def _type_origins(
    drafts: Sequence[TypeDraft], previous: Catalog | None, source: SchemaText
) -> dict[tuple[DeclarationKind, str], AnyType]:
    """The previous type of each draft, by name or by `@rename_from`."""
    origins: dict[tuple[DeclarationKind, str], AnyType] = {}
    if previous is None:
        return origins
    taken: dict[int, str] = {}
    for draft in drafts:
        exact = None if draft.family is not None else _types_of(previous, draft.kind).get(draft.name)
        if exact is not None:
            origins[draft.kind, draft.name] = exact
            taken[exact.id] = draft.name
    for draft in drafts:
        if (draft.kind, draft.name) not in origins and draft.rename_from is not None and draft.family is None:
            origin = _renamed_type(draft, previous, source)
            if origin.id in taken:
                raise source.error("S704", draft.rename_from.place, target=draft.name, old=origin.name, reason=_taken(origin.name, taken[origin.id]))  # fmt: skip
            origins[draft.kind, draft.name] = origin
            taken[origin.id] = draft.name
    for draft in drafts:
        known = None if draft.family is None else _member_before(draft, previous, origins)
        if known is not None and known.id not in taken:
            origins[draft.kind, draft.name] = known
            taken[known.id] = draft.name
    return origins


def _member_before(
    draft: TypeDraft, previous: Catalog, origins: Mapping[tuple[DeclarationKind, str], AnyType]
) -> EdgeType | None:
    """What a member of an edge between interfaces was: of the same edge, by name or by `@rename_from`, between the same node types;
    or that edge itself, if it joined just these."""
    assert draft.family is not None
    names = [draft.family.name, *([] if draft.rename_from is None else [draft.rename_from.name])]
    ends = [origins.get(("node", name)) for name in (draft.source, draft.target)]
    for name in names:
        for edge in previous.edges.values():
            known = edge.name if edge.family is None else edge.family.name
            if known == name and [edge.source, edge.target] == [end and end.name for end in ends]:
                return edge
    return None


def _taken(old: str, user: str) -> str:
    return "is still declared" if old == user else f"was renamed to '{user}' already"


def _renamed_type(draft: TypeDraft, previous: Catalog, source: SchemaText) -> AnyType:
    assert draft.rename_from is not None
    old, place = draft.rename_from.name, draft.rename_from.place
    origin = _types_of(previous, draft.kind).get(old)
    if origin is not None:
        return origin
    noun = _NOUNS[draft.kind]
    for kind, other in _NOUNS.items():
        if old in _types_of(previous, kind):
            article = "an" if other[0] in "aeiou" else "a"
            raise source.error("S703", place, target=draft.name, old=old, actual=f"{article} {other}", kind=noun)
    raise source.error("S702", place, target=draft.name, kind=noun, old=old)


def _kept_property_ids(
    draft: TypeDraft, origin: AnyType | None, previous: Catalog | None, source: SchemaText
) -> dict[str, int]:
    if previous is None:
        return {}
    known: Mapping[str, Property] = origin.properties if origin else {}
    ids = {name: known[name].id for name in draft.properties if name in known}
    users = {known[name].id: name for name in ids}
    for name, property in draft.properties.items():
        if name in ids or property.rename_from is None:
            continue
        old = property.rename_from.name
        if old not in known:
            if property.property.declared_directly:
                raise _unknown_property(draft, property, previous, source)
            continue
        if known[old].id in users:
            target, reason = f"{draft.name}.{name}", _taken(old, users[known[old].id])
            raise source.error("S704", property.rename_from.place, target=target, old=old, reason=reason)
        ids[name] = known[old].id
        users[known[old].id] = name
    return ids


def _unknown_property(draft: TypeDraft, property: PropertyDraft, previous: Catalog, source: SchemaText) -> Exception:
    assert property.rename_from is not None
    old, place = property.rename_from.name, property.rename_from.place
    target = f"{draft.name}.{property.property.name}"
    for kind in _NOUNS:
        for other in _types_of(previous, kind).values():
            if old in other.properties and other.id != draft.id:
                reason = f"a property of {_NOUNS[kind]} {other.name}"
                return source.error(
                    "S703", place, target=target, old=old, actual=reason, kind=f"property of {draft.name}"
                )
    return source.error("S702", place, target=target, kind="property", old=old)
