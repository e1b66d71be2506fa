"""The table of types: `.pg` type -> catalog type -> Arrow type."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.language.projection import arrow_schema
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.values.types import PropertyType, Scalar

ROWS = [
    ("String", PropertyType(Scalar.STRING), pa.utf8()),
    ("Bool", PropertyType(Scalar.BOOL), pa.bool_()),
    ("I32", PropertyType(Scalar.I32), pa.int32()),
    ("I64", PropertyType(Scalar.I64), pa.int64()),
    ("U32", PropertyType(Scalar.U32), pa.uint32()),
    ("U64", PropertyType(Scalar.U64), pa.uint64()),
    ("F32", PropertyType(Scalar.F32), pa.float32()),
    ("F64", PropertyType(Scalar.F64), pa.float64()),
    ("Date", PropertyType(Scalar.DATE), pa.date32()),
    ("DateTime", PropertyType(Scalar.DATETIME), pa.timestamp("us")),
    ("Blob", PropertyType(Scalar.BLOB), pa.large_binary()),
    ("Vector(3)", PropertyType(Scalar.VECTOR, dimension=3), pa.list_(pa.field("item", pa.float32(), True), 3)),
    ("Vector(2147483647)", PropertyType(Scalar.VECTOR, dimension=2**31 - 1), pa.list_(pa.float32(), 2**31 - 1)),
    ("[String]", PropertyType(Scalar.STRING, is_list=True), pa.list_(pa.field("item", pa.utf8(), True))),
    ("[DateTime]", PropertyType(Scalar.DATETIME, is_list=True), pa.list_(pa.timestamp("us"))),
    ("[F32]", PropertyType(Scalar.F32, is_list=True), pa.list_(pa.float32())),
    ("enum(b, a)", PropertyType(Scalar.STRING, enum=("a", "b")), pa.utf8()),
]


@pytest.mark.parametrize(("text", "type", "arrow"), ROWS, ids=[row[0] for row in ROWS])
@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
def test_type(text: str, type: PropertyType, arrow: pa.DataType, nullable: bool) -> None:
    node = compile_schema(f"node A {{ p: {text}{'?' if nullable else ''} }}").nodes["A"]
    expected = PropertyType(type.scalar, nullable, type.is_list, type.enum, type.dimension)
    assert node.properties["p"].type == expected
    assert node.properties["p"].is_required is not nullable
    field = arrow_schema(node).field("p")
    assert field.type == arrow
    assert field.nullable is nullable
    if pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type):
        assert field.type.value_field == pa.field("item", field.type.value_type, nullable=True)


@pytest.mark.parametrize("text", ["enum(b, a)", "[I32]?", "Vector(3)?", "DateTime", "String?"])
def test_a_type_prints_as_a_type(text: str) -> None:
    type = compile_schema(f"node A {{ p: {text} }}").nodes["A"].properties["p"].type
    assert compile_schema(f"node A {{ p: {type} }}").nodes["A"].properties["p"].type == type


def test_columns_of_a_node_and_of_an_edge() -> None:
    catalog = compile_schema(
        "interface I { z: I32 y: String }\nnode A implements I { q: I32 p: String? }\nedge E: A -> A { w: F64 }"
    )
    node, edge = arrow_schema(catalog.nodes["A"]), arrow_schema(catalog.edges["E"])
    assert node.names == ["id", "q", "p", "z", "y"]
    assert edge.names == ["id", "src", "dst", "w"]
    for schema, columns in ((node, ["id"]), (edge, ["id", "src", "dst"])):
        for column in columns:
            assert schema.field(column) == pa.field(column, pa.utf8(), nullable=False)


def test_a_datetime_column_is_an_instant_in_utc() -> None:
    field = arrow_schema(compile_schema("node A { at: DateTime }").nodes["A"]).field("at")
    assert (field.type.unit, field.type.tz) == ("us", None)
