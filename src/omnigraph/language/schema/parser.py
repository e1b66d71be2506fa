"""`.pg` text -> syntax tree. The docstring of a method is its rule in docs/reference/grammar.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NoReturn, cast, get_args

from omnigraph.errors import SchemaError
from omnigraph.language.catalog import ConstraintKind
from omnigraph.language.parsing.cursor import (
    CHARACTER,
    END,
    NAME,
    NOWHERE,
    SIGN,
    STRING,
    TRIVIA,
    TYPE_NAME,
    Cursor,
    Mistake,
    Position,
    Token,
    Tokenizer,
    unquote,
)
from omnigraph.language.schema.rules import SchemaText
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ArgumentSyntax,
    CardinalitySyntax,
    ConstraintSyntax,
    DeclarationSyntax,
    EdgeSyntax,
    InterfaceSyntax,
    MemberSyntax,
    NameSyntax,
    NodeSyntax,
    OptionSyntax,
    PropertySyntax,
    RangeSyntax,
    SchemaSyntax,
    TypeSyntax,
)
from omnigraph.values.types import INTEGER_RANGES, PROPERTY_SCALARS, Scalar

# Turns a mistake of a `.pg` text into a SchemaError in plain words, with advice for common ones.

_PROPERTY_TYPES = ", ".join(scalar.value for scalar in PROPERTY_SCALARS if scalar is not Scalar.VECTOR)
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


KEYWORDS = ("interface", "node", "edge", "implements", "enum")
INTEGER = "a number"
FLOAT = "a decimal number"
CARD = "@card(...)"
CONSTRAINT = "a constraint"
ANNOTATION = "an annotation"
_ENUM_VALUE = "an enum value"

# `@key`, `@unique` and `@index` without an argument are annotations of a property; with one they are constraints.
# `@index(language: "simple")` names no property: it is an annotation too.
TOKENS = {
    NAME: r"[a-z_][A-Za-z0-9_]*",
    TYPE_NAME: r"[A-Z][A-Za-z0-9_]*",
    CARD: rf"@[ \t\r\n]*card(?={TRIVIA}\()",
    CONSTRAINT: rf"@[ \t\r\n]*(?:{'|'.join(get_args(ConstraintKind))})(?={TRIVIA}\((?!{TRIVIA}language{TRIVIA}:))",
    ANNOTATION: r"@[ \t\r\n]*[a-z_][A-Za-z0-9_]*",
    STRING: r'"(?:[^"\\]|\\["\\nrt])*+"',
    FLOAT: r"-?[0-9]+\.[0-9]+",
    INTEGER: r"-?[0-9]+",
    SIGN: r"->|\.\.|[{}()\[\]:,=?-]",
}
ENUM_VALUES = re.compile(r"[A-Za-z0-9_-]+")
_BASES = frozenset(scalar.value for scalar in PROPERTY_SCALARS if scalar is not Scalar.VECTOR)
_MIN_INTEGER, _MAX_INTEGER = INTEGER_RANGES[Scalar.I64][0], INTEGER_RANGES[Scalar.U64][1]


def parse_schema(text: str, file: str | None = None) -> SchemaSyntax:
    """The tree of a schema. Raises SchemaError and nothing else, whatever the text."""
    source = SchemaText(text, file)
    _check_unicode(source)
    parser = SchemaParser(source)
    try:
        return parser.schema()
    except Mistake as mistake:
        raise explain(mistake, source, parser.kind) from None


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer(TOKENS)


def _check_unicode(source: SchemaText) -> None:
    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        shown = SchemaText(source.text.encode("utf-8", "replace").decode(), source.file)
        raise shown.error("S010", source.position(error.start)) from None


class SchemaParser:
    """Schemas (`.pg`)

    A schema is a list of declarations. Keywords are soft: `node`, `enum` or `true` are good property names. `@key`, `@unique` and
    `@index` without an argument are annotations of a property; with one they are constraints. `@index(language: "simple")`
    names no property: it is an annotation too. The compiler checks the rest.
    """

    def __init__(self, source: SchemaText) -> None:
        self._source = source
        self._cursor = Cursor(source.text, _tokenizer())
        self.kind = ""
        """Of the declaration that is being read."""
        self._name = ""

    def schema(self) -> SchemaSyntax:
        """schema: (interface | node | edge)*"""
        kinds: dict[str, Callable[[Token], DeclarationSyntax]]
        kinds = {"interface": self.interface, "node": self.node, "edge": self.edge}
        declarations: list[DeclarationSyntax] = []
        while word := self._cursor.accept(*kinds):
            name = self._cursor.expect(TYPE_NAME)
            self.kind, self._name = word.text, name.text
            declarations.append(kinds[word.text](name))
        self._cursor.expect(END)
        return SchemaSyntax(tuple(declarations))

    def interface(self, name: Token) -> InterfaceSyntax:
        """interface: 'interface' TYPE_NAME '{' property* '}'"""
        if self._at_annotation():
            self._refuse_annotation("S012", name=self._name)
        members, end = self.body()
        return InterfaceSyntax(name.text, self._at(name), end, cast(tuple[PropertySyntax, ...], members))

    def node(self, name: Token) -> NodeSyntax:
        """node: 'node' TYPE_NAME annotation* implements? body"""
        annotations = self.annotations()
        if self._cursor.token.kind == CONSTRAINT:
            word = self._cursor.token
            self._refuse("S306", word, name=_annotation_name(word), owner=self._name)
        implements = self.implements() if self._cursor.accept("implements") else ()
        if implements and self._at_annotation():
            self._refuse_annotation("S007", owner=f"node {self._name}", name=self._name)
        members, end = self.body()
        return NodeSyntax(name.text, self._at(name), end, annotations, implements, members)

    def edge(self, name: Token) -> EdgeSyntax:
        """edge: 'edge' TYPE_NAME ':' TYPE_NAME '->' TYPE_NAME card? (annotation | constraint)* body?"""
        self._cursor.expect(":")
        source = self._cursor.expect(TYPE_NAME)
        self._cursor.expect("->")
        target = self._cursor.expect(TYPE_NAME)
        cardinality = self.card() if self._cursor.at(CARD) else None
        annotations: list[AnnotationSyntax] = []
        constraints: list[ConstraintSyntax] = []
        while self._cursor.at(ANNOTATION, CONSTRAINT) or self._at_annotation():
            if self._cursor.token.kind == CONSTRAINT:
                constraints.append(self.constraint())
            else:
                annotations.append(self.annotation())
        members, end = self.body() if self._cursor.at("{") else ((), NOWHERE)
        return EdgeSyntax(
            name.text,
            self._at(name),
            end,
            source=NameSyntax(source.text, self._at(source)),
            target=NameSyntax(target.text, self._at(target)),
            cardinality=cardinality,
            annotations=tuple(annotations),
            constraints=tuple(constraints),
            members=members,
        )

    def implements(self) -> tuple[NameSyntax, ...]:
        """implements: 'implements' TYPE_NAME (',' TYPE_NAME)*"""
        names = [self._cursor.expect(TYPE_NAME)]
        while self._cursor.accept(","):
            names.append(self._cursor.expect(TYPE_NAME))
        return tuple(NameSyntax(name.text, self._at(name)) for name in names)

    def card(self) -> CardinalitySyntax:
        """card: '@card' '(' INTEGER '..' INTEGER? ')'"""
        word = self._cursor.advance()
        self._cursor.expect("(")
        minimum = self._cursor.expect(INTEGER)
        self._cursor.expect("..")
        maximum = self._cursor.accept(INTEGER)
        self._cursor.expect(")")
        low, high = self._bound(minimum), None if maximum is None else self._bound(maximum)
        return CardinalitySyntax(low, high, self._at(word))

    def _bound(self, token: Token) -> int:
        value = self._unsigned(token)
        if value >= 2**32:
            self._refuse("S114", token, found=_shorten(token.text))
        return value

    def body(self) -> tuple[tuple[MemberSyntax, ...], Position]:
        """body: '{' (property | constraint)* '}'"""
        self._cursor.expect("{")
        members: list[MemberSyntax] = []
        while not (close := self._cursor.accept("}")):
            if self.kind != "interface" and self._cursor.at(CONSTRAINT):
                members.append(self.constraint())
            elif self._at_annotation():
                self._refuse_member()
            else:
                members.append(self.property())
        return tuple(members), self._at(close)

    def property(self) -> PropertySyntax:
        """property: NAME ':' type annotation*"""
        name = self._cursor.expect(NAME)
        if name.text in ("interface", "node", "edge") and self._cursor.token.text != ":":
            raise Mistake(name, frozenset("}"))
        self._cursor.expect(":")
        type_ = self.type()
        annotations = self.annotations()
        return PropertySyntax(name.text, type_, annotations, self._at(name))

    def type(self) -> TypeSyntax:
        """type: (SCALAR | '[' SCALAR ']' | enum | vector) '?'?"""
        word = self._cursor.token
        values: tuple[str, ...] = ()
        dimension = None
        is_list = word.text == "["
        if is_list:
            self._cursor.advance()
            word = self._cursor.token
        if word.text not in _BASES and (is_list or word.text not in ("enum", "Vector")):
            raise type_error(word, self._source, is_list)
        self._cursor.advance()
        if is_list:
            self._cursor.expect("]")
        elif word.text == "enum":
            values = self.enum()
        elif word.text == "Vector":
            dimension = self.vector()
        nullable = self._cursor.accept("?") is not None
        return TypeSyntax(word.text, nullable, is_list, values, dimension, self._at(word))

    def enum(self) -> tuple[str, ...]:
        """enum: 'enum' '(' (ENUM_VALUE (',' ENUM_VALUE)*)? ')'"""
        values: list[str] = []
        self._cursor.expect("(")
        if not self._cursor.accept(")"):
            while not values or self._cursor.accept(","):
                if not self._cursor.reread(_ENUM_VALUE, ENUM_VALUES):
                    raise self._cursor.mistake()
                values.append(self._cursor.advance().text)
            self._cursor.expect(")")
        return tuple(values)

    def vector(self) -> int:
        """vector: 'Vector' '(' INTEGER ')'"""
        self._cursor.expect("(")
        dimension = self._unsigned(self._cursor.expect(INTEGER))
        self._cursor.expect(")")
        return dimension

    def constraint(self) -> ConstraintSyntax:
        """constraint: ('@key' | '@unique' | '@index' | '@range' | '@check') '(' (limit (',' limit)*)? ')'
        limit: argument | range
        """
        word = self._cursor.advance()
        arguments: list[ArgumentSyntax | RangeSyntax] = []
        self._cursor.expect("(")
        if not self._cursor.accept(")"):
            arguments.append(self.limit())
            while self._cursor.accept(","):
                arguments.append(self.limit())
            self._cursor.expect(")")
        return ConstraintSyntax(cast(ConstraintKind, _annotation_name(word)), tuple(arguments), self._at(word))

    def limit(self) -> ArgumentSyntax | RangeSyntax:
        """range: number '..' number? | '..' number
        number: INTEGER | FLOAT
        """
        if self._cursor.accept(".."):
            if not self._at_number():
                raise self._cursor.mistake()
            bound = self.literal()
            return RangeSyntax(None, cast(int | float, bound.value), bound.place)
        low = self.argument()
        if isinstance(low.value, bool | str) or not self._cursor.accept(".."):
            return low
        high = cast(int | float, self.literal().value) if self._at_number() else None
        return RangeSyntax(low.value, high, low.place)

    def _at_number(self) -> bool:
        return self._cursor.token.kind == FLOAT or self._cursor.at(INTEGER)

    def annotations(self) -> tuple[AnnotationSyntax, ...]:
        annotations: list[AnnotationSyntax] = []
        while self._cursor.token.kind == CARD or self._cursor.at(ANNOTATION):
            annotations.append(self.annotation())
        return tuple(annotations)

    def annotation(self) -> AnnotationSyntax:
        """annotation: '@' NAME ('(' (argument (',' NAME '=' literal)* | NAME ':' literal (',' NAME ':' literal)*) ')')?"""
        word = self._cursor.advance()
        name = _annotation_name(word)
        argument, options = self.arguments(word) if self._cursor.accept("(") else (None, ())
        for value in (*([argument] if argument else ()), *options):
            if name != "default" and _is_signed(value.value):
                raise self._source.error("S011", value.place, found=str(value.value))
        return AnnotationSyntax(name, argument, options, self._at(word))

    def arguments(self, annotation: Token) -> tuple[ArgumentSyntax | None, tuple[OptionSyntax, ...]]:
        first: ArgumentSyntax | None = self.argument()
        assert first is not None
        options: list[OptionSyntax] = []
        sign = "="
        if first.is_word and self._cursor.accept(":"):
            options.append(OptionSyntax(str(first.value), self.literal().value, first.place))
            first, sign = None, ":"
        if _annotation_name(annotation) == "card" and self._cursor.token.text == "..":
            self._refuse("S008", annotation)
        while self._cursor.accept(","):
            name = self._cursor.expect(NAME)
            self._cursor.expect(sign)
            options.append(OptionSyntax(name.text, self.literal().value, self._at(name)))
        self._cursor.expect(")")
        return first, tuple(options)

    def argument(self) -> ArgumentSyntax:
        """argument: literal | NAME"""
        token = self._cursor.token
        if token.kind == NAME and token.text not in ("true", "false"):
            return ArgumentSyntax(self._cursor.advance().text, True, self._at(token))
        self._cursor.at(NAME)
        return self.literal()

    def literal(self) -> ArgumentSyntax:
        """literal: STRING | INTEGER | FLOAT | 'true' | 'false'"""
        token = self._cursor.token
        if token.text in ("true", "false"):
            value: str | int | float | bool = token.text == "true"
        elif token.kind == STRING:
            value = unquote(token.text)
        elif token.kind == FLOAT:
            value = self._decimal(token)
        elif token.kind == INTEGER:
            value = self._integer(token)
        else:
            raise self._cursor.mistake(STRING, INTEGER, "true or false")
        self._cursor.advance()
        return ArgumentSyntax(value, place=self._at(token))

    # ------------------------------------------------------------ refusals

    def _at_annotation(self) -> bool:
        return self._cursor.token.kind in (ANNOTATION, CONSTRAINT, CARD)

    def _refuse_annotation(self, code: str, **fields: object) -> NoReturn:
        """An annotation where none may stand."""
        token = self._cursor.token
        self._refuse("S008" if _annotation_name(token) == "card" else code, token, **fields)

    def _refuse_member(self) -> NoReturn:
        """An annotation that starts a member of a body."""
        token = self._cursor.token
        name = _annotation_name(token)
        if self.kind == "interface":
            self._refuse_annotation("S013", name=self._name, kind=name)
        if name in ("key", "unique", "index"):
            self._refuse("S401", token, name=name)
        if name in ("range", "check"):
            self._refuse("S402" if name == "range" else "S403", token)
        words = ", ".join("@" + kind for kind in get_args(ConstraintKind))
        advice = f"constraints are {words}; an annotation stands behind a property"
        if name in ("description", "instruction", "rename_from"):
            advice = f"@{name} of a type stands before the braces"
        self._refuse_annotation("S404", name=name, advice=advice)

    def _refuse(self, code: str, token: Token, **fields: object) -> NoReturn:
        raise self._source.error(code, self._at(token), **fields)

    # ------------------------------------------------------------ tokens as values

    def _at(self, token: Token) -> Position:
        return self._cursor.position(token)

    def _integer(self, token: Token) -> int:
        digits = token.text.lstrip("-").lstrip("0") or "0"
        if len(digits) <= 20:
            value = -int(digits) if token.text.startswith("-") else int(digits)
            if _MIN_INTEGER <= value <= _MAX_INTEGER:
                return value
        raise self._source.error("S009", self._at(token), found=_shorten(token.text))

    def _decimal(self, token: Token) -> float:
        value = float(token.text)
        if value in (float("inf"), float("-inf")):
            self._refuse("S009", token, found=_shorten(token.text))
        return value

    def _unsigned(self, token: Token) -> int:
        if token.text.startswith("-"):
            self._refuse("S011", token, found=_shorten(token.text))
        return self._integer(token)


def _annotation_name(token: Token) -> str:
    return token.text[1:].strip()


def _shorten(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:20]}…"


def _is_signed(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and str(value).startswith("-")
