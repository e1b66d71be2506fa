"""Which columns of files are which properties: `--map LOCODE=code`, or a map file that says it file by file.

    {"sources": [{"file": "ports.csv", "type": "Port", "columns": {"code": "LOCODE", "name": "Port Name"}}]}

A file may have several entries: each of them takes entities of one type from it, and leaves the columns that it does not name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.errors import UsageError
from omnigraph.records.documents import Picked, check_format

_MEMBERS = frozenset(
    [
        *("file", "type", "columns", "where", "separators", "skip_empty", "distinct", "formats", "nulls"),
        *("at", "table", "delimiter", "encoding", "header"),
    ]
)


@dataclass(frozen=True)
class MappedSource:
    """Entities of one type in one file. `at`: their places in JSON; `table`: the one of a database; `header`: the columns of CSV
    without a header."""

    file: str
    type: str
    picked: Picked
    at: tuple[str, ...] = ()
    table: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    header: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As an entry of a map file has it."""
        picked = self.picked
        value: dict[str, Any] = {"file": self.file, "type": self.type, "columns": {}}
        value["columns"] = {
            name: column if isinstance(column, str) else list(column) for name, column in picked.columns.items()
        }
        members = {
            "at": list(self.at),
            "table": self.table,
            "where": {name: list(texts) for name, texts in picked.where.items()},
            "separators": dict(picked.separators),
            "skip_empty": list(picked.skip_empty),
            "distinct": picked.distinct,
            "formats": dict(picked.formats),
            "nulls": {name: list(texts) for name, texts in picked.nulls.items()},
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "header": list(self.header),
        }
        return value | {name: member for name, member in members.items() if member}

    def is_of(self, address: str) -> bool:
        """Whether it is about this file: the end of an address is its name."""
        return address == self.file or address.endswith("/" + self.file.removeprefix("./"))


@dataclass(frozen=True)
class ColumnMap:
    """`names` of columns in any file, and what they are called in the graph; and `sources`, entry by entry."""

    names: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[MappedSource, ...] = ()

    def of_file(self, address: str) -> list[MappedSource]:
        return [source for source in self.sources if source.is_of(address)]

    def renamed(self, header: list[str]) -> list[str]:
        return [self.names.get(name, name) for name in header]

    def to_json(self) -> dict[str, Any]:
        return {"sources": [source.to_json() for source in self.sources]} if self.sources else dict(self.names)


def column_map(map: Mapping[str, object] | str | Path | None) -> ColumnMap:
    """The map that a caller gives: names of columns, the content of a map file, or its path. UsageError when it is neither."""
    if map is None:
        return ColumnMap()
    value = _read(map) if isinstance(map, str | Path) else map
    if not isinstance(value, Mapping):
        raise _wrong("expected an object", value)
    if isinstance(value.get("sources"), list | tuple):
        if len(value) > 1:
            raise UsageError("a map file has one member, 'sources'", hint=f"remove {sorted(set(value) - {'sources'})}")
        return ColumnMap(sources=tuple(_source(entry) for entry in value["sources"]))
    return ColumnMap(names=_texts(value, "the map of columns"))


def _read(path: str | Path) -> object:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}", hint="'omnigraph schema infer' writes a map file") from None


def _source(entry: object) -> MappedSource:
    if not isinstance(entry, Mapping):
        raise _wrong("an entry of 'sources' is an object", entry)
    unknown = sorted(set(map(str, entry)) - _MEMBERS)
    if unknown:
        raise UsageError(f"unknown member '{unknown[0]}' in a map of columns", hint=", ".join(sorted(_MEMBERS)))
    for name in ("file", "type"):
        if not isinstance(entry.get(name), str) or not entry[name]:
            raise UsageError(f"an entry of a map file needs '{name}'", hint='{"file": ..., "type": ..., "columns": {}}')
    what = f"the entry of {entry['type']} in {entry['file']}"
    where = _object(entry.get("where", {}), f"'where' of {what}")
    picked = Picked(
        _columns(entry.get("columns", {}), what),
        {str(name): _listed([texts] if isinstance(texts, str) else texts, what) for name, texts in where.items()},
        _texts(entry.get("separators", {}), f"'separators' of {what}"),
        _listed(entry.get("skip_empty", ()), what),
        bool(entry.get("distinct", False)),
        _texts(entry.get("formats", {}), f"'formats' of {what}"),
        {
            str(name): _listed(texts, what)
            for name, texts in _object(entry.get("nulls", {}), f"'nulls' of {what}").items()
        },
    )
    for format in picked.formats.values():
        check_format(format)
    named = (*picked.skip_empty, *picked.formats, *picked.nulls, *picked.separators)
    lacking = [name for name in named if name not in picked.columns]
    if not picked.columns or lacking:
        raise UsageError(f"{what} has no columns" if not lacking else f"{what} has no column for '{lacking[0]}'")
    return MappedSource(
        entry["file"],
        entry["type"],
        picked,
        _listed(entry.get("at", ()), what),
        _optional(entry, "table", what),
        _optional(entry, "delimiter", what),
        _optional(entry, "encoding", what),
        _listed(entry.get("header", ()), what),
    )


def _columns(value: object, what: str) -> dict[str, str | tuple[str, ...]]:
    """A column for each name; for an id several."""
    columns: dict[str, str | tuple[str, ...]] = {}
    for name, column in _object(value, f"'columns' of {what}").items():
        if isinstance(column, list | tuple) and name in ("id", "from", "to") and len(column) > 1:
            columns[name] = _listed(column, what)
        else:
            columns |= _texts({name: column}, f"'columns' of {what}")
    return columns


def _optional(entry: Mapping[str, Any], name: str, what: str) -> str | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise _wrong(f"'{name}' of {what} is text", value)
    return value


def _object(value: object, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(f"{what} is an object", value)
    return value


def _texts(value: object, what: str) -> dict[str, str]:
    for name, text in _object(value, what).items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise _wrong(f"{what} has a name for each name", text)
    return dict(_object(value, what))


def _listed(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise _wrong(f"{what} has a list of texts", value)
    return tuple(value)


def _wrong(expected: str, value: object) -> UsageError:
    return UsageError(
        f"{expected}, got {type(value).__name__}", hint="a map file is as 'omnigraph schema infer' writes it"
    )
