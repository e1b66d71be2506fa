"""Reading: queries, entities, exports and DataFrames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from omnigraph.deadlines import Cancellation, Deadline
from omnigraph.errors import NotFound, UsageError
from omnigraph.graph.boundary import names_damage
from omnigraph.graph.snapshots import GraphSnapshot, snapshot_of
from omnigraph.graph.state import GraphState
from omnigraph.graph.texts import compiled_read
from omnigraph.history import MAIN
from omnigraph.pipeline.engines import AUTO, Engine, session_of
from omnigraph.values.entities import Entity

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from omnigraph.graph.algorithms import GraphAlgorithms
    from omnigraph.graph.frames import GraphTables
    from omnigraph.maintenance.indexes import IndexState
    from omnigraph.pipeline.choices import FileFormat, StreamFormat
    from omnigraph.read import Blob, Explanation, Picture, Result, SqlResult


@names_damage
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

        >>> result = g.query("people.gq", {"of": "Ada"}, name="friends")
        >>> assert result.rows == [{"name": "Bo"}]
        >>> assert g.query("people.gq", {"of": "Bo"}, name="friends", revision="main~3").rows == []
        """
        deadline = Deadline(timeout, cancellation=cancel)
        view = self._view(revision, as_of)
        if schema_of is not None:
            from omnigraph.pipeline.evolve.queries import seen_through

            view = seen_through(view, self._view(schema_of, None))
        plan, bound = compiled_read(gq, view, params, name)
        session = session_of(engine, self.uri)
        if session is not None:
            from omnigraph.pipeline.spark.queries import run_read_on_spark

            return run_read_on_spark(view, plan, bound, session, deadline=deadline)
        from omnigraph.read import run_read

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

        >>> print(g.explain("people.gq", {"of": "Ada"}, name="friends"))
        >>> ran = g.explain("people.gq", {"of": "Ada"}, name="friends", analyze=True)
        >>> assert ran.steps[0].rows == 1
        """
        from omnigraph.read import explain

        view = self._view(revision, as_of)
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
        from omnigraph.read import run_sql

        return run_sql(self._view(revision, as_of), text, dict(params or {}), Deadline(timeout, cancellation=cancel))

    def duckdb(self, *, revision: str = MAIN, as_of: str | dt.datetime | None = None) -> DuckDBPyConnection:
        """A DuckDB connection of your own in which every type of one immutable snapshot is a view.

        The graph cannot be changed through it, nor a file be read or written; tables that you make live in its memory, and
        `connection.register` adds a data frame to the views. Close it when you are done.

        >>> with g.duckdb() as connection:
        ...     assert connection.sql("SELECT count(*) FROM Person").fetchall() == [(3,)]
        """
        from omnigraph.read import open_duckdb

        return open_duckdb(self._view(revision, as_of))

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
        from omnigraph.read import node_picture, schema_picture

        if (type is None) != (id is None):
            raise UsageError("a picture of a node needs a type and an id", hint='g.picture("Person", "ada")')
        if hops < 1 or limit < 1:
            raise UsageError("'hops' and 'limit' must be at least 1")
        view = self._view(revision, as_of)
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
        force: bool = False,
        engine: Engine = "local",
    ) -> int:
        """Write the graph, or some types of it, at any snapshot; returns the number of entities. CSV and Parquet are written to a
        folder with one file per type, or one type to a file named `.csv` or `.parquet`. "-" is standard output. AlreadyExists if
        a file exists, unless `force`.

        >>> assert g.export("export.jsonl") == 6
        >>> assert g.export("export.csv", format="csv", types=["Person"]) == 3
        """
        from omnigraph.pipeline.export.job import export

        view = self._view(revision, as_of)
        return export(view, target, format=format, types=types, force=force, engine=engine)

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
        from omnigraph.pipeline.export.streams import export_stream

        return export_stream(self._view(revision, as_of), format, types)

    def spark(
        self, engine: Engine = "spark", *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> GraphTables:
        """The graph's types as Spark DataFrames, at one snapshot: `g.spark(session).table("Person")`.

        >>> tables = g.spark("local[2]", revision="main")
        >>> assert tables.table("Person", columns=["name"]).count() == 3
        """
        from omnigraph.graph.frames import GraphTables

        session = session_of(engine, self.uri)
        if session is None:
            raise UsageError(
                "Spark DataFrames need the engine Spark", hint='engine="spark", a Spark master, or a Spark session'
            )
        return GraphTables(self._view(revision, as_of), session, self._caller)

    def algorithms(
        self, engine: Engine = AUTO, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> GraphAlgorithms:
        """Graph algorithms at one snapshot: PageRank, connected components, label propagation, shortest paths, triangles.

        `engine` "auto" handles up to 20,000,000 edges in this process, and more on Spark. Every engine gives the same answer.

        >>> ranks = g.algorithms().pagerank("Knows")
        """
        from omnigraph.graph.algorithms import GraphAlgorithms

        return GraphAlgorithms(self._view(revision, as_of), engine, self._caller)

    def entity(
        self, type: str, id: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> Entity | None:
        """One node or edge by id: `id`, for an edge `from` and `to`, and its properties. None if there is no such entity.

        >>> ada = g.entity("Person", "Ada")
        >>> assert ada == {"id": "Ada", "name": "Ada", "age": 36, "born": dt.datetime(1815, 12, 10, 6, 30, tzinfo=dt.UTC)}
        >>> assert g.entity("Knows", "ada-bo") == {"id": "ada-bo", "from": "Ada", "to": "Bo", "since": dt.date(2020, 5, 1)}
        """
        from omnigraph.read import entity

        return entity(self._view(revision, as_of), type, id)

    def blob(
        self, type: str, id: str, property: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> Blob:
        """A Blob of one entity: its size, a tag of its content, and its bytes by range. NotFound if there is no such entity, or
        its Blob is null. A value is read from storage as a whole even if only a part is asked for.
        """
        from omnigraph.read import blob

        return blob(self._view(revision, as_of), type, id, property)

    def snapshot(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> GraphSnapshot:
        """The content of a revision: its commit, its schema, and the number of entities of each type.

        >>> assert {type.name: type.entities for type in g.snapshot().types}["Person"] == 3
        """
        return snapshot_of(self._view(revision, as_of))

    def indexes(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> list[IndexState]:
        """Every declared index of a revision: how many rows it covers, how many a read still has to scan, and why.

        >>> assert {index.column for index in g.indexes() if index.table_key == "node:City"} == {"id", "name"}
        """
        from omnigraph.maintenance.indexes import index_state

        return index_state(self._view(revision, as_of))
