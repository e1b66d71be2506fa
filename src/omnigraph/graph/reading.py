"""Reading: queries, entities, exports and DataFrames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from omnigraph._internal.deadlines import Cancellation, Deadline
from omnigraph.errors import NotFound, UsageError
from omnigraph.graph.access import ALGORITHMS, FRAMES, Caller, GraphState, public_api
from omnigraph.graph.texts import compiled_read
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit
from omnigraph.snapshot import View
from omnigraph.tasks.engines import AUTO, Engine, open_session
from omnigraph.values.arrow import Entity

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from omnigraph.algorithms.projection import Algorithm
    from omnigraph.algorithms.result import AlgorithmResult
    from omnigraph.indexing.indexes import IndexState
    from omnigraph.language.catalog import Catalog
    from omnigraph.pictures.picture import Picture
    from omnigraph.read.entities import Blob
    from omnigraph.read.explaining import Explanation
    from omnigraph.read.result import Result
    from omnigraph.read.sql_query import SqlResult
    from omnigraph.spark.frames import DataFrame, SparkSession
    from omnigraph.tasks.engines import FileFormat, StreamFormat


# Graph algorithms on one snapshot.


@public_api
class GraphAlgorithms:
    """Algorithms over the edges of one type, and all nodes of the types that it connects.

    >>> algorithms = g.algorithms()
    """

    _asks = ALGORITHMS

    def __init__(
        self, view: View, engine: Engine = AUTO, caller: Caller | None = None, session: SparkSession | None = None
    ) -> None:
        self._repository = view.repository
        self._view = view
        self._engine = engine
        self._caller = caller
        self._session = session

    def __repr__(self) -> str:
        return f"<GraphAlgorithms at {self._view.snapshot.commit.id}>"

    def pagerank(
        self,
        edge: str,
        *,
        weight: str | None = None,
        damping: float = 0.85,
        tolerance: float = 1e-8,
        rounds: int | None = None,
    ) -> AlgorithmResult:
        """`rank`: how often a random walk visits each node. It follows edges in proportion to `weight`; with probability 1 -
        `damping`, and where no edge leads on, it jumps to any node. Ranks sum to 1, and their errors to at most `tolerance`;
        or, with `rounds`, they are what so many steps make of equal ranks.

        >>> ranks = algorithms.pagerank("Knows")
        >>> assert ranks.to_pandas().sort_values("rank").iloc[-1]["id"] == "Cy"
        """
        from omnigraph.algorithms.projection import PageRank

        return self._run(PageRank(damping, tolerance, rounds), edge, weight)

    def connected_components(self, edge: str) -> AlgorithmResult:
        """`component`: the smallest id among the nodes that a node is connected to, ignoring the direction of edges.

        >>> assert "Ada" in set(algorithms.connected_components("Knows").to_pandas()["component"])
        """
        from omnigraph.algorithms.projection import ConnectedComponents

        return self._run(ConnectedComponents(), edge)

    def label_propagation(
        self, edge: str, *, weight: str | None = None, rounds: int = 10, ties: Literal["own", "smallest"] = "own"
    ) -> AlgorithmResult:
        """`label`: the id of a node that represents a community. In each of `rounds` every node takes the label that most of its
        neighbours have, or the one with the largest sum of weights. Nothing is random: among equals a node keeps its own label, or takes the
        smallest, or always the smallest (`ties`).

        >>> assert len(algorithms.label_propagation("Knows", rounds=3)) == len(ranks)
        """
        from omnigraph.algorithms.projection import LabelPropagation

        return self._run(LabelPropagation(rounds, ties), edge, weight)

    def shortest_paths(self, edge: str, sources: Sequence[str], *, weight: str | None = None) -> AlgorithmResult:
        """`distance` from the nearest of `sources` (ids), along the direction of edges: hops, or the least sum of weights. Null
        for nodes that no path reaches.

        >>> hops = algorithms.shortest_paths("Knows", ["Ada"]).to_pandas().set_index("id")["distance"]
        >>> assert (hops["Ada"], hops["Bo"]) == (0, 1)
        """
        from omnigraph.algorithms.projection import ShortestPaths

        return self._run(ShortestPaths(tuple(sources) if not isinstance(sources, str) else sources), edge, weight)

    def triangle_count(self, edge: str) -> AlgorithmResult:
        """`triangles`: how many triangles a node is part of. Directions, parallel edges and loops are ignored.

        >>> assert set(algorithms.triangle_count("Knows").to_pandas()["triangles"]) == {0}
        """
        from omnigraph.algorithms.projection import TriangleCount

        return self._run(TriangleCount(), edge)

    def local_clustering(self, edge: str) -> AlgorithmResult:
        """`clustering`: how closely a node's neighbours are connected. Of n neighbours n(n - 1) edges could connect two, one in
        each direction; the share of those that exist, or 0 for fewer than two neighbours.

        >>> assert set(algorithms.local_clustering("Knows").to_pandas()["clustering"]) == {0.0}
        """
        from omnigraph.algorithms.projection import LocalClustering

        return self._run(LocalClustering(), edge)

    def _run(self, algorithm: Algorithm, edge: str, weight: str | None = None) -> AlgorithmResult:
        from omnigraph.algorithms.job import run_algorithm

        return run_algorithm(self._view, algorithm, edge, weight, engine=self._engine, session=self._session)


# The types of a graph, and what changed between two revisions, as Spark DataFrames.


@public_api
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
        from omnigraph.spark.frames import table_frame

        return table_frame(self._view, self._spark, type, columns, filter)

    def query(
        self, gq: str | Path, params: Mapping[str, object] | None = None, *, name: str | None = None
    ) -> DataFrame:
        """The rows of a read as a DataFrame that nothing is collected for: Spark plans the read together with what follows. Its
        session is one of its own, with the settings that the meaning of the query depends on. A whole entity is its id.

        >>> friends = tables.query(Path("people.gq"), {"of": "Ada"}, name="friends")
        >>> assert friends.where("name like 'B%'").count() == 1
        """
        from omnigraph.spark.queries import read_frame

        plan, bound = compiled_read(gq, self._view, params, name)
        return read_frame(self._view, plan, bound, self._spark)

    @property
    def algorithms(self) -> GraphAlgorithms:
        """Algorithms on this snapshot, in this process if the graph is small and on Spark otherwise. `to_spark()` of a result
        gives a DataFrame of this session."""

        return GraphAlgorithms(self._view, caller=self._caller, session=self._spark)

    def diff(self, a: str, b: str, type: str | None = None) -> DataFrame:
        """What changed from one revision to another: op, type, id, and the entity before and after as JSON text. For one `type`:
        op, id, and the entity as a struct with the columns of that type at `b`. Rows are in no order.

        >>> changed = tables.diff("main~1", "main", type="Person")
        >>> assert changed.columns == ["op", "id", "before", "after"]
        """
        from omnigraph.load.inputs import table_key
        from omnigraph.spark.diff_frames import diff_frame, type_diff_frame

        before, after = self._repository.resolve(a), self._repository.resolve(b)
        if type is None:
            return diff_frame(self._spark, before, after)
        return type_diff_frame(self._spark, before, after, after.entity(table_key(after.catalog, type)))


# What one snapshot holds: its commit, its schema, and each type's table.


@dataclass(frozen=True)
class TypeState:
    """One type in a snapshot. `version` counts the writes to its table; 0 if nothing was ever written.

    >>> (people,) = [type for type in g.snapshot().types if type.name == "Person"]
    >>> assert (people.kind, people.entities) == ("node", 4)
    """

    kind: Literal["node", "edge"]
    name: str
    entities: int
    version: int
    path: str


@dataclass(frozen=True)
class GraphSnapshot:
    """One immutable state of the graph. Every type that the schema declares is listed, edges first.

    >>> old = g.snapshot("main~1")
    >>> assert old.commit == g.show("main~1")
    >>> assert list(old.schema.nodes) == ["Person", "City"]
    """

    commit: Commit
    schema: Catalog
    types: tuple[TypeState, ...]

    def __repr__(self) -> str:
        return f"<GraphSnapshot at {self.commit.id}: {sum(type.entities for type in self.types)} entities>"


def snapshot_of(view: View) -> GraphSnapshot:
    from omnigraph.language.catalog import NodeType

    types = []
    for key, entity in view.catalog.tables.items():
        state = view.state(key)
        kind: Literal["node", "edge"] = "node" if isinstance(entity, NodeType) else "edge"
        version = 0 if state is None else state.generation
        types.append(TypeState(kind, entity.name, view.rows(key), version, view.path(key)))
    return GraphSnapshot(view.snapshot.commit, view.catalog, tuple(types))


@public_api
class ReadMethods(GraphState):
    """The methods of a graph that answer from one snapshot."""

    def query(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        schema_of: str | None = None,
        engine: Engine = "local",
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> Result:
        """Run a read against one immutable snapshot; after `timeout` seconds it ends with QueryTimeout, and with Cancelled if
        `cancel` is cancelled.

        The query is written for the snapshot's own schema, or for that of the revision `schema_of`: an old state can be queried
        by newer names, unless its entities may lack what the newer schema requires.

        >>> result = g.query(Path("people.gq"), {"of": "Ada"}, name="friends")
        >>> assert result.rows == [{"name": "Bo"}]
        >>> assert g.query(Path("people.gq"), {"of": "Bo"}, name="friends", revision="main~3").rows == []
        """
        deadline = Deadline(timeout, cancellation=cancel)
        view = self._repository.resolve(revision, as_of)
        if schema_of is not None:
            from omnigraph.evolve.apply import seen_through

            view = seen_through(view, self._repository.resolve(schema_of))
        plan, bound = compiled_read(gq, view, params, name)
        session = open_session(engine, self.uri)
        if session is not None:
            from omnigraph.spark.queries import run_read_on_spark

            return run_read_on_spark(view, plan, bound, session, deadline=deadline)
        from omnigraph.read.execution import run_read

        return run_read(view, plan, bound, deadline=deadline)

    def explain(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        analyze: bool = False,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> Explanation:
        """How a query would run: its steps as a tree, their access paths, and the expected numbers of rows. Inputs are read only
        as far as the choice of a path depends on them. With `analyze` the query is run, and every step has its rows and its time.

        >>> print(g.explain(Path("people.gq"), {"of": "Ada"}, name="friends"))
        >>> ran = g.explain(Path("people.gq"), {"of": "Ada"}, name="friends", analyze=True)
        >>> assert ran.steps[0].rows == 1
        """
        from omnigraph.read.explaining import explain

        view = self._repository.resolve(revision, as_of)
        plan, bound = compiled_read(gq, view, params, name)
        deadline = Deadline(timeout, cancellation=cancel)
        return explain(view, plan, bound, analyze=analyze, deadline=deadline)

    def sql(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> SqlResult:
        """One SELECT in DuckDB's SQL over one immutable snapshot, in which every type is a view: `id`, for an edge `from` and `to`,
        and the properties. Parameters are written `$name`.

        SQL reads the snapshot and nothing else: no files, no other databases. It scans; a `.gq` query uses the indexes.

        >>> known = g.sql("SELECT p.name, k.since FROM Person p JOIN Knows k ON k.to = p.id WHERE k.from = $who", {"who": "Ada"})
        >>> assert known.rows == [{"name": "Bo", "since": dt.date(2020, 5, 1)}]
        """
        from omnigraph.read.sql_query import run_sql

        return run_sql(
            self._repository.resolve(revision, as_of), text, dict(params or {}), Deadline(timeout, cancellation=cancel)
        )

    def duckdb(self, *, revision: str = MAIN, as_of: str | dt.datetime | None = None) -> DuckDBPyConnection:
        """A DuckDB connection of your own in which every type of one immutable snapshot is a view.

        The graph cannot be changed through it, nor a file be read or written; tables that you make live in its memory, and
        `connection.register` adds a data frame to the views. Close it when you are done.

        >>> with g.duckdb() as connection:
        ...     assert connection.sql("SELECT count(*) FROM Person").fetchall() == [(3,)]
        """
        from omnigraph.read.sql_query import open_duckdb

        return open_duckdb(self._repository.resolve(revision, as_of))

    def picture(
        self,
        type: str | None = None,
        id: str | None = None,
        *,
        hops: int = 1,
        limit: int = 50,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
    ) -> Picture:
        """A drawing of the schema or, with a type and an id, of a node and what `hops` edges reach from it, `limit` nodes at most.
        NotFound if there is no such node. A notebook shows it; `save` writes SVG, HTML, Mermaid or DOT.

        >>> assert len(g.picture().nodes) == 2
        >>> g.picture("Person", "Ada", hops=2).save("around-ada.html")
        """
        from omnigraph.pictures.picture import node_picture, schema_picture

        if (type is None) != (id is None):
            raise UsageError("a picture of a node needs a type and an id", hint='g.picture("Person", "ada")')
        if hops < 1 or limit < 1:
            raise UsageError("'hops' and 'limit' must be at least 1")
        view = self._repository.resolve(revision, as_of)
        if type is None or id is None:
            return schema_picture(view.catalog, f"the schema of {revision}")
        picture = node_picture(view, type, id, hops, limit)
        if picture is None:
            raise NotFound(f"there is no {type} '{id}'")
        return picture

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        types: Sequence[str] | None = None,
        format: FileFormat = "jsonl",
        overwrite: bool = False,
        engine: Engine = "local",
    ) -> int:
        """Write the graph, or some types of it, at any snapshot; returns the number of entities. CSV and Parquet are written to a
        folder with one file per type, or one type to a file named `.csv` or `.parquet`. "-" is standard output. AlreadyExists if
        a file exists, unless `overwrite`.

        >>> assert g.export("export.jsonl") == 6
        >>> assert g.export("export.csv", format="csv", types=["Person"]) == 3
        """
        from omnigraph.export.job import export

        view = self._repository.resolve(revision, as_of)
        return export(view, target, format=format, types=types, overwrite=overwrite, engine=engine)

    def export_stream(
        self,
        *,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        types: Sequence[str] | None = None,
        format: StreamFormat = "jsonl",
    ) -> Iterator[bytes]:
        """The graph, or some types of it, at any snapshot, as bytes in chunks: JSON lines with nodes before edges, or one type as
        CSV, Parquet or Arrow's stream format. Entities are in the order in which they are stored. A chunk is read when it is
        consumed, and little is held in memory.

        >>> lines = b"".join(g.export_stream(types=["Person"])).splitlines()
        >>> assert len(lines) == 3
        """
        from omnigraph.export.job import export_stream

        return export_stream(self._repository.resolve(revision, as_of), format, types)

    def spark(
        self, engine: Engine = "spark", *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> GraphTables:
        """The graph's types as Spark DataFrames, at one snapshot: `g.spark(session).table("Person")`.

        >>> tables = g.spark("local[2]", revision="main")
        >>> assert tables.table("Person", columns=["name"]).count() == 3
        """

        session = open_session(engine, self.uri)
        if session is None:
            raise UsageError(
                "Spark DataFrames need the engine Spark", hint='engine="spark", a Spark master, or a Spark session'
            )
        return GraphTables(self._repository.resolve(revision, as_of), session, self._caller)

    def algorithms(
        self, engine: Engine = AUTO, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> GraphAlgorithms:
        """Graph algorithms at one snapshot: PageRank, connected components, label propagation, shortest paths, triangles.

        `engine` "auto" handles up to 20,000,000 edges in this process, and more on Spark. Every engine gives the same answer.

        >>> ranks = g.algorithms().pagerank("Knows")
        """

        return GraphAlgorithms(self._repository.resolve(revision, as_of), engine, self._caller)

    def entity(
        self, type: str, id: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> Entity | None:
        """One node or edge by id: `id`, for an edge `from` and `to`, and its properties. None if there is no such entity.

        >>> ada = g.entity("Person", "Ada")
        >>> assert ada == {"id": "Ada", "name": "Ada", "age": 36, "born": dt.datetime(1815, 12, 10, 6, 30, tzinfo=dt.UTC)}
        >>> assert g.entity("Knows", "ada-bo") == {"id": "ada-bo", "from": "Ada", "to": "Bo", "since": dt.date(2020, 5, 1)}
        """
        from omnigraph.read.entities import entity

        return entity(self._repository.resolve(revision, as_of), type, id)

    def blob(
        self, type: str, id: str, property: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> Blob:
        """A Blob of one entity: its size, a tag of its content, and its bytes by range. NotFound if there is no such entity, or
        its Blob is null. A value is read from storage as a whole even if only a part is asked for.
        """
        from omnigraph.read.entities import blob

        return blob(self._repository.resolve(revision, as_of), type, id, property)

    def snapshot(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> GraphSnapshot:
        """The content of a revision: its commit, its schema, and the number of entities of each type.

        >>> assert {type.name: type.entities for type in g.snapshot().types}["Person"] == 3
        """
        return snapshot_of(self._repository.resolve(revision, as_of))

    def indexes(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> list[IndexState]:
        """Every declared index of a revision: how many rows it covers, how many a read still has to scan, and why.

        >>> assert {index.column for index in g.indexes() if index.table_key == "node:City"} == {"id", "name"}
        """
        from omnigraph.indexing.indexes import index_state

        return index_state(self._repository.resolve(revision, as_of))
