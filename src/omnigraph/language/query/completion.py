"""Completions at a position of a query text, which may be unfinished: a guess from the text before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog, EdgeType, InterfaceType, Property
from omnigraph.language.query import syntax
from omnigraph.language.query.forms import FORMS
from omnigraph.language.query.functions import COALESCE, FUNCTIONS
from omnigraph.language.query.parser import ends_early, parse_queries
from omnigraph.language.query.syntax import KEYWORDS
from omnigraph.language.schema.parser import KEYWORDS as SCHEMA_KEYWORDS
from omnigraph.values.types import PROPERTY_SCALARS

# The words of both languages for editors: what to highlight, what to complete, and descriptions.


@cache
def editor_tables() -> dict[str, Any]:
    """{queries: {keywords, functions: [{name, shape, meaning}], forms: [{title, shape, example}]},
    schemas: {keywords, types}}, from the tables that the languages are parsed and checked with."""
    return {
        "queries": {
            "keywords": list(KEYWORDS),
            "functions": [
                {"name": function.name, "shape": function.shape, "meaning": function.meaning}
                for function in (*FUNCTIONS.values(), COALESCE)
            ],
            "forms": [asdict(form) for form in FORMS],
        },
        "schemas": {"keywords": list(SCHEMA_KEYWORDS), "types": [scalar.value for scalar in PROPERTY_SCALARS]},
    }


# What users type at a shell: whole queries, or the body of one without its `query name() { }`.

BARE_NAME = "typed"
"""The name of a query that was typed without one."""
_OPENING = f"query {BARE_NAME}() {{\n"
_BODY = re.compile(r"(?:match|insert|create|upsert|update|delete)\b")
_BEFORE_FIRST_WORD = re.compile(r"(?:\s|//[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)

Kind: TypeAlias = Literal["read", "mutation"]


@dataclass(frozen=True)
class Statement:
    """One query to run, which `text` has under `name`. `lines_before` is the number of lines that were put before what was typed."""

    text: str
    name: str
    kind: Kind
    lines_before: int


def statements(typed: str) -> list[Statement]:
    """The queries of a text, in order. QueryError, with the position in what was typed, if it does not parse."""
    text, lines_before = _as_queries(typed)
    try:
        parsed = parse_queries(text)
    except QueryError as error:
        raise moved(error, lines_before) from None
    return [
        Statement(
            text,
            query.name,
            "read" if isinstance(query.body, syntax.ReadBody) else "mutation",
            lines_before=lines_before,
        )
        for query in parsed.queries
    ]


def as_query(typed: str) -> str:
    """A text of queries. If it is the body of one, it gets its `query name() { }`."""
    is_body = _BODY.match(typed, _leading(typed)) is not None
    return f"query {BARE_NAME}() {{ {typed}\n}}" if is_body else typed


def moved(error: QueryError, lines_before: int) -> QueryError:
    """The error with its position in what was typed."""
    if error.line > lines_before:
        error.line -= lines_before
    return error


def is_unfinished(typed: str) -> bool:
    """Whether more has to be typed before this can run. A text that no continuation can make valid is wrong, not unfinished."""
    text, lines_before = _as_queries(typed)
    if not lines_before:
        return ends_early(text)
    if not ends_early(_OPENING + typed):
        return False
    # A complete body could still continue: on one line it does not; on several, an empty line or a semicolon ends it.
    return not _parses(text) or ("\n" in typed.strip() and not _is_ended(typed))


def _as_queries(typed: str) -> tuple[str, int]:
    """The text as whole queries, and how many lines were put before it."""
    body = typed.rstrip().removesuffix(";")
    first = body[_leading(body) :]
    if not first or re.match(r"query\b", first):
        return body, 0
    return f"{_OPENING}{body}\n}}", 1


def _leading(text: str) -> int:
    leading = _BEFORE_FIRST_WORD.match(text)
    return leading.end() if leading else 0


def _is_ended(typed: str) -> bool:
    return typed.rstrip().endswith(";") or not typed.rpartition("\n")[2].strip()


def _parses(text: str) -> bool:
    try:
        parse_queries(text)
    except QueryError:
        return False
    return True


_BOUND = re.compile(r"\$(\w+)\s*:\s*([A-Z]\w*)")
_WALKED = re.compile(
    r"\$(\w+)\s+(?:\$(\w+)\s*:\s*)?<?([a-z]\w*(?:\|[a-z]\w*)*)>?(?:\s*\{\d+,\d*\})?\s+\$(\w+)(?:\s+via\s+\$(\w+))?(?:\s+after\s+\$(\w+))?"
)
_AFTER_DOT = re.compile(r"\$(\w+)\.(\w*)$")
_AFTER_COLON = re.compile(r"\$\w+\s*:\s*(\w*)$")
_VARIABLE = re.compile(r"\$(\w*)$")
_AFTER_VARIABLE = re.compile(r"\$(\w+)\s+(?:\$\w+\s*:\s*)?<?(?:\w+\|)*(\w*)$")
_WORD = re.compile(r"(\w*)$")
_STATEMENT = re.compile(r"\b(insert|create|upsert|update|delete)\s+(\w*)$")
_PARAMETER = re.compile(r"query\s+\w+\s*\(([^)]{0,2000})\)")

WINDOW = 1_000
"""How many characters before the position are examined: some patterns take quadratic time."""


@dataclass(frozen=True)
class Completion:
    label: str
    kind: str
    """"type", "property", "edge", "variable", "function" or "keyword"."""
    detail: str | None = None


def completions(text: str, line: int, column: int, catalog: Catalog) -> list[Completion]:
    """The completions of the word before a position (line and column count from 1), in the order of the schema."""
    lines = text.split("\n")
    before = "\n".join(
        [*lines[: max(line - 1, 0)], lines[line - 1][: max(column - 1, 0)] if line <= len(lines) else ""]
    )
    types = _types_of_variables(text, catalog)
    before = before[-WINDOW:]
    if typed := _AFTER_DOT.search(before):
        return _starting(typed[2], _properties(types.get(typed[1], ()), catalog))
    if typed := _STATEMENT.search(before):
        return _starting(typed[2], _entities(catalog))
    if (typed := _AFTER_COLON.search(before)) and not typed[1][:1].islower():
        return _starting(typed[1], _nodes(catalog))
    if typed := _VARIABLE.search(before):
        return _starting(typed[1], (Completion(name, "variable", " | ".join(of)) for name, of in sorted(types.items())))
    if typed := _AFTER_VARIABLE.search(before):
        edges = _edges(types.get(typed[1], ()), catalog)
        return _starting(typed[2], [*edges, *_words()])
    word = _WORD.search(before)
    return _starting(word[1] if word else "", _words())


def _starting(prefix: str, items: Iterator[Completion] | list[Completion]) -> list[Completion]:
    return [item for item in items if item.label.lower().startswith(prefix.lower())]


def _types_of_variables(text: str, catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The type of each variable, as far as the text says it: a node type, an interface or an edge type. Parameters have none."""
    types: dict[str, tuple[str, ...]] = {}
    for parameters in _PARAMETER.findall(text):
        types |= dict.fromkeys(re.findall(r"\$(\w+)", parameters), ())
    for name, bound in _BOUND.findall(text):
        if bound in catalog.nodes or bound in catalog.interfaces:
            types[name] = (bound,)
    for near, edge_name, words, far, via, before in _WALKED.findall(text):
        edges = [edge for word in words.split("|") for edge in _named_edges(word, catalog)]
        if edges:
            edge = edges[0]
            types |= {name: tuple(step.name for step in edges) for name in (edge_name, before) if name}
            if via:
                types[via] = (edge.source,)
            is_backwards = types.get(near) == (edge.target,) and edge.source != edge.target
            ends = [(step.target, step.source) if is_backwards else (step.source, step.target) for step in edges]
            types.setdefault(near, tuple(dict.fromkeys(left for left, _ in ends)))
            types.setdefault(far, tuple(dict.fromkeys(right for _, right in ends)))
    return types


def _named_edges(word: str, catalog: Catalog) -> tuple[EdgeType, ...]:
    edge = catalog.edge_by_word(word)
    return catalog.family_by_word(word) if edge is None else (edge,)


def _properties(types: tuple[str, ...], catalog: Catalog) -> Iterator[Completion]:
    for name in types[:1]:
        entity = catalog.nodes.get(name) or catalog.edges.get(name) or catalog.interfaces.get(name)
        if entity is not None:
            if not isinstance(entity, InterfaceType):
                yield Completion("id", "property", "String")
            if isinstance(entity, EdgeType):
                yield from (Completion(end, "property", "String") for end in ("from", "to"))
            others = [(catalog.nodes.get(other) or catalog.edges[other]).properties for other in types[1:]]
            yield from (_property(own) for name, own in entity.properties.items() if all(name in o for o in others))


def _property(property: Property) -> Completion:
    return Completion(property.name, "property", str(property.type))


def _nodes(catalog: Catalog) -> Iterator[Completion]:
    yield from (Completion(name, "type", "node") for name in catalog.nodes)
    yield from (Completion(name, "type", "interface") for name in catalog.interfaces)


def _entities(catalog: Catalog) -> Iterator[Completion]:
    yield from (Completion(name, "type", "node") for name in catalog.nodes)
    yield from (Completion(name, "type", "edge") for name in catalog.edges)


def _edges(types: tuple[str, ...], catalog: Catalog) -> list[Completion]:
    """Edges that touch these types, or every edge if no type is known."""
    shown: dict[str, str] = {}
    for edge in catalog.edges.values():
        ends = edge.family or edge
        if not types or {edge.source, edge.target, ends.source, ends.target} & set(types):
            shown[ends.name] = f"{ends.source} -> {ends.target}"
    return [Completion(name[0].lower() + name[1:], "edge", detail) for name, detail in shown.items()]


def _words() -> list[Completion]:
    functions = (Completion(function.name, "function", function.shape) for function in (*FUNCTIONS.values(), COALESCE))
    return [*(Completion(word, "keyword") for word in KEYWORDS), *functions]
