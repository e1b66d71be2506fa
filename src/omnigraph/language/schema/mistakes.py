"""Turns a parser error into a SchemaError in plain words, with advice for common mistakes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from omnigraph.errors import SchemaError
from omnigraph.language.position import Position
from omnigraph.language.schema.rules import SchemaText
from omnigraph.values.types import Scalar

if TYPE_CHECKING:
    from lark import UnexpectedInput

_WORDS = {
    "INTERFACE": "'interface'",
    "NODE": "'node'",
    "EDGE": "'edge'",
    "IMPLEMENTS": "'implements'",
    "ENUM": "'enum(...)'",
    "VECTOR": "'Vector(...)'",
    "BASE": "a type",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "CLOSE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "COLON": "':'",
    "COMMA": "','",
    "EQUAL": "'='",
    "OPTIONAL": "'?'",
    "__ANON_0": "'->'",
    "__ANON_1": "'..'",
    "TYPE_NAME": "a type name",
    "NAME": "a name",
    "ENUM_VALUE": "an enum value",
    "CARD": "'@card(...)'",
    "CONSTRAINT": "a constraint",
    "ANNOTATION": "an annotation",
    "STRING": "a string",
    "FLOAT": "a number",
    "INT": "a number",
    "BOOL": "true or false",
    "$END": "the end of the text",
}
_PROPERTY_TYPES = ", ".join(scalar.value for scalar in Scalar if scalar is not Scalar.VECTOR)
_DECLARATION = re.compile(r"\b(interface|node|edge)\s+([A-Z][A-Za-z0-9_]*)")
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_CONSTRAINTS = ("key", "unique", "index", "range", "check")


def explain(mistake: UnexpectedInput, source: SchemaText) -> SchemaError:
    """The SchemaError for a text that does not match the grammar."""
    return _Mistake(mistake, source).error()


class _Mistake:
    def __init__(self, mistake: UnexpectedInput, source: SchemaText) -> None:
        from lark.exceptions import UnexpectedCharacters, UnexpectedToken

        self.source = source
        self.token_type = ""
        self.found = ""
        if isinstance(mistake, UnexpectedToken):
            self.token_type = mistake.token.type
            self.found = str(mistake.token)
            self.expected = frozenset(mistake.accepts or mistake.expected)
        elif isinstance(mistake, UnexpectedCharacters):
            self.expected = frozenset(mistake.allowed or ())
        else:
            self.expected = frozenset({"$END"})
        position = mistake.pos_in_stream
        if self.token_type == "$END" or position is None:
            position = len(source.text.rstrip())
        self.position = position
        before = source.text[:position]
        self.place = Position(before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)
        declared = list(_DECLARATION.finditer(_STRING_OR_COMMENT.sub(" ", before)))
        self.kind, self.name = declared[-1].groups() if declared else ("", "")

    def error(self) -> SchemaError:
        if self.token_type in ("ANNOTATION", "CONSTRAINT", "CARD"):
            special = self._misplaced_annotation()
            if special is not None:
                return special
        if self.found == ".." and re.search(r"@\s*card\s*\(\s*\d+\s*$", self.source.text[: self.position]):
            start = self.source.text.rfind("@", 0, self.position)
            return self.source.error("S008", self._place_of(start))
        if "BASE" in self.expected:
            return self._wrong_type()
        if not self.token_type:
            return self._wrong_character()
        instead = "the end of the text" if self.token_type == "$END" else f"'{_clip(self.found)}'"
        return self.source.error("S001", self.place, expected=self._expectation(), found=instead, advice=self._advice())

    def _place_of(self, position: int) -> Position:
        before = self.source.text[:position]
        return Position(before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)

    def _expectation(self) -> str:
        words = sorted({_WORDS.get(name, name) for name in self.expected})
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else "nothing more"

    def _misplaced_annotation(self) -> SchemaError | None:
        word = self.found[1:].strip()
        if word == "card":
            return self.source.error("S008", self.place)
        if self.kind == "node" and self.expected == {"COMMA", "LBRACE"}:
            return self.source.error("S007", self.place, owner=f"node {self.name}", name=self.name)
        if self.kind == "interface" and self.expected == {"LBRACE"}:
            return self.source.error("S012", self.place, name=self.name)
        if self.kind == "interface" and "CLOSE" in self.expected:
            return self.source.error("S013", self.place, name=self.name, kind=word)
        if "CLOSE" in self.expected:
            return self._wrong_constraint(word)
        if self.token_type == "CONSTRAINT" and "LBRACE" in self.expected:
            return self._constraint_in_header(word)
        return None

    def _constraint_in_header(self, word: str) -> SchemaError | None:
        if self.kind == "node" and "IMPLEMENTS" in self.expected:
            return self.source.error("S306", self.place, name=word, owner=self.name)
        if self.kind == "edge":
            advice = f"write @{word}(...) inside the braces of the edge"
            return self.source.error("S307", self.place, name=word, owner=self.name, advice=advice)
        return None

    def _wrong_constraint(self, word: str) -> SchemaError:
        if word in ("key", "unique", "index"):
            return self.source.error("S401", self.place, name=word)
        if word in ("range", "check"):
            return self.source.error("S402" if word == "range" else "S403", self.place)
        advice = (
            f"constraints are {', '.join('@' + name for name in _CONSTRAINTS)}; an annotation stands behind a property"
        )
        if word in ("description", "instruction", "rename_from"):
            advice = f"@{word} of a type stands before the braces"
        return self.source.error("S404", self.place, name=word, advice=advice)

    def _wrong_type(self) -> SchemaError:
        inside_list = self.source.text[: self.position].rstrip().endswith("[")
        word = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").match(self.source.text, self.position)
        if inside_list and (self.found in ("[", "enum", "Vector") or (word and word.group() in ("enum", "Vector"))):
            instead = "list" if self.found == "[" else word.group() if word else self.found
            return self.source.error("S206", self.place, found=instead)
        if word:
            return self.source.error("S006", self.place, found=f"'{_clip(word.group())}'", types=_PROPERTY_TYPES)
        character = self.source.text[self.position : self.position + 1]
        instead = f"'{_clip(self.found or character)}'" if character else "the end of the text"
        advice = f"the types are {_PROPERTY_TYPES}, Vector(N), enum(a, b) and [T]"
        return self.source.error("S001", self.place, expected="a type", found=instead, advice=advice)

    def _wrong_character(self) -> SchemaError:
        text, position = self.source.text, self.position
        if text.startswith('"', position):
            return self._wrong_string()
        if text.startswith("/*", position):
            return self.source.error("S005", self.place)
        advice = f"expected {self._expectation()}"
        if text.startswith("#", position):
            advice = "comments are written // like this or /* like this */"
        elif text.startswith("'", position):
            advice = "strings stand in double quotes"
        return self.source.error("S002", self.place, found=repr(text[position : position + 1]), advice=advice)

    def _wrong_string(self) -> SchemaError:
        for match in re.compile(r'[^"\\]|\\(.)|"', re.DOTALL).finditer(self.source.text, self.position + 1):
            if match.group() == '"':
                break
            if match.group(1) is not None and match.group(1) not in '"\\nrt':
                return self.source.error(
                    "S004", self._place_of(match.start()), found=repr(match.group())[1:-1].replace("\\\\", "\\")
                )
        else:
            return self.source.error("S003", self.place)
        advice = f"expected {self._expectation()}"
        return self.source.error("S002", self.place, found="'\"'", advice=advice)

    def _advice(self) -> str:
        if self.token_type == "$END":
            return "close the declaration with '}'" if "CLOSE" in self.expected else "the declaration is not complete"
        if self.expected == {"TYPE_NAME"} and self.found[:1].islower():
            return "type names start with a capital letter"
        if "NAME" in self.expected and self.found[:1].isupper():
            return "property names start with a lower-case letter or _"
        if "INTERFACE" in self.expected:
            return "a schema is a list of interface, node and edge declarations"
        if "LBRACE" in self.expected and self.kind in ("node", "interface"):
            return f"a {self.kind} needs braces, even when they are empty"
        if self.token_type == "COMMA" and "CLOSE" in self.expected:
            return "properties are separated by space or a new line, not by commas"
        return f"write {self._expectation()} here"


def _clip(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}…"
