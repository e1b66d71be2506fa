"""Optional packages: `pip install omnigraph` leaves them out, and each comes with an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from omnigraph.errors import MissingExtra


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
