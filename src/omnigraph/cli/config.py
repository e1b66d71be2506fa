"""`config.yaml`: the user's name, servers and profiles, and the defaults of commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph._internal.user_folders import config_folder
from omnigraph.cli.output import FORMATS
from omnigraph.errors import UsageError


@dataclass(frozen=True)
class Profile:
    """A name for a graph or a place with graphs: exactly one of a server, a store and a cluster."""

    name: str
    server: str | None = None
    store: str | None = None
    cluster: str | None = None
    default_graph: str | None = None

    @property
    def scope(self) -> str:
        return "server" if self.server else "store" if self.store else "cluster"

    @property
    def target(self) -> str:
        return self.server or self.store or self.cluster or ""


@dataclass(frozen=True)
class Alias:
    """A short name for a stored query: its folder, fixed parameters, and those that the arguments set, in order."""

    name: str
    query: str
    queries: str | None = None
    store: str | None = None
    server: str | None = None
    graph: str | None = None
    format: str | None = None
    args: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """`~/.omnigraph/config.yaml` (folder override: OMNIGRAPH_HOME)."""

    actor: str | None = None
    store: str | None = None
    server: str | None = None
    default_graph: str | None = None
    output: str | None = None
    queries: str | None = None
    column_width: int = 80
    wrap: bool = False
    engine: str | None = None
    servers: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(cls) -> Config:
        folder = config_folder()
        # A home that this user may not enter has no configuration either.
        if folder is None or not os.path.exists(path := folder / "config.yaml"):
            return cls()
        import yaml

        try:
            value = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        return _ConfigReader(path, value).config()


_LAYOUTS = ("truncate", "wrap")
_DEFAULTS = {
    "store",
    "server",
    "default_graph",
    "output",
    "table_max_column_width",
    "table_cell_layout",
    "engine",
    "queries",
}
_FIXED = {"operator": {"actor"}, "defaults": _DEFAULTS}
_ALIAS = {"query", "queries", "store", "server", "graph", "format", "args", "params"}
_NAMED = {
    "servers": {"url"},
    "profiles": {"server", "store", "cluster", "default_graph"},
    "clusters": {"root"},
    "aliases": _ALIAS,
}
_SECTIONS = (*_FIXED, *_NAMED)


class _ConfigReader:
    def __init__(self, path: Path, value: Any) -> None:
        self._path = path
        self._unknown: list[str] = []
        if not isinstance(value, dict):
            raise self._refused("it must consist of sections", hint=f"the sections are {', '.join(_SECTIONS)}")
        self._sections = {name: value.get(name) or {} for name in _SECTIONS}
        for name, section in self._sections.items():
            if not isinstance(section, dict):
                raise self._refused(f"'{name}' must hold keys and values")
        self._unknown += [str(name) for name in value if name not in _SECTIONS]
        for name, keys in _FIXED.items():
            self._unknown += [f"{name}.{key}" for key in self._sections[name] if key not in keys]

    def config(self) -> Config:
        defaults = self._sections["defaults"]
        if defaults.get("server") and defaults.get("store"):
            raise self._refused("defaults.server and defaults.store exclude each other")
        layout = self._choice("defaults.table_cell_layout", defaults.get("table_cell_layout"), _LAYOUTS)
        return Config(
            actor=self._text("operator.actor", self._sections["operator"].get("actor")),
            store=self._text("defaults.store", defaults.get("store")),
            server=self._text("defaults.server", defaults.get("server")),
            default_graph=self._text("defaults.default_graph", defaults.get("default_graph")),
            output=self._choice("defaults.output", defaults.get("output"), FORMATS),
            queries=self._text("defaults.queries", defaults.get("queries")),
            column_width=self._width(defaults.get("table_max_column_width", 80)),
            wrap=layout == "wrap",
            engine=self._text("defaults.engine", defaults.get("engine")),
            servers=self._each("servers", self._server),
            profiles=self._each("profiles", self._profile),
            clusters=self._each("clusters", self._cluster),
            aliases=self._each("aliases", self._alias),
            warnings=tuple(f"{self._path}: unknown key '{name}'" for name in self._unknown),
        )

    def _each(self, section: str, read: Callable[[str, Mapping[str, Any]], Any]) -> dict[str, Any]:
        """The members of a section, by name."""
        by_name = {}
        for name, members in self._sections[section].items():
            place = f"{section}.{name}"
            if not isinstance(name, str) or not isinstance(members, dict):
                raise self._refused(f"{place} must hold {' or '.join(sorted(_NAMED[section]))}")
            self._unknown += [f"{place}.{key}" for key in members if key not in _NAMED[section]]
            by_name[name] = read(name, members)
        return by_name

    def _server(self, name: str, members: Mapping[str, Any]) -> str:
        from omnigraph.client.credentials import check_server_name, check_url

        url = self._text(f"servers.{name}.url", members.get("url"))
        if url is None:
            raise self._refused(f"servers.{name} has no url")
        try:
            check_server_name(name)
            return check_url(url)
        except UsageError as error:
            raise self._refused(f"servers.{name}: {error.message}", hint=error.hint) from None

    def _profile(self, name: str, members: Mapping[str, Any]) -> Profile:
        scopes = {key: self._text(f"profiles.{name}.{key}", members.get(key)) for key in ("server", "store", "cluster")}
        graph = self._text(f"profiles.{name}.default_graph", members.get("default_graph"))
        if sum(scope is not None for scope in scopes.values()) != 1:
            raise self._refused(f"profiles.{name} must name exactly one of server, store and cluster")
        return Profile(name, **scopes, default_graph=graph)

    def _cluster(self, name: str, members: Mapping[str, Any]) -> str:
        root = self._text(f"clusters.{name}.root", members.get("root"))
        if root is None:
            raise self._refused(f"clusters.{name} has no root")
        return root

    def _alias(self, name: str, members: Mapping[str, Any]) -> Alias:
        place = f"aliases.{name}"
        texts = {key: self._text(f"{place}.{key}", members.get(key)) for key in ("queries", "store", "server", "graph")}
        query = self._text(f"{place}.query", members.get("query"))
        args, params = members.get("args") or [], members.get("params") or {}
        if query is None:
            raise self._refused(f"{place} has no query")
        if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
            raise self._refused(f"{place}.args must be a list of names of parameters")
        if not isinstance(params, dict):
            raise self._refused(f"{place}.params must hold names and values")
        format = self._choice(f"{place}.format", members.get("format"), FORMATS)
        return Alias(name, query, **texts, format=format, args=tuple(args), params=params)

    def _text(self, key: str, value: Any) -> str | None:
        if value is not None and (not isinstance(value, str) or not value):
            raise self._refused(f"{key} must be a text")
        return value

    def _choice(self, key: str, value: Any, choices: tuple[str, ...]) -> str | None:
        if value is not None and value not in choices:
            raise UsageError(f"{self._path}: {key} is '{value}'", hint=f"one of {', '.join(choices)}")
        return None if value is None else str(value)

    def _width(self, value: Any) -> int:
        if not isinstance(value, int) or value < 1:
            raise UsageError(
                f"{self._path}: defaults.table_max_column_width is '{value}'", hint="a number of characters"
            )
        return value

    def _refused(self, why: str, hint: str | None = None) -> UsageError:
        return UsageError(f"cannot read {self._path}: {why}", hint=hint)
