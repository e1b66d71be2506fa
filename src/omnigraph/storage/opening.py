"""Opening the store at an address."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from omnigraph.errors import UsageError
from omnigraph.storage.local import LocalStore
from omnigraph.storage.options import scheme_of, storage_options_for
from omnigraph.storage.store import Store
from omnigraph.storage.syncing import Durability


def open_store(uri: str, *, storage_options: Mapping[str, str] | None = None, durability: Durability = "disk") -> Store:
    """The store at a path, `file://`, `memory://name`, `s3://bucket/prefix`, `gs://...` or `az://...`.

    Nothing is read or created yet. `durability` matters on local disk only: object stores answer when data is safe.
    """
    scheme = scheme_of(uri)
    if scheme in ("file", "memory"):
        storage_options_for(uri, storage_options)  # raises if any are given: memory has no options
    if scheme == "file":
        path = unquote(urlsplit(uri).path) if "://" in uri else uri
        if not path:
            raise UsageError(
                "the address of a graph is empty", hint="give a folder or an address such as s3://bucket/graph"
            )
        return LocalStore(path, durability=durability)
    from omnigraph.storage import objects  # the client library is loaded only for those who need it

    if scheme == "memory":
        return objects.open_memory(uri)
    if scheme in ("s3", "gs", "az"):
        return objects.open_object_store(uri, storage_options)
    raise UsageError(f"'{uri}' has an unknown scheme", hint="use a path, file://, memory://, s3://, gs:// or az://")
