"""A version without its damaged parts: fragments whose files are lost, index segments that are not trusted."""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.tables.digests import version_digest, version_file
from omnigraph.tables.indexes import index_segments
from omnigraph.tables.staging import Staged
from omnigraph.tables.table import Table


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
