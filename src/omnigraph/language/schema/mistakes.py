"""Turns a mistake of a `.pg` text into a SchemaError in plain words, with advice for common ones."""

from __future__ import annotations

import re

from omnigraph.errors import SchemaError
from omnigraph.language.parsing.cursor import Mistake
from omnigraph.language.parsing.tokens import CHARACTER, END, NAME, TYPE_NAME, Token
from omnigraph.language.schema.rules import SchemaText
from omnigraph.values.types import Scalar

_PROPERTY_TYPES = ", ".join(scalar.value for scalar in Scalar if scalar is not Scalar.VECTOR)
_STRING_PART = re.compile(r'[^"\\]|\\(.)|"', re.DOTALL)


def explain(mistake: Mistake, source: SchemaText, kind: str) -> SchemaError:
    """The SchemaError for a text that does not follow the grammar, in a declaration of a kind."""
    token = mistake.token
    if token.kind == CHARACTER:
        return _wrong_character(mistake, source)
    if _is_card(token):
        return source.error("S008", source.position(token.offset))
    return source.error(
        "S001",
        source.position(_offset(token, source)),
        expected=mistake.expectation,
        found=_shown(token),
        advice=_advice(mistake, kind),
    )


def type_error(token: Token, source: SchemaText, in_list: bool) -> SchemaError:
    """The SchemaError for a token where the type of a property must stand."""
    at = source.position(_offset(token, source))
    if _is_card(token):
        return source.error("S008", at)
    if in_list and token.text in ("[", "enum", "Vector"):
        return source.error("S206", at, found="list" if token.text == "[" else token.text)
    if token.kind in (NAME, TYPE_NAME):
        return source.error("S006", at, found=_shown(token), types=_PROPERTY_TYPES)
    advice = f"the types are {_PROPERTY_TYPES}, Vector(N), enum(a, b) and [T]"
    return source.error("S001", at, expected="a type", found=_shown(token), advice=advice)


def _is_card(token: Token) -> bool:
    return token.text.startswith("@") and token.text[1:].strip() == "card"


def _offset(token: Token, source: SchemaText) -> int:
    return len(source.text.rstrip()) if token.kind == END else token.offset


def _shown(token: Token) -> str:
    text = token.text if len(token.text) <= 40 else f"{token.text[:37]}…"
    return token.kind if token.kind == END else f"'{text}'"


def _wrong_character(mistake: Mistake, source: SchemaText) -> SchemaError:
    text, offset = source.text, mistake.token.offset
    at = source.position(offset)
    if text.startswith("/*", offset):
        return source.error("S005", at)
    advice = f"expected {mistake.expectation}"
    if text[offset] == '"':
        for part in _STRING_PART.finditer(text, offset + 1):
            if part[1] is not None and part[1] not in '"\\nrt':
                return source.error("S004", source.position(part.start()), found=part[0])
        return source.error("S003", at)
    if text[offset] == "#":
        advice = "comments are written // like this or /* like this */"
    elif text[offset] == "'":
        advice = "strings stand in double quotes"
    return source.error("S002", at, found=repr(text[offset]), advice=advice)


def _advice(mistake: Mistake, kind: str) -> str:
    token, expected = mistake.token, mistake.expected
    if token.kind == END:
        return "close the declaration with '}'" if "}" in expected else "the declaration is not complete"
    if expected == {TYPE_NAME} and token.text[:1].islower():
        return "type names start with a capital letter"
    if NAME in expected and token.text[:1].isupper():
        return "property names start with a lower-case letter or _"
    if "interface" in expected:
        return "a schema is a list of interface, node and edge declarations"
    if "{" in expected and kind in ("node", "interface"):
        return f"{'an' if kind == 'interface' else 'a'} {kind} needs braces, even when they are empty"
    if token.text == "," and "}" in expected:
        return "properties are separated by space or a new line, not by commas"
    if expected == {"}"}:
        return "close the declaration with '}'"
    return f"write {mistake.expectation} here"
