"""Positions in a text."""

from __future__ import annotations

from omnigraph.frozen import Frozen


class Position(Frozen):
    """Line and column, both counted from 1."""

    line: int
    column: int


NOWHERE = Position(0, 0)
