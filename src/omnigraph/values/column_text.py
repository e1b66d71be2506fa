"""Columns as text, a whole column at a time: what a table, a CSV file or a terminal shows of each value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from omnigraph.values.json_values import json_value

if TYPE_CHECKING:
    import pyarrow as pa

EXACT_FROM, EXACT_BELOW = 1e-4, 1e9
"""Between these, Arrow and Python write a float with the same digits; the others are left to Python."""


def text_column(values: pa.Array) -> pa.LargeStringArray:
    """The text of each value, null for null: numbers as Python writes them, `true` and `false`, ISO dates, instants in UTC, and
    JSON for lists, entities, bytes, NaN and infinities."""
    import pyarrow as pa
    from pyarrow import types as pt

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
    is_exact = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, EXACT_FROM), pc.less(size, EXACT_BELOW)))
    digits = values.cast(pa.large_string())
    is_whole = pc.equal(pc.floor(values), values)
    if pc.any(is_whole).as_py():
        whole = pc.binary_join_element_wise(digits, _text(".0"), _text(""))
        digits = pc.if_else(pc.and_(is_whole, pc.invert(pc.match_substring(digits, "."))), whole, digits)
    if pc.all(is_exact).as_py():
        return digits
    is_other = pc.invert(is_exact).fill_null(False)
    return pc.replace_with_mask(digits, is_other, _one_by_one(values.filter(is_other)))


def _instants(values: pa.Array) -> pa.LargeStringArray:
    """As `instant_text` writes them: with milliseconds, or microseconds if there are any."""
    import pyarrow as pa
    import pyarrow.compute as pc

    moments = values.cast(pa.timestamp("us"))
    number = moments.cast(pa.int64())
    has_micros = pc.not_equal(pc.multiply(pc.divide(number, 1_000), 1_000), number)
    if not pc.any(has_micros).as_py():
        return _instant_digits(moments, "ms")
    is_short = pc.invert(has_micros).fill_null(False)
    return pc.replace_with_mask(
        _instant_digits(moments, "us"), is_short, _instant_digits(moments.filter(is_short), "ms")
    )


def _instant_digits(moments: pa.Array, unit: str) -> pa.LargeStringArray:
    """Years of four digits make texts of equal length, which are assembled as a matrix of bytes."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = moments.cast(pa.timestamp(unit), safe=False).fill_null(0).cast(pa.large_string())
    _, offsets, characters = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    width = len("0001-01-01T00:00:00.000") + (3 if unit == "us" else 0)
    if len(texts) == 0 or not (np.diff(bounds) == width).all():
        dated = pc.utf8_replace_slice(texts, 10, 11, "T")
        return pc.if_else(moments.is_valid(), pc.binary_join_element_wise(dated, _text("Z"), _text("")), None)
    digits = np.frombuffer(characters, np.uint8)[bounds[0] : bounds[-1]].reshape(len(texts), width)
    lines = np.empty((len(texts), width + 1), np.uint8)
    lines[:, :width] = digits
    lines[:, 10] = ord("T")
    lines[:, width] = ord("Z")
    ends = np.arange(len(texts) + 1, dtype=np.int64) * (width + 1)
    written = pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(lines.reshape(-1)))
    return written if not moments.null_count else pc.if_else(moments.is_valid(), written, None)


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
