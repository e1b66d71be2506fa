"""Lint of schemas that compile and still look wrong: findings with stable codes, none of which is an error."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.language.parsing.cursor import Position
from omnigraph.language.schema.parser import parse_schema
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ConstraintSyntax,
    DeclarationSyntax,
    InterfaceSyntax,
    PropertySyntax,
)

LINT_CODES = {
    "OG-NM-102": "an unknown annotation that looks like a known one",
    "OG-NM-103": "@rename_from without a previous schema has no effect",
    "OG-MF-111": "@unique with @default: the second row that takes the default is refused",
    "OG-VE-102": "a vector without @index: nearest() reads every row",
}
_KNOWN = (
    "key", "unique", "index", "range", "check", "card", "embed", "metric", "description", "instruction", "rename_from", "default"
)  # fmt: skip


@dataclass(frozen=True)
class SchemaFinding:
    """Something that looks wrong in a schema, and where.

    >>> (finding,) = og.lint_schema("node Doc { v: Vector(3) }")
    >>> print(finding.render("doc.pg"))
    """

    code: str
    message: str
    line: int
    column: int

    def render(self, file: str | None = None) -> str:
        """`file:line:column: [code] message`."""
        return f"{file or '<text>'}:{self.line}:{self.column}: [{self.code}] {self.message}"


def lint_schema(text: str, file: str | None = None, *, is_first: bool = False) -> tuple[SchemaFinding, ...]:
    """What looks wrong in a schema text, in the order of the text. `is_first` says that the graph has no earlier schema. Raises
    SchemaError if the text does not parse.
    """
    findings = [
        finding for declaration in parse_schema(text, file).declarations for finding in _lint(declaration, is_first)
    ]
    return tuple(sorted(findings, key=lambda finding: (finding.line, finding.column)))


def _finding(code: str, place: Position, message: str) -> SchemaFinding:
    return SchemaFinding(code, message, place.line, place.column)


def _lint(declaration: DeclarationSyntax, is_first: bool) -> Iterator[SchemaFinding]:
    annotations: list[tuple[str, AnnotationSyntax]] = []
    if not isinstance(declaration, InterfaceSyntax):
        annotations.extend((declaration.name, annotation) for annotation in declaration.annotations)
    body: set[tuple[str, str]] = set()
    for member in declaration.members:
        if isinstance(member, ConstraintSyntax) and len(member.arguments) == 1:
            body.add((member.kind, str(getattr(member.arguments[0], "value", ""))))
    for member in declaration.members:
        if isinstance(member, PropertySyntax):
            target = f"{declaration.name}.{member.name}"
            annotations.extend((target, annotation) for annotation in member.annotations)
            yield from _lint_property(member, target, body)
    for target, annotation in annotations:
        yield from _lint_annotation(annotation, target, is_first)


def _lint_property(member: PropertySyntax, target: str, body: set[tuple[str, str]]) -> Iterator[SchemaFinding]:
    names = {annotation.name for annotation in member.annotations}
    names |= {kind for kind, name in body if name == member.name}
    if "unique" in names and "default" in names:
        message = f"{target} is @unique and has a @default: only one row can take it"
        yield _finding("OG-MF-111", member.place, message)
    if member.type.base == "Vector" and "index" not in names:
        yield _finding("OG-VE-102", member.place, f"{target} has no @index: nearest() reads every row")


def _lint_annotation(annotation: AnnotationSyntax, target: str, is_first: bool) -> Iterator[SchemaFinding]:
    if annotation.name == "rename_from" and is_first:
        message = f"@rename_from on {target} has no effect: there is no earlier schema"
        yield _finding("OG-NM-103", annotation.place, message)
    if annotation.name not in _KNOWN:
        near = difflib.get_close_matches(annotation.name, _KNOWN, 1, 0.75)
        if near:
            message = f"@{annotation.name} on {target} has no behaviour; did you mean @{near[0]}?"
            yield _finding("OG-NM-102", annotation.place, message)
