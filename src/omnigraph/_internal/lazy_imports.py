"""What is imported when it is first used: NumPy and Arrow, the modules of packages of ours, and optional packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.errors import MissingExtra


class LazyModule:
    """Stands for a module, and imports it when a name of it is first used. From then on it has the module's own names."""

    __slots__ = ("__dict__", "_name")

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        module = import_module(self._name)
        self.__dict__ = vars(module)
        return getattr(module, attribute)

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self._name,)


if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import pyarrow.types as pt
else:
    np = LazyModule("numpy")
    pa, pc = LazyModule("pyarrow"), LazyModule("pyarrow.compute")
    pq, pt = LazyModule("pyarrow.parquet"), LazyModule("pyarrow.types")

__all__ = ["lazy_attributes", "load_extra", "np", "pa", "pc", "pq", "pt"]

# Optional packages: `pip install omnigraph` leaves them out, and each comes with an extra.


def load_extra(package: str, purpose: str, *, extra: str | None = None) -> Any:
    """Import a package. MissingExtra if it is not installed; `extra` is the extra that installs it, by default one of the same
    name."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package.partition(".")[0]:
            raise
        raise MissingExtra(
            f"{purpose} needs {package}, which is not installed", hint=f"pip install 'omnigraph[{extra or package}]'"
        ) from None


def lazy_attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package. `homes` has the names, with spaces between, that come from each module and, under the
    package's own name, its modules."""
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = import_module(f"{package}.{name}") if home == package else getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)  # so that this is called once per name
        return value

    return find
