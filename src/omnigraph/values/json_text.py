"""Values as compact JSON text: one at a time, or a column at once.

`json_value` defines the text of each value. Whole columns go through Arrow, which gives the same text without creating Python
values where it can.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc, pt
from omnigraph.values.json_values import json_value
from omnigraph.values.types import MAX_SAFE_INTEGER

# Columns as text, a whole column at a time: what a table, a CSV file or a terminal shows of each value.

EXACT_FROM, EXACT_BELOW = 1e-4, 1e9
"""Between these, Arrow and Python write a float with the same digits; the others are left to Python."""


def text_column(values: pa.Array) -> pa.LargeStringArray:
    """The text of each value, null for null: numbers as Python writes them, `true` and `false`, ISO dates, instants in UTC, and
    JSON for lists, entities, bytes, NaN and infinities."""
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
    return _texts_one_by_one(values)


def _floats(values: pa.Array) -> pa.LargeStringArray:
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
    return pc.replace_with_mask(digits, is_other, _texts_one_by_one(values.filter(is_other)))


def _instants(values: pa.Array) -> pa.LargeStringArray:
    """As `instant_text` writes them: with milliseconds, or microseconds if there are any."""
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


def _texts_one_by_one(values: pa.Array) -> pa.LargeStringArray:
    return pa.array([plain_text(value) for value in values.to_pylist()], pa.large_string())


def plain_text(value: object) -> str | None:
    """The text of one value: `text_column` without a column."""
    shown = json_value(value)
    if shown is None or isinstance(shown, str):
        return shown
    return repr(shown) if isinstance(shown, float) else json.dumps(shown, ensure_ascii=False)


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


ESCAPED = r'["\\\x00-\x1f]'
"""Characters that a JSON string cannot hold unescaped."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def json_text(value: object) -> str:
    """The text of a value that is JSON already."""
    return _encode(value)


_encode_stored = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def stored_text(value: object) -> str:
    """The text of anything that was read as JSON, including NaN and infinities, which are not standard."""
    return (
        repr(value) if type(value) is int else _encode_stored(value)
    )  # For an int, the encoder would first build another encoder.


def value_text(value: object) -> str:
    """The text of a graph's value."""
    return _encode(json_value(value))


def column_texts(column: pa.Array) -> pa.LargeStringArray:
    """`value_text` of every value of a column; a null stays null."""
    type = column.type
    if pt.is_string(type) or pt.is_large_string(type):
        return _strings(column)
    if pt.is_boolean(type) or (pt.is_integer(type) and _is_safe(column)):
        return text_column(column)
    if pt.is_floating(type) and pc.all(pc.is_finite(column), min_count=0).as_py():
        return text_column(column)
    if pt.is_date(type) or pt.is_timestamp(type):
        return joined_texts('"', text_column(column), '"')
    if pt.is_fixed_size_list(type):
        return column_texts(pc.cast(column, pa.list_(type.value_type)))
    if pt.is_list(type) and not column.values.null_count:
        return _lists(column)
    return _one_by_one(column)


def object_texts(members: Mapping[str, pa.Array], *, written_nulls: frozenset[str]) -> pa.LargeStringArray:
    """Row by row the text of an object with these members. The first is never null; any other is left out if it is null, unless
    it is one of `written_nulls`."""
    pieces: list[Any] = []
    for name, column in members.items():
        member = f"{',' if pieces else '{'}{json_text(name)}:"
        texts = column_texts(column)
        if not texts.null_count:
            pieces += [member, texts]
        elif name in written_nulls:
            pieces += [member, texts.fill_null("null")]
        else:
            pieces.append(joined_texts(member, texts).fill_null(""))
    return joined_texts(*pieces, "}")


def joined_texts(*pieces: str | pa.LargeStringArray) -> pa.LargeStringArray:
    """Texts and columns of texts concatenated, row by row; null if one of them is."""
    large = [pa.scalar(piece, pa.large_string()) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*large, pa.scalar("", pa.large_string()))


def text_blocks(texts: pa.LargeStringArray, size: int) -> Iterator[bytes]:
    """All texts, none of them null, concatenated as blocks of bytes; each block ends with the text that fills it."""
    _, ends_buffer, data = texts.buffers()
    if not len(texts):
        return
    ends = np.frombuffer(ends_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first = 0
    while first < len(texts):
        last = min(int(np.searchsorted(ends, ends[first] + size)), len(texts))
        yield data[int(ends[first]) : int(ends[last])].to_pybytes()
        first = last


def _strings(column: pa.Array) -> pa.LargeStringArray:
    texts = pc.cast(column, pa.large_string())
    quoted = joined_texts('"', texts, '"')
    escaped = pc.fill_null(pc.match_substring_regex(texts, ESCAPED), fill_value=False)
    if not pc.any(escaped).as_py():
        return quoted
    return pc.replace_with_mask(quoted, escaped, _one_by_one(texts.filter(escaped)))


def _lists(column: pa.ListArray) -> pa.LargeStringArray:
    items = pa.ListArray.from_arrays(column.offsets, column_texts(column.values))
    texts = joined_texts("[", pc.binary_join(items, pa.scalar(",", pa.large_string())), "]")
    return pc.if_else(column.is_valid(), texts, None) if column.null_count else texts


def _is_safe(column: pa.Array) -> bool:
    if column.type.bit_width < 64:
        return True
    extent = pc.min_max(column).as_py()
    return extent["min"] is None or (extent["min"] >= -MAX_SAFE_INTEGER and extent["max"] <= MAX_SAFE_INTEGER)


def _one_by_one(column: pa.Array) -> pa.LargeStringArray:
    texts = [None if value is None else value_text(value) for value in column.to_pylist()]
    return pa.array(texts, pa.large_string())
