"""What a task needs to reach the graph, and how it travels to another process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from omnigraph.embedding.filling import Embeddings
from omnigraph.history.values import TableState
from omnigraph.language.catalog import Catalog
from omnigraph.language.catalog_json import catalog_from_json
from omnigraph.snapshot import Repository, View, encode_catalog
from omnigraph.storage.options import open_store
from omnigraph.storage.store import Store
from omnigraph.tables.layout import Layout
from omnigraph.tables.store import Tables, tables_at
from omnigraph.tables.table import Table
from omnigraph.values.inline_rows import NO_INLINE, Inline

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Address:
    """Where a graph is: its objects and its tables lie below one root.

    In this process it has the tables that are open here, with their cache; in another one they are opened again, once.
    """

    tables: Tables

    @classmethod
    def of_graph(cls, repository: Repository) -> Address:
        return Address(repository.tables)

    def __reduce__(self) -> tuple[Any, ...]:
        return _address, (self.tables.root, self.options)

    @property
    def options(self) -> Options:
        return tuple(sorted(self.tables.options.items()))

    @property
    def store(self) -> Store:
        return open_store(self.tables.root, storage_options=self.tables.options)

    def open_graph(self) -> Repository:
        """The graph with its history, as it is now: another one may have taken its place since a worker was started."""
        return Repository.open(self.tables.root, self.tables.options or None)

    def open(self, place: TableVersion) -> Table:
        return self.tables.open(place.path, place.version, layout=place.layout, inline=place.inline)


@dataclass(frozen=True, eq=False)
class Target(Address):
    """A graph as its tasks see it: tables typed by a catalog. Nothing in it changes during a job."""

    catalog: Catalog
    filling: Embeddings

    @classmethod
    def of(cls, repository: Repository, view: View) -> Target:
        return cls(repository.tables, view.catalog, repository.filling())

    def __reduce__(self) -> tuple[Any, ...]:
        return _target, (self.tables.root, self.options, self._catalog_json, self.filling)

    @cached_property
    def _catalog_json(self) -> bytes:
        return encode_catalog(self.catalog)

    def writable(self, place: TableVersion) -> Table:
        """The table to write fragments of; made when the type has none yet."""
        if place.version == NO_VERSION:
            assert place.layout is not None, "the tables of a view have one"
            return self.tables.create_as(place.path, place.layout)
        return self.open(place)


@dataclass(frozen=True)
class TableVersion:
    """A table at a version, for a task; NO_VERSION when it was not made yet."""

    path: str
    version: int
    layout: Layout | None = None
    """What a reader sees of it; None: the columns as they are stored."""
    inline: Inline = NO_INLINE
    """What commits changed on top of the version."""

    @classmethod
    def of(cls, table: Table) -> TableVersion:
        return cls(table.path, table.version, table.layout, table.inline)

    @classmethod
    def of_state(cls, state: TableState, layout: Layout) -> TableVersion:
        return cls(state.path, state.version, layout, state.inline)


NO_VERSION = 0

TableVersions = Mapping[str, TableVersion]


def table_versions_of(view: View) -> TableVersions:
    """Every table of the view, by its key."""
    versions = {}
    for key in view.catalog.tables:
        state = view.state(key)
        layout = view.layout(key)
        versions[key] = (
            TableVersion(view.path(key), NO_VERSION, layout) if state is None else TableVersion.of_state(state, layout)
        )
    return versions


def _address(root: str, options: Options) -> Address:
    return Address(tables_at(root, options))


def _target(root: str, options: Options, catalog_json: bytes, filling: Embeddings) -> Target:
    return Target(tables_at(root, options), _catalog(catalog_json), filling)


@lru_cache(maxsize=4)
def _catalog(data: bytes) -> Catalog:
    return catalog_from_json(json.loads(data))
