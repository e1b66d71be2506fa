"""Packages whose modules are imported when one of their names is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def names_of(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package. `homes` has the names that come from each module and, under the package's own name, its
    modules."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = import_module(f"{package}.{name}") if home == package else getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)  # so that this is called once per name
        return value

    return find
