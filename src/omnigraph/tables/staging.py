"""Staged writes: data first, then one detached version that names it. Nothing here is visible to readers.

Every change of a table has the same form: remove rows at some addresses (or all rows), add new fragments. Data files can be put
on any later version of the same table, so losing a race rewrites nothing.
"""

from __future__ import annotations

import base64
import functools
import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph._internal.lazy_imports import np, pa
from omnigraph.metering import Threads
from omnigraph.tables import growing, indexes
from omnigraph.tables.addresses import OFFSET_BITS, Fragment, RowSet
from omnigraph.tables.ascending import distinct, runs
from omnigraph.tables.changed_table import INLINE_FRAGMENT, ChangedTable
from omnigraph.tables.digests import deletion_path, name_data_files, name_deletions, version_digest, version_file
from omnigraph.tables.fragment_columns import MAX_FRAGMENT_ROWS, FragmentKeys
from omnigraph.tables.growing import FIELD_IDS
from omnigraph.tables.indexes import index_segments
from omnigraph.tables.table import Table

# Which small fragments a write folds into one.
#
# A one-row commit adds a one-row fragment. Fragments have levels by their rows (powers of FOLD_WIDTH); the write that finds
# FOLD_WIDTH fragments on a level folds them into one fragment of a higher level, which may fill that level in turn. So a table has
# at most FOLD_WIDTH fragments per level, their number grows with the logarithm of the number of commits, and each row is rewritten
# once per level.

FOLD_WIDTH = 8
MAX_FOLD_ROWS = 128 * 1024
MAX_FOLD_BYTES = 64 * 1024 * 1024
"""Fragments at or beyond these limits are left to compaction."""


def level_of(rows: int) -> int:
    level = 0
    while rows >= FOLD_WIDTH:
        rows //= FOLD_WIDTH
        level += 1
    return level


def fragments_to_fold(fragments: Sequence[Fragment], busy: Iterable[int] = ()) -> tuple[Fragment, ...]:
    """The fragments to fold now, in table order; () for most writes. `busy` fragments are being changed by the write itself."""
    occupied = set(busy)
    levels: dict[int, list[Fragment]] = {}
    for fragment in fragments:
        small = fragment.rows < MAX_FOLD_ROWS and fragment.bytes < MAX_FOLD_BYTES
        if fragment.id not in occupied and small:
            levels.setdefault(level_of(fragment.rows), []).append(fragment)
    chosen: list[Fragment] = []
    carried_rows = carried_bytes = 0
    for level in sorted(levels):
        members = levels[level]
        fills = len(members) + (1 if chosen and level_of(carried_rows) == level else 0) >= FOLD_WIDTH
        if not fills:
            if chosen:
                break
            continue
        rows = carried_rows + sum(fragment.rows for fragment in members)
        size = carried_bytes + sum(fragment.bytes for fragment in members)
        if rows > MAX_FOLD_ROWS * FOLD_WIDTH or size > MAX_FOLD_BYTES * FOLD_WIDTH:
            break
        chosen.extend(members)
        carried_rows, carried_bytes = rows, size
    ids = {fragment.id for fragment in chosen}
    return tuple(fragment for fragment in fragments if fragment.id in ids)


ROWS_PER_FRAGMENT = 1_048_576
BYTES_PER_PART = 512 * 1024 * 1024
ADDED_APART = 65_536
VERSION_THREADS = 3
"""How many versions of one run are made at the same time."""
FIELDS = "held_fields"
"""Of an adopted fragment: the columns that it has, as a serialized Arrow schema in base64."""


@dataclass(frozen=True)
class Staged:
    """A new version of a table. `fragments` can be put on another version; `files` must be durable.

    `fragments` are the new data fragments as JSON, small enough to be stored in a prepared plan.
    """

    path: str
    version: int
    rows: int
    added: int
    removed: int
    fragments: tuple[str, ...]
    files: tuple[str, ...]
    digest: str | None = None
    """Digest of the version's manifest, if files carry digests."""


@dataclass(frozen=True)
class PreviousAttempt:
    """A version that was staged without folding, the version it was made from, and the rows that were removed from that one: its
    deletions can be reused."""

    base: Table
    staged: Table
    removed: RowSet

    def unchanged_fragments(self, base: Table) -> frozenset[int]:
        """Fragments of `base` that are the same as when this was staged."""
        known = {fragment.id: fragment.content for fragment in self.base.fragments}
        return frozenset(fragment.id for fragment in base.fragments if known.get(fragment.id) == fragment.content)

    def not_yet_removed(self, rows: RowSet, base: Table) -> RowSet:
        """The rows outside fragments of `base` that are unchanged, from which they were removed already."""
        return rows.without_fragments(self.unchanged_fragments(base))

    def lacks(self, rows: RowSet, base: Table) -> bool:
        """Whether it was made from this version, and these rows were removed."""
        return self.base.version == base.version and not rows.difference(self.removed)

    def deletions(self, base: Table) -> tuple[list[int], list[Any]]:
        """Of the unchanged fragments: those that lost all rows, and those that lost some, with their deletions."""
        same = self.unchanged_fragments(base)
        before = {fragment.id: fragment.content for fragment in self.base.fragments}
        after = {fragment.id: fragment.content for fragment in self.staged.fragments}
        changed = [fragment for fragment in same if fragment in after and after[fragment] != before[fragment]]
        return sorted(same - after.keys()), [
            self.staged.dataset.get_fragment(fragment).metadata for fragment in changed
        ]


@dataclass(frozen=True)
class TrimmedFragment:
    """A fragment after rows were removed: `left` is what remains, as Lance's own object, or None if no row does."""

    fragment: int
    left: Any


def _joined(first: Any, second: Any) -> Any:
    return np.concatenate([np.asarray(first, np.uint32), np.asarray(second, np.uint32)])


def by_fragment(addresses: Iterable[int]) -> list[tuple[int, Any]]:
    """Each fragment with its offsets, ascending and without duplicates (NumPy)."""
    positions = addresses if isinstance(addresses, np.ndarray) else np.fromiter(addresses, dtype=np.uint64)
    unique = distinct(positions)
    offsets = (unique & np.uint64((1 << OFFSET_BITS) - 1)).astype(np.uint32)
    return [(fragment, offsets[places]) for fragment, places in runs(unique >> np.uint64(OFFSET_BITS))]


def delete_rows(base: Table, fragment: int, offsets: Any) -> TrimmedFragment:
    """A fragment without the rows at these offsets, for `stage`; this can run in another process. Rows of the fragment that
    inline changes mask are removed too."""
    if fragment == INLINE_FRAGMENT:
        return TrimmedFragment(fragment, offsets.tolist())
    if isinstance(base, ChangedTable):
        offsets = distinct(_joined(offsets, base.masked_offsets(fragment)))
        base = base.stored
    left = base.dataset.get_fragment(fragment).delete_rows(offsets.tolist())
    if left is not None:
        left = name_deletions(base.dataset, left)
        _keep_rest(base, left, offsets.tolist())
    return TrimmedFragment(fragment, left)


def write_fragments(table: Table, rows: pa.Table | pa.RecordBatchReader) -> tuple[str, ...]:
    """Write rows as data files of the table; no version names them yet."""
    from lance import fragment

    table = table.stored
    base = growing.grown(table)
    written = fragment.write_fragments(
        growing.rows_to_store(base, rows),
        base.dataset,
        mode="append",
        max_rows_per_file=ROWS_PER_FRAGMENT,
        max_bytes_per_file=BYTES_PER_PART,
    )
    name_data_files(table.dataset, written)
    reach(Failpoint.TABLE_STAGED_DATA)
    _keep_keys(table, written, rows)
    ids = None if base.columns is None else growing.field_ids(base.dataset)
    return tuple(_fragment_text(part, ids) for part in written)


def _keep_keys(table: Table, written: Sequence[Any], rows: pa.Table | pa.RecordBatchReader) -> None:
    """Cache the keys that were just written, so that they need not be read back."""
    if table.keys is None or len(written) != 1 or not hasattr(rows, "num_rows") or rows.num_rows > MAX_FRAGMENT_ROWS:
        return
    files = tuple(file._path for file in written[0].files)
    table.keys.put(table.path, (files, ""), FragmentKeys.of_written(rows, table.row_identity))


def stage(
    base: Table,
    *,
    fragments: Sequence[str] = (),
    remove: Iterable[int] = (),
    trimmed: Sequence[TrimmedFragment] = (),
    clear: bool = False,
    fold: bool = True,
    reuse_deletions: PreviousAttempt | None = None,
) -> tuple[Table, Staged]:
    """One detached version on top of `base`: rows at `remove` gone (all rows, with `clear`), `fragments` added, tail folded.
    Inline rows on top of `base` become stored rows.

    `trimmed`: fragments from which rows were removed already; no address in `remove` is in them.
    `reuse_deletions`: rows removed in that attempt are removed here too, from every fragment that is still the same.
    """
    from lance import LanceDataset, LanceOperation

    rows_before = base.rows
    done = [*trimmed, *(delete_rows(base, fragment, offsets) for fragment, offsets in by_fragment(remove))]
    absorbed: tuple[str, ...] = ()
    if isinstance(base, ChangedTable):
        assert reuse_deletions is None, "only deletions of stored rows are reused"
        done, absorbed = ([], ()) if clear else _absorbed(base, done)
    base = growing.grown(base.stored, _fields_of(fragments))
    own = load_fragments(base, fragments)
    new = [*load_fragments(base, absorbed), *own]
    gone = [trimmed.fragment for trimmed in done if trimmed.left is None]
    changed = [trimmed.left for trimmed in done if trimmed.left is not None]
    if clear:
        gone, changed = [fragment.id for fragment in base.fragments], []
    if reuse_deletions is not None:
        gone_before, changed_before = reuse_deletions.deletions(base)
        gone, changed = [*gone_before, *gone], [*changed_before, *changed]
    busy = {*gone, *(fragment.id for fragment in changed)}
    folded = fragments_to_fold(base.fragments, busy) if fold and not clear else ()
    folded_fragments = _fold(base, folded)
    added = sum(fragment.physical_rows for fragment in new)
    # Lance looks up the history of every row that is added together with a removal, so the many rows of a load are added in a
    # separate step.
    apart = added > ADDED_APART
    dataset = base.dataset
    if gone or changed or folded:
        operation = LanceOperation.Update(
            removed_fragment_ids=[*gone, *(fragment.id for fragment in folded)],
            updated_fragments=changed,
            new_fragments=[*load_fragments(base, folded_fragments), *(() if apart else new)],
            fields_modified=[],
        )
        dataset = LanceDataset.commit(dataset, operation, read_version=base.version, detached=True)
    if dataset is base.dataset or apart:
        operation = LanceOperation.Append(new)
        dataset = LanceDataset.commit(dataset, operation, read_version=dataset.version, detached=True)
    result = Table(base.path, dataset, base.layout)
    growing.check_values_kept(result, base, (*absorbed, *fragments, *folded_fragments))
    files = [*data_files(new), *deletion_files(changed), version_file(result.version)]
    if folded:
        files += data_files(load_fragments(base, folded_fragments))
        result, index_files = indexes.cover_again(result, base, {fragment.id for fragment in folded})
        files += index_files
    rows = sum(fragment.rows for fragment in result.fragments)
    reach(Failpoint.TABLE_STAGED_VERSION)
    return result, Staged(
        path=base.path,
        version=result.version,
        rows=rows,
        added=sum(fragment.physical_rows for fragment in own),
        removed=rows_before + sum(fragment.physical_rows for fragment in own) - rows,
        fragments=tuple(fragments),
        files=tuple(dict.fromkeys(files)),
        digest=version_digest(result.dataset),
    )


def _absorbed(base: ChangedTable, done: Sequence[TrimmedFragment]) -> tuple[list[TrimmedFragment], tuple[str, ...]]:
    """The inline changes on top of a stored version, as fragments that lose rows and new fragments. `done`: fragments that lose
    rows already, among them the fragment of inline rows."""
    gone = {offset for trimmed in done if trimmed.fragment == INLINE_FRAGMENT for offset in trimmed.left}
    left = [place for place in range(base.inline_rows.num_rows) if place not in gone]
    stored = [trimmed for trimmed in done if trimmed.fragment != INLINE_FRAGMENT]
    ready = {trimmed.fragment for trimmed in stored}
    masks = [(fragment, offsets) for fragment, offsets in by_fragment(base.masked) if fragment not in ready]
    trimmed = [*stored, *(delete_rows(base.stored, fragment, offsets) for fragment, offsets in masks)]
    return trimmed, write_fragments(base, base.inline_rows.take(left)) if left else ()


def stage_run(base: Table, additions: Sequence[Sequence[str]]) -> list[tuple[Table, Staged]]:
    """A version for each prefix of `additions`: the first adds the first fragments, the second those and its own, and so on.

    All of them are made from `base`, so they need not wait for each other. Rows have the same ids and addresses in every version
    that has them.
    """
    from lance import LanceDataset, LanceOperation

    base = growing.grown(base)
    loaded = [load_fragments(base, fragments) for fragments in additions]
    prefixes = [[fragment for fragments in loaded[: end + 1] for fragment in fragments] for end in range(len(loaded))]

    def commit(prefix: list[Any]) -> Table:
        operation = LanceOperation.Append(prefix)
        dataset = LanceDataset.commit(base.dataset, operation, read_version=base.version, detached=True)
        reach(Failpoint.TABLE_STAGED_VERSION)
        table = Table(base.path, dataset, base.layout)
        growing.check_values_kept(table, base, (text for fragments in additions for text in fragments))
        return table

    tables = list(_version_threads().map(commit, prefixes))
    rows = base.rows
    result = []
    for table, own, texts in zip(tables, loaded, additions, strict=True):
        added = sum(fragment.physical_rows for fragment in own)
        rows += added
        files = (*data_files(own), version_file(table.version))
        digest = version_digest(table.dataset)
        staged = Staged(base.path, table.version, rows, added, 0, tuple(texts), files, digest)
        result.append((table, staged))
    return result


@functools.cache
def _version_threads() -> Threads:
    return Threads(VERSION_THREADS, thread_name_prefix="omnigraph-stage")


os.register_at_fork(after_in_child=_version_threads.cache_clear)


def adopted(table: Table, fragments: Iterable[int]) -> tuple[str, ...]:
    """Fragments of another version of the same table in a form in which they can be added elsewhere: same files, no ids yet.

    Deletions are left out: they belong to the version that the fragment came from.
    """
    texts, ids, schema = [], growing.field_ids(table.stored.dataset), table.stored.dataset.schema
    for fragment in fragments:
        value = table.stored.dataset.get_fragment(fragment).metadata.to_json()
        value.update(id=0, deletion_file=None, row_id_meta=None)
        value.update(created_at_version_meta=None, last_updated_at_version_meta=None)
        value[FIELD_IDS] = ids
        held = pa.schema([schema.field(name) for name in sorted(table.stored.held_columns[fragment])])
        value[FIELDS] = base64.b64encode(held.serialize()).decode()
        texts.append(json.dumps(value))
    return tuple(texts)


def _fields_of(texts: Iterable[str]) -> list[pa.Field]:
    """The columns of adopted fragments."""
    fields: dict[str, pa.Field] = {}
    for text in texts:
        if FIELDS in text and (held := json.loads(text).get(FIELDS)) is not None:
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(held)))
            fields |= {field.name: field.with_nullable(True) for field in schema}
    return list(fields.values())


def stored_rows(table: Table) -> dict[int, int]:
    """How many rows the files of each fragment hold, including deleted ones: as many as an adopted fragment adds."""
    return {fragment.fragment_id: fragment.physical_rows for fragment in table.stored.dataset.get_fragments()}


def deleted_rows(table: Table) -> int:
    """How many rows in the files of a table readers do not see."""
    hidden = len(table.masked) if isinstance(table, ChangedTable) else 0
    return sum(stored_rows(table).values()) - table.stored.rows + hidden


def _fragment_text(fragment: Any, field_ids: growing.FieldIds | None) -> str:
    """A fragment that was just written: no deletions, no row ids yet. (The public `path` builds a class at every access.)

    `field_ids`: those of the version it was written for, if its columns are not those that the table was created with.
    """
    files = [{"path": file._path, **{k: v for k, v in vars(file).items() if k != "_path"}} for file in fragment.files]
    value = {"id": fragment.id, "files": files, "physical_rows": fragment.physical_rows}
    return json.dumps(value if field_ids is None else value | {FIELD_IDS: field_ids})


def load_fragment(text: str) -> Any:
    """A fragment as Lance's own object, for the version that it was written for."""
    from lance import FragmentMetadata

    value = json.loads(text)
    value.pop(FIELD_IDS, None)
    return FragmentMetadata.from_json(json.dumps(value))


def load_fragments(base: Table, texts: Iterable[str]) -> list[Any]:
    """Fragments that were written for any version of the table, with the field ids of this one."""
    from lance import FragmentMetadata

    ids = functools.cache(lambda: growing.field_ids(base.dataset))
    loaded = []
    for text in texts:
        value = json.loads(text)
        value.pop(FIELDS, None)
        if FIELD_IDS in value:
            growing.rename_fields(value["files"], value.pop(FIELD_IDS), ids())
        loaded.append(FragmentMetadata.from_json(json.dumps(value)))
    return loaded


def _keep_rest(base: Table, left: Any, offsets: Sequence[int]) -> None:
    """Cache the keys of a fragment that lost rows, if its keys from before are held."""
    before = next(fragment for fragment in base.fragments if fragment.id == left.id)
    known = base.keys and base.keys.get(base.path, before.content)
    if base.keys and known:
        content = (before.files, deletion_path(left.id, left.deletion_file))
        base.keys.put(base.path, content, known.without(offsets))


def _fold(base: Table, folded: Sequence[Fragment]) -> tuple[str, ...]:
    if not folded:
        return ()
    ids = [fragment.id for fragment in folded]
    values = growing.ValueCount(base, ids)
    written = write_fragments(base, values.counted(_kept_rows(base, folded) or base.read(fragments=ids)))
    values.check()
    return written


def _kept_rows(base: Table, fragments: Sequence[Fragment]) -> pa.Table | None:
    """The rows of these fragments, if this process holds all of them."""
    kept = [base.keys and base.keys.get(base.path, fragment.content) for fragment in fragments]
    tables = [keys.rows for keys in kept if keys and keys.rows is not None and keys.is_whole(base.row_identity)]
    return pa.concat_tables(tables) if len(tables) == len(fragments) else None


def data_files(fragments: Iterable[Any]) -> list[str]:
    return [f"data/{file._path}" for fragment in fragments for file in fragment.files]


def deletion_files(fragments: Iterable[Any]) -> list[str]:
    return [deletion_path(fragment.id, fragment.deletion_file) for fragment in fragments]


# A version without its damaged parts: fragments whose files are lost, index segments that are not trusted.


def fragments_with(table: Table, names: Collection[str]) -> list[int]:
    """The fragments that need one of these files."""
    wanted = set(names)
    return [
        fragment.id
        for fragment in table.fragments
        if fragment.deletions in wanted or not wanted.isdisjoint(f"data/{file}" for file in fragment.files)
    ]


def stage_without(base: Table, fragments: Collection[int], indexes: Collection[str]) -> tuple[Table, Staged]:
    """One detached version without these fragments, and without these index segments (by UUID, or by the index's name). No
    damaged file is read."""
    from lance import LanceDataset, LanceOperation

    dataset = base.dataset
    unwanted = set(indexes)
    segments = [segment for segment in index_segments(base) if unwanted & {segment.uuid, segment.name}]
    if segments:
        forget = LanceOperation.CreateIndex([], segments)
        dataset = LanceDataset.commit(dataset, forget, read_version=dataset.version, detached=True)
    if fragments:
        drop = LanceOperation.Update(
            removed_fragment_ids=list(fragments), updated_fragments=[], new_fragments=[], fields_modified=[]
        )
        dataset = LanceDataset.commit(dataset, drop, read_version=dataset.version, detached=True)
    result = Table(base.path, dataset)
    files = (version_file(result.version),)
    lost = base.rows - result.rows
    digest = version_digest(dataset)
    return result, Staged(base.path, result.version, result.rows, 0, lost, (), files, digest)
