"""What an object of a graph is, by its key. An object with any other key is not the graph's, and is never touched."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal[
    "commits",
    "data",
    "deletions",
    "indexes",
    "adjacency",
    "versions",
    "transactions",
    "log",
    "prepared",
    "staging",
    "leases",
]
"""As reports name them: entries of chains, parts of tables, segments of the log, prepared plans, temporary files of running work."""

_ID = "[0-9A-Za-z]{26}"
_TABLE = r"(?:nodes|edges)/[^/]+-[0-9a-z]{10}"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("commits", r"branches/[^/]+/[0-9]{12}\.json"),
    ("data", rf"{_TABLE}/data/[0-9a-f]{{20,}}(?:-[0-9a-f]{{16}})?\.lance(?:#[0-9]+)?"),
    ("deletions", rf"{_TABLE}/_deletions/[0-9]+-[0-9]+-[0-9]+\.(?:arrow|bin)(?:#[0-9]+)?"),
    ("indexes", rf"{_TABLE}/_indices/{_UUID}/.+"),
    ("adjacency", rf"{_TABLE}/_adjacency/[0-9]+-[0-9a-f]{{16}}(?:(?:\.[0-9]+of[0-9]+)?\.adj|-(?:id|src)\.zones)"),
    ("versions", rf"{_TABLE}/_versions/(?:d?[0-9]+\.manifest(?:#[0-9]+)?|latest_version_hint\.json)"),
    ("transactions", rf"{_TABLE}/_transactions/[0-9]+-{_UUID}\.txn(?:#[0-9]+)?"),
    ("log", rf"history/{_ID}(?:\.ancestry|\.keys)?\.json"),
    ("prepared", rf"recovery/{_ID}\.json"),
    ("staging", rf"staging/(?:{_ID}|export-[0-9a-f]{{32}})/.+|staging/clock-{_ID}"),
    ("staging", rf"{_TABLE}/(?:data|_deletions|_transactions|_versions)/\.tmp[0-9A-Za-z]{{6}}"),
    ("leases", rf"leases/{_ID}\.json"),
)
_KINDS = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)

_FIRST_VERSION = re.compile(rf"{_TABLE}/_versions/(?:[0-9]+\.manifest|latest_version_hint\.json)")


def kind_of(key: str) -> Kind | None:
    """The kind of an object; None if cleanup must never remove it."""
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(key)), None)


def table_of(key: str) -> str | None:
    """The folder of the table that an object belongs to, if any."""
    parsed = re.match(_TABLE, key)
    return None if parsed is None else parsed[0]


def is_first_version(key: str) -> bool:
    """Whether this is the empty first version of a table (or Lance's hint to it), which the first rows are written on top of."""
    return _FIRST_VERSION.fullmatch(key) is not None
