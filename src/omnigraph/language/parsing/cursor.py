"""A cursor over the tokens of a text: what a recursive-descent parser stands on."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from omnigraph._internal.frozen import Frozen

# Tokens of a text, and the tokenizer that reads them.

NAME = "a name"
TYPE_NAME = "a type name"
STRING = "a string"
SIGN = "a sign"
END = "the end of the text"
CHARACTER = "a character"
"""One that starts no token. A quote is a string that is not closed, `/*` a comment that is not closed."""

TRIVIA = r"(?:[ \t\r\n]++|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+"
"""White space and comments, which may stand between any two tokens."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


class Token(NamedTuple):
    """`kind` is a phrase for readers, such as "a name"."""

    kind: str
    text: str
    offset: int

    @property
    def end(self) -> int:
        return self.offset + len(self.text)


class Tokenizer:
    """Reads the token after an offset. The first kind whose pattern matches is taken; patterns have no groups that capture."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        patterns = {**kinds, END: r"\Z", CHARACTER: r"[\s\S]"}
        self._kinds = ("", *patterns)
        self._pattern = re.compile(f"{TRIVIA}(?:{'|'.join(f'({pattern})' for pattern in patterns.values())})")

    def read(self, text: str, offset: int) -> Token:
        match = self._pattern.match(text, offset)
        assert match is not None, "every character starts a token"
        group = match.lastindex or 0
        return Token(self._kinds[group], match[group], match.start(group))


def unquote(literal: str) -> str:
    """The value of a string literal. KeyError, with the character, for an escape that there is none of."""
    return _ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], literal[1:-1]) if "\\" in literal else literal[1:-1]


# Positions in a text.


class Position(Frozen):
    """Line and column, both counted from 1."""

    line: int
    column: int


NOWHERE = Position(0, 0)


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
