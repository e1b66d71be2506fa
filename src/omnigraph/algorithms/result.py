"""What an algorithm found: a value for every node."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import load_extra, pa, pc
from omnigraph.algorithms.projection import Algorithm
from omnigraph.algorithms.scratch import Scratch
from omnigraph.errors import UsageError
from omnigraph.history.values import Commit

if TYPE_CHECKING:
    import pandas
    import polars

    from omnigraph.spark.frames import DataFrame, SparkSession


@dataclass(frozen=True)
class RowFiles:
    """Rows that tasks have written, a file for each part; they go when nobody has them any more."""

    scratch: Scratch
    names: tuple[str, ...]
    schema: pa.Schema

    def tables(self) -> Iterator[pa.Table]:
        return (self.scratch.get_rows(name) for name in self.names)

    def frame(self, session: SparkSession) -> DataFrame:
        from omnigraph.spark.types import struct_type

        scratch, names, schema = self.scratch, self.names, struct_type(self.schema)
        if not names:
            return session.createDataFrame([], schema)

        def read(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from scratch.get_rows(names[number]).to_batches()

        return session.range(0, len(names), 1, len(names)).mapInArrow(read, schema)


class AlgorithmResult:
    """A value for every node that the edges may connect: rows of `type`, `id`, and the value under its own name.

    It has a length, and is an Arrow stream: `pyarrow.table(result)`, `polars.DataFrame(result)` and `duckdb.sql("from result")`
    take it as it is. What tasks have found stays in files beside the graph until `close`, the end of a `with`, or of the program.

    >>> ranks = g.algorithms().pagerank("Knows")
    >>> assert ranks.to_arrow().column_names == ["type", "id", "rank"]
    """

    algorithm: str
    column: str
    """Of the value: `rank`, `component`, `label`, `distance` or `triangles`."""
    commit: Commit
    """That of the snapshot."""
    engine: str
    """Where it was computed: "in process", "on Spark", or "in tasks of this process"."""
    steps: int
    """Rounds, or levels; 1 where there are none."""
    seconds: float
    num_rows: int

    def __init__(
        self,
        algorithm: Algorithm,
        commit: Commit,
        engine: str,
        steps: int,
        seconds: float,
        num_rows: int,
        rows: pa.Table | RowFiles,
        session: SparkSession | None,
    ) -> None:
        self.algorithm = algorithm.name
        self.column = algorithm.column
        self.commit = commit
        self.engine = engine
        self.steps = steps
        self.seconds = seconds
        self.num_rows = num_rows
        self._rows = rows
        self._session = session
        self._finalizer = weakref.finalize(self, rows.scratch.remove) if isinstance(rows, RowFiles) else None

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        return f"<AlgorithmResult of {self.algorithm}: {self.num_rows} nodes at {self.commit.id}, {self.engine}>"

    def __enter__(self) -> AlgorithmResult:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files of this result. It cannot be read any more then, unless it was computed in this process."""
        if self._finalizer is not None:
            self._finalizer()

    def to_arrow(self) -> pa.Table:
        """An Arrow table, by type and id.

        >>> assert ranks.to_arrow().num_rows == len(ranks)
        """
        if not isinstance(self._rows, RowFiles):
            return self._rows
        tables = [self._rows.schema.empty_table(), *self._rows.tables()]
        return pa.concat_tables(tables).sort_by([("type", "ascending"), ("id", "ascending")])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame.

        >>> assert abs(ranks.to_pandas()["rank"].sum() - 1) < 1e-6
        """
        load_extra("pandas", "to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """A Polars DataFrame.

        >>> assert ranks.to_polars().columns == ["type", "id", "rank"]
        """
        frame: polars.DataFrame = load_extra("polars", "to_polars").DataFrame(self)
        return frame

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """A DataFrame of Spark, of the session that computed it or of another one. What tasks have found is read by tasks."""
        chosen = session or self._session
        if chosen is None:
            raise UsageError(
                "this result was computed without Spark", hint="to_spark(session), or g.spark().algorithms"
            )
        if isinstance(self._rows, RowFiles):
            return self._rows.frame(chosen)
        return chosen.createDataFrame(self._rows)

    def property(self, into: str) -> dict[str, pa.Table | DataFrame]:
        """The values of one type as a property of it ("Person.rank"), for `load` with mode "patch".

        >>> assert ranks.property("Person.rank")["Person"].column_names == ["id", "rank"]
        """
        type, name = property_of(into)
        if isinstance(self._rows, RowFiles) and self._session is not None:
            frame = self._rows.frame(self._session)
            return {type: frame.where(frame["type"] == type).selectExpr("id", f"`{self.column}` AS `{name}`")}
        rows = self.to_arrow()
        chosen = rows.filter(pc.equal(rows.column("type"), type))
        return {type: chosen.select(["id", self.column]).rename_columns(["id", name])}


def property_of(into: str) -> tuple[str, str]:
    """Type and property of "Type.property"."""
    type, dot, name = into.partition(".")
    if not (type and dot and name):
        raise UsageError(f"{into!r} does not name a property", hint="Type.property, such as Person.rank")
    return type, name
