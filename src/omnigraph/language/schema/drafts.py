"""Types while they are compiled: checked, but without stable ids yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.language.catalog import Annotation, Constraint, Property
from omnigraph.language.position import Position
from omnigraph.language.schema.syntax import DeclarationKind, NameSyntax


@dataclass(frozen=True)
class PropertyDraft:
    """`property.id` is 0 until ids are given. `constraints` are those of its own annotations."""

    property: Property
    place: Position
    constraints: tuple[Constraint, ...] = ()
    rename_from: NameSyntax | None = None


@dataclass
class TypeDraft:
    kind: DeclarationKind
    name: str
    place: Position
    properties: dict[str, PropertyDraft] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()
    rename_from: NameSyntax | None = None
    implements: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    min_out: int = 0
    max_out: int | None = None
    id: int = 0
    property_ids: dict[str, int] = field(default_factory=dict)
    table_id: str = ""
