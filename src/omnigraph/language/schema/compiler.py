"""`.pg` text -> catalog: every check of names, types, annotations, constraints and interfaces, then stable ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

from omnigraph.language.catalog import (
    Annotation,
    Catalog,
    EdgeType,
    Family,
    InterfaceType,
    NodeType,
    Property,
    member_name,
)
from omnigraph.language.catalog_json import catalog_hash
from omnigraph.language.projection import keep_columns
from omnigraph.language.schema.constraints import compile_constraints, did_you_mean
from omnigraph.language.schema.parser import parse_schema
from omnigraph.language.schema.properties import (
    PropertyDraft,
    TypeDraft,
    compile_property,
    plain_annotation,
    rename_argument,
    text_argument,
)
from omnigraph.language.schema.rules import SchemaText
from omnigraph.language.schema.stable_ids import give_ids, ids_of, retired_ids
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ArgumentSyntax,
    ConstraintSyntax,
    EdgeSyntax,
    InterfaceSyntax,
    MemberSyntax,
    NameSyntax,
    NodeSyntax,
    PropertySyntax,
    SchemaSyntax,
)

_D = TypeVar("_D", InterfaceSyntax, NodeSyntax, EdgeSyntax)


def compile_schema(
    text: str,
    file: str | None = None,
    previous: Catalog | None = None,
    new_table_id: Callable[[str], str] | None = None,
) -> Catalog:
    """The catalog of a schema text. Raises SchemaError, and nothing else, for the first mistake.

    With `previous`, types and properties keep their ids, tables and columns, by name or by `@rename_from`. `new_table_id`
    names the tables of a first schema from their table keys; without it, and for types that a later schema adds, the name is
    derived from the key, the type's id and its columns.
    """
    source = SchemaText(text, file)
    drafts = _Compilation(parse_schema(text, file), source).drafts()
    next_id = give_ids(drafts, previous, new_table_id, source)
    catalog = Catalog(
        nodes={draft.name: _node_type(draft) for draft in drafts if draft.kind == "node"},
        edges={draft.name: _edge_type(draft) for draft in drafts if draft.kind == "edge"},
        interfaces={draft.name: _interface_type(draft) for draft in drafts if draft.kind == "interface"},
        source=text,
        hash="",
        next_id=next_id,
    )
    if previous is not None:
        catalog = keep_columns(previous, catalog)
    hash = catalog_hash(catalog)
    is_evolved = previous is not None and (previous.is_evolved or previous.hash != hash)
    return replace(
        catalog,
        hash=hash,
        retired=retired_ids(previous, ids_of(catalog)),
        hard_dropped=() if previous is None else previous.hard_dropped,
        is_evolved=is_evolved,
    )


class _Compilation:
    def __init__(self, schema: SchemaSyntax, source: SchemaText) -> None:
        self.source = source
        self.interfaces = self._unique(InterfaceSyntax, schema, "S103")
        self.nodes = self._unique(NodeSyntax, schema, "S101")
        self.edges = self._unique(EdgeSyntax, schema, "S102")
        self.schema = schema
        self.interface_drafts: dict[str, TypeDraft] = {}
        self._edge_names: dict[str, str] = {}
        """Of edges, and of the members of those between interfaces, by their lower-case forms."""

    def drafts(self) -> list[TypeDraft]:
        """One checked draft per declaration, in the order of the text."""
        self._check_names()
        self.interface_drafts = {name: self._interface(syntax) for name, syntax in self.interfaces.items()}
        drafts: list[TypeDraft] = []
        for declaration in self.schema.declarations:
            match declaration:
                case InterfaceSyntax():
                    drafts.append(self.interface_drafts[declaration.name])
                case NodeSyntax():
                    drafts.append(self._node(declaration))
                case EdgeSyntax():
                    drafts += self._edges(declaration)
        return drafts

    def _edges(self, syntax: EdgeSyntax) -> list[TypeDraft]:
        """An edge between node types, or the members of one between interfaces."""
        ends = [self._end_types(syntax, code, end) for code, end in (("S105", syntax.source), ("S106", syntax.target))]
        family = Family(syntax.name, syntax.source.name, syntax.target.name)
        if family.source in self.nodes and family.target in self.nodes:
            return [self._edge(syntax)]
        self._check_family(syntax, family)
        drafts = []
        for source, target in product(*ends):
            names = (replace(syntax.source, name=source), replace(syntax.target, name=target))
            name = member_name(family, source, target)
            if (other := self._edge_names.get(name.lower())) is not None:
                raise self.source.error("S107", syntax.place, name=name, other=other)
            self._edge_names[name.lower()] = name
            draft = self._edge(replace(syntax, name=name, source=names[0], target=names[1]))
            draft.family = family
            drafts.append(draft)
        return drafts

    def _end_types(self, syntax: EdgeSyntax, code: str, end: NameSyntax) -> list[str]:
        """The node types at an end of an edge."""
        if end.name in self.nodes:
            return [end.name]
        if end.name not in self.interfaces:
            advice = did_you_mean(end.name, list(self.nodes), f"declare `node {end.name} {{ }}`")
            raise self.source.error(code, end.place, edge=syntax.name, name=end.name, advice=advice)
        nodes = self.nodes.values()
        types = sorted(node.name for node in nodes if any(used.name == end.name for used in node.implements))
        if not types:
            names = {"edge": syntax.name, "source": syntax.source.name, "target": syntax.target.name}
            raise self.source.error("S118", end.place, **names, interface=end.name)
        return types

    def _check_family(self, syntax: EdgeSyntax, family: Family) -> None:
        """Rules hold within a table, so a rule of a family must say which member it is about: by the ends that are interfaces."""
        names = {"edge": family.name, "source": family.source, "target": family.target}
        if syntax.cardinality is not None and family.target in self.interfaces:
            advice = f"leave it out, or declare an edge to each type of {family.target}"
            place = syntax.cardinality.place
            raise self.source.error("S117", place, **names, rule="@card", interface=family.target, advice=advice)
        rules = [member for member in (*syntax.constraints, *syntax.members) if isinstance(member, ConstraintSyntax)]
        for rule in rules:
            fields = [str(part.value) for part in rule.arguments if isinstance(part, ArgumentSyntax)]
            for column, end in (("src", family.source), ("dst", family.target)):
                if rule.kind in ("key", "unique") and end in self.interfaces and column not in fields:
                    advice = f"add {column} to it"
                    rule_name = f"@{rule.kind}({', '.join(fields)})"
                    raise self.source.error("S117", rule.place, **names, rule=rule_name, interface=end, advice=advice)

    def _unique(self, kind: type[_D], schema: SchemaSyntax, code: str) -> dict[str, _D]:
        by_name: dict[str, _D] = {}
        for declaration in schema.declarations:
            if isinstance(declaration, kind):
                first = by_name.setdefault(declaration.name, declaration)
                if first is not declaration:
                    raise self.source.error(code, declaration.place, name=declaration.name, line=first.place.line)
        return by_name

    def _check_names(self) -> None:
        for name, interface in self.interfaces.items():
            if name in self.nodes:
                raise self.source.error("S115", interface.place, name=name)
        for name, edge in self.edges.items():
            other = self._edge_names.setdefault(name.lower(), name)
            if other != name:
                raise self.source.error("S107", edge.place, name=name, other=other)

    def _interface(self, syntax: InterfaceSyntax) -> TypeDraft:
        draft = TypeDraft("interface", syntax.name, syntax.place)
        draft.properties = self._properties(draft, syntax.members)
        self._check_case(draft)
        compile_constraints(draft, syntax.members, self.source)
        return draft

    def _node(self, syntax: NodeSyntax) -> TypeDraft:
        draft = TypeDraft("node", syntax.name, syntax.place)
        self._annotate(draft, syntax.annotations)
        draft.properties = self._properties(draft, syntax.members)
        for used in syntax.implements:
            self._implement(draft, used)
        self._check_case(draft)
        compile_constraints(draft, syntax.members, self.source)
        return draft

    def _edge(self, syntax: EdgeSyntax) -> TypeDraft:
        draft = TypeDraft("edge", syntax.name, syntax.place, source=syntax.source.name, target=syntax.target.name)
        if syntax.cardinality is not None:
            low, high = syntax.cardinality.minimum, syntax.cardinality.maximum
            if high is not None and low > high:
                raise self.source.error("S113", syntax.cardinality.place, minimum=low, maximum=high)
            draft.min_out, draft.max_out = low, high
        self._annotate(draft, syntax.annotations)
        for constraint in syntax.constraints:
            if constraint.kind != "key":
                raise self._property_annotation(draft, AnnotationSyntax(constraint.kind, place=constraint.place))
        draft.properties = self._properties(draft, syntax.members)
        self._check_case(draft)
        compile_constraints(draft, (*syntax.constraints, *syntax.members), self.source)
        return draft

    def _check_case(self, draft: TypeDraft) -> None:
        """Refuses names that differ only in case from another, or from `id`, `src` or `dst`: SQL engines ignore case."""
        folded = {"id": "id", "src": "src", "dst": "dst"}
        for name, property in draft.properties.items():
            other = folded.setdefault(name.lower(), name)
            if other != name:
                raise self.source.error("S116", property.place, owner=draft.name, name=name, other=other)

    def _properties(self, draft: TypeDraft, members: Iterable[MemberSyntax]) -> dict[str, PropertyDraft]:
        properties: dict[str, PropertyDraft] = {}
        for member in members:
            if isinstance(member, PropertySyntax):
                if member.name in properties:
                    line = properties[member.name].place.line
                    raise self.source.error("S104", member.place, owner=draft.name, name=member.name, line=line)
                properties[member.name] = compile_property(member, draft.kind, draft.name, self.source)
        return properties

    def _implement(self, draft: TypeDraft, used: NameSyntax) -> None:
        """Copies the properties that the interface declares and the node does not, and records which interfaces declare a
        property."""
        interface = self.interface_drafts.get(used.name)
        if interface is None:
            advice = did_you_mean(used.name, list(self.interfaces), f"declare `interface {used.name} {{ ... }}`")
            raise self.source.error("S108", used.place, node=draft.name, name=used.name, advice=advice)
        if used.name in draft.implements:
            raise self.source.error("S110", used.place, node=draft.name, name=used.name)
        draft.implements = (*draft.implements, used.name)
        for name, declared in interface.properties.items():
            own = draft.properties.get(name)
            if own is not None and own.property.type != declared.property.type:
                place = own.place if own.property.declared_directly else used.place
                raise self.source.error(
                    "S109",
                    place,
                    node=draft.name,
                    name=name,
                    type=own.property.type,
                    interface=used.name,
                    declared=declared.property.type,
                )
            if own is None:
                copy = replace(declared.property, declared_directly=False, interfaces=(used.name,))
                draft.properties[name] = replace(declared, property=copy)
                continue
            constraints = own.constraints
            if not own.property.declared_directly:
                constraints = tuple(dict.fromkeys((*own.constraints, *declared.constraints)))
            interfaces = tuple(sorted({*own.property.interfaces, used.name}))
            linked = replace(own.property, interfaces=interfaces)
            draft.properties[name] = replace(own, property=linked, constraints=constraints)

    def _annotate(self, draft: TypeDraft, annotations: Iterable[AnnotationSyntax]) -> None:
        kept: list[Annotation] = []
        for annotation in annotations:
            match annotation.name:
                case "description" | "instruction" | "rename_from":
                    if getattr(draft, annotation.name) is not None:
                        raise self.source.error("S301", annotation.place, target=draft.name, name=annotation.name)
                    read = rename_argument if annotation.name == "rename_from" else text_argument
                    setattr(draft, annotation.name, read(annotation, draft.name, self.source))
                case "key" | "unique" | "index" | "range" | "check" | "embed" | "metric":
                    raise self._property_annotation(draft, annotation)
                case "default":
                    raise self.source.error("S309", annotation.place, kind=draft.kind, owner=draft.name)
                case "card":
                    raise self.source.error("S008", annotation.place)
                case _:
                    kept.append(plain_annotation(annotation))
        draft.annotations = tuple(kept)

    def _property_annotation(self, draft: TypeDraft, annotation: AnnotationSyntax) -> Exception:
        if draft.kind == "node":
            return self.source.error("S306", annotation.place, name=annotation.name, owner=draft.name)
        advice = "put it on a node type"
        if annotation.name == "key":
            advice = "name its members: @key(src, dst), or with properties of the edge"
        if annotation.name in ("unique", "index"):
            advice = f"write @{annotation.name}(...) inside the braces of the edge"
        return self.source.error("S307", annotation.place, name=annotation.name, owner=draft.name, advice=advice)


def _properties(draft: TypeDraft) -> Mapping[str, Property]:
    return {name: replace(p.property, id=draft.property_ids[name]) for name, p in draft.properties.items()}


def _interface_type(draft: TypeDraft) -> InterfaceType:
    return InterfaceType(draft.name, draft.id, _properties(draft), constraints=draft.constraints)


def _declaration(draft: TypeDraft) -> dict[str, Any]:
    """What nodes and edges have in common."""
    common = {
        name: getattr(draft, name)
        for name in ("name", "id", "table_id", "constraints", "description", "instruction", "annotations")
    }
    return {**common, "properties": _properties(draft)}


def _node_type(draft: TypeDraft) -> NodeType:
    return NodeType(**_declaration(draft), implements=draft.implements)


def _edge_type(draft: TypeDraft) -> EdgeType:
    return EdgeType(
        **_declaration(draft),
        source=draft.source,
        target=draft.target,
        min_out=draft.min_out,
        max_out=draft.max_out,
        family=draft.family,
    )
