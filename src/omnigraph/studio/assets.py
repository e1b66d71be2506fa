"""The files of the page, read and compressed once."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

PAGE = "index.html"
_NOT_SERVED = ("BUILD.json",)


@dataclass(frozen=True)
class Asset:
    """One file. `digest` names its content."""

    data: bytes
    compressed: bytes
    media_type: str
    digest: str


@cache
def assets() -> Mapping[str, Asset]:
    """The files by name."""
    folder = files(__package__).joinpath("dist")
    entries = [entry for entry in folder.iterdir() if entry.name not in _NOT_SERVED]
    return {entry.name: _asset(entry.name, entry.read_bytes()) for entry in entries}


def _asset(name: str, data: bytes) -> Asset:
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
    return Asset(data, gzip.compress(data, 9, mtime=0), media_type, hashlib.sha256(data).hexdigest()[:32])


_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
"""Not the table of the system, which may say anything."""
