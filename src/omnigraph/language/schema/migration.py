"""Old catalog + new schema text -> an ordered plan of typed steps. Nothing is applied here, and no rows are looked at.

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
    DropMode,
    DropProperty,
    DropType,
    Effect,
    ExtendEnum,
    MigrationStep,
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
from omnigraph.values.types import PropertyType, Scalar

AnyType = InterfaceType | NodeType | EdgeType

_NOT_SUPPORTED = "is not supported in schema migration v1"
_WIDER: dict[Scalar, tuple[Scalar, ...]] = {
    Scalar.I32: (Scalar.I64, Scalar.F64),
    Scalar.U32: (Scalar.U64, Scalar.I64),
    Scalar.F32: (Scalar.F64,),
}
_ADD_CODES = {"unique": "OG-MF-107", "range": "OG-MF-108", "check": "OG-MF-109"}
_REMOVE_CODES = {"unique": "OG-CD-101", "range": "OG-CD-102", "check": "OG-CD-103", "index": "OG-CD-104"}


@dataclass(frozen=True)
class MigrationPlan:
    """The steps from one schema to another; `catalog` is the schema after them. A plan with a refused step must not be applied at all.

    >>> plan = g.plan_schema(SCHEMA.replace("age: I32?", "age: I64?"))
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
        """Whether nothing is to be done."""
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
    """What it takes to go from a catalog to a new schema text. Raises SchemaError when the text does not compile.

    Drops are soft (older snapshots keep the data) unless `allow_data_loss` makes every drop hard.
    """
    new = compile_schema(new_text, file, old)
    return MigrationPlan(compare_catalogs(old, new, "hard" if allow_data_loss else "soft"), new)


def compare_catalogs(old: Catalog, new: Catalog, drop_mode: DropMode = "soft") -> tuple[MigrationStep, ...]:
    """The steps between two catalogs of one graph, in the order in which they apply."""
    steps: list[MigrationStep] = []
    old_types, new_types = _types(old), _types(new)
    for id, (kind, declared) in new_types.items():
        if id not in old_types:
            steps.append(AddType(type_kind=kind, name=declared.name))
        else:
            steps.extend(_TypeChange(kind, old_types[id][1], declared, old, new, drop_mode).steps())
    for id, (kind, gone) in reversed(old_types.items()):
        if id not in new_types:
            steps.append(_dropped_type(kind, gone.name, drop_mode))
    if not steps and old.hash != new.hash:
        reason = f"this change has no classification and {_NOT_SUPPORTED}"
        steps.append(UnsupportedChange(entity="schema", reason=reason, code="OG-NL-101"))
    return tuple(sorted(steps, key=lambda step: STEP_ORDER.index(type(step))))


def _types(catalog: Catalog) -> dict[int, tuple[TypeKind, AnyType]]:
    """Every type by id; edges last, so that nodes are added before the edges between them and dropped after them."""
    found: dict[int, tuple[TypeKind, AnyType]] = {}
    groups: tuple[tuple[TypeKind, Mapping[str, AnyType]], ...] = (
        ("interface", catalog.interfaces),
        ("node", catalog.nodes),
        ("edge", catalog.edges),
    )
    for kind, types in groups:
        for _, declared in sorted(types.items()):
            found[declared.id] = (kind, declared)
    return found


def _dropped_type(kind: TypeKind, name: str, mode: DropMode) -> MigrationStep:
    if kind == "interface":
        reason = f"removing interface '{name}' {_NOT_SUPPORTED}"
        return UnsupportedChange(entity=f"interface:{name}", reason=reason, code="OG-BC-102")
    return DropType(type_kind=kind, name=name, mode=mode, code="OG-DS-102" if kind == "node" else "OG-DS-103")


class _TypeChange:
    """One type before and after."""

    def __init__(
        self, kind: TypeKind, before: AnyType, after: AnyType, old: Catalog, new: Catalog, drop_mode: DropMode
    ) -> None:
        self.kind = kind
        self.before = before
        self.after = after
        self.old = old
        self.new = new
        self.drop_mode = drop_mode
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
        return UnsupportedChange(entity=entity, reason=f"{reason} {_NOT_SUPPORTED}", code=code, advice=advice)

    def _on_rows(self, effect: Effect) -> Effect:
        """An interface has no rows: what happens to them is said by the node types that implement it."""
        return "metadata" if self.kind == "interface" else effect

    # ------------------------------------------------------------ the type itself

    def _type_steps(self) -> Iterator[MigrationStep]:
        before, after = self.before, self.after
        if isinstance(before, NodeType) and isinstance(after, NodeType):
            links = [
                {catalog.interfaces[name].id for name in node.implements}
                for catalog, node in ((self.old, before), (self.new, after))
            ]
            self.links_changed = links[0] != links[1]
            if self.links_changed:
                yield self._refuse(f"changing implemented interfaces on node '{self.name}'", "OG-BC-103")
        if isinstance(before, EdgeType) and isinstance(after, EdgeType):
            yield from self._edge_steps(before, after)
        if isinstance(before, InterfaceType) or isinstance(after, InterfaceType):
            return
        if sorted(map(repr, before.annotations)) != sorted(map(repr, after.annotations)):
            yield self._refuse(f"changing annotations without behaviour on '{self.name}'", "OG-BC-105")
        changed = tuple(
            name for name in ("description", "instruction") if getattr(before, name) != getattr(after, name)
        )
        if changed:
            yield UpdateTypeMetadata(
                type_kind=self.kind,
                name=self.name,
                changed=changed,
                description=after.description,
                instruction=after.instruction,
            )

    def _edge_steps(self, before: EdgeType, after: EdgeType) -> Iterator[MigrationStep]:
        old_ends = [self.old.nodes[name].id for name in (before.source, before.target)]
        new_ends = [self.new.nodes[name].id for name in (after.source, after.target)]
        if old_ends != new_ends:
            advice = "declare a new edge type and load its edges"
            yield self._refuse(f"changing edge endpoints on '{self.name}'", "OG-ED-101", advice=advice)
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
        if property.is_required and property.default is None and self.kind != "interface":
            target = f"{self.name}.{property.name}"
            return self._refuse(
                f"adding required property '{target}' requires a backfill and",
                "OG-MF-103",
                member=property.name,
                advice="give it a @default, or make it nullable",
            )
        return AddProperty(
            type_kind=self.kind,
            type_name=self.name,
            property_name=property.name,
            property_type=property.type,
            default=property.default,
            effect=self._on_rows("rewrite"),
        )

    def _dropped(self, property: Property) -> MigrationStep:
        vector = property.type.scalar is Scalar.VECTOR
        code = None if self.kind == "interface" else "OG-DS-105" if vector else "OG-DS-104"
        return DropProperty(
            type_kind=self.kind,
            type_name=self.name,
            property_name=property.name,
            mode=self.drop_mode,
            effect=self._on_rows("rewrite"),
            code=code,
        )

    def _property_steps(self, before: Property, after: Property) -> Iterator[MigrationStep]:
        target = f"{self.name}.{after.name}"
        if before.name != after.name:
            yield RenameProperty(
                type_kind=self.kind,
                type_name=self.name,
                from_=before.name,
                to=after.name,
                effect=self._on_rows("rewrite"),
            )
        if before.type != after.type:
            yield from self._type_change(before.type, after)
        if self._embedding(before, self.before) != self._embedding(after, self.after):
            advice = "add a new vector property and rebuild its vectors"
            yield self._refuse(
                f"changing @embed source or model for '{target}'", "OG-VE-101", member=after.name, advice=advice
            )
        yield from self._provenance(before, after)
        if sorted(map(repr, before.annotations)) != sorted(map(repr, after.annotations)):
            reason = f"changing annotations without behaviour on '{target}'"
            yield self._refuse(reason, "OG-BC-105", member=after.name)
        changed = tuple(
            name
            for name in ("description", "default", "metric", "language")
            if getattr(before, name) != getattr(after, name)
        )
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

    def _provenance(self, before: Property, after: Property) -> Iterator[MigrationStep]:
        if self.links_changed:
            return
        target = f"{self.name}.{after.name}"
        if before.declared_directly != after.declared_directly:
            yield self._refuse(f"changing declaration provenance for '{target}'", "OG-BC-104", member=after.name)
        elif before.interfaces != after.interfaces:
            reason = f"changing interface-property satisfaction links for '{target}'"
            yield self._refuse(reason, "OG-BC-104", member=after.name)

    def _type_change(self, before: PropertyType, property: Property) -> Iterator[MigrationStep]:
        after = property.type
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
        if before.enum and after.enum and set(before.enum) < set(after.enum):
            added = tuple(value for value in after.enum if value not in before.enum)
            return ExtendEnum(**where, added_values=added)
        target = f"{self.name}.{property.name}"
        if before.is_list == after.is_list and after.scalar in _WIDER.get(before.scalar, ()):
            if before.scalar is Scalar.F32 and isinstance(self.after, NodeType) and property.name in self.after.key:
                reason = f"widening key property '{target}' would change the ids of its nodes and"
                return self._refuse(reason, "OG-BC-101", member=property.name)
            return WidenProperty(**where, from_=before, to=after, effect=self._on_rows("rewrite"))
        advice = f"add a new property of type {after} and copy the values"
        return self._refuse(f"changing property type for '{target}'", "OG-MF-106", member=property.name, advice=advice)

    # ------------------------------------------------------------ constraints

    def _constraint_steps(self) -> Iterator[MigrationStep]:
        before = {_shape(constraint, self.before): constraint for constraint in self.before.constraints}
        after = {_shape(constraint, self.after): constraint for constraint in self.after.constraints}
        removed = [constraint for shape, constraint in before.items() if shape not in after]
        added = [constraint for shape, constraint in after.items() if shape not in before]
        yield from self._key_steps(removed, added)
        for constraint in removed:
            ids = [self.before.properties[name].id for name in constraint.fields if name in self.before.properties]
            if constraint.kind != "key" and all(id in self.new_properties for id in ids):
                yield RemoveConstraint(
                    type_kind=self.kind,
                    type_name=self.name,
                    constraint=constraint,
                    code=_REMOVE_CODES[constraint.kind],
                )
        for constraint in added:
            if constraint.kind != "key":
                effect = self._on_rows(self._added_effect(constraint, removed))
                code = _ADD_CODES[constraint.kind] if effect == "validate" else None
                yield AddConstraint(
                    type_kind=self.kind, type_name=self.name, constraint=constraint, effect=effect, code=code
                )

    def _key_steps(self, removed: list[Constraint], added: list[Constraint]) -> Iterator[MigrationStep]:
        advice = "the key gives every node its id; declare a new node type with the key you want"
        if any(constraint.kind == "key" for constraint in added):
            yield self._refuse(f"adding constraint 'key' to '{self.name}'", "OG-BC-101", advice=advice)
        elif any(constraint.kind == "key" for constraint in removed):
            yield self._refuse(f"removing constraints from '{self.name}'", "OG-CD-105", advice=advice)

    def _added_effect(self, constraint: Constraint, removed: list[Constraint]) -> Effect:
        """Must the rows be looked at before this constraint holds?"""
        if constraint.kind == "index":
            return "metadata"
        members = [self.after.properties[name] for name in constraint.fields if name in self.after.properties]
        new = [member for member in members if member.id not in self.old_properties]
        if constraint.kind == "unique":
            # A new property without default is null in every row, and a null member exempts the row.
            return "metadata" if any(member.default is None for member in new) else "validate"
        if new or any(_contains(constraint, self._renamed(known)) for known in removed):
            return "metadata"
        return "validate"

    def _renamed(self, constraint: Constraint) -> Constraint:
        """An old constraint with today's names of its properties."""
        ids = [self.before.properties[name].id for name in constraint.fields if name in self.before.properties]
        names = tuple(self.new_properties[id].name for id in ids if id in self.new_properties)
        return replace(constraint, fields=names)


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
