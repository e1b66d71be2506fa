"""Whether the files of a table's version are there and hold what was written, as far as their names tell (see `digests`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from omnigraph.errors import Damaged
from omnigraph.tables import digests
from omnigraph.tables.table import Table

MISSING = "it is missing"
CHANGED = "its content does not have the digest that it was written with"

SizeOf = Callable[[str], int | None]
"""The size of a file of the table, by its path there; None when it is missing."""


def check_manifest(folder: Path, path: str, version: int, digest: str | None) -> None:
    """Damaged unless the manifest of a table on local disk is there, with this digest if one is known."""
    file = digests.version_file(version)
    try:
        found = digests.digest_of(folder / path / file)
    except FileNotFoundError as error:
        raise Damaged(f"{path}/{file}", MISSING) from error
    if digest not in (None, found):
        raise Damaged(f"{path}/{file}", CHANGED)


def damaged_deletions(table: Table, folder: Path, names: set[str]) -> Iterator[Damaged]:
    """Of these deletion files of a table on local disk: those that do not hold what their names say."""
    for name in sorted(names):
        if what := _digest_fault(folder / table.path / name, digests.deletions_digest(name)):
            yield Damaged(f"{table.path}/{name}", what)


def damaged_files(
    table: Table, size_of: SizeOf, folder: Path | None, most_bytes: int | None = None
) -> Iterator[Damaged]:
    """Every file below the manifest that a read of this version may need. `folder`: the graph's, when it is on local disk."""
    read = 0
    for name, size, digest in _files(table):
        found = size_of(name)
        what = MISSING if found is None else None
        if what is None and size not in (None, found):
            what = f"it has {found} bytes instead of {size}"
        read += found or 0
        if what is None and folder is not None and (most_bytes is None or read <= most_bytes):
            what = _digest_fault(folder / table.path / name, digest)
        if what is not None:
            yield Damaged(f"{table.path}/{name}", what)
    if folder is not None:
        yield from _damaged_indexes(table, folder)


def _files(table: Table) -> Iterator[tuple[str, int | None, str | None]]:
    """Data and deletion files: path, size and digest, where known."""
    for fragment in table.dataset.get_fragments():
        for file in fragment.metadata.files:
            yield f"data/{file._path}", file.file_size_bytes, digests.data_digest(file._path)
    for name in sorted({fragment.deletions for fragment in table.fragments} - {""}):
        yield name, None, digests.deletions_digest(name)


def _damaged_indexes(table: Table, folder: Path) -> Iterator[Damaged]:
    for entry in table.dataset.describe_indices():
        for segment in entry.segments:
            digest = digests.index_digest(str(segment.uuid))
            index = folder / table.path / "_indices" / str(segment.uuid)
            if digest is not None and digests.folder_digest(index) != digest:
                what = CHANGED if index.exists() else MISSING
                yield Damaged(f"{table.path}/_indices/{segment.uuid}", what)


def _digest_fault(file: Path, digest: str | None) -> str | None:
    if digest is None:
        return None
    with contextlib.suppress(FileNotFoundError):
        return None if digests.digest_of(file).startswith(digest) else CHANGED
    return MISSING
