"""Pieces of SQL trees (sqlglot), and their text in either dialect."""

from __future__ import annotations

from omnigraph.relational.functions import Dialect, in_words_of
from omnigraph.relational.trees import exp


def column(name: str, table: str | None = None) -> exp.Column:
    """A quoted column, so that camelCase and SQL keywords are ordinary names."""
    return exp.column(
        exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True) if table else None
    )


def table(name: str, alias: str | None = None) -> exp.Table:
    tree = exp.Table(this=exp.to_identifier(name, quoted=True))
    if alias is not None and alias != name:
        tree.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return tree


def named(expression: exp.Expression, alias: str) -> exp.Expression:
    return exp.Alias(this=expression, alias=exp.to_identifier(alias, quoted=True))


def to_sql(tree: exp.Expr, dialect: Dialect, *, copy: bool = True, pretty: bool = False) -> str:
    """The tree's SQL. Without `copy` the tree must not be used again."""
    return in_words_of(tree, dialect, copy=copy).sql(dialect=dialect, identify=True, copy=False, pretty=pretty)
