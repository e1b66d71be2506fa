"""The parsers as a Markdown reference: the docstring of a class is the prose of a section, those of its methods are its rules."""

from __future__ import annotations

import re
from collections.abc import Mapping

from omnigraph.language.parsing.cursor import NAME, STRING, TYPE_NAME
from omnigraph.language.query import expression_parser as query_tokens
from omnigraph.language.query.forms import FORMS, SCHEMA
from omnigraph.language.query.functions import COALESCE, FUNCTIONS
from omnigraph.language.query.parser import QueryParser
from omnigraph.language.schema import parser as schema_tokens
from omnigraph.language.schema.parser import SchemaParser
from omnigraph.values.types import PROPERTY_SCALARS, Scalar

_HEAD = """# Grammar reference

The forms of queries with examples, the functions, and then, for tools, the grammars of both languages as they are.
"""

_FOR_TOOLS = """## For tools

Made from the parsers of the two languages; `'word'` stands for itself, `/…/` is a regular expression, `?` `*` `+` mean at
most one, any number, at least one. Names in capitals are tokens. White space and comments (`// …` to the end of the line, `/* … */`)
may stand between any two tokens.
"""

_RULE = re.compile(r"\w+: ")


def grammar_reference() -> str:
    """The reference for both languages, as docs/reference/grammar.md holds it."""
    parts = [_HEAD, _forms(), _functions(), _FOR_TOOLS]
    for parser, tokens in ((SchemaParser, schema_terminals()), (QueryParser, query_terminals())):
        # A class comes before those that it is built on: from the whole to its parts.
        parts += [_section(section, level="###" if section is parser else "####") for section in _sections(parser)]
        patterns = (f"{name}: /{pattern}/" for name, pattern in tokens.items())
        parts.append("\n".join(["#### Tokens\n", "```", *patterns, "```"]) + "\n")
    return "\n".join(parts).rstrip("\n") + "\n"


def rules(parser: type) -> list[str]:
    """The rules of a parser: `name: alternatives`."""
    return [rule for section in _sections(parser) for rule in _rules(section)]


def query_terminals() -> dict[str, str]:
    kinds = {"VARIABLE": query_tokens.VARIABLE, "INTEGER": query_tokens.INTEGER, "FLOAT": query_tokens.FLOAT}
    return _patterns(query_tokens.TOKENS, kinds) | {"DURATION": query_tokens.DURATION.pattern}


def schema_terminals() -> dict[str, str]:
    kinds = {"INTEGER": schema_tokens.INTEGER, "FLOAT": schema_tokens.FLOAT}
    scalars = "|".join(scalar.value for scalar in PROPERTY_SCALARS if scalar is not Scalar.VECTOR)
    own = {"SCALAR": scalars, "ENUM_VALUE": schema_tokens.ENUM_VALUES.pattern}
    return _patterns(schema_tokens.TOKENS, kinds) | own


def _patterns(tokens: Mapping[str, str], kinds: dict[str, str]) -> dict[str, str]:
    common = {"NAME": NAME, "TYPE_NAME": TYPE_NAME, "STRING": STRING}
    return {name: tokens[kind] for name, kind in (common | kinds).items()}


def _sections(parser: type) -> list[type]:
    return [section for section in parser.__mro__ if section is not object]


def _rules(section: type) -> list[str]:
    texts = (method.__doc__ or "" for method in vars(section).values() if callable(method))
    return [
        " ".join(rule.split())
        for text in texts
        if _RULE.match(text)
        for rule in re.split(r"\n\s*(?=\w+: )", text.strip())
    ]


def _forms() -> str:
    """Each form of a query, and an example."""
    parts = [f"## Forms of queries\n\nThe examples are over this schema:\n\n```pg\n{SCHEMA}```\n"]
    for form in FORMS:
        parts.append(f"**{form.title}** `{form.shape}`\n\n```gq\n{form.example}\n```\n")
    return "\n".join(parts)


def _functions() -> str:
    """The functions of values, from the table that the checker reads."""
    rows = [f"| `{function.shape}` | {function.meaning} |" for function in (*FUNCTIONS.values(), COALESCE)]
    head = "Null when an argument is null, except for `coalesce`. [Queries](../queries.md#functions) has examples."
    return "\n".join([f"## Functions\n\n{head}\n", "| function | gives |", "|---|---|", *rows]) + "\n"


def _section(section: type, level: str) -> str:
    title, _, prose = (section.__doc__ or "").partition("\n")
    lines = "\n".join(line.strip() for line in prose.strip().splitlines())
    return "\n".join([f"{level} {title}\n", f"{lines}\n", "```", *_rules(section), "```"]) + "\n"
