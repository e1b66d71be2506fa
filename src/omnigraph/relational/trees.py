"""Syntax trees of SQL. sqlglot is imported when the first one is built: commands that only look, and short reads and writes,
build none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp as exp
else:

    class _Expressions:
        def __getattr__(self, name: str) -> object:
            from sqlglot import exp as loaded

            value = getattr(loaded, name)
            setattr(self, name, value)
            return value

    exp = _Expressions()
