"""Stored columns as Spark has them: unsigned integers one size up, vectors as arrays, instants with their zone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import pa, pc, pt
from omnigraph.errors import UnreadableInput

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def spark_arrow_type(type: pa.DataType) -> pa.DataType:
    """The Arrow type that Spark exchanges for a stored type."""
    if pt.is_fixed_size_list(type) or pt.is_list(type):
        return pa.list_(pa.field("element", spark_arrow_type(type.value_type), nullable=True))
    if pt.is_struct(type):
        return pa.struct([pa.field(field.name, spark_arrow_type(field.type), nullable=True) for field in type])
    if pt.is_uint32(type):
        return pa.int64()
    if pt.is_uint64(type):
        return pa.decimal128(20, 0)
    if pt.is_timestamp(type):
        return pa.timestamp("us", tz="UTC")
    if pt.is_large_binary(type):
        return pa.binary()
    if pt.is_large_string(type):
        return pa.string()
    return type


def spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """Every column nullable: Spark compares what a source says with what it gives, and users' own schemas say that."""
    return pa.schema([pa.field(field.name, spark_arrow_type(field.type), nullable=True) for field in schema])


def for_spark(rows: Any) -> Any:
    """A table or batch with Spark's types, columns in their order."""
    schema = spark_arrow_schema(rows.schema)
    columns = []
    for column, field in zip(rows.columns, schema, strict=True):
        if pt.is_timestamp(column.type) and column.type.tz is None:
            column = pc.assume_timezone(column, "UTC")
        columns.append(column if column.type == field.type else column.cast(field.type))
    return type(rows).from_arrays(columns, schema=schema)


def refuse_intervals(schema: StructType) -> None:
    """UnreadableInput for a column that no worker could read: Arrow's library for Python does not know months as a type."""
    for field in schema.fields:
        if "YearMonthIntervalType" in repr(field.dataType) or "CalendarIntervalType" in repr(field.dataType):
            raise UnreadableInput(
                f"the column '{field.name}' holds intervals of months, which no property can",
                hint=f"leave it out, or write a number: months_between(...) or extract(MONTH FROM {field.name})",
            )


def struct_type(schema: pa.Schema) -> StructType:
    """The Spark schema of a stored table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(spark_arrow_schema(schema))
