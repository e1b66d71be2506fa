"""The files of one version of a table, as named in its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.tables.digests import version_file
from omnigraph.tables.table import Table


@dataclass(frozen=True)
class TableFiles:
    """Every file that a read of one version needs. Keys are those of the graph's store ("nodes/Person-0a1b2c/data/...").

    Nothing else of the table is read for this version: neither Lance's transaction files nor another version's manifest.
    """

    manifest: str
    data: Mapping[str, int | None]
    """Data files, with their sizes if the manifest has them."""
    deletions: frozenset[str]
    indexes: Mapping[str, int | None]
    """Folders of index segments, with the bytes in each if the manifest has them. Everything below such a folder is needed."""

    @property
    def keys(self) -> Iterator[str]:
        """The individual files; those below `indexes` are known only from a listing."""
        yield self.manifest
        yield from self.data
        yield from self.deletions


def files_of(table: Table) -> TableFiles:
    return TableFiles(
        manifest=f"{table.path}/{version_file(table.version)}",
        data={
            f"{table.path}/data/{file._path}": file.file_size_bytes
            for fragment in table.dataset.get_fragments()
            for file in fragment.metadata.files
        },
        deletions=frozenset(f"{table.path}/{fragment.deletions}" for fragment in table.fragments if fragment.deletions),
        indexes={
            f"{table.path}/_indices/{segment.uuid}": segment.size_bytes
            for index in table.dataset.describe_indices()
            for segment in index.segments
        },
    )
