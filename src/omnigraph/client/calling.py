"""Where calls enter: arguments are checked as those of a graph that was opened are."""

from __future__ import annotations

import inspect
from typing import TypeVar

from omnigraph.graph.arguments import checked

C = TypeVar("C", bound=type)


def checked_methods(public: C) -> C:
    """Every public method of a class, with its arguments checked before it is called."""
    for name, member in inspect.getmembers(public, inspect.isfunction):
        if not name.startswith("_"):
            setattr(public, name, checked(member))
    return public
