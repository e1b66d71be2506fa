"""Whether an index answers as a scan of the table does. Lookup indexes are compared completely, text and vector indexes by
sample.

A lookup index is queried for ranges that together hold every value, and for some values at once; each answer is compared, row by
row, with that of a scan. A text index must find sampled rows by one of their words. A vector index, searched completely, must
find a row as near to a sampled vector as the nearest one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from omnigraph.tables import filters
from omnigraph.tables.fragment import ROW_ADDRESS, ROW_ID
from omnigraph.tables.indexes import IndexSpec, spec_of
from omnigraph.tables.lance_errors import translated
from omnigraph.tables.searching import DISTANCE, find_text
from omnigraph.tables.table import Table

if TYPE_CHECKING:
    import numpy as np

RANGE_ROWS = 65_536
"""Rows of a range, about; larger tables have larger ranges."""
MAX_RANGES = 16
SAMPLES = 16
ALL_PARTITIONS = 1_000_000
_WORD = re.compile(r"\w+")
MAX_WORD = 40
"""Longer words are not looked up."""


def index_fault(table: Table, name: str) -> str | None:
    """What is wrong with the answers of an index of the table; None if nothing is."""
    spec = spec_of(name)
    with translated(table.path):
        match spec.kind:
            case "BTREE":
                return _lookup_fault(table, spec.column)
            case "INVERTED":
                return _text_fault(table, spec.column, _covered(table, name))
            case "IVF_FLAT":
                return _vector_fault(table, spec, _covered(table, name))


def index_names(table: Table) -> dict[str, list[str]]:
    """Every index of the table, with the UUIDs of its segments."""
    described = table.dataset.describe_indices()
    return {entry.name: [str(segment.uuid) for segment in entry.segments] for entry in described}


def _covered(table: Table, name: str) -> list[int]:
    """The fragments of the table that the index claims to cover."""
    live = {fragment.id for fragment in table.fragments}
    named = {
        fragment
        for entry in table.dataset.describe_indices()
        if entry.name == name
        for segment in entry.segments
        for fragment in segment.fragment_ids
    }
    return sorted(live & named)


def _sampled(table: Table, column: str, fragments: Sequence[int]) -> list[dict[str, Any]]:
    """Rows with a value in the column, spread over these fragments, with row ids."""
    if not fragments:
        return []
    step = max(1, len(fragments) // SAMPLES)
    rows: list[dict[str, Any]] = []
    for fragment in fragments[::step]:
        sample = table.scan(
            [column], f"{filters.column(column)} IS NOT NULL", fragments=[fragment], with_row_id=True, limit=SAMPLES
        ).read_all()
        rows += sample.to_pylist()
    return rows[:: max(1, len(rows) // SAMPLES)]


# ---------------------------------------------------------------- lookups


def _lookup_fault(table: Table, column: str) -> str | None:
    import numpy as np

    for question in _questions(table, column):
        by_index, by_scan = (_addresses(table, question, use) for use in (True, False))
        if not np.array_equal(by_index, by_scan):
            lacking, extra = len(np.setdiff1d(by_scan, by_index)), len(np.setdiff1d(by_index, by_scan))
            return f"for {question} it returns {len(by_index)} rows: {lacking} are missing, and {extra} do not match"
    return None


def _questions(table: Table, column: str) -> Iterator[str]:
    name = filters.column(column)
    yield f"{name} IS NULL"
    yield f"{name} IS NOT NULL"
    if not _can_be_written(table, column):
        return
    bounds, values = _bounds(table, column)
    texts = [filters.literal(bound) for bound in bounds]
    if texts:
        yield f"{name} < {texts[0]}"
        yield from (f"{name} >= {low} AND {name} < {high}" for low, high in pairwise(texts))
        yield f"{name} >= {texts[-1]}"
    if values:
        yield filters.in_list(column, values)


def _can_be_written(table: Table, column: str) -> bool:
    """Whether every value of the column can be written exactly in a filter."""
    from pyarrow import types as pt

    type = table.schema.field(column).type
    return bool(pt.is_string(type) or pt.is_signed_integer(type) or pt.is_date(type))


def _bounds(table: Table, column: str) -> tuple[list[Any], list[Any]]:
    """Values that cut the column into ranges of about equal size, and some values to look up."""
    seen: list[Any] = []
    for batch in table.scan([column], batch_rows=RANGE_ROWS):
        values = batch.column(0).drop_null()
        places = range(0, len(values), max(1, len(values) // MAX_RANGES))
        seen += [values[place].as_py() for place in places]
        if len(seen) > MAX_RANGES * 64:
            seen = sorted(seen)[::2]
    ordered, ranges = sorted(set(seen)), min(MAX_RANGES, 1 + table.rows // RANGE_ROWS)
    bounds = ordered[:: max(1, len(ordered) // ranges)][:ranges]
    return bounds, ordered[:: max(1, len(ordered) // SAMPLES)][:SAMPLES]


def _addresses(table: Table, question: str, use_index: bool) -> np.ndarray[Any, Any]:
    """Sorted addresses of the matching rows; there may be many millions."""
    import numpy as np

    rows = table.dataset.scanner(
        columns=[], filter=question, with_row_address=True, use_scalar_index=use_index
    ).to_table()
    return np.sort(rows.column(ROW_ADDRESS).to_numpy())


# ---------------------------------------------------------------- text and vectors


def _text_fault(table: Table, column: str, fragments: Sequence[int]) -> str | None:
    for row in _sampled(table, column, fragments):
        word = _word_of(row[column])
        if word is None:
            continue
        rows = find_text(table, column, [word], ["id"], every=True, filter=None, limit=table.rows + 1)
        if row[ROW_ID] not in set(rows.column(ROW_ID).to_pylist()):
            return f"it does not find a row by its word '{word}'"
    return None


def _word_of(text: str) -> str | None:
    """A word that every tokenizer takes for one term."""
    words = (word for word in _WORD.findall(text) if word.isascii() and word.isalnum() and len(word) <= MAX_WORD)
    return max(words, key=len, default=None)


def _vector_fault(table: Table, spec: IndexSpec, fragments: Sequence[int]) -> str | None:
    for row in _sampled(table, spec.column, fragments):
        by_index, by_scan = (_nearest(table, spec, row[spec.column], use) for use in (True, False))
        if by_index is None or by_scan is None or math.isnan(by_scan):
            continue
        if not math.isclose(by_index, by_scan, rel_tol=1e-3, abs_tol=1e-5):
            return f"the nearest row that it finds is at distance {by_index:g}, the nearest of all at {by_scan:g}"
    return None


def _nearest(table: Table, spec: IndexSpec, vector: Sequence[float], use_index: bool) -> float | None:
    import pyarrow as pa

    wanted = {
        "column": spec.column,
        "q": pa.array(vector, pa.float32()),
        "k": 1,
        "metric": spec.variant,
        "minimum_nprobes": ALL_PARTITIONS,
        "use_index": use_index,
    }
    distances = table.dataset.scanner(columns=[DISTANCE], nearest=wanted).to_table().column(DISTANCE).to_pylist()
    return distances[0] if distances else None
