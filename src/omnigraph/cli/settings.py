"""Where a command gets its graph and its actor from: flags, then the environment, then the config file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.cli.output import FORMATS
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.graph import Graph


@dataclass(frozen=True)
class Config:
    """`~/.omnigraph/config.yaml` (folder override: OMNIGRAPH_HOME)."""

    actor: str | None = None
    store: str | None = None
    output: str | None = None
    column_width: int = 80
    wrap: bool = False
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(cls) -> Config:
        path = Path(os.environ.get("OMNIGRAPH_HOME") or Path.home() / ".omnigraph") / "config.yaml"
        if not path.is_file():
            return cls()
        import yaml

        try:
            value = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        sections = {name: value.get(name) or {} for name in _KNOWN} if isinstance(value, dict) else {}
        if not sections or not all(isinstance(section, dict) for section in sections.values()):
            raise UsageError(f"cannot read {path}: it must hold {' and '.join(_KNOWN)}, each with keys and values")
        unknown = [name for name in value if name not in _KNOWN]
        unknown += [f"{name}.{key}" for name, keys in _KNOWN.items() for key in sections[name] if key not in keys]
        operator, defaults = sections["operator"], sections["defaults"]
        return cls(
            actor=operator.get("actor"),
            store=defaults.get("store"),
            output=_one_of(path, "defaults.output", defaults.get("output"), FORMATS),
            column_width=_width(path, defaults.get("table_max_column_width", 80)),
            wrap=_one_of(path, "defaults.table_cell_layout", defaults.get("table_cell_layout"), _LAYOUTS) == "wrap",
            warnings=tuple(f"{path}: unknown key '{name}'" for name in unknown),
        )


_LAYOUTS = ("truncate", "wrap")
_KNOWN = {"operator": {"actor"}, "defaults": {"store", "output", "table_max_column_width", "table_cell_layout"}}


def _one_of(path: Path, key: str, value: Any, choices: tuple[str, ...]) -> str | None:
    if value is not None and value not in choices:
        raise UsageError(f"{path}: {key} is '{value}'", hint=f"one of {', '.join(choices)}")
    return None if value is None else str(value)


def _width(path: Path, value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"{path}: defaults.table_max_column_width is '{value}'", hint="a number of characters")
    return value


@dataclass(frozen=True)
class Settings:
    """The flags every command takes, resolved."""

    store: str | None = None
    actor: str | None = None
    as_json: bool = False
    quiet: bool = False
    yes: bool = False
    config: Config = field(default_factory=Config)

    def uri(self, positional: str | None = None) -> str:
        """The graph's address: positional, `--store`, OMNIGRAPH_STORE, config file."""
        found = positional or self.store or os.environ.get("OMNIGRAPH_STORE") or self.config.store
        if not found:
            raise UsageError(
                "no graph was named",
                hint="pass --store URI, set OMNIGRAPH_STORE, or set defaults.store in the config file",
            )
        if found.startswith(("http://", "https://")):
            raise UsageError(f"'{found}' is not a storage address", hint="use a path, s3://, gs:// or az://")
        return found

    def open(self, positional: str | None = None) -> Graph:
        from omnigraph.graph import open as open_graph

        return open_graph(self.uri(positional))

    def warn_about_schema(self, file: str, *, is_first: bool) -> None:
        """What looks wrong in a schema that compiles."""
        if self.quiet:
            return
        from omnigraph.graph import lint_schema

        for finding in lint_schema(Path(file), is_first=is_first):
            print(f"warning: {finding.render(file)}", file=sys.stderr)

    def announce(self, verb: str, uri: str) -> None:
        """One line on stderr before a write, so that nobody writes to the wrong graph unawares."""
        if not self.quiet:
            where = "local" if is_local(uri) else "remote"
            print(f"omnigraph {verb} → {uri} (direct, {where})", file=sys.stderr)

    def confirm_destruction(self, verb: str, uri: str) -> None:
        """Ask before something is destroyed in a place that is not this machine's disk."""
        if self.yes or is_local(uri):
            return
        if self.as_json or not sys.stdin.isatty():
            raise UsageError(f"{verb} on {uri} destroys data", hint="pass --yes to agree")
        import click

        if not click.confirm(f"{verb} on {uri} destroys data. Go on?", err=True):
            raise UsageError("not confirmed; nothing was done")


def is_local(uri: str) -> bool:
    return "://" not in uri or uri.startswith("file://")


def read_params(text: str | None, file: str | None) -> Mapping[str, Any]:
    """Query parameters from `--params JSON` or `--params-file F`."""
    import json

    if text is not None and file is not None:
        raise UsageError("give --params or --params-file, not both")
    if file is not None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from None
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"the parameters are not JSON: {error}", hint="""for example --params '{"who": "ada"}'"""
        ) from None
    if not isinstance(value, dict):
        raise UsageError("the parameters must be a JSON object", hint="""for example --params '{"who": "ada"}'""")
    return value
