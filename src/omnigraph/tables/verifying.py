"""Whether the files of a table's version exist and hold what was written, as far as their names tell (see `digests`)."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from omnigraph._internal.lazy_imports import np, pa, pt
from omnigraph.errors import Damaged, ObjectMissing
from omnigraph.storage.store import Store
from omnigraph.tables import digests, filters
from omnigraph.tables.addresses import ROW_ADDRESS, ROW_ID
from omnigraph.tables.digests import version_file
from omnigraph.tables.indexes import IndexSpec, spec_of
from omnigraph.tables.lance_errors import translated
from omnigraph.tables.searching import DISTANCE, find_text
from omnigraph.tables.table import Table

# The files of one version of a table, as named in its manifest.


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


# Whether an index answers as a scan of the table does. Lookup indexes are compared completely, text and vector indexes by
# sample.
#
# A lookup index is queried for ranges that together hold every value, and for some values at once; each answer is compared, row by
# row, with that of a scan. A text index must find sampled rows by one of their words. A vector index, searched completely, must
# find a row as near to a sampled vector as the nearest one.

RANGE_ROWS = 65_536
"""Rows of a range, about; larger tables have larger ranges."""
MAX_RANGES = 16
SAMPLES = 16
ALL_PARTITIONS = 1_000_000
_WORD = re.compile(r"\w+")
MAX_WORD = 40
"""Longer words are not looked up."""


def index_fault(table: Table, name: str) -> str | None:
    """What is wrong with the answers of an index of the table; None if nothing is."""
    spec = spec_of(name)
    with translated(table.path):
        match spec.kind:
            case "BTREE":
                return _lookup_fault(table, spec.column)
            case "INVERTED":
                return _text_fault(table, spec.column, _covered(table, name))
            case "IVF_FLAT":
                return _vector_fault(table, spec, _covered(table, name))


def index_names(table: Table) -> dict[str, list[str]]:
    """Every index of the table, with the UUIDs of its segments."""
    described = table.dataset.describe_indices()
    return {entry.name: [str(segment.uuid) for segment in entry.segments] for entry in described}


def _covered(table: Table, name: str) -> list[int]:
    """The fragments of the table that the index claims to cover."""
    live = {fragment.id for fragment in table.fragments}
    named = {
        fragment
        for entry in table.dataset.describe_indices()
        if entry.name == name
        for segment in entry.segments
        for fragment in segment.fragment_ids
    }
    return sorted(live & named)


def _sampled(table: Table, column: str, fragments: Sequence[int]) -> list[dict[str, Any]]:
    """Rows with a value in the column, spread over these fragments, with row ids."""
    if not fragments:
        return []
    step = max(1, len(fragments) // SAMPLES)
    rows: list[dict[str, Any]] = []
    for fragment in fragments[::step]:
        sample = table.scan(
            [column], f"{filters.column(column)} IS NOT NULL", fragments=[fragment], with_row_id=True, limit=SAMPLES
        ).read_all()
        rows += sample.to_pylist()
    return rows[:: max(1, len(rows) // SAMPLES)]


# ---------------------------------------------------------------- lookups


def _lookup_fault(table: Table, column: str) -> str | None:
    for question in _questions(table, column):
        by_index, by_scan = (_addresses(table, question, use) for use in (True, False))
        if not np.array_equal(by_index, by_scan):
            lacking, extra = len(np.setdiff1d(by_scan, by_index)), len(np.setdiff1d(by_index, by_scan))
            return f"for {question} it returns {len(by_index)} rows: {lacking} are missing, and {extra} do not match"
    return None


def _questions(table: Table, column: str) -> Iterator[str]:
    name = filters.column(column)
    yield f"{name} IS NULL"
    yield f"{name} IS NOT NULL"
    if not _can_be_written(table, column):
        return
    bounds, values = _bounds(table, column)
    texts = [filters.literal(bound) for bound in bounds]
    if texts:
        yield f"{name} < {texts[0]}"
        yield from (f"{name} >= {low} AND {name} < {high}" for low, high in pairwise(texts))
        yield f"{name} >= {texts[-1]}"
    if values:
        yield filters.in_list(column, values)


def _can_be_written(table: Table, column: str) -> bool:
    """Whether every value of the column can be written exactly in a filter."""
    type = table.schema.field(column).type
    return bool(pt.is_string(type) or pt.is_signed_integer(type) or pt.is_date(type))


def _bounds(table: Table, column: str) -> tuple[list[Any], list[Any]]:
    """Values that cut the column into ranges of about equal size, and some values to look up."""
    seen: list[Any] = []
    for batch in table.scan([column], batch_rows=RANGE_ROWS):
        values = batch.column(0).drop_null()
        places = range(0, len(values), max(1, len(values) // MAX_RANGES))
        seen += [values[place].as_py() for place in places]
        if len(seen) > MAX_RANGES * 64:
            seen = sorted(seen)[::2]
    ordered, ranges = sorted(set(seen)), min(MAX_RANGES, 1 + table.rows // RANGE_ROWS)
    bounds = ordered[:: max(1, len(ordered) // ranges)][:ranges]
    return bounds, ordered[:: max(1, len(ordered) // SAMPLES)][:SAMPLES]


def _addresses(table: Table, question: str, use_index: bool) -> np.ndarray[Any, Any]:
    """Sorted addresses of the matching rows; there may be many millions."""
    rows = table.dataset.scanner(
        columns=[], filter=question, with_row_address=True, use_scalar_index=use_index
    ).to_table()
    return np.sort(rows.column(ROW_ADDRESS).to_numpy())


# ---------------------------------------------------------------- text and vectors


def _text_fault(table: Table, column: str, fragments: Sequence[int]) -> str | None:
    for row in _sampled(table, column, fragments):
        word = _word_of(row[column])
        if word is None:
            continue
        rows = find_text(table, column, [word], ["id"], every=True, filter=None, limit=table.rows + 1)
        if row[ROW_ID] not in set(rows.column(ROW_ID).to_pylist()):
            return f"it does not find a row by its word '{word}'"
    return None


def _word_of(text: str) -> str | None:
    """A word that every tokenizer takes for one term."""
    words = (word for word in _WORD.findall(text) if word.isascii() and word.isalnum() and len(word) <= MAX_WORD)
    return max(words, key=len, default=None)


def _vector_fault(table: Table, spec: IndexSpec, fragments: Sequence[int]) -> str | None:
    for row in _sampled(table, spec.column, fragments):
        by_index, by_scan = (_nearest(table, spec, row[spec.column], use) for use in (True, False))
        if by_index is None or by_scan is None or math.isnan(by_scan):
            continue
        if not math.isclose(by_index, by_scan, rel_tol=1e-3, abs_tol=1e-5):
            return f"the nearest row that it finds is at distance {by_index:g}, the nearest of all at {by_scan:g}"
    return None


def _nearest(table: Table, spec: IndexSpec, vector: Sequence[float], use_index: bool) -> float | None:
    wanted = {
        "column": spec.column,
        "q": pa.array(vector, pa.float32()),
        "k": 1,
        "metric": spec.variant,
        "minimum_nprobes": ALL_PARTITIONS,
        "use_index": use_index,
    }
    distances = table.dataset.scanner(columns=[DISTANCE], nearest=wanted).to_table().column(DISTANCE).to_pylist()
    return distances[0] if distances else None


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
