"""query, mutate, lint."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.config import Alias
from omnigraph.cli.conflicts import receipt_text
from omnigraph.cli.options import (
    branch_option,
    command,
    engine_option,
    once_options,
    overwrite_option,
    revision_options,
    uri_argument,
)
from omnigraph.cli.output import FILE_FORMATS, FORMATS, Output, counted, cut_lines
from omnigraph.cli.settings import Settings, read_params
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.client.graph import RemoteGraph, RemoteStoredQueries
    from omnigraph.graph.graph import Graph
    from omnigraph.types import Receipt, Result, SqlResult


@dataclass(frozen=True)
class QueryRequest:
    """The query to run, with its parameters. Without a source it is a stored query of a server."""

    source: str | Path | None
    values: Mapping[str, Any]
    name: str | None

    def text(self) -> str | Path:
        """The source. UsageError if there is none."""
        if self.source is None:
            raise _no_source()
        return self.source

    def stored_in(self, graph: Graph | RemoteGraph) -> tuple[RemoteStoredQueries, str]:
        """The stored queries of the graph, and the name of the one to run. UsageError for a graph in storage."""
        from omnigraph.client.graph import RemoteGraph

        if not isinstance(graph, RemoteGraph) or self.name is None:
            raise _no_source()
        return graph.stored_queries, self.name


def _no_source() -> UsageError:
    return UsageError(
        "give the query with --query FILE or with -e TEXT",
        hint="or its NAME, with --queries DIR or, for a stored query of a server, --server",
    )


def asks(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags that name a query; the command gets them as `request`."""

    @functools.wraps(function)
    def run(
        *args: Any,
        settings: Settings,
        name: str | None,
        named: str | None,
        query: str | None,
        text: str | None,
        queries: str | None,
        params: str | None,
        params_file: str | None,
        spelled: tuple[str, ...],
        **values: Any,
    ) -> Any:
        chosen = name or named
        source = _source(settings, chosen, query, text, queries)
        request = _request(source, chosen, read_params(params, params_file), dict(map(_spelled, spelled)))
        return function(*args, settings=settings, request=request, **values)

    decorated: Callable[..., Any] = run
    for option in (
        click.option(
            "--param",
            "spelled",
            metavar="NAME=VALUE",
            multiple=True,
            help="One parameter, read as its declared type: --param who=ada --param min=18; may repeat.",
        ),
        click.option("--params-file", metavar="FILE", help="Parameters, a JSON file."),
        click.option("--params", metavar="JSON", help="""Parameters, for example '{"who": "ada"}'."""),
        click.option("--queries", metavar="DIR", help="Where to look for NAME: a folder of .gq files, or one file."),
        click.option(
            "-e", "--query-string", "text", metavar="GQ", help="The query itself, or what stands in its braces."
        ),
        click.option("--query", "query", metavar="FILE", help="A .gq file."),
        click.option("--name", "named", metavar="NAME", help="The same as NAME."),
        click.argument("name", required=False),
    ):
        decorated = option(decorated)
    return decorated


def _source(
    settings: Settings, name: str | None, query: str | None, text: str | None, queries: str | None
) -> str | Path | None:
    """The text of the query, or its file: given, or found by the query's name in a folder. None for a stored query of a server."""
    if sum(source is not None for source in (query, text, queries)) > 1:
        raise UsageError("--query, -e and --queries exclude each other")
    if query is not None:
        return Path(query)
    if text is not None:
        from omnigraph.graph.editing import as_query

        return as_query(text)
    folder = queries or (None if settings.server else settings.config.queries)
    if name is None:
        raise _no_source()
    if folder is None:
        return None
    from omnigraph.graph.stored_queries import find_query

    return find_query(Path(folder), name)


def _spelled(pair: str) -> tuple[str, str]:
    name, separator, value = pair.partition("=")
    if not separator or not name:
        raise UsageError(f"'{pair}' is not NAME=VALUE", hint="for example --param who=ada")
    return name.removeprefix("$"), value


def _request(
    source: str | Path | None, name: str | None, values: Mapping[str, Any], spelled: Mapping[str, str]
) -> QueryRequest:
    if not spelled:
        return QueryRequest(source, values, name)
    from omnigraph.graph.texts import spelled_parameters

    if source is None:
        raise UsageError("the parameters of a stored query are JSON", hint="--params or --params-file")
    if twice := sorted(values.keys() & spelled.keys()):
        raise UsageError(f"${twice[0]} is given twice", hint="once with --param, or once in --params")
    return QueryRequest(source, {**values, **spelled_parameters(source, name, spelled)}, name)


def register(cli: click.Group) -> None:
    _register_query(cli)
    _register_alias(cli)
    _register_mutate(cli)
    _register_lint(cli)


def _register_query(cli: click.Group) -> None:
    @command(cli, "query", served=True)
    @asks
    @revision_options
    @click.option("--format", type=click.Choice(FORMATS), help="Default: table; with --output, by the file's name.")
    @click.option("--output", "--out", "target", metavar="FILE", help="Write the rows to a file.")
    @overwrite_option("a file that exists")
    @click.option("--schema-of", metavar="REVISION", help="Query through the schema of another revision, such as main.")
    @engine_option("local")
    @click.option("--timeout", type=float, metavar="SECONDS", help="Stop the query after this many seconds.")
    @click.option("--explain", is_flag=True, help="Show how the query would run, as a tree, instead of its rows.")
    @click.option("--analyze", is_flag=True, help="Like --explain, but run the query, and show real rows and times.")
    @click.option(
        "--sql", "with_sql", is_flag=True, help="With --explain or --analyze: also the SQL that the engine runs."
    )
    def query(
        settings: Settings,
        out: Output,
        request: QueryRequest,
        revision: str,
        as_of: str | None,
        format: str | None,
        target: str | None,
        overwrite: bool,
        schema_of: str | None,
        engine: str,
        timeout: float | None,
        explain: bool,
        analyze: bool,
        with_sql: bool,
    ) -> None:
        """Query one snapshot. A terminal shows the rows that fit it; a file or a pipe gets all of them.

        \b
        omnigraph query ./people -e 'query q() { match { $p: Person } return { $p.name } }'
        omnigraph query ./people adults --query people.gq --params '{"min": 18}' --format csv
        omnigraph query ./people adults --queries ./queries --param min=18
        omnigraph query ./people adults --query people.gq --output adults.parquet
        omnigraph query ./people adults --query people.gq --revision main~3
        omnigraph query ./people adults --query people.gq --revision v1 --schema-of main
        omnigraph query ./people adults --query people.gq --params '{"min": 18}' --analyze
        omnigraph query adults --server production --graph people --params '{"min": 18}'

        Without --query and -e, NAME is a stored query of the server.

        \b
        JSON: <reads.ResultJson>
        JSON with --output: {output, format, row_count, graph_commit_id}
        JSON with --explain or --analyze: <reads.ExplanationJson>
        """
        from omnigraph.api.reads import ExplanationJson

        graph = settings.graph_at()
        if explain or analyze or with_sql:
            explanation = graph.explain(
                request.text(),
                request.values,
                name=request.name,
                revision=revision,
                as_of=as_of,
                analyze=analyze,
                timeout=timeout,
            )
            tree = cut_lines(str(explanation))
            text = f"{tree}\n\n{explanation.sql}" if with_sql and explanation.sql else tree
            out.show(ExplanationJson.to_json(explanation), text)
            return
        if request.source is None:
            stored, name = request.stored_in(graph)
            if schema_of is not None or engine != "local":
                raise UsageError("a stored query takes no --schema-of and no --engine", hint="the server runs it")
            result = stored.query(name, request.values, revision=revision, as_of=as_of, timeout=timeout)
        else:
            result = graph.query(
                request.source,
                request.values,
                name=request.name,
                revision=revision,
                as_of=as_of,
                schema_of=schema_of,
                engine=engine,
                timeout=timeout,
            )
        if target is not None:
            write_result(out, result, target, format, overwrite=overwrite)
        else:
            _show(settings, out, result, format, revision, as_of)


def _show(
    settings: Settings, out: Output, result: Result, format: str | None, revision: str, as_of: str | None
) -> None:
    from omnigraph.api.reads import ResultJson

    place = f"{revision} as of {as_of}" if as_of else revision
    header = f"{counted(result.num_rows, 'row', 'rows')} from {place} via {result.query_name}"
    chosen = "json" if settings.as_json else format or settings.config.output or "table"
    out.rows(header, result, chosen, lambda: ResultJson.to_json(result, target={"revision": revision, "as_of": as_of}))


def write_result(out: Output, result: Result | SqlResult, target: str, format: str | None, *, overwrite: bool) -> None:
    """Write the rows to a file, in the given format or the one of the file's suffix."""
    from omnigraph.api.rows import write_rows

    chosen = format or target.rpartition(".")[2]
    if chosen not in FILE_FORMATS:
        hint = f"--format {'|'.join(FILE_FORMATS)}, or a name that ends with one of them"
        raise UsageError(f"'{target}' does not end in a format that rows can be written in", hint=hint)
    write_rows(result, target, chosen, replace=overwrite)  # type: ignore[arg-type]
    value = {"output": target, "format": chosen, "row_count": len(result), "graph_commit_id": result.commit_id}
    out.done(value, f"wrote {counted(len(result), 'row', 'rows')} to {target}")


def _register_alias(cli: click.Group) -> None:
    @command(cli, "alias", served=True)
    @revision_options
    @click.option("--format", type=click.Choice(FORMATS), help="Default: that of the alias.")
    @click.argument("name", required=False)
    @click.argument("arguments", nargs=-1, metavar="[ARGUMENT]...")
    def alias(
        settings: Settings,
        out: Output,
        revision: str,
        as_of: str | None,
        format: str | None,
        name: str | None,
        arguments: tuple[str, ...],
    ) -> None:
        """Run a query by its alias in the config file; the arguments are its parameters. Without a name, list the aliases.

        \b
        omnigraph alias
        omnigraph alias friends ada

        \b
        JSON: <reads.ResultJson>
        JSON without a name: {aliases: [{name, query, args}]}
        """
        if name is None:
            _list_aliases(settings, out)
            return
        configured = settings.config.aliases.get(name)
        if configured is None:
            known = ", ".join(sorted(settings.config.aliases)) or "none is configured"
            raise UsageError(f"there is no alias '{name}'", hint=f"the aliases: {known}")
        if len(arguments) != len(configured.args):
            usage = " ".join([name, *(arg.upper() for arg in configured.args)])
            raise UsageError(
                f"alias '{name}' takes {counted(len(configured.args), 'argument', 'arguments')}", hint=usage
            )
        source = _source(settings, configured.query, None, None, configured.queries)
        values = dict(zip(configured.args, arguments, strict=True))
        graph = _at_alias(settings, configured).graph_at()
        if source is None:
            stored, stored_name = QueryRequest(None, {}, configured.query).stored_in(graph)
            result = stored.query(stored_name, {**configured.params, **values}, revision=revision, as_of=as_of)
        else:
            request = _request(source, configured.query, configured.params, values)
            result = graph.query(source, request.values, name=request.name, revision=revision, as_of=as_of)
        _show(settings, out, result, format or configured.format, revision, as_of)


def _list_aliases(settings: Settings, out: Output) -> None:
    aliases = [alias for _, alias in sorted(settings.config.aliases.items())]
    rows = [{"alias": alias.name, "query": alias.query, "arguments": " ".join(alias.args)} for alias in aliases]
    value = {"aliases": [{"name": alias.name, "query": alias.query, "args": list(alias.args)} for alias in aliases]}
    out.table(rows, ["alias", "query", "arguments"], value=value)


def _at_alias(settings: Settings, alias: Alias) -> Settings:
    """Settings with the graph of the command line or, without one, that of the alias."""
    if settings.store or settings.server or settings.profile:
        return settings
    return replace(settings, store=alias.store, server=alias.server, graph=settings.graph or alias.graph)


def _register_mutate(cli: click.Group) -> None:
    @command(cli, "mutate", served=True, writes=True)
    @asks
    @branch_option
    @click.option("--if-commit", metavar="ID", help="Only if the branch is at this commit; exit code 4 otherwise.")
    @click.option("--message", metavar="TEXT", help="Recorded in the commit.")
    @once_options
    def mutate(
        settings: Settings,
        out: Output,
        request: QueryRequest,
        branch: str,
        if_commit: str | None,
        message: str | None,
        once: str | tuple[str, int] | None,
    ) -> None:
        """Change the graph: all statements as one commit, or nothing.

        \b
        omnigraph mutate ./people -e 'query add($n: String) { insert Person { name: $n } }' \\
            --params '{"n": "Ada"}'
        omnigraph mutate ./people promote --query people.gq --if-commit 01J...
        omnigraph mutate ./people promote --query people.gq --once request-4711
        omnigraph mutate ./people promote --query people.gq --sequence nightly 17
        omnigraph mutate promote --server production --graph people

        Without --query and -e, NAME is a stored query of the server.

        \b
        JSON: <writes.ReceiptJson, store?: {requests, hops, bytes_read, bytes_written, table_requests?, lost_races?}>
        """
        from omnigraph.api.writes import ReceiptJson
        from omnigraph.cli.interruption import outcome_on_interrupt

        graph = settings.graph_at()
        with outcome_on_interrupt(graph, branch):
            receipt = _mutated(graph, settings, request, branch=branch, message=message, if_commit=if_commit, once=once)
        if receipt.repeated and receipt.commit is not None:
            text = f"changed {branch} before, as commit {receipt.commit.id}; nothing changed"
            out.done(out.counted(ReceiptJson.to_json(receipt)), text)
            return
        outcome = f"; commit {receipt.commit.id}" if receipt.commit else " (nothing changed, no commit)"
        out.done(
            out.counted(ReceiptJson.to_json(receipt)),
            f"changed {branch} via {receipt.query_name}: {receipt_text(receipt)}{outcome}",
        )


def _mutated(graph: Graph | RemoteGraph, settings: Settings, request: QueryRequest, **options: Any) -> Receipt:
    if request.source is None:
        stored, name = request.stored_in(graph)
        settings.actor_for(graph)
        return stored.mutate(name, request.values, **options)
    return graph.mutate(request.source, request.values, name=request.name, actor=settings.actor_for(graph), **options)


def _register_lint(cli: click.Group) -> None:
    @command(cli, "lint", served=True)
    @click.option("--query", "query", required=True, metavar="FILE", help="A .gq file.")
    @click.option("--schema", metavar="FILE", help="A .pg file (default: the graph's own schema).")
    @uri_argument
    def lint(settings: Settings, out: Output, query: str, schema: str | None, uri: str | None) -> None:
        """Check queries against a schema. Exit code 1 only on errors.

        \b
        omnigraph lint --query people.gq --schema people.pg
        omnigraph lint ./people --query people.gq --json

        \b
        JSON: <reads.LintJson>
        """
        from omnigraph.api.reads import LintJson
        from omnigraph.graph.texts import lint as lint_text

        if schema is not None:
            report, source = lint_text(Path(query), Path(schema)), {"kind": "file", "path": schema}
        else:
            graph = settings.graph_at(uri)
            report, source = graph.lint(Path(query)), {"kind": "graph", "uri": graph.uri}
        out.show(LintJson.to_json(report, schema_source=source), str(report))
        if report.status == "error":
            raise click.exceptions.Exit(1)
