"""Text of `.gq` -> syntax tree. Everything that is not in the grammar is refused here, as rule Q000."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from omnigraph.errors import QueryError
from omnigraph.language.lalr import END, NoParseError, Parser, Token, kept_tables
from omnigraph.language.parser_cache import parser_cache
from omnigraph.language.position import Position
from omnigraph.language.query import syntax
from omnigraph.language.query.habits import habit
from omnigraph.language.query.keywords import grammar

if TYPE_CHECKING:
    from lark import Lark, UnexpectedInput

MAX_DEPTH = 64
"""How deeply expressions and blocks may nest: far beyond any query written by hand, far below the interpreter's stack."""

_VARIABLE_BEFORE = re.compile(r"(\$\w+)\s+\Z")
_ITEM = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.0-9eE]+', re.DOTALL)
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}

_TOKEN_WORDS = {
    "NAME": "a name",
    "TYPE_NAME": "a type name",
    "VARIABLE": "a variable",
    "STRING": "a string",
    "INTEGER": "a number",
    "FLOAT": "a number",
    "UNDIRECTED": "<edge>",
    "COMPARISON": "a comparison",
    "EQUALS": "a comparison",
    "LESS": "a comparison",
    "CONTAINS": "a comparison",
    "STARTS_WITH": "a comparison",
    "ENDS_WITH": "a comparison",
    "DURATION": "a number",
    "PLUS": "an operator",
    "MINUS": "an operator",
    "FACTOR": "an operator",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "BRACKET": "'['",
    "LITERALS": "'['",
    "RSQB": "']'",
    "COLON": "':'",
    "COMMA": "','",
    "DOT": "'.'",
    "QUESTION": "'?'",
    "DESCRIPTION": "'@description'",
    "INSTRUCTION": "'@instruction'",
    "$END": "the end of the text",
}


def parse_queries(text: str, file: str | None = None) -> syntax.QueryFile:
    """Parse a whole file. Raises QueryError, rule Q000, with the position."""
    try:
        return cast(syntax.QueryFile, _parser().parse(text))
    except NoParseError:
        raise _unexpected(_mistake(text), text, file) from None
    except _RefusedQuery as refused:
        raise refusal("Q000", refused.message, refused.at, text, file, refused.hint) from None


def ends_early(text: str) -> bool:
    """Whether the text is correct so far but incomplete."""
    try:
        _parser().parse(text)
    except NoParseError:
        error = _mistake(text)
        return _kind(error) == END or text.startswith("/*", error.pos_in_stream or 0)
    except _RefusedQuery:
        return False
    return False


def refusal(
    rule: str, message: str, at: Position, text: str, file: str | None = None, hint: str | None = None
) -> QueryError:
    """A QueryError that shows the line of the text it is about."""
    lines = text.split("\n")
    source_line = lines[at.line - 1].rstrip("\r") if 0 < at.line <= len(lines) else ""
    return QueryError(message, rule=rule, line=at.line, column=at.column, source_line=source_line, file=file, hint=hint)


@cache
def _parser() -> Parser:
    return Parser(kept_tables("query", grammar(), _compiled), _Builder())


@cache
def _compiled() -> Lark:
    """The compiled grammar as the compiler's own parser, which can say what is wrong with a text."""
    from lark import Lark

    return Lark(grammar(), parser="lalr", maybe_placeholders=False, cache=parser_cache("query"))


def _mistake(text: str) -> UnexpectedInput:
    from lark import UnexpectedInput

    try:
        _compiled().parse(text)
    except UnexpectedInput as error:
        return error
    raise AssertionError("the tables refuse what the grammar allows")


def _kind(error: UnexpectedInput) -> str | None:
    """The kind of the unexpected token, or None if there is none."""
    from lark import UnexpectedToken

    return error.token.type if isinstance(error, UnexpectedToken) else None


def _unexpected(error: UnexpectedInput, text: str, file: str | None) -> QueryError:
    from lark import UnexpectedCharacters, UnexpectedToken

    position = error.pos_in_stream or 0
    if text.startswith("/*", position):
        at = Position(error.line, error.column)
        return refusal("Q000", "the comment is not closed", at, text, file, "a comment ends with */")
    if isinstance(error, UnexpectedToken):
        expected = _expectation(error.expected)
        if error.token.type == "TYPE_NAME" and (variable := _VARIABLE_BEFORE.search(text, 0, position)):
            expected = f"write {variable[1]}: {error.token}"
        expected = habit(text, position, str(error.token)) or expected
        if error.token.type == END:
            return refusal("Q000", "the text ends too early", _end_of(text), text, file, expected)
        message = f"unexpected '{_shortened(str(error.token))}'"
        return refusal("Q000", message, Position(error.line, error.column), text, file, expected)
    at = Position(error.line, error.column)
    if isinstance(error, UnexpectedCharacters):
        if error.char == '"':
            return refusal("Q000", "the string is not closed", at, text, file, 'a string ends with "')
        expected = habit(text, position, error.char) or _expectation(error.allowed or ())
        return refusal("Q000", f"unexpected character {error.char!r}", at, text, file, expected)
    return refusal("Q000", "the text ends too early", _end_of(text), text, file)


def _shortened(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 40 and line == text else line[:40] + "…"


def _expectation(terminals: Any) -> str:
    words = sorted({_TOKEN_WORDS.get(name, f"'{name.lower()}'") for name in terminals})
    soft = [word for word in words if word[1:-1].isidentifier() and word.startswith("'")]
    if len(soft) > 12:
        # Where any name is allowed, so is every soft keyword: listing them would hide the point.
        words = [word for word in words if word not in soft]
    return "expected " + (words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1])


def _end_of(text: str) -> Position:
    lines = text.rstrip().split("\n")
    return Position(len(lines), len(lines[-1]) + 1)


def _at(token: Token) -> Position:
    return Position(token.line, token.column)


class _RefusedQuery(Exception):
    """Raised while the tree is built; the text that shows the line is added by parse_queries."""

    def __init__(self, message: str, at: Position, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.hint = hint


def _unquoted(token: Token) -> str:
    body = token[1:-1]
    if "\\" not in body:
        return body
    out: list[str] = []
    characters = iter(body)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        escape = next(characters)
        if escape not in _ESCAPES:
            raise _RefusedQuery(f"unknown escape '\\{escape}' in a string", _at(token), r"use \" \\ \n \r or \t")
        out.append(_ESCAPES[escape])
    return "".join(out)


def _items(token: Token) -> Iterator[Token]:
    """The numbers and strings of a list that is one token, each with its position."""
    line, line_start = token.line, 1 - token.column
    end = 0
    for item in _ITEM.finditer(token):
        newlines = token.count("\n", end, item.start())
        if newlines:
            line, line_start = line + newlines, token.rindex("\n", end, item.start()) + 1
        yield Token("ITEM", item[0], line, item.start() - line_start + 1)
        end = item.end()


def _plain(token: Token) -> syntax.Literal:
    """A number or a string."""
    if token.startswith('"'):
        return syntax.Literal("string", _unquoted(token), _at(token))
    if token.lstrip("-").isdecimal():
        return syntax.Literal("integer", _integer(token), _at(token))
    number = float(token)
    if math.isinf(number):
        raise _RefusedQuery("the number is too large", _at(token))
    return syntax.Literal("float", number, _at(token))


def _named(token: Token) -> str:
    return str(token)[1:]


def _check_depth(query: syntax.QueryDecl) -> None:
    defaults = [parameter.default for parameter in query.parameters if parameter.default is not None]
    for node, depth in chain.from_iterable(map(syntax.walk, (query.body, *defaults))):
        if depth > MAX_DEPTH:
            at = getattr(node, "at", query.at)
            raise _RefusedQuery(f"nested more than {MAX_DEPTH} levels deep", at, "use `in [..]`, or split the query")


def _integer(token: Token) -> int:
    if len(token) > 25:
        raise _RefusedQuery("the number has too many digits", _at(token))
    return int(token)


class _Builder:
    """Called by the parser at each reduction: children in, node out. Keeps no state, so one parser serves all threads."""

    # ------------------------------------------------------------ files

    def start(self, *queries: syntax.QueryDecl) -> syntax.QueryFile:
        for query in queries:
            _check_depth(query)
        return syntax.QueryFile(queries)

    def query(self, _word: Token, name: Token, parameters: tuple[syntax.ParameterDecl, ...], *rest: Any) -> Any:
        *annotations, body = rest
        texts: dict[str, str] = {}
        for kind, token in annotations:
            if kind in texts:
                raise _RefusedQuery(f"{kind} is given twice", _at(token))
            texts[kind] = _unquoted(token)
        description, instruction = texts.get("@description"), texts.get("@instruction")
        return syntax.QueryDecl(str(name), parameters, description, instruction, body, _at(name))

    def annotation(self, kind: Token, text: Token) -> tuple[str, Token]:
        return str(kind), text

    def parameters(self, *parameters: syntax.ParameterDecl) -> tuple[syntax.ParameterDecl, ...]:
        return parameters

    def parameter(self, name: Token, type_: syntax.TypeExpr, default: Any = None) -> syntax.ParameterDecl:
        return syntax.ParameterDecl(_named(name), type_, default, _at(name))

    def scalar_type(self, name: Token) -> syntax.TypeExpr:
        return syntax.TypeExpr(str(name), False, None, False, _at(name))

    def list_type(self, _bracket: Token, name: Token) -> syntax.TypeExpr:
        return syntax.TypeExpr(str(name), True, None, False, _at(name))

    def vector_type(self, name: Token, dimension: Token) -> syntax.TypeExpr:
        return syntax.TypeExpr(str(name), False, _integer(dimension), False, _at(name))

    def nullable_type(self, type_: syntax.TypeExpr, question: Token | None = None) -> syntax.TypeExpr:
        return type_ if question is None else replace(type_, nullable=True)

    # ------------------------------------------------------------ reads

    def read(self, first: syntax.ReadBody, *rest: Any) -> syntax.ReadBody:
        others = tuple(part for part in rest if isinstance(part, syntax.ReadBody))
        kinds = [part for part in rest if isinstance(part, list)]
        for keeps_all, at in kinds:
            if keeps_all != kinds[0][0]:
                raise _RefusedQuery(
                    "`union` and `union all` cannot be mixed", at, "write two queries, or one of the two throughout"
                )
        tail: dict[str, Any] = dict(part for part in rest if isinstance(part, tuple))
        order, limit, offset = tail.get("order", ()), tail.get("limit"), tail.get("offset")
        keeps_all = bool(kinds) and kinds[0][0]
        return replace(first, order=order, limit=limit, offset=offset, others=others, keeps_all=keeps_all)

    def union(self, word: Token, every: Token | None = None) -> list[Any]:
        return [every is not None, _at(word)]

    def part(self, _match: Token, clauses: tuple[syntax.Clause, ...], _return: Token, *rest: Any) -> syntax.ReadBody:
        distinct = isinstance(rest[0], Token)
        items = tuple(part for part in rest if isinstance(part, syntax.ReturnItem))
        having = next((part[1] for part in rest if isinstance(part, tuple)), ())
        return syntax.ReadBody(clauses, items, distinct, having, (), None, None)

    def block(self, *clauses: syntax.Clause) -> tuple[syntax.Clause, ...]:
        return clauses

    def item(self, expression: Any) -> syntax.ReturnItem:
        return syntax.ReturnItem(expression, None, expression.at)

    def aliased_item(self, expression: Any, _as: Token, alias: Token) -> syntax.ReturnItem:
        return syntax.ReturnItem(expression, str(alias), expression.at)

    def having(self, _having: Token, *conditions: Any) -> tuple[str, Any]:
        return "having", conditions

    def kept(self, condition: Any) -> Any:
        return condition

    def order(self, _order: Token, *keys: syntax.OrderItem) -> tuple[str, Any]:
        return "order", keys

    def order_key(self, expression: Any, direction: Any = None) -> syntax.OrderItem:
        return syntax.OrderItem(expression, None if direction is None else str(direction), expression.at)  # type: ignore[arg-type]  # the grammar allows asc and desc only

    def limit(self, _limit: Token, value: Token) -> tuple[str, Any]:
        return "limit", self._amount(value)

    def offset(self, _offset: Token, value: Token) -> tuple[str, Any]:
        return "offset", self._amount(value)

    def _amount(self, token: Token) -> Any:
        return self.variable(token) if token.type == "VARIABLE" else self.integer(token)

    # ------------------------------------------------------------ clauses

    def filter_clause(self, condition: Any) -> syntax.FilterClause:
        return syntax.FilterClause(condition, condition.at)

    def binding(self, variable: Token, type_: Token, *properties: syntax.Assignment) -> syntax.BindingClause:
        return syntax.BindingClause(_named(variable), str(type_), properties, _at(variable), _at(type_))

    def path(self, word: Token, _path: Token, *rest: Any) -> syntax.PathClause:
        tokens = [part for part in rest if isinstance(part, Token)]
        variables = [token for token in tokens if token.type == "VARIABLE"]
        weight = tokens[-1] if tokens[-1].type == "NAME" else None
        name = variables[0] if len(variables) == 3 else None
        source, target = variables[-2:]
        edge = next(part for part in rest if isinstance(part, tuple))
        hops = [part for part in rest if isinstance(part, syntax.Hops)]
        traversal = self._traversal(source, None, edge, *hops, target)
        at, named_at, weight_at = (_at(token or word) for token in (word, name, weight))
        chosen = None if name is None else _named(name)
        return syntax.PathClause(chosen, traversal, None if weight is None else str(weight), at, named_at, weight_at)

    def optional(self, word: Token, clauses: tuple[syntax.Clause, ...]) -> syntax.OptionalClause:
        return syntax.OptionalClause(clauses, _at(word))

    def unnest(self, word: Token, items: Any, _as: Token, variable: Token) -> syntax.UnnestClause:
        return syntax.UnnestClause(items, _named(variable), _at(word), _at(variable))

    def directed(self, word: Token) -> tuple[str, bool, Position]:
        return str(word), False, _at(word)

    def undirected(self, token: Token) -> tuple[str, bool, Position]:
        return token[1:-1].strip(), True, _at(token)

    def hops(self, minimum: Token, maximum: Token | None = None) -> syntax.Hops:
        return syntax.Hops(_integer(minimum), None if maximum is None else _integer(maximum), _at(minimum))

    def traversal(self, source: Token, edge: tuple[str, bool, Position], *rest: Any) -> syntax.TraversalClause:
        return self._traversal(source, None, edge, *rest)

    def edge_traversal(self, source: Token, variable: Token, edge: Any, *rest: Any) -> syntax.TraversalClause:
        return self._traversal(source, variable, edge, *rest)

    def _traversal(self, source: Token, variable: Token | None, edge: Any, *rest: Any) -> syntax.TraversalClause:
        hops = rest[0] if isinstance(rest[0], syntax.Hops) else None
        word, undirected, edge_at = edge
        return syntax.TraversalClause(
            source=_named(source),
            edge=word,
            target=_named(rest[-1]),
            undirected=undirected,
            edge_variable=None if variable is None else _named(variable),
            hops=hops,
            at=_at(source),
            edge_at=edge_at,
            target_at=_at(rest[-1]),
            edge_variable_at=edge_at if variable is None else _at(variable),
        )

    # ------------------------------------------------------------ mutations

    def mutation(self, *statements: syntax.StatementSyntax) -> syntax.MutationBody:
        return syntax.MutationBody(statements)

    def insert(self, word: Token, type_: Token, *rest: Any) -> syntax.InsertStatement:
        assignments = tuple(part for part in rest if isinstance(part, syntax.Assignment))
        clauses = rest[-1] if len(rest) > len(assignments) else ()
        return syntax.InsertStatement(str(type_), assignments, clauses, _at(word), _at(type_))

    def update(self, word: Token, type_: Token, _set: Token, *rest: Any) -> syntax.UpdateStatement:
        *assignments, _where, where = rest
        return syntax.UpdateStatement(str(type_), tuple(assignments), where, _at(word), _at(type_))

    def delete(self, word: Token, type_: Token, _where: Token, where: Any) -> syntax.DeleteStatement:
        return syntax.DeleteStatement(str(type_), where, _at(word), _at(type_))

    def assignment(self, name: Token, value: Any) -> syntax.Assignment:
        return syntax.Assignment(str(name), value, _at(name))

    def negative(self, minus: Token, number: syntax.Literal) -> Any:
        return self.minus(minus, number)

    # ------------------------------------------------------------ expressions

    def disjunction(self, *parts: Any) -> syntax.Logical:
        return syntax.Logical("or", parts[::2], parts[0].at)

    def conjunction(self, *parts: Any) -> syntax.Logical:
        return syntax.Logical("and", parts[::2], parts[0].at)

    def negated(self, word: Token, operand: Any) -> syntax.Not:
        return syntax.Not(operand, _at(word))

    def compared(self, left: Any, op: Any, right: Any) -> syntax.Comparison:
        return syntax.Comparison(str(op), left, right, _at(op))  # type: ignore[arg-type]  # the grammar allows these only

    def is_null(self, operand: Any, *_words: Token) -> syntax.NullTest:
        return syntax.NullTest(operand, False, operand.at)

    def is_not_null(self, operand: Any, *_words: Token) -> syntax.NullTest:
        return syntax.NullTest(operand, True, operand.at)

    def arithmetic(self, left: Any, op: Any, right: Any) -> syntax.Arithmetic:
        return syntax.Arithmetic(str(op), left, right, _at(op))  # type: ignore[arg-type]  # the grammar allows these only

    def minus(self, sign: Token, operand: Any) -> Any:
        # A sign before a plain number belongs to the number, so that the smallest 64-bit integer can be written.
        if isinstance(operand, syntax.Literal) and operand.kind in ("integer", "float"):
            number = cast(int | float, operand.value)
            if not math.copysign(1, number) < 0:
                return syntax.Literal(operand.kind, -number, _at(sign))
        return syntax.Minus(operand, _at(sign))

    def variable(self, token: Token) -> syntax.Variable:
        return syntax.Variable(_named(token), _at(token))

    def property_access(self, variable: Token, name: Token) -> syntax.PropertyAccess:
        return syntax.PropertyAccess(_named(variable), str(name), _at(variable), _at(name))

    def bare_word(self, word: Token) -> syntax.Word:
        return syntax.Word(str(word), _at(word))

    def now(self, word: Token) -> syntax.NowCall:
        return syntax.NowCall(_at(word))

    def list_literal(self, bracket: Token, *items: Any) -> syntax.ListLiteral:
        return syntax.ListLiteral(items, _at(bracket))

    def literals(self, token: Token) -> syntax.ListLiteral:
        return syntax.ListLiteral(tuple(map(_plain, _items(token))), _at(token))

    def call(self, function: Any, *arguments: Any) -> syntax.Call:
        return syntax.Call(str(function), arguments, _at(function))  # type: ignore[arg-type]  # the grammar allows these only

    def function(self, name: Token, *arguments: Any) -> syntax.FunctionCall:
        return syntax.FunctionCall(str(name), arguments, _at(name))

    def duration(self, token: Token) -> syntax.Duration:
        count, unit = token.split()
        return syntax.Duration(
            _integer(Token("INTEGER", count, token.line, token.column)), unit.removesuffix("s"), _at(token)
        )

    def case(self, word: Token, *parts: Any) -> syntax.CaseExpression:
        branches = tuple(part for part in parts if isinstance(part, syntax.WhenBranch))
        rest = parts[len(branches) : -1]
        return syntax.CaseExpression(branches, rest[1] if rest else None, _at(word))

    def when(self, word: Token, condition: Any, _then: Token, value: Any) -> syntax.WhenBranch:
        return syntax.WhenBranch(condition, value, _at(word))

    def quantified(self, kind: Any, variable: Token, _in: Token, items: Any, _where: Token, condition: Any) -> Any:
        return syntax.Quantifier(str(kind), _named(variable), items, condition, _at(kind), _at(variable))  # type: ignore[arg-type]  # any or all

    def aggregate(self, function: Any, operand: Any) -> syntax.AggregateCall:
        return syntax.AggregateCall(str(function), operand, False, None, _at(function))  # type: ignore[arg-type]  # the grammar allows these only

    def aggregate_distinct(self, function: Any, _distinct: Token, operand: Any) -> syntax.AggregateCall:
        return syntax.AggregateCall(str(function), operand, True, None, _at(function))  # type: ignore[arg-type]  # count or collect

    def percentile(self, function: Any, operand: Any, fraction: Any) -> syntax.AggregateCall:
        return syntax.AggregateCall("percentile", operand, False, fraction, _at(function))

    def aggregate_by(self, function: Any, operand: Any, _by: Token, order: Any) -> syntax.AggregateCall:
        return syntax.AggregateCall(str(function), operand, False, order, _at(function))  # type: ignore[arg-type]  # first or last

    def blocked(self, kind: Any, clauses: tuple[syntax.Clause, ...]) -> syntax.Block:
        return syntax.Block(str(kind), clauses, _at(kind))  # type: ignore[arg-type]  # the grammar allows these only

    def integer(self, token: Token) -> syntax.Literal:
        return _plain(token)

    def decimal(self, token: Token) -> syntax.Literal:
        return _plain(token)

    def string(self, token: Token) -> syntax.Literal:
        return _plain(token)

    def true(self, token: Token) -> syntax.Literal:
        return syntax.Literal("bool", True, _at(token))

    def false(self, token: Token) -> syntax.Literal:
        return syntax.Literal("bool", False, _at(token))

    def null(self, token: Token) -> syntax.Literal:
        return syntax.Literal("null", None, _at(token))

    def temporal(self, kind: Any, token: Token) -> syntax.Literal:
        return syntax.Literal(str(kind), _unquoted(token), _at(kind))  # type: ignore[arg-type]  # date or datetime
