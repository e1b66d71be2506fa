"""Schemas and queries that callers pass, as text or as a file, and the plans that queries compile to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from omnigraph.errors import UsageError
from omnigraph.graph.arguments import checked
from omnigraph.snapshot import View

if TYPE_CHECKING:
    from omnigraph.language.query.lint import LintReport
    from omnigraph.language.query.plan import MutationPlan, ReadPlan
    from omnigraph.language.schema.lint import SchemaFinding


Parameters = Mapping[str, object]


class SourceText(NamedTuple):
    """A text that was passed or read before, and the file that it was read from."""

    text: str
    file: str | None


def compiled_read(
    gq: str | Path | SourceText, view: View, params: Parameters | None, name: str | None
) -> tuple[ReadPlan, dict[str, object]]:
    """A read's plan under the view's schema, and its bound parameters. UsageError for a mutation."""
    from omnigraph.language.query.mutations import check_cuts
    from omnigraph.language.query.plan import ReadPlan

    plan, bound = _compiled(gq, view, params, name)
    if not isinstance(plan, ReadPlan):
        raise UsageError(f"'{plan.name}' is a mutation", hint="run it with mutate")
    check_cuts(plan, bound)
    return plan, bound


def compiled_mutation(
    gq: str | Path | SourceText, view: View, params: Parameters | None, name: str | None
) -> tuple[MutationPlan, dict[str, object]]:
    """A mutation's plan under the view's schema, and its bound parameters. UsageError for a read."""
    from omnigraph.language.query.plan import MutationPlan

    plan, bound = _compiled(gq, view, params, name)
    if not isinstance(plan, MutationPlan):
        raise UsageError(f"'{plan.name}' is a read", hint="run it with query")
    return plan, bound


def _compiled(
    gq: str | Path | SourceText, view: View, params: Parameters | None, name: str | None
) -> tuple[ReadPlan | MutationPlan, dict[str, object]]:
    from omnigraph.language.query.mutations import bind_parameters, compile_query

    text, file = read_source(gq, ".gq")
    plan = compile_query(text, view.catalog, name, file)
    return plan, bind_parameters(plan.parameters, params or {})


def spelled_parameters(gq: str | Path, name: str | None, texts: Mapping[str, str]) -> dict[str, object]:
    """Parameter values parsed from text by the types that the query declares: `18` is a number for an I32 and text for a String.
    Lists are JSON. The value of an unknown parameter stays text; running the query will refuse it."""
    from omnigraph.language.query.mutations import parameter_types
    from omnigraph.values.columns import cell_value

    text, file = read_source(gq, ".gq")
    types = parameter_types(text, name, file)
    return {key: cell_value(value, types[key]) if key in types else value for key, value in texts.items()}


def declared_parameters(gq: str | Path, name: str | None) -> list[str]:
    """The names of the parameters that a query declares."""
    from omnigraph.language.query.mutations import parameter_types

    text, file = read_source(gq, ".gq")
    return list(parameter_types(text, name, file))


def read_source(text_or_path: str | Path | SourceText, suffix: str = "") -> SourceText:
    """A text and, if it was read from a file, its path. A Path is a file and a string is a text, never the name of a file."""
    if isinstance(text_or_path, SourceText):
        return text_or_path
    if not isinstance(text_or_path, Path):
        text = str(text_or_path)
        if suffix and text.endswith(suffix) and "\n" not in text and "{" not in text:
            raise UsageError(f"{text!r} is the name of a file, not a text", hint=f"Path({text!r}) is the file")
        return SourceText(text, None)
    path = text_or_path
    try:
        return SourceText(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, or not a valid path
        raise UsageError(f"cannot read {path}: {error}") from None


# Checks before use: queries against a schema, and a schema by itself.


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
