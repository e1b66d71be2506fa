"""The syntax tree of a `.pg` schema: what was written, with positions, before any check of meaning.

Positions do not take part in comparison: two trees are equal when they say the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from omnigraph.language.catalog import ConstraintKind, LiteralValue
from omnigraph.language.parsing.cursor import NOWHERE, Position


@dataclass(frozen=True)
class ArgumentSyntax:
    """A literal, or a bare word such as a property's name."""

    value: LiteralValue
    is_word: bool = False
    place: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RangeSyntax:
    """`lo..hi`, `lo..` or `..hi`."""

    minimum: int | float | None
    maximum: int | float | None
    place: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class OptionSyntax:
    name: str
    value: LiteralValue
    place: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class AnnotationSyntax:
    name: str
    argument: ArgumentSyntax | None = None
    options: tuple[OptionSyntax, ...] = ()
    place: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class ConstraintSyntax:
    kind: ConstraintKind
    arguments: tuple[ArgumentSyntax | RangeSyntax, ...]
    place: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class TypeSyntax:
    """`base` is a scalar's word, "enum" or "Vector"."""

    base: str
    nullable: bool = False
    is_list: bool = False
    values: tuple[str, ...] = ()
    dimension: int | None = None
    place: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class PropertySyntax:
    name: str
    type: TypeSyntax
    annotations: tuple[AnnotationSyntax, ...] = ()
    place: Position = field(default=NOWHERE, compare=False, repr=False)


MemberSyntax = PropertySyntax | ConstraintSyntax


@dataclass(frozen=True)
class NameSyntax:
    """The name of another declaration, where it is used."""

    name: str
    place: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class CardinalitySyntax:
    minimum: int
    maximum: int | None
    place: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class _Declaration:
    """`end` is the position of the closing brace, if there is one."""

    name: str
    place: Position = field(default=NOWHERE, compare=False, repr=False)
    end: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class InterfaceSyntax(_Declaration):
    members: tuple[PropertySyntax, ...] = ()


@dataclass(frozen=True)
class NodeSyntax(_Declaration):
    annotations: tuple[AnnotationSyntax, ...] = ()
    implements: tuple[NameSyntax, ...] = ()
    members: tuple[MemberSyntax, ...] = ()


@dataclass(frozen=True)
class EdgeSyntax(_Declaration):
    source: NameSyntax = NameSyntax("")
    target: NameSyntax = NameSyntax("")
    cardinality: CardinalitySyntax | None = None
    annotations: tuple[AnnotationSyntax, ...] = ()
    constraints: tuple[ConstraintSyntax, ...] = ()
    """Those before the braces."""
    members: tuple[MemberSyntax, ...] = ()


DeclarationSyntax = InterfaceSyntax | NodeSyntax | EdgeSyntax
DeclarationKind = Literal["interface", "node", "edge"]


@dataclass(frozen=True)
class SchemaSyntax:
    declarations: tuple[DeclarationSyntax, ...]
