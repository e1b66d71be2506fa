"""Checks of arguments, the same as for an open graph."""

from __future__ import annotations

import inspect
from typing import TypeVar

from omnigraph.graph.arguments import checked

C = TypeVar("C", bound=type)


def checked_methods(public: C) -> C:
    """Decorates a class: the arguments of its public methods are checked before they are called."""
    for name, member in inspect.getmembers(public, inspect.isfunction):
        if not name.startswith("_"):
            setattr(public, name, checked(member))
    return public
