"""The result of a read: Arrow inside, rows, data frames and JSON on demand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.history import Commit
from omnigraph.language.query.plan import ResultColumn
from omnigraph.values.arrow import python_values
from omnigraph.values.json_values import json_value

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa


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
        lists = [python_values(column) for column in self.table.columns]
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
