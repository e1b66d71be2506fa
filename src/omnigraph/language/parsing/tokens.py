"""Tokens of a text, and the tokenizer that reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

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
