"""Files of a table whose names tell what they hold.

Lance's files carry no checksums: a flipped bit gives other rows, or ends the process. So on local disk the beginning of each
file's SHA-256 goes into its name before any version names it. Object stores keep their own checksums, and renaming there means
copying, so files there keep the names that Lance gave them.

    data/<Lance's name>-<16 digits>.lance
    _deletions/<fragment>-<2^62 + 15 digits>-<id>.arrow, .bin   in place of a version: Lance's versions never reach that range
    _indices/<UUID of version 8>/                               15 digits of the folder's digest, then random bits
    _versions/d<version>.manifest                               its digest is in the commit, next to the version
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import secrets
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from omnigraph.storage.store import TEMPORARY_PREFIX

DIGITS = 16
SHORT_DIGITS = 15
CHUNK_BYTES = 1 << 20
_DATA = re.compile(rf"-([0-9a-f]{{{DIGITS}}})\.lance$")
_DELETIONS = re.compile(r"/\d+-(\d+)-\d+\.(?:arrow|bin)$")
_DELETIONS_MARK = 1 << 62


def digest_of(file: str | Path) -> str:
    return _sha256(file)[:DIGITS]


def folder_digest(folder: Path) -> str:
    """Digest of the lines `<SHA-256 of a file>  <its path in the folder>`, in path order. Temporary files, which a killed copy
    may leave behind, do not count."""
    files = sorted(
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(TEMPORARY_PREFIX)
    )
    lines = "".join(f"{_sha256(folder / file)}  {file}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()[:SHORT_DIGITS]


def _sha256(file: str | Path) -> str:
    digest = hashlib.sha256()
    with open(file, "rb", buffering=0) as opened:
        while chunk := opened.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def local_folder(dataset: Any) -> str | None:
    """The folder of a Lance table on local disk; None if it is elsewhere."""
    uri: str = dataset.uri
    return uri if uri.startswith("/") else None


# ---------------------------------------------------------------- giving names


def name_data_files(dataset: Any, fragments: Iterable[Any]) -> None:
    """Rename data files that were just written, and update Lance's descriptions of their fragments."""
    folder = local_folder(dataset)
    if folder is None:
        return
    for file in (file for fragment in fragments for file in fragment.files):
        old = f"{folder}/data/{file._path}"
        file._path = f"{file._path.removesuffix('.lance')}-{digest_of(old)}.lance"
        os.rename(old, f"{folder}/data/{file._path}")


def name_deletions(dataset: Any, fragment: Any) -> Any:
    """Rename a fragment's new deletion file; returns the fragment that names it."""
    from lance import FragmentMetadata

    folder = local_folder(dataset)
    if folder is None:
        return fragment
    old = f"{folder}/{deletion_path(fragment.id, fragment.deletion_file)}"
    value = fragment.to_json()
    value["deletion_file"]["read_version"] = _DELETIONS_MARK | int(digest_of(old)[:SHORT_DIGITS], 16)
    renamed = FragmentMetadata.from_json(json.dumps(value))
    os.rename(old, f"{folder}/{deletion_path(renamed.id, renamed.deletion_file)}")
    return renamed


def name_index(dataset: Any, index: Any) -> Any:
    """Rename the folder of an index segment that was just written; returns the segment."""
    folder = local_folder(dataset)
    if folder is None:
        return index
    old = f"{folder}/_indices/{index.uuid}"
    digest = folder_digest(Path(old))
    low = 0b10 << 62 | secrets.randbits(62)
    name = str(uuid.UUID(f"{digest[:12]}8{digest[12:]}{low:016x}"))
    os.rename(old, f"{folder}/_indices/{name}")
    return dataclasses.replace(index, uuid=name)


def deletion_path(fragment_id: int, deletion: Any) -> str:
    """The path of a fragment's deletion file in the table."""
    suffix = "arrow" if deletion.file_type == "array" else "bin"
    return f"_deletions/{fragment_id}-{deletion.read_version}-{deletion.id}.{suffix}"


def version_file(version: int) -> str:
    return f"_versions/d{version}.manifest"


def version_digest(dataset: Any) -> str | None:
    """The digest of the manifest of a version that was just made."""
    folder = local_folder(dataset)
    return None if folder is None else digest_of(f"{folder}/{version_file(dataset.version)}")


# ---------------------------------------------------------------- reading them


def data_digest(path: str) -> str | None:
    """The digest in the name of a data file; None if it has none."""
    named = _DATA.search(path)
    return None if named is None else named[1]


def deletions_digest(path: str) -> str | None:
    named = _DELETIONS.search(path)
    mark, digest = divmod(int(named[1]), _DELETIONS_MARK) if named else (0, 0)
    return f"{digest:0{SHORT_DIGITS}x}" if mark == 1 else None


def index_digest(index_uuid: str) -> str | None:
    named = uuid.UUID(index_uuid)
    return named.hex[:12] + named.hex[13:16] if named.version == 8 else None
