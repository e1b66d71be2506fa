"""Compaction: many fragments, or fragments with many deletions, rewritten as a few large ones. The rows stay as they are.

Old fragments are removed and new ones added in one detached version. Each group of fragments can be written anywhere. What was
written for one version can be put on a later one of the same table: rows that others deleted meanwhile are deleted from the new
fragments, and fragments that others added are kept. To make this possible, the new fragments have ids above all that writers give
out meanwhile, and row ids of their own (`row_ids`), so that the indexes built over them stay valid on any version.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.tables import growing
from omnigraph.tables.addresses import Fragment
from omnigraph.tables.digests import version_file
from omnigraph.tables.lost_rows import LostRows, Rewrite, RewrittenGroup, fragments_by_files
from omnigraph.tables.staging import (
    ROWS_PER_FRAGMENT,
    data_files,
    deletion_files,
    load_fragments,
    stored_rows,
    write_fragments,
)
from omnigraph.tables.table import Table

# Row ids that compaction gives to the fragments it writes.
#
# Lance numbers rows from 0 when they are added to a version. A text or vector index refers to rows by these numbers, so an index
# over fragments that are not in a published version yet would become invalid when they are put on another one. So compaction brings
# its own numbers, from ranges that Lance never reaches: a random start, then consecutive numbers. The range also tells a reader of
# a manifest whether a fragment is sorted.
#
#     2^60 to 2^61        rows in their original order
#     2^61 to 3 * 2^60    rows sorted by the column that the table is clustered by

_IN_ORDER = 1 << 60
_CLUSTERED = 1 << 61
_RANDOM_BITS = 59
_RANGE = b"\x0a"
"""Tag in Lance's protobuf: a sequence of segments, whose first kind is a range of `start` and `end`."""


def new_row_ids(*, clustered: bool) -> int:
    """The first of a run of fresh ids."""
    return (_CLUSTERED if clustered else _IN_ORDER) + secrets.randbits(_RANDOM_BITS)


def row_id_range(start: int, rows: int) -> dict[str, list[int]]:
    """The ids `start`, `start + 1` and so on, in the form of Lance's fragment descriptions."""
    members = b"\x08" + _varint(start) + b"\x10" + _varint(start + rows)
    segment = _RANGE + _varint(len(members)) + members
    return {"Inline": list(_RANGE + _varint(len(segment)) + segment)}


def is_clustered(fragment: Any) -> bool:
    """Whether the row ids in Lance's description of a fragment say that it is sorted."""
    start = _first_id(fragment.to_json()["row_id_meta"])
    return start is not None and _CLUSTERED <= start < _CLUSTERED + (1 << _RANDOM_BITS)


def _first_id(row_ids: dict[str, list[int]] | None) -> int | None:
    """The start of a single range; None for any other sequence."""
    data = iter((row_ids or {}).get("Inline", ()))
    try:
        for mark in (_RANGE[0], _RANGE[0]):
            if next(data) != mark:
                return None
            _read_varint(data)
        return _read_varint(data) if next(data) == 0x08 else None
    except StopIteration:
        return None


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _read_varint(data: Iterator[int]) -> int:
    number = shift = 0
    while True:
        byte = next(data)
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number


MAX_DELETED_SHARE = 0.1
"""A fragment that has lost a larger share of its rows is rewritten."""
MAX_CLUSTERED_BYTES = 128 * 1024 * 1024
"""Fragments are sorted in memory, up to this many stored bytes at a time; larger ones keep their order."""
MIN_CLUSTERED_ROWS = 4_096
"""A fragment with fewer rows is not rewritten only to be sorted."""
FRAGMENT_ID_GAP = 16_384
"""Others may add this many fragments while a table is compacted. Each compaction uses up as many of the 2^32 ids."""
MAX_LOST_SHARE = 0.5
"""A group that lost a larger share of its rows while it was written is not put in place."""
ADDED_APART = 16_384


@dataclass(frozen=True)
class Group:
    """Fragments that are rewritten together, and how many of them for which reason."""

    fragments: tuple[int, ...]
    small: int
    worn: int
    unsorted: int
    outdated: int = 0


def plan_rewrite(
    base: Table, cluster_by: str | None = None, *, max_deleted_share: float = MAX_DELETED_SHARE
) -> list[Group]:
    """Groups of fragments worth rewriting, each into one fragment; [] if the table is in good shape."""
    stored = stored_rows(base)
    groups: list[list[Fragment]] = [[]]
    worn: set[int] = set()
    unsorted: set[int] = set()
    outdated = _outdated(base)
    for fragment in base.fragments:
        if 1 - fragment.rows / max(stored[fragment.id], 1) > max_deleted_share:
            worn.add(fragment.id)
        if cluster_by is not None and _is_unsorted(base, fragment):
            unsorted.add(fragment.id)
        if not _is_small(fragment) and fragment.id not in worn | unsorted | outdated:
            continue
        if groups[-1] and not _fits(groups[-1], fragment, cluster_by):
            groups.append([])
        groups[-1].append(fragment)
    return [
        Group(
            fragments=tuple(fragment.id for fragment in group),
            small=sum(_is_small(fragment) for fragment in group),
            worn=sum(fragment.id in worn for fragment in group),
            unsorted=sum(fragment.id in unsorted for fragment in group),
            outdated=sum(fragment.id in outdated for fragment in group),
        )
        for group in groups
        if len(group) > 1 or any(fragment.id in worn | unsorted | outdated for fragment in group)
    ]


def _outdated(base: Table) -> set[int]:
    """Fragments whose rows would be stored in other columns today: some of theirs were dropped or widened, or lack a value that
    is now filled in."""
    if base.columns is None or base.layout is None:
        return set()
    return {id for id, held in base.held_columns.items() if base.layout.is_outdated(held)}


def _is_small(fragment: Fragment) -> bool:
    return fragment.rows < ROWS_PER_FRAGMENT // 2


def _is_unsorted(base: Table, fragment: Fragment) -> bool:
    if fragment.rows < MIN_CLUSTERED_ROWS or fragment.bytes > MAX_CLUSTERED_BYTES:
        return False
    return not is_clustered(base.dataset.get_fragment(fragment.id).metadata)


def _fits(group: Sequence[Fragment], fragment: Fragment, cluster_by: str | None) -> bool:
    rows = sum(member.rows for member in group) + fragment.rows
    size = sum(member.bytes for member in group) + fragment.bytes
    return rows <= ROWS_PER_FRAGMENT and (cluster_by is None or size <= MAX_CLUSTERED_BYTES)


def rewrite(base: Table, group: Sequence[int], cluster_by: str | None = None) -> tuple[str, ...]:
    """Rewrite one group's rows, streamed or sorted; nothing is visible yet."""
    values = growing.ValueCount(base, group)
    if cluster_by is None or not _is_sortable(base, group):
        rows: pa.Table | pa.RecordBatchReader = base.scan(fragments=group)
    else:
        rows = _sorted(base.read(fragments=group).combine_chunks(), cluster_by)
    written = write_fragments(base, values.counted(rows))
    values.check()
    return written


def _sorted(rows: pa.Table, column: str) -> pa.Table:
    """The rows sorted by a string column without nulls. Strings repeat, so the distinct ones are sorted once, and rows are sorted
    by rank."""
    texts = pa.concat_arrays(rows.column(column).chunks).dictionary_encode()
    ranks = np.empty(len(texts.dictionary), dtype=np.int32)
    ranks[pc.sort_indices(texts.dictionary).to_numpy()] = np.arange(len(ranks), dtype=np.int32)
    return rows.take(pa.array(np.argsort(ranks[texts.indices.to_numpy()], kind="stable")))


def _is_sortable(base: Table, group: Sequence[int]) -> bool:
    return sum(fragment.bytes for fragment in base.fragments if fragment.id in group) <= MAX_CLUSTERED_BYTES


def rewritten(
    base: Table, groups: Sequence[Group], written: Sequence[Sequence[str]], cluster_by: str | None = None
) -> Rewrite:
    """The fragments written for each group, with the ids that they keep on any version."""
    by_id = {fragment.id: fragment for fragment in base.fragments}
    next_id = _highest_fragment_id(base) + FRAGMENT_ID_GAP
    results = []
    for group, texts in zip(groups, written, strict=True):
        row_id = new_row_ids(clustered=cluster_by is not None and _is_sortable(base, group.fragments))
        new = []
        for text in texts:
            value = json.loads(text)
            value.update(id=next_id, row_id_meta=row_id_range(row_id, value["physical_rows"]))
            new.append(json.dumps(value))
            next_id += 1
            row_id += value["physical_rows"]
        results.append(RewrittenGroup(tuple(by_id[id] for id in group.fragments), tuple(new)))
    return Rewrite(base, tuple(results))


def _highest_fragment_id(table: Table) -> int:
    """Among the table's fragments and those that an index still refers to."""
    live = [fragment.id for fragment in table.fragments]
    indexed: list[int] = [
        fragment
        for entry in table.dataset.describe_indices()
        for segment in entry.segments
        for fragment in segment.fragment_ids
    ]
    return max([0, *live, *indexed])


def put_on_base(rewrite: Rewrite) -> tuple[Table, list[str]]:
    """The base with the new fragments in place of the old ones, and the files that must be durable."""
    old = [fragment.id for group in rewrite.groups for fragment in group.old]
    base = growing.grown(rewrite.base)
    new = load_fragments(base, [text for group in rewrite.groups for text in group.new])
    table = _replaced(base, old, new)
    assert table.rows == rewrite.base.rows, "compaction keeps every row"
    return table, [*data_files(new), version_file(table.version)]


def put_on(rewrite: Rewrite, lost: LostRows, head: Table) -> tuple[Table, list[str]] | None:
    """Another version of the table with the new fragments, as far as they still match its rows; and the files that must be
    durable. None if nothing is left to replace."""
    if _highest_fragment_id(head) >= rewrite.first_id:
        return None
    head = growing.grown(head)
    twins = fragments_by_files(head)
    old: list[int] = []
    new: list[Any] = []
    for group in rewrite.groups:
        addresses = lost.addresses(group, head, twins)
        if addresses is None or len(addresses) > MAX_LOST_SHARE * group.rows:
            continue
        old += [twins[fragment.files].id for fragment in group.old if fragment.files in twins]
        new += growing.renamed_fields(lost.trimmed(group, addresses), group.field_ids, head)
    if not old:
        return None
    table = _replaced(head, old, new)
    assert table.rows == head.rows, "compaction keeps every row"
    trimmed = [fragment for fragment in new if fragment.deletion_file is not None]
    return table, [*data_files(new), *deletion_files(trimmed), version_file(table.version)]


def _replaced(base: Table, old: Sequence[int], new: Sequence[Any]) -> Table:
    """One detached version in which the new fragments replace the old ones."""
    from lance import LanceDataset, LanceOperation

    # Lance looks up the history of every row that is added together with a removal, so many rows are added in a separate step.
    apart = sum(fragment.physical_rows for fragment in new) > ADDED_APART
    operation = LanceOperation.Update(
        removed_fragment_ids=list(old),
        updated_fragments=[],
        new_fragments=[] if apart else list(new),
        fields_modified=[],
    )
    dataset = LanceDataset.commit(base.dataset, operation, read_version=base.version, detached=True)
    if apart:
        dataset = LanceDataset.commit(
            dataset, LanceOperation.Append(list(new)), read_version=dataset.version, detached=True
        )
    return Table(base.path, dataset, base.layout)
