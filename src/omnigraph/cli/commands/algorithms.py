"""run: a graph algorithm, written as a property."""

from __future__ import annotations

import click

from omnigraph.cli.options import branch_option, command, load_engine, load_engine_option, once_options, uri_argument
from omnigraph.cli.output import Output, counted
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

NAMES = [
    "pagerank",
    "connected_components",
    "label_propagation",
    "shortest_paths",
    "triangle_count",
    "local_clustering",
]
OPTIONS = {
    "pagerank": {"weight", "damping", "tolerance", "rounds"},
    "connected_components": set(),
    "label_propagation": {"weight", "rounds", "ties"},
    "shortest_paths": {"weight", "sources"},
    "triangle_count": set(),
    "local_clustering": set(),
}


def register(cli: click.Group) -> None:
    @command(cli, "run", writes=True)
    @click.argument("algorithm", type=click.Choice(NAMES), metavar="ALGORITHM")
    @click.option("--edge", required=True, metavar="TYPE", help="The edges that connect the nodes.")
    @click.option("--into", required=True, metavar="TYPE.PROPERTY", help="The property that gets the values.")
    @click.option("--weight", metavar="PROPERTY", help="A number of each edge, at least 0.")
    @click.option("--source", "sources", multiple=True, metavar="ID", help="Where shortest paths start; may repeat.")
    @click.option("--damping", type=float, help="For pagerank: how often an edge is followed (default: 0.85).")
    @click.option("--tolerance", type=float, help="For pagerank: the sum of all errors (default: 1e-8).")
    @click.option(
        "--rounds", type=int, help="For label_propagation: the number of rounds (default: 10). For pagerank: steps."
    )
    @click.option(
        "--ties",
        type=click.Choice(["own", "smallest"]),
        help="For label_propagation: the label among equals (default: own).",
    )
    @click.option(
        "--from",
        "base",
        default="main",
        show_default=True,
        metavar="REVISION",
        help="The state to compute on, and where the branch starts if it does not exist.",
    )
    @branch_option
    @load_engine_option
    @click.option("--message", metavar="TEXT", help="Recorded in the commit.")
    @once_options
    @uri_argument
    def run(
        settings: Settings,
        out: Output,
        algorithm: str,
        edge: str,
        into: str,
        sources: tuple[str, ...],
        base: str,
        branch: str,
        engine: str | None,
        message: str | None,
        once: str | tuple[str, int] | None,
        uri: str | None,
        **values: object,
    ) -> None:
        """Run a graph algorithm on a state of the graph, and write the result as a property, in one commit.

        ALGORITHM is pagerank (rank, F64), connected_components (component, String), label_propagation (label, String),
        shortest_paths (distance, I64; with a weight F64) triangle_count (triangles, I64) or local_clustering (clustering, F64). Nodes of other types than that of the
        property take part, but are not written.

        \b
        omnigraph run ./people pagerank --edge Knows --into Person.rank --branch scores
        omnigraph run ./people shortest_paths --edge Knows --source Ada --into Person.hops
        omnigraph run ./people label_propagation --edge Knows --weight hours --into Person.group

        \b
        JSON: <writes.RunJson>
        """
        from omnigraph.api.writes import LoadJson, RunJson

        options = {name: value for name, value in values.items() if value is not None}
        if sources:
            options["sources"] = list(sources)
        for name in options:
            if name not in OPTIONS[algorithm]:
                raise click.UsageError(f"'{algorithm}' does not take --{'source' if name == 'sources' else name}")
        if algorithm == "shortest_paths" and not sources:
            raise UsageError("shortest paths need sources", hint="--source Ada, the id of a node; may repeat")
        address = settings.uri(uri)
        settings.announce("run", address)
        graph = settings.open(uri)
        where = load_engine(engine, settings.config)
        with getattr(graph.algorithms(where, revision=base), algorithm)(edge, **options) as result:
            receipt = graph.load(
                result.property(into),
                mode="patch",
                branch=branch,
                from_=base,
                engine=where,
                actor=settings.actor,
                message=message or f"{algorithm} of {edge}",
                once=once,
            )
            commit = "nothing has changed" if receipt.commit is None else f"commit {receipt.commit.id}"
            steps = counted(result.steps, "step", "steps")
            text = f"{into} of {counted(receipt.total_entities, 'node', 'nodes')} on {branch}: {commit}"
            out.done(
                RunJson.to_json(result, into=into, load=LoadJson.to_json(receipt, uri=address)),
                f"{algorithm} ({steps}, {result.engine}): {text}",
            )
