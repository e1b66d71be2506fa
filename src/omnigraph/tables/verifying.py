"""Whether the files of a table's version exist and hold what was written, as far as their names tell (see `digests`)."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from omnigraph.errors import Damaged, ObjectMissing
from omnigraph.storage import Store
from omnigraph.tables import digests
from omnigraph.tables.files import files_of
from omnigraph.tables.table import Table

MISSING = "it is missing"
CHANGED = "its content does not have the digest that it was written with"

SizeOf = Callable[[str], int | None]
"""The size of a file of the table (for an index: of its folder), by its path in the table; None if it is missing."""

FileKind = Literal["data", "deletions", "index"]


@dataclass(frozen=True)
class TableFile:
    """What a version needs besides its manifest: `name` is the file's path in the table, or an index's folder. Size and digest
    are None if unknown."""

    kind: FileKind
    name: str
    size: int | None
    digest: str | None


def needed_files(table: Table) -> Iterator[TableFile]:
    """Every file besides the manifest that a read of this version may need, each once."""
    files, inside = files_of(table), len(table.path) + 1
    for key, size in files.data.items():
        yield TableFile("data", key[inside:], size, digests.data_digest(key))
    for key in sorted(files.deletions):
        yield TableFile("deletions", key[inside:], None, digests.deletions_digest(key))
    for key, size in files.indexes.items():
        yield TableFile("index", key[inside:], size, digests.index_digest(key.rsplit("/", 1)[1]))


def size_fault(file: TableFile, size: int | None) -> str | None:
    """What is wrong with a file that has this size in a listing."""
    if size is None:
        return MISSING
    return f"it has {size} bytes instead of {file.size}" if file.size not in (None, size) else None


def content_fault(folder: Path, file: TableFile) -> str | None:
    """What is wrong with the content of a file of a table on local disk. `folder`: the table's."""
    if file.digest is None:
        return None
    if file.kind == "index":
        index = folder / file.name
        if digests.folder_digest(index) == file.digest:
            return None
        return CHANGED if index.exists() else MISSING
    with contextlib.suppress(FileNotFoundError):
        return None if digests.digest_of(folder / file.name).startswith(file.digest) else CHANGED
    return MISSING


def read_manifest(store: Store, path: str, version: int, digest: str | None) -> bytes:
    """The manifest of a detached version, in the form that Lance takes. Raises Damaged if its file is missing, is not a manifest,
    or has another digest than this one, if one is known."""
    file = f"{path}/{digests.version_file(version)}"
    try:
        data = store.get(file)
    except ObjectMissing as error:
        raise Damaged(file, MISSING) from error
    # The file ends with the manifest's position (8 bytes), the format (4 bytes) and a magic word. The manifest begins with its length.
    start = int.from_bytes(data[-16:-8], "little")
    end = start + 4 + int.from_bytes(data[start : start + 4], "little")
    is_whole = data.endswith(b"LANC") and end <= len(data) - 16
    if not is_whole or digest not in (None, hashlib.sha256(data).hexdigest()[: digests.DIGITS]):
        raise Damaged(file, CHANGED)
    return data[start + 4 : end]


def damaged_deletions(table: Table, folder: Path, names: set[str]) -> Iterator[Damaged]:
    """Those of the given deletion files, on local disk, that do not hold what their names say."""
    for name in sorted(names):
        file = TableFile("deletions", name, None, digests.deletions_digest(name))
        if what := content_fault(folder / table.path, file):
            yield Damaged(f"{table.path}/{name}", what)


def damaged_files(
    table: Table, size_of: SizeOf, folder: Path | None, most_bytes: int | None = None
) -> Iterator[Damaged]:
    """The damaged ones among the files that a read of this version may need. `folder`: the graph's, if it is on local disk, where
    contents are checked too: those of indexes, and of files up to `most_bytes` in total."""
    read = 0
    for file in needed_files(table):
        size = size_of(file.name)
        what = size_fault(file, size)
        read += size or 0
        if what is None and folder is not None and (most_bytes is None or read <= most_bytes or file.kind == "index"):
            what = content_fault(folder / table.path, file)
        if what is not None:
            yield Damaged(f"{table.path}/{file.name}", what)


# ---------------------------------------------------------------- files of other tools

_FIRST_VERSIONS = frozenset(["_versions/1.manifest", f"_versions/{2**64 - 2}.manifest"])
"""The empty version that a table is created with, as Lance names it."""
_OURS = re.compile(
    r"data/[^/]+\.lance"
    r"|_deletions/\d+-\d+-\d+\.(arrow|bin)"
    r"|_indices/[0-9a-f-]{36}/.+"
    r"|_adjacency/\d+-[0-9a-f]{16}(\.adj|-(id|src)\.zones)"
    r"|_transactions/[^/]+\.txn"
    r"|_versions/(d\d+\.manifest|latest_version_hint\.json)"
    r"|[^/]+/\.tmp[0-9A-Za-z]{6}"  # a file that Lance is about to rename, or that its writer left when it died
)
_OTHER_VERSION = re.compile(r"_versions/(\d+)\.manifest")


def foreign_file(name: str, is_empty: Callable[[int], bool]) -> str | None:
    """Why a file in a table's folder must come from another tool; None if it may be ours. `name`: its path in the table.
    `is_empty` says whether one of Lance's numbered versions has no rows: writers that race to create a table may each make one of
    these."""
    if name in _FIRST_VERSIONS or _OURS.fullmatch(name):
        return None
    if (other := _OTHER_VERSION.fullmatch(name)) is not None:
        number = int(other[1])
        if is_empty(2**64 - 1 - number if number >= 2**63 else number):
            return None
        return "another tool made a version of this table: no commit has it, and no read sees it"
    return "no file of a table has this name"
