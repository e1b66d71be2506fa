"""query, alias, sql, mutate, shell, lint, picture: the languages, and what they show."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omnigraph._internal.user_folders import config_folder
from omnigraph.cli.config import Alias
from omnigraph.cli.conflicts import receipt_text
from omnigraph.cli.options import (
    Spelled,
    branch_option,
    command,
    engine_option,
    message_option,
    once_options,
    out_option,
    overwrite_option,
    revision_option,
    revision_options,
    row_options,
    together,
)
from omnigraph.cli.output import FILE_FORMATS, FORMATS, Output, counted, cut_lines
from omnigraph.cli.process import outcome_on_interrupt
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.client.graph import RemoteGraph, RemoteStoredQueries
    from omnigraph.graph.graph import Graph
    from omnigraph.types import Result, SqlResult


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


_PARAMS = click.option("--params", metavar="JSON", help="""Parameters, for example '{"who": "ada"}'.""")
_QUERY_OPTIONS = together(
    click.argument("name", required=False),
    click.option("--name", "named", cls=Spelled, instead="NAME, as an argument", metavar="NAME"),
    click.option("--query", "query", metavar="FILE", help="A .gq file."),
    click.option(
        "-e",
        "text",
        cls=Spelled,
        also=["--query-string"],
        metavar="GQ",
        help="The query itself, or what stands in its braces.",
    ),
    click.option("--queries", metavar="DIR", help="Where to look for NAME: a folder of .gq files, or one file."),
    _PARAMS,
    click.option("--params-file", metavar="FILE", help="Parameters, a JSON file."),
    click.option(
        "--param",
        "spelled",
        metavar="NAME=VALUE",
        multiple=True,
        help="One parameter, read as its declared type: --param who=ada --param min=18; may repeat.",
    ),
)


def query_options(function: Callable[..., Any]) -> Callable[..., Any]:
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
        request = _request(source, chosen, _read_params(params, params_file), dict(map(_spelled, spelled)))
        return function(*args, settings=settings, request=request, **values)

    decorated: Callable[..., Any] = _QUERY_OPTIONS(run)
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


_EXAMPLE = """for example --params '{"who": "ada"}'"""


def _read_params(text: str | None, file: str | None = None) -> Mapping[str, Any]:
    """Query parameters from `--params JSON` or `--params-file F`."""
    if text is not None and file is not None:
        raise UsageError("give --params or --params-file, not both")
    if file is not None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from None
    try:
        value = {} if text is None else json.loads(text)
    except ValueError as error:
        raise UsageError(f"the parameters are not JSON: {error}", hint=_EXAMPLE) from None
    if not isinstance(value, dict):
        raise UsageError("the parameters must be a JSON object", hint=_EXAMPLE)
    return value


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


@command("query", served=True)
@query_options
@revision_options
@row_options
@click.option("--schema-of", metavar="REVISION", help="Query through the schema of another revision, such as main.")
@engine_option
@click.option("--explain", is_flag=True, help="Show how the query would run, as a tree, instead of its rows.")
@click.option("--analyze", is_flag=True, help="Like --explain, but run the query, and show real rows and times.")
@click.option("--sql", "with_sql", is_flag=True, help="With --explain or --analyze: also the SQL that the engine runs.")
def query(
    settings: Settings,
    out: Output,
    request: QueryRequest,
    format: str | None,
    target: str | None,
    overwrite: bool,
    schema_of: str | None,
    engine: str,
    explain: bool,
    analyze: bool,
    with_sql: bool,
    **state: Any,
) -> None:
    """Query one snapshot. A terminal shows the rows that fit it; a file or a pipe gets all of them.

    \b
    omnigraph query ./people -e 'match { $p: Person } return { $p.name }'
    omnigraph query ./people adults --query people.gq --params '{"min": 18}' --format csv
    omnigraph query ./people adults --queries ./queries --param min=18
    omnigraph query ./people adults --query people.gq --out adults.parquet
    omnigraph query ./people adults --query people.gq --revision main~3
    omnigraph query ./people adults --query people.gq --revision v1 --schema-of main
    omnigraph query ./people adults --query people.gq --params '{"min": 18}' --analyze
    omnigraph query adults --server production --graph people --params '{"min": 18}'

    Without --query and -e, NAME is a stored query of the server.

    \b
    JSON: <reads.ResultJson>
    JSON with --out: {output, format, row_count, graph_commit_id}
    JSON with --explain or --analyze: <reads.ExplanationJson>
    """
    graph = settings.connect_or_open()
    if explain or analyze or with_sql:
        from omnigraph.api.reads import ExplanationJson

        explanation = graph.explain(request.text(), request.values, name=request.name, analyze=analyze, **state)
        tree = cut_lines(str(explanation))
        text = f"{tree}\n\n{explanation.sql}" if with_sql and explanation.sql else tree
        out.show(ExplanationJson.to_json(explanation), text)
        return
    if request.source is None and (schema_of is not None or engine != "local"):
        request.stored_in(graph)
        raise UsageError("a stored query takes no --schema-of and no --engine", hint="the server runs it")
    if request.source is not None:
        state |= {"schema_of": schema_of, "engine": engine}
    result = _read(graph, request, **state)
    _show_result(settings, out, result, format, target, overwrite=overwrite, **state)


def _read(graph: Graph | RemoteGraph, request: QueryRequest, **options: Any) -> Result:
    if request.source is None:
        stored, name = request.stored_in(graph)
        return stored.query(name, request.values, **options)
    return graph.query(request.source, request.values, name=request.name, **options)


def _show_result(
    settings: Settings,
    out: Output,
    result: Result | SqlResult,
    format: str | None,
    target: str | None = None,
    *,
    overwrite: bool = False,
    revision: str,
    as_of: str | None,
    **_options: object,
) -> None:
    """Print the rows, or write them to a file, in the given format or the one of the file's suffix."""
    from omnigraph.api.reads import ResultJson, SqlJson
    from omnigraph.api.rows import write_rows
    from omnigraph.types import Result

    rows = counted(len(result), "row", "rows")
    if target is None:
        place = f"{revision} as of {as_of}" if as_of else revision
        name = f" via {result.query_name}" if isinstance(result, Result) else ""
        chosen = "json" if settings.as_json else format or settings.config.output or "table"
        kind = ResultJson if isinstance(result, Result) else SqlJson
        envelope = functools.partial(kind.to_json, result, target={"revision": revision, "as_of": as_of})
        out.rows(f"{rows} from {place}{name}", result, chosen, envelope)
        return
    chosen = format or target.rpartition(".")[2]
    if chosen not in FILE_FORMATS:
        hint = f"--format {'|'.join(FILE_FORMATS)}, or a name that ends with one of them"
        raise UsageError(f"'{target}' does not end in a format that rows can be written in", hint=hint)
    write_rows(result, target, chosen, replace=overwrite)  # type: ignore[arg-type]
    value = {"output": target, "format": chosen, "row_count": len(result), "graph_commit_id": result.commit_id}
    out.done(value, f"wrote {rows} to {target}")


@command("alias", served=True)
@revision_options
@click.option("--format", type=click.Choice(FORMATS), help="Default: that of the alias.")
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, metavar="[ARGUMENT]...")
def alias(
    settings: Settings, out: Output, format: str | None, name: str | None, arguments: tuple[str, ...], **state: Any
) -> None:
    """Run a query by its alias in the config file; the arguments are its parameters. Without a name, list the aliases.

    \b
    omnigraph alias
    omnigraph alias friends ada
    omnigraph alias ./people friends ada

    \b
    JSON: <reads.ResultJson>
    JSON without a name: {aliases: [{name, query, args}]}
    """
    aliases = settings.config.aliases
    if name is None:
        listed = [
            {"name": alias.name, "query": alias.query, "args": list(alias.args)} for _, alias in sorted(aliases.items())
        ]
        rows = [
            {"alias": alias["name"], "query": alias["query"], "arguments": " ".join(alias["args"])} for alias in listed
        ]
        out.table(rows, ["alias", "query", "arguments"], value={"aliases": listed})
        return
    configured = aliases.get(name)
    if configured is None:
        known = ", ".join(sorted(aliases)) or "none is configured"
        raise UsageError(f"there is no alias '{name}'", hint=f"the aliases: {known}")
    if len(arguments) != len(configured.args):
        usage = " ".join([name, *(arg.upper() for arg in configured.args)])
        raise UsageError(f"alias '{name}' takes {counted(len(configured.args), 'argument', 'arguments')}", hint=usage)
    source = _source(settings, configured.query, None, None, configured.queries)
    values = dict(zip(configured.args, arguments, strict=True))
    graph = _at_alias(settings, configured).connect_or_open()
    if source is None:
        request = QueryRequest(None, {**configured.params, **values}, configured.query)
    else:
        request = _request(source, configured.query, configured.params, values)
    _show_result(settings, out, _read(graph, request, **state), format or configured.format, **state)


def _at_alias(settings: Settings, alias: Alias) -> Settings:
    """Settings with the graph of the command line or, without one, that of the alias."""
    if settings.store or settings.server or settings.profile:
        return settings
    return replace(settings, store=alias.store, server=alias.server, graph=settings.graph or alias.graph)


@command("sql", clustered=True)
@click.argument("text", required=False, metavar="[SELECT]")
@click.option("--file", "file", metavar="FILE", help="Read the SQL from a file; - is standard input.")
@_PARAMS
@revision_options
@row_options
def sql(
    settings: Settings,
    out: Output,
    text: str | None,
    file: str | None,
    params: str | None,
    format: str | None,
    target: str | None,
    overwrite: bool,
    **state: Any,
) -> None:
    """Query one snapshot in DuckDB's SQL. Every type is a table: id, for an edge from and to, and the properties.

    It only reads, and reads nothing but the graph: no files, no other databases.

    \b
    omnigraph sql ./people 'SELECT name, age FROM Person ORDER BY age'
    omnigraph sql ./people 'SELECT p.name, count(*) FROM Person p JOIN Knows k ON k.to = p.id GROUP BY ALL'
    omnigraph sql ./people 'SELECT * FROM Person WHERE age >= $min' --params '{"min": 18}' --revision main~3
    omnigraph sql ./people 'FROM Person' --out people.parquet
    omnigraph sql ./people --file report.sql --format csv

    \b
    JSON: <reads.SqlJson>
    JSON with --out: {output, format, row_count, graph_commit_id}
    """
    result = settings.open().sql(_sql_text(text, file), _read_params(params), **state)
    _show_result(settings, out, result, format, target, overwrite=overwrite, **state)


def _sql_text(text: str | None, file: str | None) -> str:
    if (text is None) == (file is None):
        raise UsageError("give the SQL as an argument or with --file, and not both")
    if file is None:
        return str(text)
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file}: {error}") from None


@command("mutate", served=True, writes=True)
@query_options
@branch_option
@click.option("--if-commit", metavar="ID", help="Only if the branch is at this commit; exit code 4 otherwise.")
@message_option
@once_options
def mutate(settings: Settings, out: Output, request: QueryRequest, branch: str, **options: Any) -> None:
    """Change the graph: all statements as one commit, or nothing.

    \b
    omnigraph mutate ./people -e 'insert Person { name: "Ada" }'
    omnigraph mutate ./people -e 'query add($n: String) { insert Person { name: $n } }' --param n=Ada
    omnigraph mutate ./people promote --query people.gq --if-commit 01J...
    omnigraph mutate ./people promote --query people.gq --once request-4711
    omnigraph mutate ./people promote --query people.gq --sequence nightly 17
    omnigraph mutate promote --server production --graph people

    Without --query and -e, NAME is a stored query of the server.

    \b
    JSON: <writes.ReceiptJson, store?: {requests, hops, bytes_read, bytes_written, table_requests?, lost_races?}>
    """
    from omnigraph.api.writes import ReceiptJson

    graph = settings.connect_or_open()
    actor = settings.actor_for(graph)
    with outcome_on_interrupt(graph, branch):
        if request.source is None:
            stored, name = request.stored_in(graph)
            receipt = stored.mutate(name, request.values, branch=branch, **options)
        else:
            source, values = request.source, request.values
            receipt = graph.mutate(source, values, name=request.name, actor=actor, branch=branch, **options)
    if receipt.repeated and receipt.commit is not None:
        text = f"changed {branch} before, as commit {receipt.commit.id}; nothing changed"
    else:
        outcome = f"; commit {receipt.commit.id}" if receipt.commit else " (nothing changed, no commit)"
        text = f"changed {branch} via {receipt.query_name}: {receipt_text(receipt)}{outcome}"
    out.done(out.counted(ReceiptJson.to_json(receipt)), text)


@command("shell", served=True, writes=True)
@revision_option
def shell(settings: Settings, out: Output, revision: str) -> None:
    """Query and change a graph interactively; 'omnigraph ./people' does the same.

    Queries and changes are typed as in a .gq file, or without their 'query name() { }'; commands begin with a dot, and
    .help lists them. Ctrl-C cancels a query, Ctrl-D leaves the shell. Input that does not come from a terminal is run as a script, up to
    its first error.

    \b
    omnigraph shell ./people
    omnigraph shell ./people --revision review --as ada
    omnigraph shell --server production --graph people
    omnigraph shell ./people < script.gq

    \b
    JSON: for each read what 'query' prints, for each change what 'mutate' prints
    """
    from omnigraph.cli.shell.session import MODES, Session, run_script

    graph = settings.connect_or_open()
    chosen = "json" if settings.as_json else settings.config.output or "table"
    session = Session(graph, settings, out, revision, mode=chosen if chosen in MODES else "table")
    session.use(revision)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        if code := run_script(session, sys.stdin):
            raise click.exceptions.Exit(code)
        return
    from omnigraph._internal.lazy_imports import load_extra

    load_extra("prompt_toolkit", "the shell on a terminal", extra="shell")
    from omnigraph.cli.shell.prompt import run_prompt

    run_prompt(session, Path(graph.uri).name, config_folder())


@command("lint", served=True)
@click.option("--query", "query", metavar="FILE", help="A .gq file.")
@click.option("--schema", metavar="FILE", help="A .pg file (default: the graph's own schema).")
@click.option(
    "--cluster",
    metavar="DIR",
    help="Check instead the stored queries of a cluster's folder, against the schemas that its graphs have now.",
)
def lint(settings: Settings, out: Output, query: str | None, schema: str | None, cluster: str | None) -> None:
    """Check queries against a schema. Exit code 1 only on errors.

    \b
    omnigraph lint --query people.gq --schema people.pg
    omnigraph lint ./people --query people.gq --json
    omnigraph lint --cluster ./company --graph people

    \b
    JSON: <reads.LintJson>
    JSON with --cluster: {ok, breakages: [{graph, query, message}], warnings: [text]}
    """
    from omnigraph.api.reads import LintJson
    from omnigraph.graph.texts import lint as lint_text

    if (query is None) == (cluster is None):
        raise click.UsageError("give the queries with --query FILE, or the cluster that has them with --cluster DIR")
    if cluster is not None:
        _lint_cluster(out, cluster, settings.graph)
        return
    if schema is not None:
        report, source = lint_text(Path(str(query)), Path(schema)), {"kind": "file", "path": schema}
    else:
        graph = settings.connect_or_open()
        report, source = graph.lint(Path(str(query))), {"kind": "graph", "uri": graph.uri}
    out.show(LintJson.to_json(report, schema_source=source), str(report))
    if report.status == "error":
        raise click.exceptions.Exit(1)


def _lint_cluster(out: Output, folder: str, graph: str | None) -> None:
    from omnigraph.cluster.config import read_config
    from omnigraph.cluster.policies import broken_queries

    breakages, warnings = broken_queries(read_config(folder), graph)
    lines = [f"{breakage['graph']}: query '{breakage['query']}': {breakage['message']}" for breakage in breakages]
    text = "\n".join([*lines, *(f"warning: {warning}" for warning in warnings)]) or "every query fits"
    out.show({"ok": not breakages, "breakages": breakages, "warnings": warnings}, text)
    if breakages:
        raise click.exceptions.Exit(1)


PICTURE_FORMATS = ("svg", "png", "html", "mermaid", "dot")


@command("picture")
@click.argument("type_name", required=False, metavar="[TYPE")
@click.argument("entity_id", required=False, metavar="ID]")
@click.option(
    "--hops", type=click.IntRange(1, 6), default=1, show_default=True, help="The distance from the node, in edges."
)
@click.option(
    "--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="The maximum number of nodes."
)
@revision_options
@click.option("--format", type=click.Choice(PICTURE_FORMATS), help="Default: mermaid; with --out, by the file's name.")
@out_option("Write it to a file: .svg, .png, .html, .mmd, .dot.")
@overwrite_option("a file that exists")
def picture(
    settings: Settings,
    out: Output,
    type_name: str | None,
    entity_id: str | None,
    format: str | None,
    target: str | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Draw the schema or, given a type and an id, a node and its neighbourhood.

    SVG and HTML files need nothing else to be viewed. PNG needs the extra 'png'; without --out it goes into a pipe. Mermaid is
    for Markdown pages, DOT for Graphviz.

    \b
    omnigraph picture ./people --out schema.svg
    omnigraph picture ./people Person ada --hops 2 --out ada.html
    omnigraph picture ./people Person ada --out ada.png
    omnigraph picture ./people Person ada --format mermaid

    \b
    JSON: <reads.PictureJson, output?>
    """
    from omnigraph.api.reads import PictureJson

    if (type_name is None) != (entity_id is None):
        raise UsageError("a picture of a node needs a type and an id", hint="omnigraph picture Person ada")
    picture = settings.open().picture(type_name, entity_id, **options)
    if target is not None:
        picture.save(target, format=format, overwrite=overwrite)  # type: ignore[arg-type]
        out.done(PictureJson.to_json(picture) | {"output": target}, f"drew {picture.title} to {target}")
        return
    if format == "png" and not out.as_json:
        picture.save("-", format="png")
        return
    out.show(PictureJson.to_json(picture), picture.to_text(format or "mermaid").rstrip("\n"))  # type: ignore[arg-type]
