"""The graph of a logic file, made through a schema change: its first half of records is older than its schema.

Before the change every property has another name, numbers are narrower and properties required as far as the records allow, and
every type has a property that is dropped.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from logic.runner import LogicFile
from read.graphs import commit, new_graph, replace_some

from omnigraph.evolve.apply import SchemaChange, apply_schema
from omnigraph.language.catalog import Catalog
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.parser import parse_schema
from omnigraph.language.schema.printer import print_schema
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ArgumentSyntax,
    ConstraintSyntax,
    MemberSyntax,
    PropertySyntax,
    SchemaSyntax,
    TypeSyntax,
)
from omnigraph.snapshot import View
from omnigraph.tasks.runner import LocalRunner

BEFORE = "_before"
GONE = "gone_by_now"


def evolved_graph(folder: Path, file: LogicFile) -> View:
    half = len(file.records) // 2
    older = _Older(compile_schema(file.schema), file.records[:half])
    schema = parse_schema(file.schema)
    repository = new_graph(str(folder / f"{file.path.stem}-evolved"), print_schema(older.schema(schema)))
    commit(repository, [older.record(record) for record in file.records[:half]])
    replace_some(repository)
    change = SchemaChange(print_schema(_renaming(schema)), None, False)
    receipt = apply_schema(repository, change, "main", LocalRunner)
    assert {"rename_property", "drop_property"} <= {step.kind for step in receipt.plan.steps}
    return commit(repository, file.records[half:], first_number=half)


def _renaming(schema: SchemaSyntax) -> SchemaSyntax:
    def renamed(member: MemberSyntax) -> MemberSyntax:
        if not isinstance(member, PropertySyntax):
            return member
        origin = AnnotationSyntax("rename_from", ArgumentSyntax(f"{member.name}{BEFORE}"))
        return replace(member, annotations=(*member.annotations, origin))

    return SchemaSyntax(tuple(replace(each, members=tuple(map(renamed, each.members))) for each in schema.declarations))


class _Older:
    def __init__(self, catalog: Catalog, records: list[Any]) -> None:
        self.catalog = catalog
        self.values: dict[str, list[Any]] = {}
        """Of each property name: the values that the records have, null where there is none."""
        for record in records:
            entity = catalog.nodes[record["type"]] if "type" in record else catalog.edge_by_word(record["edge"])
            assert entity is not None
            for name in entity.properties:
                self.values.setdefault(name, []).append(record.get("data", {}).get(name))

    def record(self, record: Any) -> Any:
        data = {f"{name}{BEFORE}": value for name, value in record.get("data", {}).items()}
        return {**record, "data": {**data, GONE: "x"}}

    def schema(self, schema: SchemaSyntax) -> SchemaSyntax:
        gone = PropertySyntax(GONE, TypeSyntax("String", False, False, (), None))
        declarations = []
        for each in schema.declarations:
            members: list[MemberSyntax] = [self._member(member) for member in each.members]
            if each.name not in self.catalog.interfaces:
                members.append(gone)
            declarations.append(replace(each, members=tuple(members)))
        return SchemaSyntax(tuple(declarations))

    def _member(self, member: MemberSyntax) -> MemberSyntax:
        if isinstance(member, ConstraintSyntax):
            arguments = [
                replace(each, value=f"{each.value}{BEFORE}")
                if isinstance(each, ArgumentSyntax) and each.is_name and each.value not in ("src", "dst")
                else each
                for each in member.arguments
            ]
            return replace(member, arguments=tuple(arguments))
        annotations = [
            replace(each, argument=ArgumentSyntax(f"{each.argument.value}{BEFORE}"))
            if each.name == "embed" and each.argument is not None
            else each
            for each in member.annotations
        ]
        return replace(member, name=f"{member.name}{BEFORE}", type=self._type(member), annotations=tuple(annotations))

    def _type(self, member: PropertySyntax) -> TypeSyntax:
        type, values = member.type, self.values.get(member.name, [])
        found = [value for value in values if value is not None]
        if type.base == "I64" and not type.is_list and all(-(2**31) <= value < 2**31 for value in found):
            type = replace(type, base="I32")
        if type.base == "F64" and not type.is_list and all(_is_short(value) for value in found):
            type = replace(type, base="F32")
        return replace(type, nullable=False) if values and len(found) == len(values) else type


def _is_short(value: float) -> bool:
    return abs(value) < 3e38 and struct.unpack("f", struct.pack("f", value))[0] == value
