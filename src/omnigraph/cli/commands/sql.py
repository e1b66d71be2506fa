"""sql: queries in SQL."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from omnigraph.cli.options import command, overwrite_option, revision_options
from omnigraph.cli.output import FORMATS, Output, counted
from omnigraph.cli.settings import Settings, read_params
from omnigraph.errors import UsageError


def register(cli: click.Group) -> None:
    @command(cli, "sql", clustered=True)
    @click.argument("text", required=False, metavar="[SELECT]")
    @click.option("--file", "file", metavar="FILE", help="Read the SQL from a file; - is standard input.")
    @click.option("--params", metavar="JSON", help="""Values for $name in the SQL, for example '{"who": "ada"}'.""")
    @revision_options
    @click.option("--format", type=click.Choice(FORMATS), help="Default: table; with --output, by the file's name.")
    @click.option("--output", "--out", "target", metavar="FILE", help="Write the rows to a file.")
    @overwrite_option("a file that exists")
    @click.option("--timeout", type=float, metavar="SECONDS", help="Stop after this many seconds.")
    def sql(
        settings: Settings,
        out: Output,
        text: str | None,
        file: str | None,
        params: str | None,
        revision: str,
        as_of: str | None,
        format: str | None,
        target: str | None,
        overwrite: bool,
        timeout: float | None,
    ) -> None:
        """Query one snapshot in DuckDB's SQL. Every type is a table: id, for an edge from and to, and the properties.

        It only reads, and reads nothing but the graph: no files, no other databases.

        \b
        omnigraph sql ./people 'SELECT name, age FROM Person ORDER BY age'
        omnigraph sql ./people 'SELECT p.name, count(*) FROM Person p JOIN Knows k ON k.to = p.id GROUP BY ALL'
        omnigraph sql ./people 'SELECT * FROM Person WHERE age >= $min' --params '{"min": 18}' --revision main~3
        omnigraph sql ./people 'FROM Person' --output people.parquet
        omnigraph sql ./people --file report.sql --format csv

        \b
        JSON: <reads.SqlJson>
        JSON with --output: {output, format, row_count, graph_commit_id}
        """
        from omnigraph.api.reads import SqlJson
        from omnigraph.cli.commands.queries import write_result

        graph = settings.open()
        values: Mapping[str, Any] = read_params(params, None)
        result = graph.sql(_text(text, file), values, revision=revision, as_of=as_of, timeout=timeout)
        if target is not None:
            write_result(out, result, target, format, overwrite=overwrite)
            return
        place = f"{revision} as of {as_of}" if as_of else revision
        header = f"{counted(result.num_rows, 'row', 'rows')} from {place}"
        chosen = "json" if settings.as_json else format or settings.config.output or "table"
        out.rows(header, result, chosen, lambda: SqlJson.to_json(result, target={"revision": revision, "as_of": as_of}))


def _text(text: str | None, file: str | None) -> str:
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
