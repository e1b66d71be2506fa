"""What an expression mentions: variables, columns, blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.language.query.plan import (
    Bm25,
    CountOf,
    EntityRef,
    Exists,
    Expression,
    Nearest,
    Pattern,
    PropertyRef,
    TextMatch,
    children,
    walk,
)

Block = Exists | CountOf


def blocks(expression: Expression) -> list[Block]:
    return [inner for inner in walk(expression) if isinstance(inner, Exists | CountOf)]


def references(expression: Expression) -> Iterator[tuple[str, str]]:
    """(variable, stored column) pairs outside blocks. The operand of a search function counts as its property."""
    for inner in walk(expression):
        if isinstance(inner, PropertyRef):
            yield inner.variable, inner.column
        elif isinstance(inner, EntityRef):
            yield inner.variable, "id"


def plain_references(expression: Expression) -> Iterator[tuple[str, str]]:
    """Like `references`, without the properties that only a search function uses."""
    stack = [expression]
    while stack:
        current = stack.pop()
        if isinstance(current, PropertyRef):
            yield current.variable, current.column
        elif isinstance(current, EntityRef):
            yield current.variable, "id"
        elif not isinstance(current, TextMatch | Nearest | Bm25):
            stack.extend(children(current))


def searches(expression: Expression) -> Iterator[TextMatch | Nearest | Bm25]:
    for inner in walk(expression):
        if isinstance(inner, TextMatch | Nearest | Bm25):
            yield inner


def variables(expression: Expression) -> set[str]:
    """Every variable it depends on, including those of outer scopes that its blocks mention."""
    variables = {variable for variable, _ in references(expression)}
    for block in blocks(expression):
        variables |= set(block.block.outer)
    return variables


def outer_references(pattern: Pattern) -> set[tuple[str, str]]:
    """The columns of outer variables that a block needs, including those of its own blocks."""
    columns: set[tuple[str, str]] = set()
    for expression in pattern.filters:
        columns |= set(plain_references(expression))
        for block in blocks(expression):
            columns |= outer_references(block.block)
    return {(variable, column) for variable, column in columns if variable in pattern.outer}


def outer_searches(pattern: Pattern) -> list[TextMatch | Nearest | Bm25]:
    """The search functions that a block applies to outer variables, including those in its own blocks."""
    ranked: list[TextMatch | Nearest | Bm25] = []
    for expression in pattern.filters:
        ranked += searches(expression)
        for block in blocks(expression):
            ranked += outer_searches(block.block)
    return [search for search in dict.fromkeys(ranked) if search.property.variable in pattern.outer]


def endpoints(pattern: Pattern) -> set[str]:
    return {end for expansion in pattern.expansions for end in (expansion.source, expansion.target)}


def all_patterns(pattern: Pattern, others: Iterable[Expression] = ()) -> Iterator[Pattern]:
    """The pattern and every block inside it, including optional ones."""
    yield pattern
    for optional in pattern.optionals:
        yield from all_patterns(optional)
    for expression in (*pattern.filters, *others):
        for block in blocks(expression):
            yield from all_patterns(block.block)
