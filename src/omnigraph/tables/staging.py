"""Staged writes: data first, then one detached version that names it. Nothing here is visible to a reader.

Every change of a table is the same shape: remove rows at some addresses (or all rows), add new parts. Data files that
were written once can be put on any later version of the same table, so losing a race rewrites nothing.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.failpoints import Failpoint, reach
from omnigraph.tables import folding, indexes
from omnigraph.tables.ascending import distinct, runs
from omnigraph.tables.key_cache import PART_ROWS_MOST, PartKeys
from omnigraph.tables.table import OFFSET_BITS, Part, Table, deletion_path

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_PART = 1_048_576
BYTES_PER_PART = 512 * 1024 * 1024
ADDED_APART = 65_536
VERSION_THREADS = 3
"""Versions of one run that are made at the same time."""


@dataclass(frozen=True)
class Staged:
    """A new version of a table made from `base_version`. `parts` can be put on another version; `files` must be durable.

    Small enough to be kept in a prepared plan: `parts` are the new data parts as JSON texts.
    """

    path: str
    base_version: int
    version: int
    rows: int
    added: int
    removed: int
    parts: tuple[str, ...]
    files: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "parts": list(self.parts), "files": list(self.files)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Staged:
        return cls(**{**value, "parts": tuple(value["parts"]), "files": tuple(value["files"])})


@dataclass(frozen=True)
class Earlier:
    """A version that was staged without folding, and the one it was made from."""

    base: Table
    staged: Table

    def still_same(self, base: Table) -> frozenset[int]:
        """Parts of `base` that are as they were when this was staged."""
        known = {part.id: part.content for part in self.base.parts}
        return frozenset(part.id for part in base.parts if known.get(part.id) == part.content)

    def removed(self, base: Table) -> tuple[list[int], list[Any]]:
        """Of these parts: those that lost all their rows, and those that lost some, with their deletions."""
        same = self.still_same(base)
        before = {part.id: part.content for part in self.base.parts}
        after = {part.id: part.content for part in self.staged.parts}
        changed = [part for part in same if part in after and after[part] != before[part]]
        return sorted(same - after.keys()), [self.staged.dataset.get_fragment(part).metadata for part in changed]


@dataclass(frozen=True)
class Lessened:
    """A part after rows of it were removed: what is left of it, in Lance's own form, or None when no row is."""

    part: int
    left: Any


def by_part(addresses: Iterable[int]) -> list[tuple[int, Any]]:
    """Each part with the offsets in it, ascending and each once (NumPy)."""
    import numpy as np

    given = addresses if isinstance(addresses, np.ndarray) else np.fromiter(addresses, dtype=np.uint64)
    unique = distinct(given)
    offsets = (unique & np.uint64((1 << OFFSET_BITS) - 1)).astype(np.uint32)
    return [(part, offsets[places]) for part, places in runs(unique >> np.uint64(OFFSET_BITS))]


def lessen(base: Table, part: int, offsets: Any) -> Lessened:
    """A part without the rows at these offsets, for `stage`; it may be made in another process."""
    left = base.dataset.get_fragment(part).delete_rows(offsets.tolist())
    if left is not None:
        _keep_rest(base, left, offsets.tolist())
    return Lessened(part, left)


def write_parts(table: Table, rows: pa.Table | pa.RecordBatchReader) -> tuple[str, ...]:
    """Rows as data files of the table; no version names them yet."""
    from lance.fragment import write_fragments

    written = write_fragments(
        rows, table.dataset, mode="append", max_rows_per_file=ROWS_PER_PART, max_bytes_per_file=BYTES_PER_PART
    )
    reach(Failpoint.TABLE_STAGED_DATA)
    _keep_keys(table, written, rows)
    return tuple(_part_text(fragment) for fragment in written)


def _keep_keys(table: Table, written: Sequence[Any], rows: pa.Table | pa.RecordBatchReader) -> None:
    """What was just written need not be read back to look up its keys."""
    if table.keys is None or len(written) != 1 or not hasattr(rows, "num_rows") or rows.num_rows > PART_ROWS_MOST:
        return
    files = tuple(file._path for file in written[0].files)
    table.keys.put(table.path, (files, ""), PartKeys.of_written(rows))


def stage(
    base: Table,
    *,
    parts: Sequence[str] = (),
    remove: Iterable[int] = (),
    lessened: Sequence[Lessened] = (),
    clear: bool = False,
    fold: bool = True,
    like: Earlier | None = None,
) -> tuple[Table, Staged]:
    """One detached version on top of `base`: rows at `remove` gone (all rows, with `clear`), `parts` added, tail folded.

    `lessened`: parts from which rows were removed already, for no address in `remove`.
    `like`: what was removed there is removed here too, from every part that is still the same, without doing it again.
    """
    from lance import LanceDataset, LanceOperation

    new = [_load_part(text) for text in parts]
    done = [*lessened, *(lessen(base, part, offsets) for part, offsets in by_part(remove))]
    gone = [one.part for one in done if one.left is None]
    changed = [one.left for one in done if one.left is not None]
    if clear:
        gone, changed = [part.id for part in base.parts], []
    if like is not None:
        gone_before, changed_before = like.removed(base)
        gone, changed = [*gone_before, *gone], [*changed_before, *changed]
    busy = {*gone, *(fragment.id for fragment in changed)}
    folded = folding.parts_to_fold(base.parts, busy) if fold and not clear else ()
    folded_parts = _fold(base, folded)
    added = sum(fragment.physical_rows for fragment in new)
    # For rows that come with a removal Lance looks up each one's past; the many of a load come by themselves instead.
    apart = added > ADDED_APART
    dataset = base.dataset
    if gone or changed or folded:
        operation = LanceOperation.Update(
            removed_fragment_ids=[*gone, *(part.id for part in folded)],
            updated_fragments=changed,
            new_fragments=[*(_load_part(text) for text in folded_parts), *(() if apart else new)],
            fields_modified=[],
        )
        dataset = LanceDataset.commit(dataset, operation, read_version=base.version, detached=True)
    if dataset is base.dataset or apart:
        operation = LanceOperation.Append(new)
        dataset = LanceDataset.commit(dataset, operation, read_version=dataset.version, detached=True)
    result = Table(base.path, dataset)
    files = [*_data_files(new), *_deletion_files(changed), version_file(result.version)]
    if folded:
        files += _data_files(_load_part(text) for text in folded_parts)
        result, index_files = indexes.cover_again(result, base, {part.id for part in folded})
        files += index_files
    rows = sum(part.rows for part in result.parts)
    reach(Failpoint.TABLE_STAGED_VERSION)
    return result, Staged(
        path=base.path,
        base_version=base.version,
        version=result.version,
        rows=rows,
        added=added,
        removed=base.rows + added - rows,
        parts=tuple(parts),
        files=tuple(dict.fromkeys(files)),
    )


def stage_run(base: Table, additions: Sequence[Sequence[str]]) -> list[tuple[Table, Staged]]:
    """A version for each prefix of `additions`: the first adds the first parts, the second those and its own, and so on.

    They all stand on `base` and need not wait for each other. The rows of a longer one have the same ids and addresses as
    in a shorter one.
    """
    from lance import LanceDataset, LanceOperation

    loaded = [[_load_part(text) for text in parts] for parts in additions]
    prefixes = [[part for parts in loaded[: end + 1] for part in parts] for end in range(len(loaded))]

    def commit(prefix: list[Any]) -> Table:
        operation = LanceOperation.Append(prefix)
        dataset = LanceDataset.commit(base.dataset, operation, read_version=base.version, detached=True)
        reach(Failpoint.TABLE_STAGED_VERSION)
        return Table(base.path, dataset)

    tables = list(_version_threads().map(commit, prefixes))
    rows = base.rows
    result = []
    for table, own, texts in zip(tables, loaded, additions, strict=True):
        added = sum(part.physical_rows for part in own)
        rows += added
        files = (*_data_files(own), version_file(table.version))
        result.append((table, Staged(base.path, base.version, table.version, rows, added, 0, tuple(texts), files)))
    return result


@functools.cache
def _version_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(VERSION_THREADS, thread_name_prefix="omnigraph-stage")


os.register_at_fork(after_in_child=_version_threads.cache_clear)


def replace_parts(base: Table, old: Sequence[int], parts: Sequence[str]) -> tuple[Table, Staged]:
    """One detached version in which `parts` stand for the old ones, with the same rows; indexes cover the new parts."""
    from lance import LanceDataset, LanceOperation

    new = [_load_part(text) for text in parts]
    operation = LanceOperation.Update(
        removed_fragment_ids=list(old), updated_fragments=[], new_fragments=new, fields_modified=[]
    )
    dataset = LanceDataset.commit(base.dataset, operation, read_version=base.version, detached=True)
    result = Table(base.path, dataset)
    files = [*_data_files(new), version_file(result.version)]
    result, index_files = indexes.cover_again(result, base, set(old))
    return result, Staged(base.path, base.version, result.version, base.rows, 0, 0, (), (*files, *index_files))


def adopted(table: Table, parts: Iterable[int]) -> tuple[str, ...]:
    """Parts of another version of the same table as parts that can be added elsewhere: same files, no ids yet.

    A part with deletions is given whole: its deletions belong to the version it came from.
    """
    texts = []
    for part in parts:
        value = table.dataset.get_fragment(part).metadata.to_json()
        value.update(id=0, deletion_file=None, row_id_meta=None)
        value.update(created_at_version_meta=None, last_updated_at_version_meta=None)
        texts.append(json.dumps(value))
    return tuple(texts)


def stored_rows(table: Table) -> dict[int, int]:
    """How many rows the files of each part hold, deleted ones included: what an adopted part brings."""
    return {fragment.fragment_id: fragment.physical_rows for fragment in table.dataset.get_fragments()}


def _part_text(fragment: Any) -> str:
    """A part that was just written: no deletions, no row ids yet. (The public `path` builds a class at every access.)"""
    files = [{"path": file._path, **{k: v for k, v in vars(file).items() if k != "_path"}} for file in fragment.files]
    return json.dumps({"id": fragment.id, "files": files, "physical_rows": fragment.physical_rows})


def _load_part(text: str) -> Any:
    from lance.fragment import FragmentMetadata

    return FragmentMetadata.from_json(text)


def _keep_rest(base: Table, left: Any, offsets: Sequence[int]) -> None:
    """The keys of a part that lost rows, when those it had are known."""
    before = next(part for part in base.parts if part.id == left.id)
    known = base.keys and base.keys.get(base.path, before.content)
    if base.keys and known:
        content = (before.files, deletion_path(left.id, left.deletion_file))
        base.keys.put(base.path, content, known.without(offsets))


def _fold(base: Table, folded: Sequence[Part]) -> tuple[str, ...]:
    if not folded:
        return ()
    return write_parts(base, _kept_rows(base, folded) or base.read(parts=[part.id for part in folded]))


def _kept_rows(base: Table, parts: Sequence[Part]) -> pa.Table | None:
    """The rows of these parts, if this process still has all of them."""
    import pyarrow as pa

    kept = [base.keys and base.keys.get(base.path, part.content) for part in parts]
    tables = [keys.rows for keys in kept if keys and keys.rows is not None and keys.rows.schema.equals(base.schema)]
    return pa.concat_tables(tables) if len(tables) == len(parts) else None


def _data_files(fragments: Iterable[Any]) -> list[str]:
    return [f"data/{file._path}" for fragment in fragments for file in fragment.files]


def _deletion_files(fragments: Iterable[Any]) -> list[str]:
    return [deletion_path(fragment.id, fragment.deletion_file) for fragment in fragments]


def version_file(version: int) -> str:
    return f"_versions/d{version}.manifest"
