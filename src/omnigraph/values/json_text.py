"""Values as compact JSON text: one at a time, or a column at once.

`json_value` defines the text of each value. Whole columns go through Arrow, which gives the same text without creating Python
values where it can.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.values.column_text import text_column
from omnigraph.values.json_values import json_value
from omnigraph.values.types import MAX_SAFE_INTEGER

if TYPE_CHECKING:
    import pyarrow as pa

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
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types as pt

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
    import pyarrow as pa
    import pyarrow.compute as pc

    large = [pa.scalar(piece, pa.large_string()) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*large, pa.scalar("", pa.large_string()))


def text_blocks(texts: pa.LargeStringArray, size: int) -> Iterator[bytes]:
    """All texts, none of them null, concatenated as blocks of bytes; each block ends with the text that fills it."""
    import numpy as np

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
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.cast(column, pa.large_string())
    quoted = joined_texts('"', texts, '"')
    escaped = pc.fill_null(pc.match_substring_regex(texts, ESCAPED), fill_value=False)
    if not pc.any(escaped).as_py():
        return quoted
    return pc.replace_with_mask(quoted, escaped, _one_by_one(texts.filter(escaped)))


def _lists(column: pa.ListArray) -> pa.LargeStringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    items = pa.ListArray.from_arrays(column.offsets, column_texts(column.values))
    texts = joined_texts("[", pc.binary_join(items, pa.scalar(",", pa.large_string())), "]")
    return pc.if_else(column.is_valid(), texts, None) if column.null_count else texts


def _is_safe(column: pa.Array) -> bool:
    import pyarrow.compute as pc

    if column.type.bit_width < 64:
        return True
    extent = pc.min_max(column).as_py()
    return extent["min"] is None or (extent["min"] >= -MAX_SAFE_INTEGER and extent["max"] <= MAX_SAFE_INTEGER)


def _one_by_one(column: pa.Array) -> pa.LargeStringArray:
    import pyarrow as pa

    texts = [None if value is None else value_text(value) for value in column.to_pylist()]
    return pa.array(texts, pa.large_string())
