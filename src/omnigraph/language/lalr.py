"""An LALR parser that runs the tables of a compiled grammar, without the compiler.

Compiling a grammar takes a quarter of a second, and loading the compiler's own cache 65 ms: more than the rest of a short read.
So the tables are cached in a simpler form, which loads in 2 ms. A text with a mistake is given to the compiler's parser, which
says what was expected.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import re
import sys
import tempfile
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from omnigraph.user_cache import is_own_file, user_cache

if TYPE_CHECKING:
    from pathlib import Path

    from lark import Lark

FORMAT = 1
END = "$END"
_WORD = re.compile(r"\w+")
_KEYWORD = re.compile(r"(\w+)\\b")


class NoParseError(Exception):
    """The text does not match the grammar."""


class Token(str):
    """A token of the text, with its kind and its position."""

    __slots__ = ("column", "line", "type")
    type: str
    line: int
    column: int

    def __new__(cls, type: str, text: str, line: int, column: int) -> Token:
        token = super().__new__(cls, text)
        token.type, token.line, token.column = type, line, column
        return token


class ParserTables(NamedTuple):
    """A compiled grammar, in plain values."""

    actions: list[dict[str, int]]
    """The next state for each state and symbol, or -1 - n if rule n is complete."""
    rules: list[tuple[str, int, str, list[tuple[int, bool]], bool]]
    """Symbol, length, name of the builder's method, the children that are kept and whether each of them is itself a list of
    children, and whether a single child replaces the whole."""
    terminals: list[tuple[str, str]]
    """Names and patterns, in the order in which they are tried."""
    keywords: dict[str, str]
    """The terminals that are single words, by word. They take precedence over names."""
    ignored: list[str]
    start: int
    end: int

    @classmethod
    def of(cls, lark: Lark) -> ParserTables:
        """The tables of a Lark parser that has neither placeholders nor rule priorities."""
        from lark.parsers.lalr_analysis import Shift

        table = lark.parser.parser._parse_table
        rules = list(
            dict.fromkeys(arg for row in table.states.values() for action, arg in row.values() if action is not Shift)
        )
        numbers = {rule: number for number, rule in enumerate(rules)}
        places = {state: place for place, state in enumerate(table.states)}
        actions = [
            {name: places[arg] if action is Shift else -1 - numbers[arg] for name, (action, arg) in row.items()}
            for row in table.states.values()
        ]
        words = {known.name: _KEYWORD.fullmatch(known.pattern.value) for known in lark.terminals}
        ordered = sorted(
            lark.terminals,
            key=lambda known: (-known.priority, -known.pattern.max_width, -len(known.pattern.value), known.name),
        )
        ((start, end),) = [(table.start_states[name], table.end_states[name]) for name in table.start_states]
        return cls(
            actions,
            [_rule(rule) for rule in rules],
            [(known.name, known.pattern.to_regexp()) for known in ordered if words[known.name] is None],
            {word[1]: name for name, word in words.items() if word is not None},
            list(lark.lexer_conf.ignore),
            places[start],
            places[end],
        )


def _rule(rule: Any) -> tuple[str, int, str, list[tuple[int, bool]], bool]:
    kept = [
        (place, not symbol.is_term and symbol.name.startswith("_"))
        for place, symbol in enumerate(rule.expansion)
        if rule.options.keep_all_tokens or not (symbol.is_term and symbol.filter_out)
    ]
    is_transparent = bool(rule.options.expand1) and not rule.alias
    return rule.origin.name, len(rule.expansion), rule.alias or rule.origin.name, kept, is_transparent


class Parser:
    """Thread-safe, if the builder is. For each rule, the builder's method of the same name is called with the values of its
    children; a rule without such a method gives the list of its children."""

    def __init__(self, tables: ParserTables, builder: object) -> None:
        self._tables = tables
        self._builders: list[Callable[..., Any] | None] = [getattr(builder, rule[2], None) for rule in tables.rules]
        self._patterns = [(name, _Pattern(pattern)) for name, pattern in tables.terminals]
        self._candidates: dict[int, list[tuple[str, _Pattern]]] = {}

    def parse(self, text: str) -> Any:
        """What the builder makes of a text. Raises NoParseError, and whatever the builder raises."""
        actions, end_state = self._tables.actions, self._tables.end
        states, values = [self._tables.start], list[Any]()
        position, line, line_start = 0, 1, 0
        while True:
            kind, end = self._next(text, position, states[-1])
            if kind in self._tables.ignored:
                token = None
            else:
                token = Token(kind, text[position:end], line, position - line_start + 1)
                while (action := actions[states[-1]].get(kind)) is not None and action < 0:
                    self._reduce(-1 - action, states, values)
                    if kind == END and states[-1] == end_state:
                        return values[-1]
                if action is None:
                    raise NoParseError
                states.append(action)
                values.append(token)
            if newlines := text.count("\n", position, end):
                line, line_start = line + newlines, text.rindex("\n", position, end) + 1
            position = end

    def _reduce(self, number: int, states: list[int], values: list[Any]) -> None:
        symbol, length, _, kept, is_transparent = self._tables.rules[number]
        first = len(values) - length
        children: list[Any] = []
        for place, is_list in kept:
            value = values[first + place]
            if not is_list:
                children.append(value)
            elif children:
                children += value
            else:  # not shared with anything, so a long list is not copied for each of its members
                children = value
        del values[first:], states[first + 1 :]
        builder = self._builders[number]
        if is_transparent and len(children) == 1:
            values.append(children[0])
        else:
            values.append(children if builder is None else builder(*children))
        states.append(self._tables.actions[states[-1]][symbol])

    def _next(self, text: str, position: int, state: int) -> tuple[str, int]:
        """The kind of the next token, among those that a state allows, and where it ends."""
        if position == len(text):
            return END, position
        word = _WORD.match(text, position)
        if word is not None:
            kind = self._tables.keywords.get(word[0])
            if kind is not None and kind in self._tables.actions[state]:
                return kind, word.end()
        for kind, pattern in self._candidates_of(state):
            if (piece := pattern.compiled.match(text, position)) is not None:
                return kind, piece.end()
        raise NoParseError

    def _candidates_of(self, state: int) -> list[tuple[str, _Pattern]]:
        candidates = self._candidates.get(state)
        if candidates is None:
            allowed = {*self._tables.actions[state], *self._tables.ignored}
            candidates = [(name, pattern) for name, pattern in self._patterns if name in allowed]
            self._candidates[state] = candidates
        return candidates


class _Pattern:
    """A regular expression, compiled on first use."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self._text)


# ---------------------------------------------------------------- between processes


def kept_tables(name: str, grammar: str, compile: Callable[[], Lark]) -> ParserTables:
    """The tables of a grammar, from the user's cache folder if they are there. Without a cache folder they are made each time."""
    folder = user_cache()
    if folder is None:
        return ParserTables.of(compile())
    key = hashlib.sha256(f"{FORMAT} {sys.version_info[:2]} {grammar}".encode()).hexdigest()
    path = folder / f"{name}-{key[:16]}.tables"
    if is_own_file(path):
        try:
            return ParserTables(*marshal.loads(path.read_bytes()))
        except (OSError, ValueError, EOFError, TypeError):
            pass  # truncated, or not ours: made again
    tables = ParserTables.of(compile())
    _keep(path, marshal.dumps(tuple(tables)))
    return tables


def _keep(path: Path, data: bytes) -> None:
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        return  # a full disk: the next process makes them again
