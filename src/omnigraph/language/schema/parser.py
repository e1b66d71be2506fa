"""`.pg` text -> syntax tree. The grammar is schema.lark; lark is loaded on the first parse, not on import."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from omnigraph.language.parser_cache import parser_cache
from omnigraph.language.position import NOWHERE, Position
from omnigraph.language.schema.rules import SchemaText
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ArgumentSyntax,
    CardinalitySyntax,
    ConstraintSyntax,
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
from omnigraph.values.types import INTEGER_RANGES, Scalar

Children = list[Any]

if TYPE_CHECKING:
    from lark import Lark, Token

_ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\t": "\t"}
_MIN_INTEGER, _MAX_INTEGER = INTEGER_RANGES[Scalar.I64][0], INTEGER_RANGES[Scalar.U64][1]


def parse_schema(text: str, file: str | None = None) -> SchemaSyntax:
    """The tree of a schema. Raises SchemaError and nothing else, whatever the text."""
    from lark.exceptions import UnexpectedInput

    from omnigraph.language.schema.mistakes import explain

    source = SchemaText(text, file)
    _check_unicode(source)
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as mistake:
        raise explain(mistake, source) from None
    except _RefusedSchema as refused:
        raise source.error(refused.code, refused.place, **refused.fields) from None
    assert isinstance(tree, SchemaSyntax)
    return tree


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = Path(__file__).with_name("schema.lark").read_text("utf-8")
    return Lark(
        grammar,
        start="schema",
        parser="lalr",
        lexer="contextual",
        transformer=_tree_builder(),
        maybe_placeholders=False,
        cache=parser_cache("schema"),
    )


def _check_unicode(source: SchemaText) -> None:
    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        before = source.text[: error.start]
        place = Position(before.count("\n") + 1, error.start - (before.rfind("\n") + 1) + 1)
        shown = SchemaText(source.text.encode("utf-8", "replace").decode(), source.file)
        raise shown.error("S010", place) from None


class _RefusedSchema(Exception):
    """The text matches the grammar but cannot be represented as a tree."""

    def __init__(self, code: str, place: Position, **fields: object) -> None:
        super().__init__(code)
        self.code = code
        self.place = place
        self.fields = fields


def _refuse(code: str, token: Token, **fields: object) -> NoReturn:
    raise _RefusedSchema(code, _place(token), **fields)


def _place(token: Token) -> Position:
    return Position(token.line or 1, token.column or 1)


def _shorten(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:20]}…"


def _integer(token: Token) -> int:
    digits = token.lstrip("-").lstrip("0") or "0"
    if len(digits) <= 20:
        value = -int(digits) if token.startswith("-") else int(digits)
        if _MIN_INTEGER <= value <= _MAX_INTEGER:
            return value
    _refuse("S009", token, found=_shorten(token))


def _decimal(token: Token) -> float:
    value = float(token)
    if value in (float("inf"), float("-inf")):
        _refuse("S009", token, found=_shorten(token))
    return value


def _unsigned(token: Token) -> int:
    if token.startswith("-"):
        _refuse("S011", token, found=_shorten(token))
    return _integer(token)


def unquote(quoted: str) -> str:
    """The value of a string literal."""
    body = quoted[1:-1]
    if "\\" not in body:
        return body
    parts: list[str] = []
    position = 0
    while position < len(body):
        width = 2 if body[position] == "\\" else 1
        piece = body[position : position + width]
        parts.append(_ESCAPES.get(piece, piece))
        position += width
    return "".join(parts)


@dataclass(frozen=True)
class _Body:
    members: tuple[MemberSyntax, ...]
    end: Position


def _tree_builder() -> Any:
    """The lark transformer that makes our tree while the parser reduces. Built here because its base class is lark's."""
    from lark import Token, Transformer

    class TreeBuilder(Transformer[Token, SchemaSyntax]):
        def schema(self, children: Children) -> SchemaSyntax:
            return SchemaSyntax(tuple(children))

        def interface(self, children: Children) -> InterfaceSyntax:
            _, name, *members, close = children
            return InterfaceSyntax(str(name), _place(name), _place(close), tuple(members))

        def node(self, children: Children) -> NodeSyntax:
            _, name, *rest, close = children
            return NodeSyntax(
                str(name),
                _place(name),
                _place(close),
                annotations=tuple(child for child in rest if isinstance(child, AnnotationSyntax)),
                implements=next((child for child in rest if isinstance(child, tuple)), ()),
                members=tuple(child for child in rest if isinstance(child, PropertySyntax | ConstraintSyntax)),
            )

        def edge(self, children: Children) -> EdgeSyntax:
            _, name, start, end, *rest = children
            body = next((child for child in rest if isinstance(child, _Body)), None)
            return EdgeSyntax(
                str(name),
                _place(name),
                body.end if body else NOWHERE,
                source=NameSyntax(str(start), _place(start)),
                target=NameSyntax(str(end), _place(end)),
                cardinality=next((child for child in rest if isinstance(child, CardinalitySyntax)), None),
                annotations=tuple(child for child in rest if isinstance(child, AnnotationSyntax)),
                members=body.members if body else (),
            )

        def body(self, children: Children) -> _Body:
            *members, close = children
            return _Body(tuple(members), _place(close))

        def implements(self, children: Children) -> tuple[NameSyntax, ...]:
            return tuple(NameSyntax(str(name), _place(name)) for name in children[1:])

        def card(self, children: Children) -> CardinalitySyntax:
            word, minimum, *rest = children
            bounds = [_unsigned(bound) for bound in (minimum, *rest)]
            for bound, value in zip((minimum, *rest), bounds, strict=True):
                if value >= 2**32:
                    _refuse("S114", bound, found=_shorten(bound))
            return CardinalitySyntax(bounds[0], bounds[1] if rest else None, _place(word))

        def property(self, children: Children) -> PropertySyntax:
            name, kind, *annotations = children
            return PropertySyntax(str(name), kind, tuple(annotations), _place(name))

        def type(self, children: Children) -> TypeSyntax:
            core: TypeSyntax = children[0]
            if len(children) == 1:
                return core
            return TypeSyntax(core.base, True, core.is_list, core.values, core.dimension, core.place)

        def base_type(self, children: Children) -> TypeSyntax:
            return TypeSyntax(str(children[0]), place=_place(children[0]))

        def list_type(self, children: Children) -> TypeSyntax:
            return TypeSyntax(str(children[0]), is_list=True, place=_place(children[0]))

        def enum_type(self, children: Children) -> TypeSyntax:
            word, *values = children
            return TypeSyntax("enum", values=tuple(str(value) for value in values), place=_place(word))

        def vector_type(self, children: Children) -> TypeSyntax:
            word, dimension = children
            return TypeSyntax("Vector", dimension=_unsigned(dimension), place=_place(word))

        def constraint(self, children: Children) -> ConstraintSyntax:
            word, *arguments = children
            return ConstraintSyntax(word[1:].strip(), tuple(arguments), _place(word))

        def range_from(self, children: Children) -> RangeSyntax:
            low, *rest = children
            return RangeSyntax(low.value, rest[0].value if rest else None, low.place)

        def range_to(self, children: Children) -> RangeSyntax:
            return RangeSyntax(None, children[0].value, children[0].place)

        def annotation(self, children: Children) -> AnnotationSyntax:
            word, *rest = children
            rest = [value for value in rest if value is not None]
            argument = rest.pop(0) if rest and isinstance(rest[0], ArgumentSyntax) else None
            options = tuple(rest)
            name = word[1:].strip()
            for value in (*([argument] if argument else ()), *options):
                if name != "default" and _is_signed(value.value):
                    raise _RefusedSchema("S011", value.place, found=str(value.value))
            return AnnotationSyntax(name, argument, options, _place(word))

        def option(self, children: Children) -> OptionSyntax:
            name, literal = children
            return OptionSyntax(str(name), literal.value, _place(name))

        def argument(self, children: Children) -> ArgumentSyntax:
            return children[0]  # type: ignore[no-any-return]  # lark's children are untyped

        def word(self, children: Children) -> ArgumentSyntax:
            return ArgumentSyntax(str(children[0]), True, _place(children[0]))

        def string_literal(self, children: Children) -> ArgumentSyntax:
            return ArgumentSyntax(unquote(children[0]), place=_place(children[0]))

        def float_literal(self, children: Children) -> ArgumentSyntax:
            return ArgumentSyntax(_decimal(children[0]), place=_place(children[0]))

        def int_literal(self, children: Children) -> ArgumentSyntax:
            return ArgumentSyntax(_integer(children[0]), place=_place(children[0]))

        def bool_literal(self, children: Children) -> ArgumentSyntax:
            return ArgumentSyntax(children[0] == "true", place=_place(children[0]))

    return TreeBuilder()


def _is_signed(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and str(value).startswith("-")
