"""Syntax tree or catalog -> `.pg` text in the one canonical layout. Comments of a formatted text are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from omnigraph.language.catalog import (
    Annotation,
    Catalog,
    Constraint,
    EdgeType,
    EntityType,
    InterfaceType,
    LiteralValue,
    NodeType,
    Property,
)
from omnigraph.language.parsing.cursor import Position
from omnigraph.language.schema.parser import parse_schema
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ArgumentSyntax,
    CardinalitySyntax,
    ConstraintSyntax,
    DeclarationSyntax,
    EdgeSyntax,
    InterfaceSyntax,
    MemberSyntax,
    NameSyntax,
    NodeSyntax,
    OptionSyntax,
    PropertySyntax,
    RangeSyntax,
    SchemaSyntax,
    TypeSyntax,
)
from omnigraph.values.types import PropertyType

_INDENT = "  "
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_BLANK_LINE = re.compile(r"[ \t\r]*\n[ \t\r]*\n")
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def format_schema(schema: str | Catalog) -> str:
    """The canonical text of a schema. A text keeps its comments and order; a catalog prints what it knows."""
    if isinstance(schema, Catalog):
        return print_schema(catalog_syntax(schema))
    return _SchemaText(_comments(schema)).schema(parse_schema(schema))


def print_schema(schema: SchemaSyntax) -> str:
    """The text of a tree; parsing it gives the same tree."""
    return _SchemaText(()).schema(schema)


@dataclass(frozen=True)
class _Comment:
    text: str
    place: Position
    follows_code: bool
    stands_alone: bool
    """Whether a blank line follows, so that it does not belong to the next declaration."""


def _comments(text: str) -> tuple[_Comment, ...]:
    comments = []
    for match in _STRING_OR_COMMENT.finditer(text):
        if match.group().startswith('"'):
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        place = Position(text.count("\n", 0, match.start()) + 1, match.start() - start + 1)
        follows_code = bool(text[start : match.start()].strip())
        stands_alone = not follows_code and _BLANK_LINE.match(text, match.end()) is not None
        comments.append(_Comment(match.group().rstrip(), place, follows_code, stands_alone))
    return tuple(comments)


class _SchemaText:
    def __init__(self, comments: Sequence[_Comment]) -> None:
        self.lines: list[str] = []
        self.waiting = list(comments)
        self.ended_by_comment = 0
        """The number of lines when a // comment last ended a line."""

    def schema(self, schema: SchemaSyntax) -> str:
        previous: DeclarationSyntax | None = None
        for declaration in schema.declarations:
            self._finish_line(declaration.place)
            bare = isinstance(declaration, EdgeSyntax) and not declaration.members
            follows_bare = isinstance(previous, EdgeSyntax) and not previous.members
            if previous is not None and not (bare and follows_bare):
                self.lines.append("")
            self._declaration(declaration)
            previous = declaration
        self._comments_before(None, "")
        self._drop_blank_line()
        return "\n".join(self.lines) + "\n" if self.lines else ""

    def _declaration(self, declaration: DeclarationSyntax) -> None:
        self._comments_before(declaration.place, "")
        header = _header(declaration)
        if not declaration.members:
            has_comments = any(_is_before(comment.place, declaration.end) for comment in self.waiting)
            if not isinstance(declaration, EdgeSyntax) and not has_comments:
                self.lines.append(f"{header} {{}}")
                return
            if not has_comments:
                self.lines.append(header)
                return
        self.lines.append(f"{header} {{")
        for member in declaration.members:
            self._comments_before(member.place, _INDENT)
            self.lines.append(_INDENT + _member(member))
        self._comments_before(declaration.end, _INDENT)
        self._drop_blank_line()
        self.lines.append("}")

    def _finish_line(self, place: Position) -> None:
        """Comments behind the declaration that was just printed belong to its last line."""
        while self.waiting and self.waiting[0].follows_code and _is_before(self.waiting[0].place, place) and self.lines:
            self._append(self.waiting.pop(0), "")

    def _comments_before(self, place: Position | None, indent: str) -> None:
        while self.waiting and (place is None or _is_before(self.waiting[0].place, place)):
            self._append(self.waiting.pop(0), indent)

    def _append(self, comment: _Comment, indent: str) -> None:
        room = self.lines and self.ended_by_comment != len(self.lines)
        if comment.follows_code and room and "\n" not in comment.text:
            self.lines[-1] += f" {comment.text}"
        else:
            self.lines.append(indent + comment.text)
        if comment.text.startswith("//"):
            self.ended_by_comment = len(self.lines)
        if comment.stands_alone:
            self.lines.append("")

    def _drop_blank_line(self) -> None:
        if self.lines and not self.lines[-1]:
            self.lines.pop()


def _is_before(place: Position, other: Position) -> bool:
    return (place.line, place.column) < (other.line, other.column)


def _header(declaration: DeclarationSyntax) -> str:
    match declaration:
        case InterfaceSyntax():
            return f"interface {declaration.name}"
        case NodeSyntax():
            words = [f"node {declaration.name}", *map(_annotation, declaration.annotations)]
            if declaration.implements:
                words.append(f"implements {', '.join(used.name for used in declaration.implements)}")
            return " ".join(words)
        case EdgeSyntax():
            words = [f"edge {declaration.name}: {declaration.source.name} -> {declaration.target.name}"]
            if declaration.cardinality is not None:
                card = declaration.cardinality
                words.append(f"@card({card.minimum}..{'' if card.maximum is None else card.maximum})")
            return " ".join(
                [*words, *map(_member, declaration.constraints), *map(_annotation, declaration.annotations)]
            )


def _member(member: MemberSyntax) -> str:
    if isinstance(member, PropertySyntax):
        return " ".join([f"{member.name}: {type_text(member.type)}", *map(_annotation, member.annotations)])
    return f"@{member.kind}({', '.join(_constraint_argument(argument) for argument in member.arguments)})"


def type_text(type: TypeSyntax) -> str:
    core = type.base
    if type.base == "enum":
        core = f"enum({', '.join(type.values)})"
    elif type.dimension is not None:
        core = f"Vector({type.dimension})"
    if type.is_list:
        core = f"[{core}]"
    return core + ("?" if type.nullable else "")


def _annotation(annotation: AnnotationSyntax) -> str:
    sign = ": " if annotation.argument is None else "="
    values = [f"{option.name}{sign}{literal_text(option.value)}" for option in annotation.options]
    if annotation.argument is not None:
        values.insert(0, _argument(annotation.argument))
    return f"@{annotation.name}({', '.join(values)})" if values else f"@{annotation.name}"


def _constraint_argument(argument: ArgumentSyntax | RangeSyntax) -> str:
    if isinstance(argument, ArgumentSyntax):
        return _argument(argument)
    low = "" if argument.minimum is None else literal_text(argument.minimum)
    high = "" if argument.maximum is None else literal_text(argument.maximum)
    return f"{low}..{high}"


def _argument(argument: ArgumentSyntax) -> str:
    return str(argument.value) if argument.is_word else literal_text(argument.value)


def literal_text(value: LiteralValue) -> str:
    """A literal as `.pg` writes it: no exponents, strings in double quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, int):
        return str(value)
    text = format(Decimal(repr(value)), "f")
    return text if "." in text else f"{text}.0"


# ---------------------------------------------------------------- catalog -> tree


def catalog_syntax(catalog: Catalog) -> SchemaSyntax:
    """A tree that compiles to the same catalog (given that catalog as the previous one)."""
    interfaces = [_interface_syntax(interface) for interface in catalog.interfaces.values()]
    nodes = [_node_syntax(node, catalog) for node in catalog.nodes.values()]
    declared = {
        edge.name if edge.family is None else edge.family.name: edge for edge in reversed([*catalog.edges.values()])
    }
    edges = [_edge_syntax(name, edge) for name, edge in reversed([*declared.items()])]
    return SchemaSyntax((*interfaces, *nodes, *edges))


def _interface_syntax(interface: InterfaceType) -> InterfaceSyntax:
    properties = interface.properties.values()
    members = tuple(_property_syntax(property, interface.constraints) for property in properties)
    return InterfaceSyntax(interface.name, members=members)


def _node_syntax(node: NodeType, catalog: Catalog) -> NodeSyntax:
    inherited = {c for name in node.implements for c in catalog.interfaces[name].constraints}
    return NodeSyntax(
        node.name,
        annotations=_type_annotations(node),
        implements=tuple(NameSyntax(name) for name in node.implements),
        members=_members(node, inherited),
    )


def _edge_syntax(name: str, edge: EdgeType) -> EdgeSyntax:
    unbounded = edge.min_out == 0 and edge.max_out is None
    members = _members(edge, set())
    keys = tuple(member for member in members if isinstance(member, ConstraintSyntax) and member.kind == "key")
    ends = edge if edge.family is None else edge.family
    return EdgeSyntax(
        name,
        source=NameSyntax(ends.source),
        target=NameSyntax(ends.target),
        cardinality=None if unbounded else CardinalitySyntax(edge.min_out, edge.max_out),
        annotations=_type_annotations(edge),
        constraints=keys,
        members=tuple(member for member in members if member not in keys),
    )


def _members(entity: EntityType, inherited: set[Constraint]) -> tuple[MemberSyntax, ...]:
    own = {name: property for name, property in entity.properties.items() if property.declared_directly}
    members: list[MemberSyntax] = [_property_syntax(property, entity.constraints) for property in own.values()]
    for constraint in entity.constraints:
        on_property = _is_property_level(constraint)
        if on_property and constraint.fields[0] in own:
            continue
        if constraint in inherited and not any(name in own for name in constraint.fields):
            continue
        members.append(_constraint_syntax(constraint))
    return tuple(members)


def _is_property_level(constraint: Constraint) -> bool:
    return constraint.kind in ("key", "unique", "index") and len(constraint.fields) == 1


def _constraint_syntax(constraint: Constraint) -> ConstraintSyntax:
    arguments: list[ArgumentSyntax | RangeSyntax] = [ArgumentSyntax(name, True) for name in constraint.fields]
    if constraint.kind == "range":
        arguments.append(RangeSyntax(constraint.minimum, constraint.maximum))
    if constraint.pattern is not None:
        arguments.append(ArgumentSyntax(constraint.pattern))
    return ConstraintSyntax(constraint.kind, tuple(arguments))


def _property_syntax(property: Property, constraints: Iterable[Constraint]) -> PropertySyntax:
    language = () if property.language == "english" else (OptionSyntax("language", property.language),)
    annotations = [
        AnnotationSyntax(constraint.kind, options=language if constraint.kind == "index" else ())
        for constraint in constraints
        if _is_property_level(constraint) and constraint.fields == (property.name,)
    ]
    if property.default is not None:
        annotations.append(AnnotationSyntax("default", ArgumentSyntax(property.default)))
    if property.embed is not None:
        model = property.embed.model
        options = () if model is None else (OptionSyntax("model", model),)
        annotations.append(AnnotationSyntax("embed", ArgumentSyntax(property.embed.source), options))
    if property.metric != "cosine":
        annotations.append(AnnotationSyntax("metric", ArgumentSyntax(property.metric)))
    if property.description is not None:
        annotations.append(AnnotationSyntax("description", ArgumentSyntax(property.description)))
    annotations.extend(_plain(annotation) for annotation in property.annotations)
    return PropertySyntax(property.name, _type_syntax(property.type), tuple(annotations))


def _type_syntax(type: PropertyType) -> TypeSyntax:
    base = "enum" if type.enum else type.scalar.value
    return TypeSyntax(base, type.nullable, type.is_list, type.enum, type.dimension)


def _type_annotations(entity: EntityType) -> tuple[AnnotationSyntax, ...]:
    texts = (("description", entity.description), ("instruction", entity.instruction))
    written = [AnnotationSyntax(name, ArgumentSyntax(text)) for name, text in texts if text is not None]
    return (*written, *(_plain(annotation) for annotation in entity.annotations))


def _plain(annotation: Annotation) -> AnnotationSyntax:
    argument = None if annotation.value is None else ArgumentSyntax(annotation.value)
    return AnnotationSyntax(
        annotation.name, argument, tuple(OptionSyntax(name, value) for name, value in annotation.options)
    )
