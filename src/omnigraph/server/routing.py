"""Finds the route for a method and a path. Segments are split before they are decoded: `review%2F1` is one segment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from omnigraph.errors import MethodNotAllowed, RouteNotFound, UsageError
from omnigraph.server.route import PATH_PATTERNS, Route

_NAME = "{}"
"""In the tree: any segment."""


@dataclass
class _Node:
    below: dict[str, _Node] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)


class Router:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            for segment in route.path.strip("/").split("/"):
                node = node.below.setdefault(_NAME if segment.startswith("{") else segment, _Node())
            if route.method in node.routes:
                raise ValueError(f"two routes for {route.method} {route.path}")
            node.routes[route.method] = route

    def find(self, method: str, raw_path: bytes) -> tuple[Route, Mapping[str, str]]:
        """The route, and the values of its path parameters. Raises RouteNotFound or MethodNotAllowed."""
        segments = [_decoded(segment) for segment in raw_path.partition(b"?")[0].removeprefix(b"/").split(b"/")]
        nodes = self._nodes(self._root, segments)
        allowed: list[str] = []
        for node in nodes:
            route = node.routes.get(method)
            if route is None:
                allowed += node.routes
                continue
            named = zip(route.path.strip("/").split("/"), segments, strict=True)
            values = {name[1:-1]: value for name, value in named if name.startswith("{")}
            # What is a name of its own (`jobs/load`) is no parameter (`jobs/{job_id}`) that does not look like one.
            if len(nodes) == 1 or all(re.match(PATH_PATTERNS[name], value) for name, value in values.items()):
                return route, values
        if allowed:
            raise MethodNotAllowed(method, sorted(set(allowed)))
        raise RouteNotFound("there is nothing at this path")

    def _nodes(self, node: _Node, segments: Sequence[str]) -> list[_Node]:
        """All nodes that match the segments; exact names come before parameters."""
        nodes = [node]
        for segment in segments:
            exact = [node.below[segment] for node in nodes if segment in node.below and segment != _NAME]
            any_name = [node.below[_NAME] for node in nodes if _NAME in node.below and segment]
            nodes = [*exact, *any_name]
        return [node for node in nodes if node.routes]


def _decoded(segment: bytes) -> str:
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("the path is not UTF-8") from None
