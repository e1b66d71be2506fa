"""The result of a read: Arrow inside, rows, data frames and JSON on demand."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.history import Commit
from omnigraph.language.query.plan import ResultColumn
from omnigraph.values.temporal import datetime_text

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

SAFE_INTEGER = 2**53 - 1
"""Integers beyond it would lose digits in a JSON reader that holds numbers as doubles; they travel as text."""


@dataclass(frozen=True)
class Timing:
    """Seconds: reading and reducing the inputs, running the relational part, and all of it."""

    inputs_s: float
    engine_s: float
    total_s: float


@dataclass(frozen=True)
class Result:
    table: pa.Table
    columns: tuple[ResultColumn, ...]
    commit: Commit
    timing: Timing
    query_name: str = ""
    """The name the query has in its text; the front door fills it in."""

    @property
    def num_rows(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Rows as Python values: int, float, str, bool, date, datetime (UTC), list, dict for a whole entity."""
        lists = [_python(column) for column in self.table.columns]
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_pandas(self) -> pandas.DataFrame:
        return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        import polars

        frame = polars.from_arrow(self.table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_json(self) -> list[dict[str, Any]]:
        """Rows as JSON values: integers beyond 2^53 - 1, NaN and infinities as text, dates and instants as ISO text."""
        return [{name: json_value(value) for name, value in row.items()} for row in self.rows]


def _python(column: pa.ChunkedArray) -> list[Any]:
    return [with_zone(value) for value in column.to_pylist()] if _has_times(column.type) else column.to_pylist()


def _has_times(type: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_timestamp(type):
        return True
    if pa.types.is_list(type):
        return _has_times(type.value_type)
    if pa.types.is_struct(type):
        return any(_has_times(field.type) for field in type)
    return False


def with_zone(value: Any) -> Any:
    """Stored instants have no zone and mean UTC; whoever reads them gets that said."""
    match value:
        case dt.datetime():
            return value.replace(tzinfo=dt.UTC)
        case list():
            return [with_zone(item) for item in value]
        case dict():
            return {name: with_zone(item) for name, item in value.items()}
    return value


def json_value(value: Any) -> Any:
    """One value of a result as JSON (64-bit safe)."""
    match value:
        case bool():
            return value
        case int():
            return value if abs(value) <= SAFE_INTEGER else str(value)
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        case dt.datetime():
            return datetime_text(value if value.tzinfo else value.replace(tzinfo=dt.UTC))
        case dt.date():
            return value.isoformat()
        case list():
            return [json_value(item) for item in value]
        case dict():
            return {name: json_value(item) for name, item in value.items()}
        case bytes():
            import base64

            return "base64:" + base64.b64encode(value).decode("ascii")
    return value
