"""For editors of queries: the words of the language, completions, and whether a text is complete."""

from __future__ import annotations

from functools import cache

from omnigraph.language.catalog import Catalog
from omnigraph.language.query.completion import (
    Completion,
    Statement,
    as_query,
    completions,
    is_unfinished,
    moved,
    statements,
)

__all__ = [
    "Catalog",
    "Completion",
    "Statement",
    "as_query",
    "completions",
    "declarations",
    "function_names",
    "is_unfinished",
    "keywords",
    "moved",
    "statements",
]


@cache
def keywords() -> frozenset[str]:
    from omnigraph.language.query.completion import editor_tables

    return frozenset(editor_tables()["queries"]["keywords"])


@cache
def function_names() -> frozenset[str]:
    from omnigraph.language.query.completion import editor_tables

    return frozenset(editor_table["name"] for editor_table in editor_tables()["queries"]["functions"])


def declarations(catalog: Catalog, type_name: str) -> str | None:
    """A type as the schema declares it, and for a node type the edges that touch it; None if there is no such type."""
    from dataclasses import replace

    from omnigraph.language.schema.printer import catalog_syntax, print_schema

    if type_name not in catalog.nodes and type_name not in catalog.edges and type_name not in catalog.interfaces:
        return None
    edges = {edge.name for edge in catalog.edges.values() if type_name in (edge.source, edge.target)}
    syntax = catalog_syntax(catalog)
    shown = [
        declaration for declaration in syntax.declarations if declaration.name == type_name or declaration.name in edges
    ]
    return print_schema(replace(syntax, declarations=tuple(shown)))
