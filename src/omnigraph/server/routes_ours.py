"""Routes that the contract does not have: the second part of the table."""

from __future__ import annotations

from omnigraph.server.route import Route

OURS: tuple[Route, ...] = ()
