"""The types of values: scalars, lists, enums and vectors, and the range of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Scalar(StrEnum):
    """The base types of `.pg`, by the word a schema uses.

    >>> assert (og.types.Scalar.I32.value, og.types.Scalar.I32.is_integer) == ("I32", True)
    """

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    VECTOR = "Vector"
    RECORD = "Record"
    """Several values with names, in a query. No property has this type."""

    @property
    def is_integer(self) -> bool:
        """I32, I64, U32 or U64."""
        return self in (Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64)

    @property
    def is_float(self) -> bool:
        """F32 or F64."""
        return self in (Scalar.F32, Scalar.F64)

    @property
    def is_numeric(self) -> bool:
        """An integer or a float."""
        return self.is_integer or self.is_float


PROPERTY_SCALARS = tuple(scalar for scalar in Scalar if scalar is not Scalar.RECORD)
"""The base types that a schema may name."""

INTEGER_RANGES: Mapping[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}
"""The smallest and the largest value of each integer type."""

MAX_SAFE_INTEGER = 2**53 - 1
"""Beyond this, a 64-bit float stands for several integers, so a JSON reader that holds numbers as floats loses digits."""


@dataclass(frozen=True)
class PropertyType:
    """A property's type. `enum` is sorted and non-empty only for enums (scalar String); `dimension` only for Vector.

    >>> assert age.type == og.types.PropertyType(og.types.Scalar.I32, nullable=True)
    """

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum: tuple[str, ...] = ()
    dimension: int | None = None
    fields: tuple[tuple[str, PropertyType], ...] = ()
    """The names and types of a record's values; only for Record."""

    def __str__(self) -> str:
        if self.enum:
            core = f"enum({', '.join(self.enum)})"
        elif self.dimension is not None:
            core = f"Vector({self.dimension})"
        elif self.fields:
            core = "{" + ", ".join(f"{name}: {type_}" for name, type_ in self.fields) + "}"
        else:
            core = self.scalar.value
        if self.is_list:
            core = f"[{core}]"
        return core + ("?" if self.nullable else "")


WIDER_SCALARS: Mapping[Scalar, tuple[Scalar, ...]] = {
    Scalar.I32: (Scalar.I64, Scalar.F64),
    Scalar.I64: (Scalar.F64,),
    Scalar.U32: (Scalar.U64, Scalar.I64, Scalar.F64),
    Scalar.U64: (Scalar.F64,),
    Scalar.F32: (Scalar.F64,),
}


def wider_type(first: PropertyType, other: PropertyType) -> PropertyType:
    """A property type that holds the values of both: F64 for numbers of which neither type holds the other."""
    scalar = first.scalar
    if scalar is not other.scalar and scalar not in WIDER_SCALARS.get(other.scalar, ()):
        scalar = other.scalar if other.scalar in WIDER_SCALARS.get(scalar, ()) else Scalar.F64
    return replace(first, scalar=scalar, is_list=first.is_list or other.is_list)


def is_rounded(before: PropertyType, after: PropertyType) -> bool:
    """Whether integers may lose digits as values of another type."""
    return before.scalar in (Scalar.I64, Scalar.U64) and after.scalar.is_float
