"""Checks before use: queries against a schema, and a schema by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.graph.arguments import checked
from omnigraph.graph.texts import read_source

if TYPE_CHECKING:
    from omnigraph.language.query.lint import LintReport
    from omnigraph.language.schema.lint import SchemaFinding


@checked
def lint(gq: str | Path, schema: str | Path) -> LintReport:
    """Check every query of a `.gq` text or file against a `.pg` text or file: mistakes, and advice.

    `g.lint(gq)` checks against a graph's own schema. Mistakes in the queries are reported, not raised.

    >>> report = og.lint("query q() { match { $p: Persn } return { $p.name } }", "node Person { name: String @key }")
    >>> assert report.status == "error"
    """
    from omnigraph.language.query.lint import lint_queries
    from omnigraph.language.schema.compiler import compile_schema

    text, file = read_source(schema, ".pg")
    catalog = compile_schema(text, file)
    queries, query_file = read_source(gq, ".gq")
    return lint_queries(queries, catalog, query_file)


@checked
def lint_schema(schema: str | Path, *, is_first: bool = True) -> tuple[SchemaFinding, ...]:
    """What looks wrong in a schema that compiles. `is_first` says that it is the first schema of its graph.

    >>> (finding,) = og.lint_schema("node Doc { embedding: Vector(3) }")
    >>> assert finding.code == "OG-VE-102"
    """
    from omnigraph.language.schema.lint import lint_schema as find_in_schema

    text, file = read_source(schema, ".pg")
    return find_in_schema(text, file, is_first=is_first)
