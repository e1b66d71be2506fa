"""The types of a graph, and what changed between two revisions, as Spark DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.graph.access import FRAMES, Caller
from omnigraph.graph.boundary import names_damage
from omnigraph.views import View

if TYPE_CHECKING:
    from omnigraph.graph.algorithms import GraphAlgorithms
    from omnigraph.pipeline.spark.frames import DataFrame, SparkSession


@names_damage
class GraphTables:
    """The types of a graph at one snapshot, as Spark DataFrames.

    >>> tables = g.spark()
    """

    _asks = FRAMES

    def __init__(self, view: View, spark: SparkSession, caller: Caller | None = None) -> None:
        self._repository = view.repository
        self._view = view
        self._spark = spark
        self._caller = caller

    def __repr__(self) -> str:
        return f"<GraphTables at {self._view.snapshot.commit.id}>"

    def table(self, type: str, columns: Sequence[str] | None = None, filter: str | None = None) -> DataFrame:
        """The entities of a type. `columns` and `filter` ("age > 30 AND tier = 'pro'") are applied while reading.

        >>> assert tables.table("Person", filter="age > 50").count() >= 1
        """
        from omnigraph.pipeline.spark.frames import table_frame

        return table_frame(self._view, self._spark, type, columns, filter)

    @property
    def algorithms(self) -> GraphAlgorithms:
        """Algorithms on this snapshot, in this process if the graph is small and on Spark otherwise. `to_spark()` of a result
        gives a DataFrame of this session."""
        from omnigraph.graph.algorithms import GraphAlgorithms

        return GraphAlgorithms(self._view, caller=self._caller, session=self._spark)

    def diff(self, a: str, b: str, type: str | None = None) -> DataFrame:
        """What changed from one revision to another: op, type, id, and the entity before and after as JSON text. For one `type`:
        op, id, and the entity as a struct with the columns of that type at `b`. Rows are in no order.

        >>> changed = tables.diff("main~1", "main", type="Person")
        >>> assert changed.columns == ["op", "id", "before", "after"]
        """
        from omnigraph.pipeline.load.inputs import table_key
        from omnigraph.pipeline.spark.diff_frames import diff_frame, type_diff_frame

        before, after = self._repository.resolve(a), self._repository.resolve(b)
        if type is None:
            return diff_frame(self._spark, before, after)
        return type_diff_frame(self._spark, before, after, after.entity(table_key(after.catalog, type)))
