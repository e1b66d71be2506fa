"""What users type at a shell: whole queries, or the body of one without its `query name() { }`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from omnigraph.errors import QueryError
from omnigraph.language.query import syntax
from omnigraph.language.query.parser import ends_early, parse_queries

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
