"""What each route does. A module a theme; `handles` binds a function to the operation it carries out."""

from __future__ import annotations

from importlib import import_module

from omnigraph.server.handlers.binding import HANDLERS, Handler, handles

_MODULES = (
    *("service", "reads", "writes", "branches", "commits", "stored_queries", "loads", "streams", "blobs", "mcp"),
    *("catalogs", "entities", "feeds", "histories", "jobs", "languages", "upkeep"),
)


def all_handlers() -> dict[str, Handler]:
    """By operation id."""
    for module in _MODULES:
        import_module(f"{__name__}.{module}")
    return dict(HANDLERS)


__all__ = ["Handler", "all_handlers", "handles"]
