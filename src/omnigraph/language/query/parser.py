"""Text of `.gq` -> syntax tree. Everything that is not in the grammar is refused here, as rule Q000."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain
from typing import Literal, cast

from omnigraph.errors import QueryError
from omnigraph.language.parsing.cursor import (
    CHARACTER,
    END,
    MAX_DEPTH,
    NAME,
    STRING,
    TYPE_NAME,
    Mistake,
    NestingError,
    Position,
    Token,
)
from omnigraph.language.query import syntax
from omnigraph.language.query.expression_parser import INTEGER, VARIABLE, PatternParser, RefusedQueryError
from omnigraph.language.query.habits import habit

MAX_TERMS = 2_000
"""Of one `and` or `or`."""

_ADVICE = "use `in [..]`, or split the query"
_VARIABLE_BEFORE = re.compile(r"(\$\w+)\s+\Z")
_STATEMENTS = ("create", "delete", "insert", "update", "upsert")


def parse_queries(text: str, file: str | None = None) -> syntax.QueryFile:
    """Parse a whole file. Raises QueryError, rule Q000, with the position."""
    parser = QueryParser(text)
    try:
        return parser.file()
    except Mistake as mistake:
        raise _unexpected(mistake, parser, text, file) from None
    except NestingError as nesting:
        raise refusal("Q000", _NESTED, parser.at(nesting.token), text, file, _ADVICE) from None
    except RefusedQueryError as refused:
        raise refusal("Q000", refused.message, refused.at, text, file, refused.hint) from None


def ends_early(text: str) -> bool:
    """Whether the text is correct so far but incomplete."""
    try:
        QueryParser(text).file()
    except Mistake as mistake:
        return mistake.token.kind == END or text.startswith("/*", mistake.token.offset)
    except (NestingError, RefusedQueryError):
        return False
    return False


def refusal(
    rule: str, message: str, at: Position, text: str, file: str | None = None, hint: str | None = None
) -> QueryError:
    """A QueryError that shows the line of the text it is about."""
    lines = text.split("\n")
    source_line = lines[at.line - 1].rstrip("\r") if 0 < at.line <= len(lines) else ""
    return QueryError(message, rule=rule, line=at.line, column=at.column, source_line=source_line, file=file, hint=hint)


_NESTED = f"nested more than {MAX_DEPTH} levels deep"


def _unexpected(mistake: Mistake, parser: QueryParser, text: str, file: str | None) -> QueryError:
    token = mistake.token
    at = parser.at(token)
    if text.startswith("/*", token.offset):
        return refusal("Q000", "the comment is not closed", at, text, file, "a comment ends with */")
    if token.kind == CHARACTER and token.text == '"':
        return refusal("Q000", "the string is not closed", at, text, file, 'a string ends with "')
    hint = habit(text, token.offset, token.text)
    if hint is None and token.kind == TYPE_NAME and (variable := _VARIABLE_BEFORE.search(text, 0, token.offset)):
        hint = f"write {variable[1]}: {token.text}"
    hint = hint or _slip(mistake) or f"expected {mistake.expectation}"
    if token.kind == END:
        end = parser.at(token._replace(offset=len(text.rstrip())))
        return refusal("Q000", "the text ends too early", end, text, file, hint)
    is_character = token.kind == CHARACTER
    message = f"unexpected character {token.text!r}" if is_character else f"unexpected '{_shorten(token.text)}'"
    return refusal("Q000", message, at, text, file, hint)


def _slip(mistake: Mistake) -> str | None:
    """What to write instead of a comma between clauses or statements, and of a type name with a small first letter."""
    token, expected = mistake.token, mistake.expected
    if token.text == "," and not expected.isdisjoint(("a clause", *_STATEMENTS)):
        return "leave the comma out: clauses and statements follow each other without a sign"
    if token.kind == NAME and TYPE_NAME in expected:
        return f"a type name starts with a capital letter: {token.text[:1].upper()}{token.text[1:]}"
    return None


def _shorten(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 40 and line == text else line[:40] + "…"


def _check_depth(query: syntax.QueryDecl) -> None:
    defaults = [parameter.default for parameter in query.parameters if parameter.default is not None]
    for node, depth in chain.from_iterable(map(syntax.walk, (query.body, *defaults))):
        at = getattr(node, "at", query.at)
        if depth > MAX_DEPTH:
            raise RefusedQueryError(_NESTED, at, _ADVICE)
        if isinstance(node, syntax.Logical) and len(node.operands) > MAX_TERMS:
            raise RefusedQueryError(f"more than {MAX_TERMS:,} conditions in one place", at, _ADVICE)


class ReadParser(PatternParser):
    """Reads

    All clauses of `match` must hold. `return distinct { }` drops equal rows. `limit` and `offset` take a number or a parameter.
    `having` keeps the groups for which its conditions hold.
    `union` puts the rows of several reads together, equal ones once, `union all` as often as they come; they have the same
    columns, and `order`, `limit` and `offset` are those of the whole.

    A stage carries rows on: `match { … } with { $p, count($m) as n } order { n desc } limit 10 match { … } return { … }`. Behind it
    only its entities and its names are known, a name without a sign. It may be a union, and every part of a union behind it goes
    on from it. Only behind a stage may `match` be left out.
    """

    def read(self) -> syntax.ReadBody:
        """read: stage* part ('union' 'all'? part)* order? limit? offset?
        stage: carried ('union' 'all'? carried)* order? limit? offset?
        """
        before: syntax.ReadBody | None = None
        while True:
            body, word = self._united()
            body = replace(body, before=before)
            if word == "return":
                return body
            before = body

    def _united(self) -> tuple[syntax.ReadBody, str]:
        """A stage or the last read, with the word that says which of them it is."""
        first, word = self.part("with", "return")
        others: list[syntax.ReadBody] = []
        keeps_all = False
        while union := self._cursor.accept("union"):
            is_all = self._cursor.accept("all") is not None
            if others and is_all != keeps_all:
                advice = "write two queries, or one of the two throughout"
                raise RefusedQueryError("`union` and `union all` cannot be mixed", self.at(union), advice)
            keeps_all = is_all
            others.append(self.part(word)[0])
        order = self.order() if self._cursor.accept("order") else ()
        limit = self.amount() if self._cursor.accept("limit") else None
        offset = self.amount() if self._cursor.accept("offset") else None
        whole = replace(first, order=order, limit=limit, offset=offset, others=tuple(others), keeps_all=keeps_all)
        return whole, word

    def part(self, *words: str) -> tuple[syntax.ReadBody, str]:
        """part: ('match' block)? 'return' 'distinct'? '{' item+ '}' having?
        carried: ('match' block)? 'with' 'distinct'? '{' item+ '}' having?
        """
        clauses = self.block() if self._cursor.accept("match") else ()
        word = self._cursor.expect(*words).text
        distinct = self._cursor.accept("distinct") is not None
        self._cursor.expect("{")
        items = [self.item()]
        while not self._cursor.accept("}"):
            items.append(self.item())
        having = self.having() if self._cursor.accept("having") else ()
        return syntax.ReadBody(clauses, tuple(items), distinct, having, (), None, None), word

    def item(self) -> syntax.ReturnItem:
        """item: entry ('as' NAME)? ','?"""
        expression = self.entry()
        alias = self._cursor.expect(NAME).text if self._cursor.accept("as") else None
        self._cursor.accept(",")
        return syntax.ReturnItem(expression, alias, expression.at)

    def having(self) -> tuple[syntax.Expr, ...]:
        """having: 'having' '{' (expression ','?)+ '}'"""
        self._cursor.expect("{")
        conditions: list[syntax.Expr] = []
        while not conditions or not self._cursor.accept("}"):
            conditions.append(self.expression())
            self._cursor.accept(",")
        return tuple(conditions)

    def order(self) -> tuple[syntax.OrderItem, ...]:
        """order: 'order' '{' order_key (',' order_key)* ','? '}'"""
        self._cursor.expect("{")
        keys = [self.order_key()]
        while self._cursor.accept(",") and self._cursor.token.text != "}":
            keys.append(self.order_key())
        self._cursor.expect("}")
        return tuple(keys)

    def order_key(self) -> syntax.OrderItem:
        """order_key: expression ('asc' | 'desc')?"""
        expression = self.expression()
        word = self._cursor.accept("asc", "desc")
        direction = None if word is None else cast(Literal["asc", "desc"], word.text)
        return syntax.OrderItem(expression, direction, expression.at)

    def amount(self) -> syntax.Literal | syntax.Variable:
        """limit: 'limit' (INTEGER | VARIABLE)
        offset: 'offset' (INTEGER | VARIABLE)
        """
        token = self._cursor.expect(INTEGER, VARIABLE)
        if token.kind == VARIABLE:
            return syntax.Variable(token.text[1:], self.at(token))
        return syntax.Literal("integer", self.integer(token), self.at(token))


class MutationParser(ReadParser):
    """Mutations

    Statements take effect in order, see each other, and land as one commit. In `where`, and in what `set` gives, a bare name is a
    property of the type, as it is before the statement; in `where` an edge also has `from`, `to` and `id`.
    `create` refuses an id that exists; `upsert` replaces the whole entity with that id; `insert` is an `upsert` if the type has a
    key, and a `create` otherwise. With a `match`, each of them is done once for each row of the pattern, and its values may use
    the pattern's variables.
    """

    def mutation(self) -> syntax.MutationBody:
        """mutation: (insert | update | delete)+"""
        statements: list[syntax.StatementSyntax] = []
        while word := self._cursor.accept(*_STATEMENTS):
            type_ = self._cursor.expect(TYPE_NAME)
            if word.text == "delete":
                statements.append(self.delete(word, type_))
            elif word.text == "update":
                statements.append(self.update(word, type_))
            else:
                statements.append(self.insert(word, type_))
        return syntax.MutationBody(tuple(statements))

    def insert(self, word: Token, type_: Token) -> syntax.InsertStatement:
        """insert: ('insert' | 'create' | 'upsert') TYPE_NAME '{' change* '}' ('match' block)?"""
        changes = self.changes()
        clauses = self.block() if self._cursor.accept("match") else ()
        verb = cast(syntax.InsertVerb, word.text)
        return syntax.InsertStatement(verb, type_.text, changes, clauses, self.at(word), self.at(type_))

    def update(self, word: Token, type_: Token) -> syntax.UpdateStatement:
        """update: 'update' TYPE_NAME 'set' '{' change* '}' 'where' expression"""
        self._cursor.expect("set")
        changes = self.changes()
        self._cursor.expect("where")
        return syntax.UpdateStatement(type_.text, changes, self.expression(), self.at(word), self.at(type_))

    def delete(self, word: Token, type_: Token) -> syntax.DeleteStatement:
        """delete: 'delete' TYPE_NAME 'where' expression"""
        self._cursor.expect("where")
        return syntax.DeleteStatement(type_.text, self.expression(), self.at(word), self.at(type_))

    def changes(self) -> tuple[syntax.Assignment, ...]:
        """change: NAME ':' sum ','?"""
        self._cursor.expect("{")
        changes: list[syntax.Assignment] = []
        while not self._cursor.accept("}"):
            name = self._cursor.expect(NAME)
            self._cursor.expect(":")
            changes.append(syntax.Assignment(name.text, self.nested_sum(), self.at(name)))
            self._cursor.accept(",")
        return tuple(changes)


class QueryParser(MutationParser):
    """Queries (`.gq`)

    Keywords are soft: outside their own place they are ordinary names, so a property may be called `order` or `limit`.
    Only `and`, `or`, `not`, `is`, `in`, `null`, `true` and `false` cannot name an edge or stand as a bare name where an operator or
    a value may stand; after `$p.` and before `:` even they can. A variable starts with `$`; `$_` is the anonymous variable, another
    one each time it is written.

    A file holds any number of queries. A query is either one read or a list of mutation statements. A parameter with a default
    may be left out of a call: `$age: I32? = null`.
    """

    def file(self) -> syntax.QueryFile:
        """file: query*"""
        queries: list[syntax.QueryDecl] = []
        while self._cursor.accept("query"):
            queries.append(self.query())
        if self._cursor.token.kind != END:
            raise self._cursor.mistake()
        for query in queries:
            _check_depth(query)
        return syntax.QueryFile(tuple(queries))

    def query(self) -> syntax.QueryDecl:
        """query: 'query' NAME '(' parameters ')' annotation* '{' (read | mutation) '}'"""
        name = self._cursor.expect(NAME)
        parameters = self.parameters()
        texts = self.annotations()
        self._cursor.expect("{")
        body: syntax.ReadBody | syntax.MutationBody
        if self._cursor.at("match") or self._cursor.token.text in ("with", "return"):
            body = self.read()
        elif self._cursor.at(*_STATEMENTS):
            body = self.mutation()
        else:
            raise self._cursor.mistake()
        self._cursor.expect("}")
        description, instruction = texts.get("@description"), texts.get("@instruction")
        return syntax.QueryDecl(name.text, parameters, description, instruction, body, self.at(name))

    def annotations(self) -> dict[str, str]:
        """annotation: ('@description' | '@instruction') '(' STRING ')'"""
        texts: dict[str, str] = {}
        while kind := self._cursor.accept("@description", "@instruction"):
            self._cursor.expect("(")
            text = self._cursor.expect(STRING)
            if kind.text in texts:
                raise RefusedQueryError(f"{kind.text} is given twice", self.at(text))
            texts[kind.text] = self.unquoted(text)
            self._cursor.expect(")")
        return texts

    def parameters(self) -> tuple[syntax.ParameterDecl, ...]:
        """parameters: (parameter (',' parameter)* ','?)?"""
        parameters: list[syntax.ParameterDecl] = []
        self._cursor.expect("(")
        while not self._cursor.accept(")"):
            parameters.append(self.parameter())
            if not self._cursor.accept(","):
                self._cursor.expect(")")
                break
        return tuple(parameters)

    def parameter(self) -> syntax.ParameterDecl:
        """parameter: VARIABLE ':' type ('=' (literal | '-' number | list))?"""
        name = self._cursor.expect(VARIABLE)
        self._cursor.expect(":")
        type_ = self.type()
        default = self.literal() if self._cursor.accept("=") else None
        return syntax.ParameterDecl(name.text[1:], type_, default, self.at(name))

    def type(self) -> syntax.TypeExpr:
        """type: (TYPE_NAME | '[' TYPE_NAME ']' | TYPE_NAME '(' INTEGER ')') '?'?"""
        is_list, dimension = self._cursor.accept("[") is not None, None
        name = self._cursor.expect(TYPE_NAME)
        if is_list:
            self._cursor.expect("]")
        elif self._cursor.accept("("):
            dimension = self.integer(self._cursor.expect(INTEGER))
            self._cursor.expect(")")
        nullable = self._cursor.accept("?") is not None
        return syntax.TypeExpr(name.text, is_list, dimension, nullable, self.at(name))
