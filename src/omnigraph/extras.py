"""Packages that only some things need: `pip install omnigraph` leaves them out, an extra brings each."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from omnigraph.errors import MissingExtra


def load_extra(package: str, purpose: str, *, extra: str | None = None) -> Any:
    """The package, imported. MissingExtra when it is not installed: the extra that brings it has its name, unless it is said."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package.partition(".")[0]:
            raise
        raise MissingExtra(
            f"{purpose} needs {package}, which is not installed", hint=f"pip install 'omnigraph[{extra or package}]'"
        ) from None
