"""Old catalog + new schema text -> an ordered plan of typed steps. Nothing is applied here, and no rows are read.

Types and properties are compared by their stable ids, so a rename is a rename and everything else is compared as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.language.catalog import Catalog, Constraint, EdgeType, InterfaceType, NodeType, Property
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.migration_steps import (
    STEP_ORDER,
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    ChangeInterfaces,
    DropMode,
    DropProperty,
    DropType,
    Effect,
    ExtendEnum,
    MigrationStep,
    NarrowEnum,
    RelaxProperty,
    RemoveConstraint,
    RenameProperty,
    RenameType,
    RequireProperty,
    TypeKind,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)
from omnigraph.language.schema.stable_ids import ids_of
from omnigraph.values.types import WIDER_SCALARS, PropertyType, Scalar, is_rounded

AnyType = InterfaceType | NodeType | EdgeType

_ADD_CODES = {"key": "OG-MF-112", "unique": "OG-MF-107", "range": "OG-MF-108", "check": "OG-MF-109"}
_REMOVE_CODES = {
    "unique": "OG-CD-101",
    "range": "OG-CD-102",
    "check": "OG-CD-103",
    "index": "OG-CD-104",
    "key": "OG-CD-106",
}


@dataclass(frozen=True)
class MigrationPlan:
    """The steps from one schema to another; `catalog` is the schema after them. A plan with a refused step must not be applied at all.

    >>> plan = g.schema.plan(SCHEMA.replace("age: I32?", "age: I64?"))
    >>> assert (plan.supported, len(plan.steps)) == (True, 1)
    """

    steps: tuple[MigrationStep, ...]
    catalog: Catalog

    @property
    def supported(self) -> bool:
        """Whether every step can be applied."""
        return not any(step.effect == "refused" for step in self.steps)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps

    def __repr__(self) -> str:
        return f"<MigrationPlan of {len(self.steps)} steps{'' if self.supported else ', not supported'}>"

    def lines(self) -> list[str]:
        """Each step in words."""
        return [step.line() for step in self.steps]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def plan_migration(
    old: Catalog,
    new_text: str,
    file: str | None = None,
    *,
    allow_data_loss: bool = False,
) -> MigrationPlan:
    """The steps from a catalog to a new schema text. Raises SchemaError if the text does not compile.

    Drops are soft unless `allow_data_loss` makes every drop hard.
    """
    new = compile_schema(new_text, file, old)
    if allow_data_loss:
        new = replace(new, hard_dropped=tuple(sorted({*new.hard_dropped, *(ids_of(old) - ids_of(new))})))
    return MigrationPlan(compare_catalogs(old, new, may_round=allow_data_loss), new)


def compare_catalogs(old: Catalog, new: Catalog, *, may_round: bool = False) -> tuple[MigrationStep, ...]:
    """The steps between two catalogs of one graph, in the order in which they apply. `may_round` skips the check of numbers that
    would be rounded."""
    steps: list[MigrationStep] = []
    old_types, new_types = _types(old), _types(new)
    for id, (kind, declared) in new_types.items():
        if id not in old_types:
            steps.append(AddType(type_kind=kind, name=declared.name))
        else:
            steps.extend(_TypeChange(kind, old_types[id][1], declared, old, new, may_round).steps())
    for id, (kind, gone) in reversed(old_types.items()):
        if id not in new_types:
            code = {"interface": None, "node": "OG-DS-102", "edge": "OG-DS-103"}[kind]
            steps.append(DropType(type_kind=kind, name=gone.name, mode=_drop_mode(id, new), code=code))
    return tuple(sorted(steps, key=lambda step: STEP_ORDER.index(type(step))))


def _drop_mode(id: int, after: Catalog) -> DropMode:
    return "hard" if id in after.hard_dropped else "soft"


def _types(catalog: Catalog) -> dict[int, tuple[TypeKind, AnyType]]:
    """Every type by id; edges last, so that nodes are added before the edges between them and dropped after them."""
    by_id: dict[int, tuple[TypeKind, AnyType]] = {}
    groups: tuple[tuple[TypeKind, Mapping[str, AnyType]], ...] = (
        ("interface", catalog.interfaces),
        ("node", catalog.nodes),
        ("edge", catalog.edges),
    )
    for kind, types in groups:
        for _, declared in sorted(types.items()):
            by_id[declared.id] = (kind, declared)
    return by_id


class _TypeChange:
    """One type before and after."""

    def __init__(
        self, kind: TypeKind, before: AnyType, after: AnyType, old: Catalog, new: Catalog, may_round: bool
    ) -> None:
        self.kind = kind
        self.before = before
        self.after = after
        self.old = old
        self.new = new
        self.may_round = may_round
        self.name = after.name
        self.entity = f"{kind}:{after.name}"
        self.old_properties = {property.id: property for property in before.properties.values()}
        self.new_properties = {property.id: property for property in after.properties.values()}
        self.links_changed = False

    def steps(self) -> Iterator[MigrationStep]:
        if self.before.name != self.name:
            yield RenameType(type_kind=self.kind, from_=self.before.name, to=self.name)
        yield from self._type_steps()
        for id, property in self.new_properties.items():
            if id in self.old_properties:
                yield from self._property_steps(self.old_properties[id], property)
            else:
                yield self._added(property)
        for id, property in self.old_properties.items():
            if id not in self.new_properties:
                yield self._dropped(property)
        yield from self._constraint_steps()

    def _refuse(self, reason: str, code: str, *, member: str | None = None, advice: str | None = None) -> MigrationStep:
        entity = self.entity if member is None else f"{self.entity}.{member}"
        return UnsupportedChange(entity=entity, reason=reason, code=code, advice=advice)

    def _on_rows(self, effect: Effect) -> Effect:
        """The effect on rows. An interface has none: the steps of the implementing node types have the effects."""
        return "metadata" if self.kind == "interface" else effect

    # ------------------------------------------------------------ the type itself

    def _type_steps(self) -> Iterator[MigrationStep]:
        before, after = self.before, self.after
        if isinstance(before, NodeType) and isinstance(after, NodeType):
            yield from self._interface_steps(before, after)
        if isinstance(before, EdgeType) and isinstance(after, EdgeType):
            yield from self._edge_steps(before, after)
        if isinstance(before, InterfaceType) or isinstance(after, InterfaceType):
            return
        names = ("description", "instruction", *(("family",) if isinstance(after, EdgeType) else ()))
        changed = _changed(before, after, names)
        if changed:
            yield UpdateTypeMetadata(
                type_kind=self.kind,
                name=self.name,
                changed=changed,
                description=after.description,
                instruction=after.instruction,
            )

    def _interface_steps(self, before: NodeType, after: NodeType) -> Iterator[MigrationStep]:
        """Interfaces that are added or removed. Their properties have separate steps."""
        old = {self.old.interfaces[name].id: name for name in before.implements}
        new = {self.new.interfaces[name].id: name for name in after.implements}
        self.links_changed = old.keys() != new.keys()
        if self.links_changed:
            yield ChangeInterfaces(
                name=self.name,
                added=tuple(sorted(name for id, name in new.items() if id not in old)),
                removed=tuple(sorted(name for id, name in old.items() if id not in new)),
            )

    def _edge_steps(self, before: EdgeType, after: EdgeType) -> Iterator[MigrationStep]:
        old_ends = [self.old.nodes[name].id for name in (before.source, before.target)]
        new_ends = [self.new.nodes[name].id for name in (after.source, after.target)]
        if old_ends != new_ends:
            yield self._refuse(
                f"the edges of '{self.name}' join {before.source} and {before.target}, and cannot join other types",
                "OG-ED-101",
                advice="declare another edge type, which moves no edge; or replace this one, and move the edges "
                "with --with: insert New { from: $a.id, to: $b.id } match { $a $e:old $b }",
            )
        if (before.min_out, before.max_out) != (after.min_out, after.max_out):
            highest = float("inf")
            wider = after.min_out <= before.min_out and (after.max_out if after.max_out is not None else highest) >= (
                before.max_out if before.max_out is not None else highest
            )
            yield ChangeCardinality(
                name=self.name,
                from_=_cardinality(before),
                to=_cardinality(after),
                effect="metadata" if wider else "validate",
                code=None if wider else "OG-ED-102",
            )

    # ------------------------------------------------------------ properties

    def _added(self, property: Property) -> MigrationStep:
        must_be_empty = property.is_required and property.default is None and self.kind != "interface"
        return AddProperty(
            type_kind=self.kind,
            type_name=self.name,
            property_name=property.name,
            property_type=property.type,
            default=property.default,
            effect="validate" if must_be_empty else "metadata",
            code="OG-MF-103" if must_be_empty else None,
        )

    def _dropped(self, property: Property) -> MigrationStep:
        vector = property.type.scalar is Scalar.VECTOR
        code = None if self.kind == "interface" else "OG-DS-105" if vector else "OG-DS-104"
        return DropProperty(
            type_kind=self.kind,
            type_name=self.name,
            property_name=property.name,
            mode=_drop_mode(property.id, self.new),
            code=code,
        )

    def _property_steps(self, before: Property, after: Property) -> Iterator[MigrationStep]:
        if before.name != after.name:
            yield RenameProperty(type_kind=self.kind, type_name=self.name, from_=before.name, to=after.name)
        if before.type != after.type:
            yield from self._type_change(before, after)
        changed = _changed(before, after, ("description", "default", "metric", "language"))
        if self._embedding(before, self.before) != self._embedding(after, self.after):
            changed = (*changed, "embed")
        if not self.links_changed and self._declaration(before, self.old) != self._declaration(after, self.new):
            changed = (*changed, "declaration")
        if changed:
            yield UpdatePropertyMetadata(
                type_kind=self.kind,
                type_name=self.name,
                property_name=after.name,
                changed=changed,
                description=after.description,
                default=after.default,
                metric=after.metric,
                language=after.language,
            )

    def _embedding(self, property: Property, owner: AnyType) -> tuple[int | str, str | None] | None:
        """Source and model, with the source by id so that renaming it changes nothing."""
        if property.embed is None:
            return None
        source = owner.properties.get(property.embed.source)
        return (property.embed.source if source is None else source.id, property.embed.model)

    def _declaration(self, property: Property, catalog: Catalog) -> tuple[bool, list[int]]:
        """Where it is declared: in the type itself, or in which interfaces."""
        return property.declared_directly, sorted(catalog.interfaces[name].id for name in property.interfaces)

    def _type_change(self, old: Property, property: Property) -> Iterator[MigrationStep]:
        before, after = old.type, property.type
        where: dict[str, Any] = {"type_kind": self.kind, "type_name": self.name, "property_name": property.name}
        if replace(before, nullable=False) != replace(after, nullable=False):
            yield self._core_change(before, property, where)
        if before.nullable and not after.nullable:
            effect = self._on_rows("validate")
            yield RequireProperty(**where, effect=effect, code="OG-MF-104" if effect == "validate" else None)
        elif after.nullable and not before.nullable:
            yield RelaxProperty(**where)

    def _core_change(self, before: PropertyType, property: Property, where: dict[str, Any]) -> MigrationStep:
        after = property.type
        if before.scalar is after.scalar is Scalar.STRING and before.is_list == after.is_list:
            return self._enum_change(before, after, where)
        target = f"{self.name}.{property.name}"
        is_wider = after.scalar is before.scalar or after.scalar in WIDER_SCALARS.get(before.scalar, ())
        may_be_listed = after.is_list == before.is_list or (after.is_list and before.scalar is not Scalar.BLOB)
        if is_wider and may_be_listed and before.dimension == after.dimension and before.enum == after.enum:
            is_key = not isinstance(self.after, InterfaceType) and property.name in self.after.key
            if is_key and before.scalar is Scalar.F32:
                reason = f"'{target}' is part of the key, and another number would change the ids of its {self.kind}s"
                return self._refuse(reason, "OG-BC-101", member=property.name, advice=f"declare a new {self.kind} type")
            loses_digits = is_rounded(before, after) and self.kind != "interface"
            effect: Effect = "validate" if loses_digits and (is_key or not self.may_round) else "metadata"
            code = "OG-MF-105" if loses_digits else None
            return WidenProperty(**where, from_=before, to=after, effect=effect, code=code)
        return self._refuse(
            f"values of '{target}' are {before}, and not every one is a value of {after}",
            "OG-MF-106",
            member=property.name,
            advice=f"add a property of type {after}, fill it with --with, and drop this one",
        )

    def _enum_change(self, before: PropertyType, after: PropertyType, where: dict[str, Any]) -> MigrationStep:
        """A change between String and enum, or of the words of an enum. No words means any text."""
        added = tuple(value for value in after.enum if value not in before.enum) if before.enum else ()
        removed = tuple(value for value in before.enum if value not in after.enum) if after.enum else ()
        if not after.enum or (before.enum and not removed):
            return ExtendEnum(**where, added_values=added)
        effect = self._on_rows("validate")
        code = "OG-MF-106" if effect == "validate" else None
        return NarrowEnum(
            **where, removed_values=removed, added_values=added, allowed=after.enum, effect=effect, code=code
        )

    # ------------------------------------------------------------ constraints

    def _constraint_steps(self) -> Iterator[MigrationStep]:
        before = {_shape(constraint, self.before): constraint for constraint in self.before.constraints}
        after = {_shape(constraint, self.after): constraint for constraint in self.after.constraints}
        removed = [constraint for shape, constraint in before.items() if shape not in after]
        added = [constraint for shape, constraint in after.items() if shape not in before]
        if self.kind != "edge":
            yield from self._key_steps(removed, added)
            removed, added = (
                [constraint for constraint in side if constraint.kind != "key"] for side in (removed, added)
            )
        for constraint in removed:
            ids = [self.before.properties[name].id for name in constraint.fields if name in self.before.properties]
            if constraint.kind == "key" or all(id in self.new_properties for id in ids):
                yield RemoveConstraint(
                    type_kind=self.kind,
                    type_name=self.name,
                    constraint=constraint,
                    code=_REMOVE_CODES[constraint.kind],
                )
        for constraint in added:
            effect = self._on_rows(self._added_effect(constraint, removed))
            code = _ADD_CODES[constraint.kind] if effect == "validate" else None
            yield AddConstraint(
                type_kind=self.kind, type_name=self.name, constraint=constraint, effect=effect, code=code
            )

    def _key_steps(self, removed: list[Constraint], added: list[Constraint]) -> Iterator[MigrationStep]:
        advice = "declare a new node type with the key you want, and load its nodes"
        reason = f"the key of '{self.name}' gives every node its id, and ids do not change"
        if any(constraint.kind == "key" for constraint in added):
            yield self._refuse(reason, "OG-BC-101", advice=advice)
        elif any(constraint.kind == "key" for constraint in removed):
            yield self._refuse(reason, "OG-CD-105", advice=advice)

    def _added_effect(self, constraint: Constraint, removed: list[Constraint]) -> Effect:
        """Whether rows must be checked before this constraint holds."""
        if constraint.kind == "index":
            return "metadata"
        if constraint.kind == "key":
            return "validate"
        members = [self.after.properties[name] for name in constraint.fields if name in self.after.properties]
        new = [member for member in members if member.id not in self.old_properties]
        if constraint.kind == "unique":
            # A new property without default is null in every row, and the constraint ignores rows with a null member.
            return "metadata" if any(member.default is None for member in new) else "validate"
        if all(member.default is None for member in new) and new:
            return "metadata"
        if any(_contains(constraint, self._renamed(known)) for known in removed):
            return "metadata"
        return "validate"

    def _renamed(self, constraint: Constraint) -> Constraint:
        """An old constraint with the new names of its properties."""
        ids = [self.before.properties[name].id for name in constraint.fields if name in self.before.properties]
        names = tuple(self.new_properties[id].name for id in ids if id in self.new_properties)
        return replace(constraint, fields=names)


def _changed(before: Any, after: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Which of these members differ, annotations without behaviour included."""
    changed = tuple(name for name in names if getattr(before, name) != getattr(after, name))
    if sorted(map(repr, before.annotations)) != sorted(map(repr, after.annotations)):
        return (*changed, "annotations")
    return changed


def _contains(wider: Constraint, narrower: Constraint) -> bool:
    if wider.kind != "range" or narrower.kind != "range" or wider.fields != narrower.fields:
        return False
    low = wider.minimum is None or (narrower.minimum is not None and wider.minimum <= narrower.minimum)
    high = wider.maximum is None or (narrower.maximum is not None and wider.maximum >= narrower.maximum)
    return low and high


def _shape(constraint: Constraint, owner: AnyType) -> tuple[object, ...]:
    """A constraint by the ids of its members. Their order has no meaning, except in a key: ids follow it."""
    ids = [str(owner.properties[name].id) if name in owner.properties else name for name in constraint.fields]
    return (
        constraint.kind,
        *(ids if constraint.kind == "key" else sorted(ids)),
        constraint.minimum,
        constraint.maximum,
        constraint.pattern,
    )


def _cardinality(edge: EdgeType) -> str:
    return f"{edge.min_out}..{'*' if edge.max_out is None else edge.max_out}"
