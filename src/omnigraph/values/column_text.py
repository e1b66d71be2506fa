"""Columns as text, a whole column at a time: what a table, a CSV file or a terminal shows of each value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from omnigraph.values.json_values import json_value

if TYPE_CHECKING:
    import pyarrow as pa

EXACT_FROM, EXACT_BELOW = 1e-4, 1e9
"""Between these, Arrow and Python write a float with the same digits; Python writes the others."""


def text_column(values: pa.Array) -> pa.LargeStringArray:
    """The text of each value, null where it is null: numbers as Python writes them, `true` and `false`, ISO days and
    instants in UTC, and JSON for what is a list, an entity, bytes or no number."""
    import pyarrow as pa
    import pyarrow.types as pt

    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pt.is_floating(values.type):
        return _floats(values.cast(pa.float64()))
    if pt.is_timestamp(values.type):
        return _instants(values)
    if pt.is_string(values.type) or pt.is_large_string(values.type) or pt.is_integer(values.type):
        return values.cast(pa.large_string())
    if pt.is_boolean(values.type) or pt.is_date32(values.type):
        return values.cast(pa.large_string())
    return _one_by_one(values)


def _floats(values: pa.Array) -> pa.LargeStringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    size = pc.abs(values)
    is_plain = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, EXACT_FROM), pc.less(size, EXACT_BELOW)))
    digits = values.cast(pa.large_string())
    has_point = pc.match_substring(digits, ".")
    digits = pc.if_else(has_point, digits, pc.binary_join_element_wise(digits, _text(".0"), _text("")))
    is_other = pc.invert(is_plain).fill_null(False)
    if not pc.any(is_other).as_py():
        return digits
    return pc.replace_with_mask(digits, is_other, _one_by_one(values.filter(is_other)))


def _instants(values: pa.Array) -> pa.LargeStringArray:
    """As `instant_text` writes them: milliseconds, or microseconds where there are some."""
    import pyarrow as pa
    import pyarrow.compute as pc

    moments = values.cast(pa.timestamp("us"))
    number = moments.cast(pa.int64())
    milliseconds = pc.multiply(pc.divide(number, 1_000), 1_000)
    digits = pc.utf8_replace_slice(moments.cast(pa.large_string()), 10, 11, "T")
    short = pc.utf8_slice_codeunits(digits, 0, len("0001-01-01T00:00:00.000"))
    digits = pc.if_else(pc.equal(number, milliseconds), short, digits)
    return pc.binary_join_element_wise(digits, _text("Z"), _text(""))


def _one_by_one(values: pa.Array) -> pa.LargeStringArray:
    import pyarrow as pa

    return pa.array([_json_text(json_value(value)) for value in values.to_pylist()], pa.large_string())


def _json_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _text(text: str) -> pa.Scalar:
    import pyarrow as pa

    return pa.scalar(text, pa.large_string())
