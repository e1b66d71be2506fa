"""The form of every object that history stores: one JSON object whose first member is `features` and whose last is `checksum`.

    {"features":["format-1"], ... ,"checksum":"0123456789abcdef"}

The checksum is the beginning of the SHA-256 of all bytes before `,"checksum"`. This form never changes: an object whose checksum
fails is damaged, and one that needs an unknown feature is intact but newer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import Damaged, ObjectExists, ObjectMissing
from omnigraph.features import BASE, check_readable
from omnigraph.storage.store import Store
from omnigraph.values.json_text import stored_text

T = TypeVar("T")

CHECKSUM_DIGITS = 16
_BEFORE, _AFTER = b',"checksum":"', b'"}'
TRAILER_BYTES = len(_BEFORE) + CHECKSUM_DIGITS + len(_AFTER)


def seal(value: Mapping[str, Any], features: Sequence[str] = ()) -> bytes:
    """The bytes of an object, which needs these features in addition to the base. Never fails for what `unseal` returned."""
    return seal_text(stored_text({"features": [BASE, *features], **value}))


def seal_text(text: str) -> bytes:
    """Like `seal`, for an object that is JSON text already, including its features."""
    try:
        body = text[:-1].encode()
    except UnicodeEncodeError:  # Half of a surrogate pair cannot be encoded in UTF-8, but escaped.
        body = json.dumps(json.loads(text), separators=(",", ":"))[:-1].encode()
    return body + _BEFORE + _checksum(body) + _AFTER


def unseal(key: str, data: bytes, affected: str | None = None) -> dict[str, Any]:
    """The object that was stored under `key`. Damaged if these are not its bytes, UnsupportedFormat if it needs an unknown
    feature. `affected` says what cannot be read without it.
    """
    body, trailer = data[:-TRAILER_BYTES], data[-TRAILER_BYTES:]
    if trailer != _BEFORE + _checksum(body) + _AFTER:
        raise Damaged(key, "its checksum does not match its content", affected=affected)
    value: dict[str, Any] = read_as(key, lambda: _object(data), affected)
    check_readable(value["features"], key)
    return value


def read_as(key: str, decode: Callable[[], T], affected: str | None = None) -> T:
    """The result of `decode` for an intact object; Damaged if a member is missing or invalid."""
    try:
        return decode()
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        what = f"its content is not that of such a file ({type(error).__name__}: {error})"
        raise Damaged(key, what, affected=affected) from error


def required(store: Store, key: str, affected: str) -> bytes:
    """The bytes of an object that another one names. Damaged if it is missing."""
    try:
        return store.get(key)
    except ObjectMissing as error:
        raise Damaged(key, "it is missing", affected=affected) from error


def _object(data: bytes) -> dict[str, Any]:
    value = json.loads(data)
    if not isinstance(value, dict) or not isinstance(value["features"], list):
        raise ValueError("not an object with a list of features")
    return value


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:CHECKSUM_DIGITS].encode()


# Schemas by content: `schemas/<sha256>.json`, written before the commit that names them.


class SchemaTexts:
    """Stored schema texts, by hash. Cached for ever."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, data: bytes) -> str:
        """Store a schema; returns its hash."""
        digest = hashlib.sha256(data).hexdigest()
        reach(Failpoint.SCHEMA_BEFORE_PUT)
        with contextlib.suppress(ObjectExists):
            self.store.create(schema_key(digest), data)
        with self._lock:
            self._known[digest] = data
        return digest

    def get(self, digest: str) -> bytes:
        """The schema with this hash. Damaged if what is stored has another hash."""
        with self._lock:
            known = self._known.get(digest)
        if known is None:
            affected = "no commit with this schema can be read"
            known = required(self.store, schema_key(digest), affected)
            if hashlib.sha256(known).hexdigest() != digest:
                raise Damaged(schema_key(digest), "its content does not have the hash in its name", affected=affected)
            with self._lock:
                self._known[digest] = known
        return known


def schema_key(digest: str) -> str:
    return f"schemas/{digest}.json"
