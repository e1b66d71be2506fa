"""All tables of one graph: opening them at a version (cached), creating them, and making staged files durable."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import pa
from omnigraph._internal.runtime import Runtime
from omnigraph.errors import Damaged, StorageDenied, StorageTransient
from omnigraph.storage.options import open_store, scheme_of, storage_options_for
from omnigraph.storage.os_errors import check_free_files
from omnigraph.storage.store import ObjectInfo, Store
from omnigraph.storage.syncing import Durability, sync_files
from omnigraph.tables import staging
from omnigraph.tables.adjacency.index import AdjacencyIndex
from omnigraph.tables.adjacency.zones import EdgeZones
from omnigraph.tables.changed_table import ChangedTable, masks_left
from omnigraph.tables.digests import digest_of, version_digest, version_file
from omnigraph.tables.fragment_columns import KeyCache
from omnigraph.tables.lance_errors import translated
from omnigraph.tables.layout import KEY_COLUMNS, Layout
from omnigraph.tables.staging import PreviousAttempt, Staged, TrimmedFragment
from omnigraph.tables.table import READ_WHOLE_BYTES, Table
from omnigraph.tables.verifying import (
    SizeOf,
    TableFile,
    TableFiles,
    content_fault,
    damaged_deletions,
    damaged_files,
    files_of,
    needed_files,
    read_manifest,
)
from omnigraph.values.inline_rows import NO_INLINE, Inline

if TYPE_CHECKING:
    from omnigraph.storage.objects import Memory
    from omnigraph.tables.indexes import SegmentPlan
    from omnigraph.tables.lost_rows import LostRows, Rewrite


INDEX_FOLDER = "_indices/"
PACKED = {"lance-encoding:compression": "zstd"}
TABLES_CACHED = 512
VERSIONS_CACHED = 64
"""Of one table. Each holds its list of fragments, half a megabyte or more; a server that commits all day opens one after the other."""
CHANGED_TABLES_CACHED = 128
MAX_CHECKED = 100_000
FIRST_DETACHED = 1 << 63
MAX_INDEX_CACHE_BYTES = 512 * 1024 * 1024
MAX_METADATA_CACHE_BYTES = 256 * 1024 * 1024
"""The most that Lance caches for one graph; or half and a quarter of the runtime's memory, if that is less."""


class Tables:
    """The tables below one root. `path` arguments are relative to it ("nodes/Person-0a1b2c"). Thread-safe."""

    def __init__(
        self,
        root: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        durable: bool = True,
        runtime: Runtime | None = None,
        store: Store | None = None,
    ) -> None:
        """`store`: a store that is already open at the same root."""
        self.root = root.rstrip("/")
        self._options = storage_options_for(root, storage_options)
        self._folder = None if "://" in root else Path(root)
        self._durable = durable
        self._cache: OrderedDict[tuple[str, int, Layout | None], Table] = OrderedDict()
        self._changed_cache: OrderedDict[tuple[object, ...], ChangedTable] = OrderedDict()
        self._lock = threading.Lock()
        self._session_value: Any = None
        self._memory = _memory_at(self.root)
        durability: Durability = "disk" if durable else "process"
        opened = store or open_store(self.root, storage_options=self._options, durability=durability)
        self.store: Store | None = None if self._memory else opened
        """The store of the tables' files; None for tables in memory."""
        self.runtime = runtime or Runtime()
        self._keys = KeyCache(self.runtime.cache, self.root)
        self._checked: set[tuple[str, str]] = set()
        """Deletion files whose content matched the digest in their name."""

    @cached_property
    def derived_store(self) -> Store | None:
        """The store of derived files, which can be built again: writes do not wait for the disk, and an incomplete file after a
        crash is recognised."""
        if self._memory is not None:
            return None
        return open_store(self.root, storage_options=self._options, durability="process")

    @cached_property
    def _zones(self) -> EdgeZones | None:
        return None if self.derived_store is None else EdgeZones(self.root, self.runtime.cache, self.derived_store)

    @cached_property
    def adjacency(self) -> AdjacencyIndex:
        """Ids as numbers and edges as arrays, at any version."""
        return AdjacencyIndex(self.root, self.runtime.cache, self.store)

    @property
    def held_bytes(self) -> int:
        """Memory that the caches hold for these tables."""
        return self.runtime.cache.held(self.root)

    @property
    def options(self) -> dict[str, str]:
        """The options that a worker elsewhere needs to reach the same tables."""
        return dict(self._options)

    def uri(self, path: str) -> str:
        base = str(self._folder) if self._folder is not None else self.root
        return f"{base}/{path}"

    def open(
        self,
        path: str,
        version: int,
        digest: str | None = None,
        *,
        layout: Layout | None = None,
        inline: Inline = NO_INLINE,
    ) -> Table:
        """The table at a version; the same object for the same arguments while it is cached. `layout`: the columns that readers
        see; without one, the columns as stored. `inline`: changes in commits on top of it, which need a layout.

        On local disk, raises Damaged unless the manifest has this digest and the deletion files match their names: they are
        small, and Lance may crash the process over a wrong one.
        """
        if inline:
            return self.changed(path, version, layout, inline, lambda: self.open(path, version, digest, layout=layout))
        with self._lock:
            table = self._cache.get((path, version, layout))
            if table is not None:
                self._cache.move_to_end((path, version, layout))
                return table
            stored = self._cache.get((path, version, None))
        if stored is not None:
            return self.remember(Table(path, stored.dataset, layout))
        with translated(path):
            table = self._opened(path, version, digest, layout)
            self._check_deletions(table)
        return self.remember(table)

    def changed(
        self, path: str, version: int, layout: Layout | None, inline: Inline, open_stored: Callable[[], Table]
    ) -> ChangedTable:
        """A version with inline changes on top of it. The stored version is opened only when it is needed."""
        key = (path, version, layout, len(inline), inline[-1])
        with self._lock:
            table = self._changed_cache.get(key)
            if table is None or table.inline != inline:
                table = self._changed_cache[key] = ChangedTable(path, version, layout, inline, open_stored)
                while len(self._changed_cache) > CHANGED_TABLES_CACHED:
                    self._changed_cache.popitem(last=False)
            self._changed_cache.move_to_end(key)
            return table

    def with_inline(self, stored: Table, inline: Inline) -> Table:
        """Inline changes on another version than theirs, with the same fragments or fewer; masks of rows that this version lacks
        are dropped."""
        left = masks_left(stored, inline)
        return self.with_changes(stored, left) if left else stored

    def with_changes(self, stored: Table, inline: Inline) -> Table:
        """A stored version with its inline changes."""
        return ChangedTable.on(stored, inline)

    def settle(self, table: Table, *, fold: bool = False) -> tuple[Table, Staged | None]:
        """The same rows in a stored version, which is staged now if there are inline rows."""
        if not isinstance(table, ChangedTable):
            return table, None
        staged = self.stage(table, fold=fold)
        return self.open(staged.path, staged.version, layout=table.layout), staged

    def _check_deletions(self, table: Table) -> None:
        if self._folder is None:
            return
        names = {fragment.deletions for fragment in table.fragments} - {""}
        unchecked = {name for name in names if (table.path, name) not in self._checked}
        for damage in damaged_deletions(table, self._folder, unchecked):
            raise damage
        with self._lock:
            if len(self._checked) > MAX_CHECKED:
                self._checked.clear()
            self._checked.update((table.path, name) for name in unchecked)

    def damaged_files(
        self, path: str, version: int, digest: str | None = None, most_bytes: int | None = None
    ) -> Iterator[Damaged]:
        """Every file of a version that is missing or does not hold what was written, as far as can be told.

        On an object store, which keeps checksums itself, only presence and sizes are checked. The same goes for data files beyond
        the first `most_bytes`. Tables in memory have no files.
        """
        if self._memory is not None:
            return
        try:
            if self._folder is not None and self.store is not None:
                read_manifest(self.store, path, version, digest)
            table = self.open(path, version)
        except Damaged as damage:
            yield damage
            return
        yield from damaged_files(table, self._sizes(path), self._folder, most_bytes)

    def files(self, path: str, version: int, digest: str | None = None) -> TableFiles:
        """Every file that a read of this version needs. Raises Damaged if its manifest cannot be read.

        The table is not kept open: callers go through many versions without reading from them.
        """
        with self._lock:
            table = self._cache.get((path, version, None))
        if table is None:
            with translated(path):
                table = self._opened(path, version, digest)
        return files_of(table)

    @property
    def has_files(self) -> bool:
        """Whether the tables are stored with the other objects of the graph. Those of a graph in memory are not."""
        return self._memory is None

    def _sizes(self, path: str) -> SizeOf:
        if self._folder is None:
            store = self.store
            assert store is not None, "tables in memory have no files"
            return sizes_in(path, store.list(path)).get
        folder = self._folder / path

        def size_of(name: str) -> int | None:
            place = folder / name
            try:
                files = [*place.rglob("*")] if place.is_dir() else [place]
                return sum(file.stat().st_size for file in files if not file.is_dir())
            except FileNotFoundError:
                return None

        return size_of

    def needed_files(self, path: str, version: int, digest: str | None = None) -> tuple[int, tuple[TableFile, ...]]:
        """The number of rows of a version, and the files besides its manifest that a read of it may need. Raises Damaged if the
        manifest is missing or cannot be read. The version is not cached."""
        try:
            with translated(path):
                table = self._opened(path, version, digest)
                return table.rows, tuple(needed_files(table))
        except (Damaged, StorageTransient, StorageDenied):
            raise
        except Exception as error:  # For a damaged manifest, Lance raises whatever error it runs into.
            what = f"it cannot be read ({type(error).__name__})"
            raise Damaged(f"{path}/{version_file(version)}", what) from error

    def is_empty(self, path: str, version: int) -> bool:
        """Whether a version has no rows; False also if it is damaged."""
        try:
            with translated(path):
                return not self._opened(path, version).fragments
        except (StorageTransient, StorageDenied):
            raise
        except Exception:  # For a damaged manifest, Lance raises whatever error it runs into.
            return False

    def rows_by_file(self, path: str, version: int, digest: str | None = None) -> dict[str, int]:
        """The files that a version needs, each with the number of rows that cannot be read without it; {} if its manifest is
        damaged."""
        try:
            _, files = self.needed_files(path, version, digest)
        except Damaged:
            return {}
        rows = dict.fromkeys((file.name for file in files), 0)
        for fragment in self._opened(path, version).fragments:
            for name in (*(f"data/{file}" for file in fragment.files), fragment.deletions):
                if name:
                    rows[name] += fragment.rows
        return rows

    def stage_without(self, path: str, version: int, *, files: Collection[str], indexes: Collection[str]) -> Staged:
        """One version without the rows in these files, and without these indexes: see `repairing.stage_without`. `files`: paths
        in the table; `indexes`: UUIDs of segments, or names of indexes."""
        from omnigraph.tables import staging as repairing

        with translated(path):
            base = self._opened(path, version)
            fragments = repairing.fragments_with(base, files)
            table, staged = repairing.stage_without(base, fragments, indexes)
        self.remember(table)
        return staged

    def lost_values(self, table: Table) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
        """Values that a version does not read although its files hold them: see `lost_values.lost_values`."""
        from omnigraph.tables.lost_rows import lost_values

        if self._memory is None:
            with translated(table.path):
                yield from lost_values(table, self.uri(table.path), self._options)

    def content_fault(self, path: str, file: TableFile) -> str | None:
        """What is wrong with the content of a file of a table; None also if files carry no digests."""
        return None if self._folder is None else content_fault(self._folder / path, file)

    def _opened(self, path: str, version: int, digest: str | None = None, layout: Layout | None = None) -> Table:
        """A new handle, not the cached one."""
        import lance

        manifest = None
        if self.store is not None and version >= FIRST_DETACHED:
            # Lance would request the file's size before reading it.
            manifest = read_manifest(self.store, path, version, digest)
        dataset = lance.LanceDataset(
            self.uri(path),
            version,
            block_size=None if self._folder or self._memory else READ_WHOLE_BYTES,
            storage_options=self._options or None,
            serialized_manifest=manifest,
            session=self._session(),
        )
        return Table(path, dataset, layout)

    def digest(self, path: str, version: int) -> str | None:
        """Digest of the manifest of a version that was just made; None if files carry no digests."""
        return None if self._folder is None else digest_of(self._folder / path / version_file(version))

    def create(self, path: str, schema: pa.Schema, *, layout: Layout | None = None) -> Table:
        """The table's empty first version, with these stored columns. Any number of writers may do this at once: all get the same
        table, whichever columns it was created with."""
        import lance

        schema = _with_packed_keys(schema)
        try:
            dataset = lance.write_dataset(
                schema.empty_table(),
                self.uri(path),
                mode="create",
                enable_stable_row_ids=True,
                storage_options=self._options or None,
                session=self._session(),
            )
        except (OSError, ValueError) as error:
            with translated(path):
                if "already exists" not in str(error) and "conflict" not in str(error).lower():
                    raise
            return self.open(path, 1, layout=layout)
        if self._folder is not None and self._durable:
            # By name: another writer's temporary file may be there, and disappear, at the same time.
            sync_files((self._folder / path / "_versions").glob("*.manifest"), root=self._folder)
        return self.remember(Table(path, dataset, layout))

    def create_as(self, path: str, layout: Layout) -> Table:
        """The first version of a table with the columns that a layout writes."""
        return self.create(path, layout.written_schema, layout=layout)

    def write_fragments(self, table: Table, rows: pa.Table | pa.RecordBatchReader) -> tuple[str, ...]:
        with translated(table.path):
            return staging.write_fragments(table, rows)

    def stage(
        self,
        base: Table,
        *,
        rows: pa.Table | pa.RecordBatchReader | None = None,
        fragments: Sequence[str] = (),
        remove: Iterable[int] = (),
        trimmed: Sequence[TrimmedFragment] = (),
        clear: bool = False,
        fold: bool = True,
        reuse_deletions: PreviousAttempt | None = None,
    ) -> Staged:
        """Write `rows` (if any) and make one detached version: see `staging.stage`."""
        with translated(base.path):
            written = () if rows is None else staging.write_fragments(base, rows)
            table, staged = staging.stage(
                base,
                fragments=(*fragments, *written),
                remove=remove,
                trimmed=trimmed,
                clear=clear,
                fold=fold,
                reuse_deletions=reuse_deletions,
            )
        self.remember(table)
        return staged

    def delete_rows(self, base: Table, fragment: int, offsets: Any) -> TrimmedFragment:
        """A fragment without some of its rows, for `stage`: see `staging.delete_rows`."""
        with translated(base.path):
            return staging.delete_rows(base, fragment, offsets)

    def stage_run(
        self, base: Table, additions: Sequence[Sequence[str]], rows: pa.Table, *, fold: bool = True
    ) -> list[Staged]:
        """A version for each prefix of `additions` (each the fragments of one write): see `staging.stage_run`.

        Later writes build on the last one, so it holds all `rows` of the run as one fragment.
        """
        if len(additions) == 1:
            return [self.stage(base, fragments=additions[0], fold=fold)]
        base, settled = self.settle(base)
        if settled is not None:
            first, *others = self.stage_run(base, additions, rows, fold=fold)
            return [replace(first, files=(*settled.files, *first.files)), *others]
        with translated(base.path):
            run = staging.stage_run(base, additions[:-1])
        for table, _ in run:
            self.remember(table)
        last = self.stage(base, rows=rows, fold=fold)
        own = rows.num_rows - sum(staged.added for _, staged in run)
        return [*(staged for _, staged in run), replace(last, added=own)]

    def stage_index(self, base: Table, specs: Iterable[Any]) -> Staged | None:
        """One version in which every wanted index covers every row; None if nothing was missing."""
        from omnigraph.tables import indexes

        plans = indexes.plan_segments(base, specs)
        return self.stage_segments(base, plans, self.build_segments(base, plans)) if plans else None

    def build_segments(self, base: Table, plans: Sequence[SegmentPlan]) -> list[Any]:
        """Build index segments for `stage_segments`, concurrently in this process."""
        from omnigraph.tables import indexes

        with translated(base.path):
            return indexes.build_segments(plans, lambda plan: self.build_segment(base.path, base.version, plan))

    def build_segment(self, path: str, version: int, plan: SegmentPlan) -> Any:
        """An index segment for `stage_segments`; this can run in another process. None if none is needed, because the column
        ascends in these fragments; their zones are stored then."""
        from omnigraph.tables import indexes

        with translated(path):
            table = self._opened(path, version)
            if self._zones is not None and indexes.may_have_zones(table, plan.spec):
                rest = set(plan.fragments) - self._zones.write(table, plan.fragments, plan.spec.column)
                plan = replace(plan, fragments=tuple(sorted(rest)))
            return indexes.build_segment(table, plan) if plan.fragments else None

    def stage_segments(
        self, base: Table, plans: Sequence[SegmentPlan], built: Sequence[Any], unneeded: Collection[str] = ()
    ) -> Staged | None:
        """One version with these segments and without the unneeded ones (by UUID); None if there are neither."""
        from omnigraph.tables import indexes

        with translated(base.path):
            table, files = indexes.stage_segments(base, plans, built, unneeded)
        return None if table.version == base.version else self._staged(base, table, files)

    def rewrite(self, base: Table, group: Sequence[int], cluster_by: str | None) -> tuple[str, ...]:
        """The rows of a group of fragments as new fragments, for `stage_rewrite`; this can run in another process."""
        from omnigraph.tables import compaction

        with translated(base.path):
            return compaction.rewrite(base, group, cluster_by)

    def stage_rewrite(self, rewrite: Rewrite) -> Staged:
        """One version with the same rows in the fragments that compaction wrote."""
        from omnigraph.tables import compaction

        with translated(rewrite.base.path):
            table, files = compaction.put_on_base(rewrite)
        return self._staged(rewrite.base, table, files)

    def lost_rows(self, rewrite: Rewrite, staged: Staged) -> LostRows:
        """Finds the rows that others change while the table is compacted. `staged` has the new fragments, and their indexes if
        there are any."""
        from omnigraph.tables.lost_rows import LostRows

        return LostRows(rewrite, self.open(staged.path, staged.version))

    def stage_rewrite_on(self, head: Table, rewrite: Rewrite, lost: LostRows) -> Staged | None:
        """Like `stage_rewrite`, on a later version: see `compaction.put_on`. None if nothing is left to replace."""
        from omnigraph.tables import compaction

        with translated(head.path):
            placed = compaction.put_on(rewrite, lost, head)
        return None if placed is None else self._staged(head, *placed)

    def stage_segments_on(
        self,
        head: Table,
        built_on: Table,
        plans: Sequence[SegmentPlan],
        built: Sequence[Any],
        unneeded: Collection[str] = (),
    ) -> Staged | None:
        """One version with segments that were built on another, and without those that were unneeded there; None if neither
        applies to this version."""
        from omnigraph.tables import indexes

        with translated(head.path):
            table, files = indexes.stage_segments_on(head, built_on, plans, built, unneeded)
        return None if table.version == head.version else self._staged(head, table, files)

    def _staged(self, base: Table, table: Table, files: Sequence[str]) -> Staged:
        """A version with the same rows as the one it was made from."""
        self.remember(table)
        digest = version_digest(table.dataset)
        return Staged(base.path, table.version, base.rows, 0, 0, (), tuple(files), digest)

    def sync(self, staged: Iterable[Staged]) -> None:
        """Make every file of these versions durable, which on local disk needs an explicit sync. Called before a publish."""
        if files := self.unsynced(staged):
            sync_files(files, root=self._folder)

    def unsynced(self, staged: Iterable[Staged]) -> tuple[str, ...]:
        """The files of these versions that are local and have to be made durable."""
        if self._folder is None or not self._durable:
            return ()
        return tuple(str(self._folder / version.path / file) for version in staged for file in version.files)

    def remember(self, table: Table) -> Table:
        with self._lock:
            key = (table.path, table.version, table.layout)
            is_new = key not in self._cache
            kept = self._cache.setdefault(key, table)
            kept.keys = self._keys
            kept.zones = self._zones
            self._cache.move_to_end(key)
            if is_new:
                self._evict(table.path)
        return kept

    def _evict(self, path: str) -> None:
        """Drop the versions that were used least recently, first of a table with many of them."""
        versions = [key for key in self._cache if key[0] == path]
        for key in versions[:-VERSIONS_CACHED]:
            del self._cache[key]
        while len(self._cache) > TABLES_CACHED:
            self._cache.popitem(last=False)

    def _session(self) -> Any:
        with self._lock:
            if self._session_value is None:
                memory = self._memory
                self._session_value = (
                    memory.share("lance", self._held_session)[0] if memory else _new_session(self.runtime)
                )
            return self._session_value

    def _held_session(self) -> tuple[Any, Any]:
        """A session for tables in memory, and a table that is never read.

        Lance keeps tables in memory with a session, for as long as one of them is open, and two tables created first at the same
        time would each start a memory of their own. So one table always exists.
        """
        import lance

        session, schema = _new_session(self.runtime), pa.schema([pa.field("held", pa.int8())])
        held = lance.write_dataset(
            schema.empty_table(),
            self.uri("held"),
            mode="create",
            storage_options=self._options or None,
            session=session,
        )
        return session, held


def sizes_in(path: str, listed: Iterable[ObjectInfo]) -> dict[str, int]:
    """The size of each file of the table at `path`, by its path in the table; for an index, that of its folder."""
    sizes: dict[str, int] = {}
    for info in listed:
        name = info.key.removeprefix(f"{path}/")
        if name.startswith(INDEX_FOLDER):
            name = "/".join(name.split("/")[:2])
        sizes[name] = sizes.get(name, 0) + info.size
    return sizes


def _with_packed_keys(schema: pa.Schema) -> pa.Schema:
    """Ids and ends are compressed: ascending ones take less than half the space, and one and a half times as long to read."""
    packed = [field.with_metadata(PACKED) if field.name in KEY_COLUMNS else field for field in schema]
    return pa.schema(packed, schema.metadata)


def _new_session(runtime: Runtime) -> Any:
    import lance

    _start_lance(os.getpid())
    return lance.Session(
        index_cache_size_bytes=min(MAX_INDEX_CACHE_BYTES, runtime.memory_bytes // 2),
        metadata_cache_size_bytes=min(MAX_METADATA_CACHE_BYTES, runtime.memory_bytes // 4),
    )


@cache
def _start_lance(_process: int) -> None:
    """Start Lance's threads. Where they cannot open what they need, every later call of Lance waits for ever."""
    import lance

    check_free_files()
    with contextlib.suppress(ValueError):
        lance.LanceDataset("memory://nothing", 1)


def _memory_at(root: str) -> Memory | None:
    if scheme_of(root) != "memory":
        return None
    from omnigraph.storage.objects import open_memory

    return open_memory(root).memory


# A table at a version, as a value that can be sent with a task.


class TablePlace:
    """In this process it uses the tables that are open; in another process they are opened again, once."""

    def __init__(
        self, tables: Tables, path: str, version: int, layout: Layout | None, inline: Inline = NO_INLINE
    ) -> None:
        self.tables = tables
        self.path = path
        self.version = version
        self.layout = layout
        self.inline = inline

    @classmethod
    def of(cls, tables: Tables, table: Table) -> TablePlace:
        return cls(tables, table.path, table.version, table.layout, table.inline)

    def __reduce__(self) -> tuple[Any, ...]:
        options = tuple(sorted(self.tables.options.items()))
        return _reopened, (self.tables.root, options, self.path, self.version, self.layout, self.inline)

    def open(self) -> Table:
        return self.tables.open(self.path, self.version, layout=self.layout, inline=self.inline)


def _reopened(
    root: str, options: tuple[tuple[str, str], ...], path: str, version: int, layout: Layout | None, inline: Inline
) -> TablePlace:
    return TablePlace(tables_at(root, options), path, version, layout, inline)


@lru_cache(maxsize=4)
def tables_at(root: str, options: tuple[tuple[str, str], ...]) -> Tables:
    """The tables at a root, for the tasks of a worker: opened once, however many tasks there are."""
    return Tables(root, storage_options=dict(options))
