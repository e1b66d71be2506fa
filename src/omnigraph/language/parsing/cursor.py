"""A cursor over the tokens of a text: what a recursive-descent parser stands on."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from omnigraph.language.parsing.tokens import Token, Tokenizer
from omnigraph.language.position import Position

MAX_DEPTH = 64
"""How deeply brackets may nest: far beyond any text written by hand, far below the interpreter's stack."""


class Mistake(Exception):
    """A text does not follow the grammar: the token that does not fit, and what would."""

    def __init__(self, token: Token, expected: frozenset[str]) -> None:
        super().__init__(token)
        self.token = token
        self.expected = expected
        """Words and signs as they are written, and names of kinds and of rules, which have a space in them."""

    @property
    def expectation(self) -> str:
        """`'{'`, `'as' or a name`."""
        phrases = sorted(item if " " in item else f"'{item}'" for item in self.expected)
        return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} or {phrases[-1]}"


class NestingError(Exception):
    """A text nests deeper than its parser goes."""

    def __init__(self, token: Token) -> None:
        super().__init__(token)
        self.token = token


class Cursor:
    """Stands before a token, and remembers what was looked for there, so that a mistake names all of it.

    What is looked for is a token's text or its kind.
    """

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        self.text = text
        self.token = tokenizer.read(text, 0)
        self._tokenizer = tokenizer
        self._wanted: list[str] = []
        self._depth = 0

    def at(self, *wanted: str) -> bool:
        """Whether the next token is one of these."""
        kind, text, _ = self.token
        if text in wanted or kind in wanted:
            return True
        self._wanted += wanted
        return False

    def accept(self, *wanted: str) -> Token | None:
        """The next token, which is passed, if it is one of these."""
        return self.advance() if self.at(*wanted) else None

    def expect(self, *wanted: str) -> Token:
        """The next token, which is passed and must be one of these."""
        if not self.at(*wanted):
            raise self.mistake()
        return self.advance()

    def advance(self) -> Token:
        token = self.token
        self.token = self._tokenizer.read(self.text, token.end)
        self._wanted.clear()
        return token

    def reread(self, kind: str, pattern: re.Pattern[str]) -> bool:
        """Read what comes next as a token that only this place of the grammar has. Whether it is one."""
        if match := pattern.match(self.text, self.token.offset):
            self.token = Token(kind, match[0], self.token.offset)
            return True
        self._wanted.append(kind)
        return False

    def mistake(self, *wanted: str) -> Mistake:
        """That the next token does not fit: what was looked for there, and what else would fit."""
        return Mistake(self.token, frozenset((*self._wanted, *wanted)))

    def enter(self) -> None:
        """One level deeper. The bound keeps a hostile text from exhausting the interpreter's stack."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NestingError(self.token)

    def leave(self) -> None:
        self._depth -= 1

    def position(self, token: Token) -> Position:
        return self.position_at(token.offset)

    def position_at(self, offset: int) -> Position:
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(newline.end() for newline in re.finditer("\n", self.text))]
