"""Expressions and patterns of `.gq`: tokens -> syntax tree. The docstring of a method is its rule in docs/reference/grammar.md."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Literal, cast, get_args

from omnigraph.language.parsing.cursor import NAME, SIGN, STRING, TYPE_NAME, Cursor, Position, Token, Tokenizer, unquote
from omnigraph.language.query import syntax
from omnigraph.language.query.syntax import KEYWORDS, RESERVED

VARIABLE = "a variable"
INTEGER = "a number"
FLOAT = "a decimal number"
LITERALS = "a list"
ANNOTATION = "an annotation"
EDGE = "an edge"
CLAUSE = "a clause"
EXPRESSION = "an expression"
OPERATOR = "an operator"

_FLOAT = r"[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
_STRING = r'"(?:[^"\\]|\\[\s\S])*+"'
_PLAIN = rf"(?:-?(?:{_FLOAT}|[0-9]+)|{_STRING})"
TOKENS = {
    NAME: r"[a-z_][A-Za-z0-9_]*",
    VARIABLE: r"\$[a-z_][A-Za-z0-9_]*",
    TYPE_NAME: r"[A-Z][A-Za-z0-9_]*",
    FLOAT: _FLOAT,
    INTEGER: r"[0-9]+",
    STRING: _STRING,
    # A list of plain numbers or strings is also one token, so that thousands of them are read at once.
    LITERALS: rf"\[[ \t\r\n]*{_PLAIN}(?:[ \t\r\n]*,[ \t\r\n]*{_PLAIN})*+[ \t\r\n]*,?[ \t\r\n]*\]",
    ANNOTATION: r"@[a-z_]+",
    SIGN: r"!=|<=|>=|[{}()\[\]:,.?=<>+*%|-]|/(?!\*)",
}
_ITEM = re.compile(_PLAIN)
_WORD = rf"[ \t]*{TOKENS[NAME]}[ \t]*"
_UNDIRECTED = re.compile(rf"<{_WORD}(?:\|{_WORD})*+>")
DURATION = re.compile(r"[0-9]+[ \t]+(?:second|minute|hour|day|week|month|year)s?\b(?!\s*:)")

_COMPARISONS = frozenset(get_args(syntax.ComparisonOp))
_CALLS = frozenset(get_args(syntax.CallName))
_AGGREGATES = frozenset(get_args(syntax.AggregateName))
_AFTER_OPERAND = ("and", "or", "is", "in")
_SOFT_KEYWORDS = frozenset(KEYWORDS).difference(_AFTER_OPERAND)
_OPERAND_KINDS = frozenset([VARIABLE, FLOAT, INTEGER, STRING, LITERALS])
_OPERAND_SIGNS = frozenset("([{-")


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer(TOKENS)


class RefusedQueryError(Exception):
    """The text follows the grammar, but says something that no tree can hold."""

    def __init__(self, message: str, at: Position, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.hint = hint


class ExpressionParser:
    """Expressions

    From the loosest to the tightest: `or`, `and`, `not`, one comparison, `+ -`, `* / %`, unary minus. Logic is
    three-valued: a comparison with null is unknown, and only what is true passes a filter.

    Functions of values are ordinary names before parentheses; their list is in the guide to queries. `case` gives the value of
    the first condition that holds. A record holds several values under names, as a column, in an aggregate or in
    `case`: `{city: $c.name, since: $e.since}`. `any` and `all` ask about the items of a list. `30 days` is added to a date or an instant.

    Text search (`search`, `match_text`, `all_words`, `phrase`, `fuzzy`) is a condition; `nearest`, `bm25` and `rrf` rank, in
    `order` and as columns.

    Correlated blocks speak about at least one variable of the pattern around them; what they bind stays inside.
    """

    def __init__(self, text: str) -> None:
        self._cursor = Cursor(text, tokenizer())

    def expression(self, first: syntax.Expr | None = None, rule: str = EXPRESSION) -> syntax.Expr:
        """expression: conjunction ('or' conjunction)*"""
        self._cursor.enter()
        operands = [self.conjunction(first, rule)]
        while self._cursor.token.text == "or":
            self._cursor.advance()
            operands.append(self.conjunction())
        if self._cursor.token.text in _AFTER_OPERAND:
            raise self._cursor.mistake("and", "or")  # elsewhere it is a name
        self._cursor.leave()
        return operands[0] if len(operands) == 1 else syntax.Logical("or", tuple(operands), operands[0].at)

    def conjunction(self, first: syntax.Expr | None = None, rule: str = EXPRESSION) -> syntax.Expr:
        """conjunction: negation ('and' negation)*"""
        operands = [self.negation(first, rule)]
        while self._cursor.token.text == "and":
            self._cursor.advance()
            operands.append(self.negation())
        return operands[0] if len(operands) == 1 else syntax.Logical("and", tuple(operands), operands[0].at)

    def negation(self, first: syntax.Expr | None = None, rule: str = EXPRESSION) -> syntax.Expr:
        """negation: 'not'* comparison"""
        words: list[Token] = []
        while first is None and self._cursor.token.text == "not":
            word = self._cursor.advance()
            if self._cursor.token.text == "{":
                first = self.block_of(word)
            else:
                words.append(word)
        condition = self.comparison(first, EXPRESSION if words else rule)
        for word in reversed(words):
            condition = syntax.Not(condition, self.at(word))
        return condition

    def comparison(self, first: syntax.Expr | None = None, rule: str = EXPRESSION) -> syntax.Expr:
        """comparison: sum (('=' | '!=' | '<' | '<=' | '>' | '>=' | 'contains' | 'starts_with' | 'ends_with' | 'in') sum)?
        comparison: sum 'is' 'not'? 'null'
        """
        left = self.sum(first, rule)
        if self._cursor.token.text in _COMPARISONS:
            sign = self._cursor.advance()
            return syntax.Comparison(cast(syntax.ComparisonOp, sign.text), left, self.sum(), self.at(sign))
        if self._cursor.token.text == "is":
            self._cursor.advance()
            negated = self._cursor.accept("not") is not None
            self._cursor.expect("null")
            return syntax.NullTest(left, negated, left.at)
        return left

    def sum(self, first: syntax.Expr | None = None, rule: str = EXPRESSION) -> syntax.Expr:
        """sum: product (('+' | '-') product)*
        product: unary (('*' | '/' | '%') unary)*
        """
        left = self.unary(first, rule)
        terms: list[tuple[syntax.Expr, Token]] = []
        while True:
            sign = self._cursor.token
            if sign.text in ("*", "/", "%"):
                self._cursor.advance()
                left = self._arithmetic(left, sign, self.unary())
                continue
            if terms:
                before, plus = terms.pop()
                left = self._arithmetic(before, plus, left)
            if sign.text not in ("+", "-"):
                self._cursor.at(OPERATOR)
                return left
            terms.append((left, self._cursor.advance()))
            left = self.unary()

    def _arithmetic(self, left: syntax.Expr, sign: Token, right: syntax.Expr) -> syntax.Expr:
        return syntax.Arithmetic(cast(syntax.ArithmeticOp, sign.text), left, right, self.at(sign))

    def unary(self, first: syntax.Expr | None = None, rule: str = EXPRESSION) -> syntax.Expr:
        """unary: '-'* primary"""
        if first is not None:
            return first
        signs: list[Token] = []
        while self._cursor.token.text == "-":
            signs.append(self._cursor.advance())
        operand = self.primary(EXPRESSION if signs else rule)
        for sign in reversed(signs):
            operand = self._minus(sign, operand)
        return operand

    def _minus(self, sign: Token, operand: syntax.Expr) -> syntax.Expr:
        # A sign before a plain number belongs to the number, so that the smallest 64-bit integer can be written.
        if isinstance(operand, syntax.Literal) and operand.kind in ("integer", "float"):
            number = cast(int | float, operand.value)
            if not math.copysign(1, number) < 0:
                return syntax.Literal(operand.kind, -number, self.at(sign))
        return syntax.Minus(operand, self.at(sign))

    def primary(self, rule: str = EXPRESSION) -> syntax.Expr:
        """primary: literal | list | variable | duration | '(' expression ')'
        primary: call | now | search | aggregate | case | quantified | block_of | word
        """
        token = self._cursor.token
        if token.kind == NAME:
            return self.word()
        if token.kind == VARIABLE:
            return self.variable(self._cursor.advance())
        if token.kind == INTEGER and self._cursor.reread("a duration", DURATION):
            return self.duration()
        if token.kind in (INTEGER, FLOAT, STRING):
            return self._plain(self._cursor.advance())
        if token.kind == LITERALS or token.text == "[":
            return self.list()
        if token.text != "(":
            raise self._cursor.mistake(rule)
        self._cursor.advance()
        inner = self.expression()
        self._cursor.expect(")")
        return inner

    def variable(self, token: Token) -> syntax.Expr:
        """variable: VARIABLE ('.' NAME)?"""
        if not self._cursor.accept("."):
            return syntax.Variable(token.text[1:], self.at(token))
        name = self._cursor.expect(NAME)
        return syntax.PropertyAccess(token.text[1:], name.text, self.at(token), self.at(name))

    def duration(self) -> syntax.Duration:
        """duration: DURATION"""
        token = self._cursor.advance()
        count, unit = token.text.split()
        return syntax.Duration(self.integer(token._replace(text=count)), unit.removesuffix("s"), self.at(token))

    def list(self) -> syntax.ListLiteral:
        """list: '[' (expression (',' expression)* ','?)? ']'"""
        token = self._cursor.advance()
        if token.kind == LITERALS:
            items = (Token(LITERALS, item[0], token.offset + item.start()) for item in _ITEM.finditer(token.text))
            return syntax.ListLiteral(tuple(map(self._plain, items)), self.at(token))
        return syntax.ListLiteral(self.items("]"), self.at(token))

    def entry(self, first: syntax.Expr | None = None) -> syntax.Expr:
        """entry: expression | record"""
        is_record = first is None and self._cursor.token.text == "{"
        return self.record() if is_record else self.expression(first)

    def record(self) -> syntax.RecordLiteral:
        """record: '{' NAME ':' expression (',' NAME ':' expression)* ','? '}'"""
        opening = self._cursor.expect("{")
        fields: list[syntax.Assignment] = []
        while not fields or not self._cursor.accept("}"):
            name = self._cursor.expect(NAME)
            self._cursor.expect(":")
            fields.append(syntax.Assignment(name.text, self.expression(), self.at(name)))
            if not self._cursor.accept(","):
                self._cursor.expect("}")
                break
        return syntax.RecordLiteral(tuple(fields), self.at(opening))

    def items(self, close: str) -> tuple[syntax.Expr, ...]:
        """Expressions between commas, up to a bracket. A comma may stand after the last."""
        items: list[syntax.Expr] = []
        while not self._cursor.accept(close):
            items.append(self.expression())
            if not self._cursor.accept(","):
                self._cursor.expect(close)
                break
        return tuple(items)

    def word(self) -> syntax.Expr:
        """word: NAME
        call: NAME '(' (expression (',' expression)* ','?)? ')'
        """
        word = self._cursor.advance()
        text, at = word.text, self.at(word)
        if text in ("true", "false"):
            return syntax.Literal("bool", text == "true", at)
        if text == "null":
            return syntax.Literal("null", None, at)
        if text == "not":
            return self.block_of(word)
        if text == "case" and self._cursor.token.text == "when":
            return self.case(at)
        if text in ("exists", "count") and self._cursor.token.text == "{":
            return self.block_of(word)
        bracketed = self._bracketed(word) if self._cursor.token.text == "(" else None
        return bracketed or syntax.Word(text, at)

    def _bracketed(self, word: Token) -> syntax.Expr | None:
        """A word and its parentheses, or None if what follows the word does not belong to it."""
        if word.text in ("any", "all"):
            return self.quantified(word)
        if word.text in _AGGREGATES:
            return self.aggregate(word)
        if word.text in _CALLS:
            return self.search(word)
        if word.text in ("date", "datetime", "now"):
            return self.temporal(word)
        if word.text in _SOFT_KEYWORDS:
            return None
        self._cursor.advance()
        return syntax.FunctionCall(word.text, self.items(")"), self.at(word))

    def literal(self) -> syntax.Expr:
        """literal: number | STRING | 'true' | 'false' | 'null' | ('date' | 'datetime') '(' STRING ')'
        number: INTEGER | FLOAT
        """
        token = self._cursor.token
        if token.text == "-":
            sign = self._cursor.advance()
            return self._minus(sign, self._plain(self._cursor.expect(INTEGER, FLOAT)))
        if token.kind == LITERALS or token.text == "[":
            return self.list()
        if token.kind in (INTEGER, FLOAT, STRING):
            return self._plain(self._cursor.advance())
        if token.text in ("true", "false", "null"):
            return self.word()
        if token.text in ("date", "datetime"):
            return self.temporal(self._cursor.advance())
        raise self._cursor.mistake("a value")

    def temporal(self, word: Token) -> syntax.Expr:
        """now: 'now' '(' ')'"""
        self._cursor.expect("(")
        if word.text == "now":
            self._cursor.expect(")")
            return syntax.NowCall(self.at(word))
        text = self.unquoted(self._cursor.expect(STRING))
        self._cursor.expect(")")
        return syntax.Literal(cast(syntax.LiteralKind, word.text), text, self.at(word))

    def search(self, word: Token) -> syntax.Call:
        """search: ('search' | 'all_words' | 'phrase' | 'fuzzy' | 'match_text' | 'nearest' | 'bm25' | 'rrf')
        '(' expression (',' expression)* ')'
        """
        self._cursor.expect("(")
        arguments = [self.expression()]
        while self._cursor.accept(","):
            arguments.append(self.expression())
        self._cursor.expect(")")
        return syntax.Call(cast(syntax.CallName, word.text), tuple(arguments), self.at(word))

    def aggregate(self, word: Token) -> syntax.AggregateCall:
        """aggregate: ('count' | 'sum' | 'avg' | 'min' | 'max' | 'collect' | 'median') '(' entry ')'
        aggregate: ('count' | 'sum' | 'avg' | 'collect') '(' 'distinct' entry ')'
        aggregate: 'percentile' '(' entry ',' expression ')'
        aggregate: ('first' | 'last') '(' entry 'by' expression ')'
        """
        self._cursor.expect("(")
        first, distinct = None, False
        if word.text in ("count", "sum", "avg", "collect") and (token := self._cursor.accept("distinct")):
            distinct = self._starts_operand()
            first = None if distinct else syntax.Word("distinct", self.at(token))
        operand = self.entry(first)
        argument = None
        if word.text in ("percentile", "first", "last"):
            self._cursor.expect("," if word.text == "percentile" else "by")
            argument = self.expression()
        self._cursor.expect(")")
        return syntax.AggregateCall(cast(syntax.AggregateName, word.text), operand, distinct, argument, self.at(word))

    def _starts_operand(self) -> bool:
        kind, text, _ = self._cursor.token
        return kind in _OPERAND_KINDS or text in _OPERAND_SIGNS or (kind == NAME and text not in _AFTER_OPERAND)

    def case(self, at: Position) -> syntax.CaseExpression:
        """case: 'case' ('when' expression 'then' entry)+ ('else' entry)? 'end'"""
        branches: list[syntax.WhenBranch] = []
        while word := self._cursor.accept("when"):
            condition = self.expression()
            self._cursor.expect("then")
            branches.append(syntax.WhenBranch(condition, self.entry(), self.at(word)))
        otherwise = self.entry() if self._cursor.accept("else") else None
        self._cursor.expect("end")
        return syntax.CaseExpression(tuple(branches), otherwise, at)

    def quantified(self, word: Token) -> syntax.Quantifier:
        """quantified: ('any' | 'all') '(' VARIABLE 'in' sum 'where' expression ')'"""
        self._cursor.expect("(")
        variable = self._cursor.expect(VARIABLE)
        self._cursor.expect("in")
        items = self.nested_sum()
        self._cursor.expect("where")
        condition = self.expression()
        self._cursor.expect(")")
        kind = cast(Literal["any", "all"], word.text)
        return syntax.Quantifier(kind, variable.text[1:], items, condition, self.at(word), self.at(variable))

    def nested_sum(self) -> syntax.Expr:
        """A sum that is no part of an expression around it."""
        self._cursor.enter()
        operand = self.sum()
        self._cursor.leave()
        return operand

    def block_of(self, word: Token) -> syntax.Block:
        """block_of: ('not' | 'exists' | 'count') block"""
        return syntax.Block(cast(syntax.BlockKind, word.text), self.block(), self.at(word))

    def block(self) -> tuple[syntax.Clause, ...]:
        raise NotImplementedError

    # ------------------------------------------------------------ tokens as values

    def at(self, token: Token) -> Position:
        return self._cursor.position(token)

    def _plain(self, token: Token) -> syntax.Literal:
        """A number or a string."""
        if token.text.startswith('"'):
            return syntax.Literal("string", self.unquoted(token), self.at(token))
        if token.text.lstrip("-").isdecimal():
            return syntax.Literal("integer", self.integer(token), self.at(token))
        number = float(token.text)
        if math.isinf(number):
            raise RefusedQueryError("the number is too large", self.at(token))
        return syntax.Literal("float", number, self.at(token))

    def integer(self, token: Token) -> int:
        if len(token.text) > 25:
            raise RefusedQueryError("the number has too many digits", self.at(token))
        return int(token.text)

    def unquoted(self, token: Token) -> str:
        try:
            return unquote(token.text)
        except KeyError as unknown:
            message = f"unknown escape '\\{unknown.args[0]}' in a string"
            raise RefusedQueryError(message, self.at(token), r"use \" \\ \n \r or \t") from None


class PatternParser(ExpressionParser):
    """Clauses of a pattern

    A binding names an entity of a node type or of an interface; `{ property: value }` is equality, or membership for a list
    property. A traversal follows an edge, whose word is found whatever its case; its direction follows from the types of its
    ends. `a|b` follows edges of either type, which may join different node types, `<edge>` either way, `{m,n}` takes m to n hops
    (m may be 0: the end is then the start itself), `{m,}` any number from m on, and `$e:edge` names the edge itself. A bare `$x`
    before a word starts a traversal and a minus sign continues the condition before it, so a condition that is just a parameter, or
    that starts with a minus sign, needs parentheses.

    With a condition, `$e` of several hops is each edge of the walk: `$a $e:edge{1,5} $b where $e.kind = "x"`. `via $n` names the node
    from which each edge but the first starts, and `after $f` the edge before it: `after $f where $e.time > $f.time`.

    `optional { … }` adds what it finds, or nulls where it finds nothing. `unnest list as $item` gives a row for each item.
    `shortest path` binds one path for each pair of ends: of fewest hops or, with `by`, of the smallest sum of a property of its
    edges. `shortest paths` binds all of those of fewest hops. `$path.nodes`, `$path.edges`, `$path.length` and `$path.cost` are the
    values of a path.
    """

    def block(self) -> tuple[syntax.Clause, ...]:
        """block: '{' clause+ '}'"""
        self._cursor.expect("{")
        self._cursor.enter()
        clauses = [self.clause()]
        while not self._cursor.accept("}"):
            clauses.append(self.clause())
        self._cursor.leave()
        return tuple(clauses)

    def clause(self) -> syntax.Clause:
        """clause: binding | traversal | optional | unnest | path | expression"""
        token = self._cursor.token
        condition: syntax.Expr | None = None
        if token.kind == VARIABLE:
            self._cursor.advance()
            if self._cursor.accept(":"):
                return self.binding(token)
            if self._cursor.token.kind == VARIABLE or self._at_edge():
                return self.traversal(token)
            self._cursor.at(VARIABLE, EDGE)
            condition = self.variable(token)
        elif token.text == "optional":
            self._cursor.advance()
            if self._cursor.at("{"):
                return self.optional(token)
            condition = syntax.Word(token.text, self.at(token))
        elif token.text == "unnest":
            self._cursor.advance()
            if self._starts_operand():
                return self.unnest(token)
            condition = syntax.Word(token.text, self.at(token))
        elif token.text == "shortest":
            self._cursor.advance()
            if (number := self._cursor.accept("path", "paths")) is not None:
                return self.path(token, is_every=number.text == "paths")
            condition = syntax.Word(token.text, self.at(token))
        condition = self.expression(condition, CLAUSE)
        return syntax.FilterClause(condition, condition.at)

    def binding(self, variable: Token) -> syntax.BindingClause:
        """binding: VARIABLE ':' TYPE_NAME ('{' assignment* '}')?"""
        type_ = self._cursor.expect(TYPE_NAME)
        properties: list[syntax.Assignment] = []
        if self._cursor.accept("{"):
            while not self._cursor.accept("}"):
                properties.append(self.assignment())
        name, at, type_at = variable.text[1:], self.at(variable), self.at(type_)
        return syntax.BindingClause(name, type_.text, tuple(properties), at, type_at)

    def assignment(self) -> syntax.Assignment:
        """assignment: NAME ':' value ','?
        value: literal | '-' number | VARIABLE | now | list
        """
        name = self._cursor.expect(NAME)
        self._cursor.expect(":")
        value: syntax.Expr
        if token := self._cursor.accept(VARIABLE):
            value = syntax.Variable(token.text[1:], self.at(token))
        elif self._cursor.token.text == "now":
            value = self.temporal(self._cursor.advance())
        else:
            value = self.literal()
        self._cursor.accept(",")
        return syntax.Assignment(name.text, value, self.at(name))

    def _at_edge(self) -> bool:
        kind, text, _ = self._cursor.token
        if kind == NAME:
            return text not in RESERVED
        return text == "<" and self._cursor.reread(EDGE, _UNDIRECTED)

    def edge(self) -> list[Token]:
        """edge: NAME ('|' NAME)* | '<' NAME ('|' NAME)* '>'"""
        if self._cursor.token.text == "<":
            self._cursor.reread(EDGE, _UNDIRECTED)
        first = self._cursor.expect(NAME, EDGE)
        if first.kind == EDGE:
            words = re.finditer(TOKENS[NAME], first.text)
            return [Token(EDGE, word[0], first.offset + word.start() * (place > 0)) for place, word in enumerate(words)]
        edges = [first]
        while self._cursor.accept("|"):
            edges.append(self._cursor.expect(NAME))
        return edges

    def traversal(self, source: Token) -> syntax.TraversalClause:
        """traversal: VARIABLE (VARIABLE ':')? edge hops? VARIABLE
        traversal: VARIABLE VARIABLE ':' edge hops VARIABLE per_hop
        """
        variable = self._cursor.accept(VARIABLE)
        if variable is not None:
            self._cursor.expect(":")
        edges, hops = self.edge(), self.hops()
        target = self._cursor.expect(VARIABLE)
        per_hop = None if variable is None else self.per_hop(hops is not None)
        return self._traversal(source, variable, edges, hops, target, per_hop)

    def per_hop(self, is_walk: bool) -> syntax.EachHop | None:
        """per_hop: ('via' VARIABLE)? ('after' VARIABLE)? 'where' expression"""
        if not self._cursor.at(*(("via", "after") if is_walk else ()), "where"):
            return None
        node = self._cursor.expect(VARIABLE).text[1:] if self._cursor.accept("via") else None
        before = self._cursor.expect(VARIABLE).text[1:] if self._cursor.accept("after") else None
        word = self._cursor.expect("where")
        return syntax.EachHop(node, before, self.expression(), self.at(word))

    def _traversal(
        self,
        source: Token,
        variable: Token | None,
        edges: list[Token],
        hops: syntax.Hops | None,
        target: Token,
        per_hop: syntax.EachHop | None,
    ) -> syntax.TraversalClause:
        edge, *others = edges
        return syntax.TraversalClause(
            source=source.text[1:],
            edge=edge.text,
            target=target.text[1:],
            undirected=edge.kind == EDGE,
            edge_variable=None if variable is None else variable.text[1:],
            hops=hops,
            at=self.at(source),
            edge_at=self.at(edge),
            target_at=self.at(target),
            edge_variable_at=self.at(variable or edge),
            per_hop=per_hop,
            others=tuple(syntax.Word(other.text, self.at(other)) for other in others),
        )

    def hops(self) -> syntax.Hops | None:
        """hops: '{' INTEGER ',' INTEGER? '}'"""
        if not self._cursor.accept("{"):
            return None
        minimum = self._cursor.expect(INTEGER)
        self._cursor.expect(",")
        maximum = self._cursor.accept(INTEGER)
        self._cursor.expect("}")
        most = None if maximum is None else self.integer(maximum)
        return syntax.Hops(self.integer(minimum), most, self.at(minimum))

    def optional(self, word: Token) -> syntax.OptionalClause:
        """optional: 'optional' block"""
        clauses = self.block()
        if self._cursor.token.text in _AFTER_OPERAND:
            raise self._cursor.mistake(CLAUSE, "}")
        return syntax.OptionalClause(clauses, self.at(word))

    def unnest(self, word: Token) -> syntax.UnnestClause:
        """unnest: 'unnest' sum 'as' VARIABLE"""
        items = self.nested_sum()
        self._cursor.expect("as")
        variable = self._cursor.expect(VARIABLE)
        return syntax.UnnestClause(items, variable.text[1:], self.at(word), self.at(variable))

    def path(self, word: Token, *, is_every: bool) -> syntax.PathClause:
        """path: 'shortest' ('path' | 'paths') VARIABLE? 'from' VARIABLE 'to' VARIABLE along
        along: 'along' edge hops? ('by' NAME)?
        along: 'along' VARIABLE ':' edge hops? ('by' NAME)? per_hop?
        """
        variable = self._cursor.accept(VARIABLE)
        self._cursor.expect("from")
        source = self._cursor.expect(VARIABLE)
        self._cursor.expect("to")
        target = self._cursor.expect(VARIABLE)
        self._cursor.expect("along")
        followed = self._cursor.accept(VARIABLE)
        if followed is not None:
            self._cursor.expect(":")
        edges, hops = self.edge(), self.hops()
        weight = self._cursor.expect(NAME) if self._cursor.accept("by") else None
        per_hop = None if followed is None else self.per_hop(is_walk=True)
        return syntax.PathClause(
            None if variable is None else variable.text[1:],
            self._traversal(source, followed, edges, hops, target, per_hop),
            None if weight is None else weight.text,
            is_every,
            at=self.at(word),
            variable_at=self.at(variable or word),
            weight_at=self.at(weight or word),
        )
