"""Schemas by content: `schemas/<sha256>.json`, written before the commit that names them."""

from __future__ import annotations

import contextlib
import hashlib
import threading

from omnigraph.errors import Damaged, ObjectExists
from omnigraph.failpoints import Failpoint, reach
from omnigraph.history.envelope import required
from omnigraph.storage import Store


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
