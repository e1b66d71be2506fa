"""A snapshot with its catalog and its tables: what every reader and writer works on."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import Damaged, HistoryGap
from omnigraph.history.chain import MAIN, swept
from omnigraph.history.envelope import read_as, schema_key
from omnigraph.history.history import History, new_ulid
from omnigraph.history.plan import check_attribution
from omnigraph.history.values import Commit, Entry, Snapshot, TableState
from omnigraph.storage.options import open_store
from omnigraph.storage.store import Store
from omnigraph.storage.syncing import Durability

if TYPE_CHECKING:
    from omnigraph._internal.runtime import Runtime, WorkingMemory
    from omnigraph.embedding.filling import Embeddings
    from omnigraph.embedding.settings import EmbeddingSettings
    from omnigraph.language.catalog import Catalog, EntityType
    from omnigraph.tables.layout import Layout
    from omnigraph.tables.store import Tables
    from omnigraph.tables.table import Table
    from omnigraph.tables.verifying import TableFiles

USES_REMEMBERED = 64
DIAGNOSED_BYTES = 1 << 30


class View:
    """One immutable state of the graph. A table is opened when it is first used."""

    def __init__(self, repository: Repository, snapshot: Snapshot) -> None:
        self.repository = repository
        self.snapshot = snapshot
        self._tables: dict[str, Table] = {}

    @property
    def catalog(self) -> Catalog:
        """The schema of this snapshot, not of the head."""
        return self.repository.catalog(self.snapshot.schema)

    @property
    def memory(self) -> WorkingMemory:
        """What reads may use."""
        return self.repository.tables.runtime.work

    def entity(self, key: str) -> EntityType:
        return self.catalog.tables[key]

    def state(self, key: str) -> TableState | None:
        return self.snapshot.tables.get(key)

    def rows(self, key: str) -> int:
        state = self.state(key)
        return 0 if state is None else state.rows

    def table(self, key: str) -> Table | None:
        """The table of a type, or None if no row of it was ever written. Below inline rows, the stored version is opened when it is
        first needed."""
        table = self._tables.get(key)
        if table is None and (state := self.state(key)) is not None:
            if state.inline:
                table = self.repository.tables.changed(
                    state.path, state.version, self.layout(key), state.inline, lambda: self._stored(key, state)
                )
            else:
                table = self._stored(key, state)
            self._tables[key] = table
        return table

    def addresses_of(self, key: str, ids: Collection[str]) -> dict[str, int]:
        """Where the rows with these ids are, as far as there are any. Every small write asks for this, at a state that nobody else may
        ever read, so the table is not cached."""
        table, state = self._tables.get(key), self.state(key)
        if table is None and state is not None:
            table = self._stored(key, state)
            table = self.repository.tables.with_changes(table, state.inline) if state.inline else table
        return {} if table is None else table.addresses_of(ids)

    def _stored(self, key: str, state: TableState) -> Table:
        self.repository.remember_use(state, self.snapshot.commit)
        try:
            return self.repository.tables.open(state.path, state.version, state.digest, layout=self.layout(key))
        except Damaged as damage:
            raise self.repository.explained(damage, self.snapshot.commit) from damage

    def layout(self, key: str) -> Layout:
        """Where the columns of a type are stored."""
        return self.repository.layout(self.snapshot.schema, key)

    def staged(self, key: str, path: str, version: int) -> Table:
        """A version of a type's table that is staged but not committed."""
        return self.repository.tables.open(path, version, layout=self.layout(key))

    def schema(self, key: str) -> pa.Schema:
        return self.layout(key).schema

    def path(self, key: str) -> str:
        """Where the type's table is, or will be."""
        state = self.state(key)
        return table_path(self.entity(key)) if state is None else state.path

    def table_or_new(self, key: str) -> Table:
        """The table to write to, or its empty first version if none was ever written."""
        return self.table(key) or self.repository.tables.create_as(self.path(key), self.layout(key))


class Repository:
    """The parts of an opened graph: bytes, rows and commits. Thread-safe.

    The table engine is loaded when rows are first used, so that reading commits does not wait for it.
    """

    def __init__(self, store: Store, history: History, open_tables: Callable[[], Tables]) -> None:
        self.store = store
        self.history = history
        self._open_tables = open_tables
        self.embedding: EmbeddingSettings | None = None
        """How texts are embedded; None means the settings of the environment."""
        self._catalogs: dict[str, Catalog] = {}
        self._layouts: dict[tuple[str, str], Layout] = {}
        self._uses: OrderedDict[tuple[str, int], tuple[TableState, Commit]] = OrderedDict()
        """The tables that were opened last, by path and version, each with a commit that has it."""
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        durability: Durability = "disk",
        runtime: Runtime | None = None,
    ) -> Repository:
        store = open_store(uri, storage_options=storage_options, durability=durability)
        return cls(store, History.open(store), partial(_tables, store, storage_options, durability, runtime))

    @classmethod
    def create(
        cls,
        uri: str,
        catalog: Catalog,
        storage_options: Mapping[str, str] | None = None,
        durability: Durability = "disk",
        actor: str | None = None,
        runtime: Runtime | None = None,
    ) -> Repository:
        check_attribution(actor)
        store = open_store(uri, storage_options=storage_options, durability=durability)
        history = History.create(store, encode_catalog(catalog), actor=actor)
        return cls(store, history, partial(_tables, store, storage_options, durability, runtime))

    @cached_property
    def tables(self) -> Tables:
        return self._open_tables()

    def filling(self) -> Embeddings:
        """Computes the vectors of texts."""
        from omnigraph.embedding.filling import Embeddings
        from omnigraph.embedding.settings import EmbeddingSettings

        return Embeddings(self.embedding or EmbeddingSettings.of(os.environ))

    def close(self) -> None:
        """Drop what is cached of this graph in memory. Later reads go to storage."""
        if "tables" in vars(self):
            self.tables.runtime.cache.forget(self.tables.root)

    def catalog(self, digest: str) -> Catalog:
        with self._lock:
            known = self._catalogs.get(digest)
        if known is None:
            from omnigraph.language.catalog_json import catalog_from_json

            known = read_as(schema_key(digest), lambda: catalog_from_json(json.loads(self.history.schemas.get(digest))))
            with self._lock:
                self._catalogs[digest] = known
        return known

    def cache_catalog(self, catalog: Catalog) -> str:
        """Keep a schema in memory, whether it is stored or not, so that views can use it; its hash."""
        digest = hashlib.sha256(encode_catalog(catalog)).hexdigest()
        with self._lock:
            self._catalogs.setdefault(digest, catalog)
        return digest

    def layout(self, digest: str, key: str) -> Layout:
        """Where the columns of a type of this schema are stored."""
        with self._lock:
            known = self._layouts.get((digest, key))
        if known is None:
            from omnigraph.tables.layout import Layout

            known = Layout.of(self.catalog(digest).tables[key])
            with self._lock:
                self._layouts[digest, key] = known
        return known

    def remember_use(self, state: TableState, commit: Commit) -> None:
        with self._lock:
            self._uses[state.path, state.version] = (state, commit)
            self._uses.move_to_end((state.path, state.version))
            if len(self._uses) > USES_REMEMBERED:
                self._uses.popitem(last=False)

    def explained(self, damage: Damaged, commit: Commit) -> Damaged | HistoryGap:
        """Why a file of a commit is missing or wrong: HistoryGap if cleanup has removed the commit, otherwise Damaged."""
        ref, chain = commit.ref, self.history.chain
        floor = chain.floor(ref.branch)
        if floor > ref.position and chain.find(ref.branch, ref.position) is None:
            return swept(ref.branch, f"commit {commit.id}", floor)
        return _of_commit(damage, commit)

    def damage(self) -> Damaged | HistoryGap | None:
        """A damaged file of a recently opened table, if there is one. Reads the content of up to DIAGNOSED_BYTES of data files
        per table."""
        with self._lock:
            uses = list(reversed(self._uses.values()))
        for state, commit in uses:
            for damage in self.tables.damaged_files(state.path, state.version, state.digest, DIAGNOSED_BYTES):
                return self.explained(damage, commit)
        return None

    def files_of(self, state: TableState) -> TableFiles:
        """Every file that a read of a table needs. Damaged if its manifest cannot be read."""
        return self.tables.files(state.path, state.version, state.digest)

    def view(self, snapshot: Snapshot) -> View:
        return View(self, snapshot)

    def assumed_head(self, branch: str) -> tuple[Entry, View] | None:
        """The head of a branch as last seen, without a request; None if that is too long ago, or the branch was deleted."""
        cached = self.history.chain.cached_head(branch)
        return None if cached is None or not cached[0].alive else (cached[0], self.view(cached[0].head))

    def head(self, branch: str = MAIN) -> tuple[Entry, View]:
        """The current head of a branch: one request when it has not moved."""
        entry = self.history.chain.head(branch)
        return entry, self.view(entry.head)

    def resolve(self, revision: str, as_of: str | dt.datetime | None = None) -> View:
        """The state that a revision names or, with `as_of`, that its branch had at that time."""
        return self.view(self.history.revisions.resolve(revision, as_of))


def _of_commit(damage: Damaged, commit: Commit) -> Damaged:
    affected = f"commit {commit.id} and every other commit with the same data cannot be read in full"
    return Damaged(damage.file, damage.what, affected=affected, commits=[commit.id])


def _tables(
    store: Store, storage_options: Mapping[str, str] | None, durability: Durability, runtime: Runtime | None
) -> Tables:
    from omnigraph.tables.store import Tables

    is_durable = durability == "disk"
    return Tables(store.uri, storage_options=storage_options, durable=is_durable, runtime=runtime, store=store)


def encode_catalog(catalog: Catalog) -> bytes:
    from omnigraph.language.catalog_json import catalog_to_json

    return json.dumps(catalog_to_json(catalog), separators=(",", ":"), sort_keys=True).encode()


def table_path(entity: EntityType) -> str:
    """The folder of a type's table, fixed by the schema: racing first writers use the same one."""
    kind, _, name = entity.table_key.partition(":")
    return f"{kind}s/{name}-{entity.table_id}"


def new_table_id(_table_key: str) -> str:
    """A random folder suffix for a type of a graph's first schema, so that no table that was there before has the same folder."""
    return new_ulid()[-10:].lower()
