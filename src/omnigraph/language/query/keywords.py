"""The grammar of queries as a text, and its keywords."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_KEYWORD = re.compile(r"^[A-Z_0-9]+(?:\.\d+)?: /(\w+)\\b/", re.MULTILINE)


@cache
def grammar() -> str:
    return (files("omnigraph.language.query") / "query.lark").read_text(encoding="utf-8")


@cache
def keywords() -> tuple[str, ...]:
    """In the order of the grammar."""
    return tuple(_KEYWORD.findall(grammar()))
