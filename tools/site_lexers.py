"""Colours for the two languages, for Pygments. tools/site_hooks.py makes them known."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

__all__ = ["QueryLexer", "SchemaLexer"]

_SHARED = [
    (r"//[^\n]*", Comment.Single),
    (r'"(?:\\.|[^"\\])*"', String),
    (r"@\w+", Name.Decorator),
    (r"\$\w+", Name.Variable),
    (r"\d+(?:\.\d+)?", Number),
]
_REST = [(r"\w+", Name), (r"[-+*/%<>=!?|&.]+", Operator), (r"[^\w\s]", Punctuation), (r"\s+", Text)]
TYPES = ["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime", "Blob", "Vector", "enum"]
SCHEMA_WORDS = ["node", "edge", "interface", "implements"]
QUERY_WORDS = [
    "query",
    "match",
    "return",
    "where",
    "order",
    "limit",
    "offset",
    "optional",
    "not",
    "exists",
    "unnest",
    "with",
    "distinct",
    "union",
    "insert",
    "update",
    "upsert",
    "delete",
    "set",
    "and",
    "or",
    "in",
    "is",
    "null",
    "true",
    "false",
    "case",
    "when",
    "then",
    "else",
    "end",
    "as",
    "asc",
    "desc",
    "from",
    "to",
    "shortest",
    "path",
    "paths",
    "along",
    "count",
    "collect",
]


class SchemaLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    """Colours `.pg`."""

    name, aliases, filenames = "OmniGraph schema", ["pg"], ["*.pg"]
    tokens: ClassVar = {
        "root": [
            *_SHARED,
            (words(SCHEMA_WORDS, suffix=r"\b"), Keyword),
            (words(TYPES, suffix=r"\b"), Keyword.Type),
            *_REST,
        ]
    }


class QueryLexer(RegexLexer):  # type: ignore[misc]
    """Colours `.gq`."""

    name, aliases, filenames = "OmniGraph query", ["gq"], ["*.gq"]
    tokens: ClassVar = {
        "root": [
            *_SHARED,
            (words(QUERY_WORDS, suffix=r"\b"), Keyword),
            (words(TYPES, suffix=r"\b"), Keyword.Type),
            (r"[A-Z]\w*", Name.Class),
            *_REST,
        ]
    }
