"""What each route does. A module a theme; `handles` binds a function to the operation it carries out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.server.handlers.binding import Handler

_MODULES = (
    *("service", "reads", "writes", "branches", "commits", "loads", "streams", "blobs"),
    *("catalogs", "entities", "feeds", "histories", "jobs", "languages", "studio", "maintenance"),
)


def all_handlers() -> dict[str, Handler]:
    """By operation id."""
    from omnigraph.server.handlers.binding import HANDLERS

    for module in _MODULES:
        import_module(f"{__name__}.{module}")
    return dict(HANDLERS)
