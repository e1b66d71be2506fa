"""The grammar of queries as a text, and its keywords."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_KEYWORD = re.compile(r"^[A-Z_0-9]+(?:\.\d+)?: /(\w+)\\b/", re.MULTILINE)


@cache
def grammar() -> str:
    return Path(__file__).with_name("query.lark").read_text(encoding="utf-8")


@cache
def keywords() -> tuple[str, ...]:
    """The keywords, in the order of the grammar."""
    return tuple(_KEYWORD.findall(grammar()))
