"""Importing data without a schema: infer one, create the graph, load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import OmnigraphError
from omnigraph.graph.arguments import checked
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import init
from omnigraph.history.plan import check_attribution
from omnigraph.storage.syncing import Durability
from omnigraph.tasks.engines import Engine

if TYPE_CHECKING:
    from omnigraph.infer.inferring import InferredSchema
    from omnigraph.load.receipt import LoadReceipt
    from omnigraph.tasks.engines import Missing

SAMPLE_ROWS = 100_000
"""How many rows of each table are sampled by default."""


@checked
def infer_schema(
    paths: str | Path | Sequence[str],
    *,
    key: Sequence[str] = (),
    null: Sequence[str] = (),
    choose: Mapping[str, str] | None = None,
    missing: Missing = "refuse",
    sample: int = SAMPLE_ROWS,
    storage_options: Mapping[str, str] | None = None,
    progress: bool = False,
) -> InferredSchema:
    """Infer a schema from CSV, JSON and Parquet files, SQLite and DuckDB files, and folders of them. `key` names keys that you
    know: "Port.code", or "code" for every type that has it. `null` lists texts that mean null in every column; without it only empty
    cells do, and among numbers and dates also words such as N/A. `choose` corrects guesses: `{"Flight": "node"}` (or "edge"),
    `{"Flight.dest": "Airport"}` for a column that refers to a type, "property" for one that does not, "node" for one whose values
    are nodes. With `missing` "skip" or "stub", which the load then needs too, columns most of whose values are keys become edges, and
    with "stub" what the nodes at their ends have besides a key is optional; otherwise the comments name these columns. Reads the first `sample` rows of each table, or all of them if
    it is 0; every row that was read can be loaded.

    >>> guessed = og.infer_schema("Person.csv", key=["Person.name"])
    >>> assert guessed.schema.startswith("// Inferred from data.")
    """
    import sys

    from omnigraph.infer.choices import Choices
    from omnigraph.infer.inferring import infer
    from omnigraph.tasks.progress import shown_on

    with shown_on(sys.stderr, progress) as shown:
        return infer(
            _listed(paths),
            keys=key,
            nulls=null,
            choices=Choices(choose or {}, takes_near=missing != "refuse", has_stubs=missing == "stub"),
            sample=sample,
            options=storage_options,
            progress=shown,
        )


def _listed(paths: str | Path | Sequence[str]) -> list[str]:
    return [str(paths)] if isinstance(paths, str | Path) else list(paths)


@dataclass(frozen=True)
class Imported:
    """What an import did: the inferred schema, the graph, and the receipt of the load. A dry run has no graph.

    >>> imported = og.import_data("Person.csv", "./imported", dry_run=True)
    >>> assert imported.graph is None
    """

    inferred: InferredSchema
    graph: Graph | None
    receipt: LoadReceipt | None


@checked
def import_data(
    paths: str | Path | Sequence[str],
    uri: str | Path,
    *,
    key: Sequence[str] = (),
    null: Sequence[str] = (),
    choose: Mapping[str, str] | None = None,
    sample: int = SAMPLE_ROWS,
    dry_run: bool = False,
    rejects: str | Path | None = None,
    missing: Missing = "refuse",
    engine: Engine = "auto",
    actor: str | None = None,
    message: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = "disk",
    progress: bool = False,
) -> Imported:
    """Make a graph from data without a schema: infer one, create the graph, and load everything as one commit.

    AlreadyExists if there is a graph with entities at `uri`. An import that was interrupted before its load ended leaves a graph
    without entities, and can be run again. A dry run only infers the schema, and checks only the rows that it reads for that.
    `rejects` names a new file for records that cannot be read, and `missing` says what is done about edges that name missing
    nodes, as in `Graph.load`.

    >>> imported = og.import_data("Person.csv", "./imported", engine="local")
    >>> assert imported.receipt.total_entities == 2
    """
    check_attribution(actor, message)
    inferred = infer_schema(
        paths,
        key=key,
        null=null,
        choose=choose,
        missing=missing,
        sample=sample,
        storage_options=storage_options,
        progress=progress,
    )
    if dry_run:
        return Imported(inferred, None, None)
    graph = _new_or_empty(str(uri), inferred, actor, storage_options, durability)
    try:
        receipt = graph.load(
            _listed(paths),
            mode="append",
            map=inferred.map,
            rejects=rejects,
            missing=missing,
            engine=engine,
            actor=actor,
            message=message or "import",
            progress=progress,
        )
    except OmnigraphError as error:
        advice = (
            f"the graph at {uri} was made and is empty: run the import again, with a larger --sample if rows beyond it do "
            f"not fit, or correct the schema first ('omnigraph schema infer')"
        )
        error.hint = advice if error.hint is None else f"{error.hint}; {advice}"
        raise
    return Imported(inferred, graph, receipt)


def _new_or_empty(
    uri: str,
    inferred: InferredSchema,
    actor: str | None,
    storage_options: Mapping[str, str] | None,
    durability: Durability,
) -> Graph:
    """A new graph with the inferred schema, or the one without entities that an interrupted import left, changed to that schema."""
    from omnigraph.errors import AlreadyExists
    from omnigraph.graph.opening import open as open_graph

    try:
        return init(uri, inferred.schema, actor=actor, storage_options=storage_options, durability=durability)
    except AlreadyExists:
        graph = open_graph(uri, storage_options=storage_options, durability=durability)
        if any(commit.kind not in ("init", "schema") for commit in graph.commits()):
            raise
        if graph.schema.catalog.source != inferred.schema:
            # The old types have no entities; they go first, so that names can be reused.
            graph.schema.apply("", allow_data_loss=True, actor=actor)
            graph.schema.apply(inferred.schema, actor=actor)
        return graph
