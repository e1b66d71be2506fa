"""A store on an object store, or in memory, through `obstore`.

Loaded only when such a store is opened. The client repeats a request whose answer was lost, within bounds; a repeated
`create` can therefore report `ObjectExists` for its own object, as the contract says.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import itertools
import os
import re
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from omnigraph.errors import (
    ObjectExists,
    ObjectMissing,
    StorageDenied,
    StorageError,
    StoragePermanent,
    StorageTransient,
    UsageError,
)
from omnigraph.metering import Threads, metered
from omnigraph.storage.options import CLIENT_OPTIONS, FLAGS, RETRY_OPTIONS, scheme_of, storage_options_for
from omnigraph.storage.os_errors import MORE_FILES, check_free_files, is_out_of_files
from omnigraph.storage.store import ObjectInfo, Store, checked_key, checked_prefix
from omnigraph.storage.syncing import sync_before_create

_STORES = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_CLIENT_DEFAULTS = {"connect_timeout": "5s", "timeout": "30s"}
_MAX_RETRIES = 4
_RETRY_SECONDS = 30
_PAGE = 1000
MAX_CONCURRENT = 8
_CHUNK_BYTES = 8 * 1024 * 1024
"""The size of the parts in which a large object is streamed; S3 takes parts of 5 MiB and more."""
_REPEATED = re.compile(r"after [1-9][0-9]* retries")
"""In the text of an error of the client, if it had sent the request before."""
_NO_BUCKET = "the bucket does not exist: create it, or check the address"


@metered(
    "get",
    "find",
    "get_ranges",
    "put",
    "create",
    "chunks",
    "fill",
    "list",
    "list_folders",
    "info",
    "delete",
    "delete_many",
    "delete_prefix",
)
class ObjectStore(Store):
    """One prefix of a bucket or container."""

    def __init__(self, uri: str, client: Any) -> None:
        _start_client(os.getpid())
        self.uri = uri
        self._client = client

    def get(self, key: str) -> bytes:
        with self._typed("read", checked_key(key)):
            return bytes(obstore.get(self._client, key).bytes())

    def find_many(self, keys: Sequence[str]) -> builtins.list[bytes | None]:
        if len(keys) == 1:
            return [self.find(keys[0])]
        with Threads(min(len(keys), MAX_CONCURRENT), "omnigraph-objects") as pool:
            return list(pool.map(self.find, keys))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of an object; fewer if it ends earlier."""
        if length == 0:  # not a valid request
            return b""
        with self._typed("read", checked_key(key)):
            return bytes(obstore.get_range(self._client, key, start=start, length=length))

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        if len(spans) <= 1 or any(length == 0 for _, length in spans):
            return [self.get_range(key, offset, length) for offset, length in spans]
        starts, lengths = [offset for offset, _ in spans], [length for _, length in spans]
        with self._typed("read", checked_key(key)):
            # Spans close to each other are read with one request, others concurrently.
            return [bytes(data) for data in obstore.get_ranges(self._client, key, starts=starts, lengths=lengths)]

    def put(self, key: str, data: bytes) -> None:
        with self._typed("write", checked_key(key)):
            obstore.put(self._client, key, data)

    def create(self, key: str, data: bytes, *, sync_first: Sequence[str] = ()) -> None:
        sync_before_create(sync_first)
        with self._typed("create", checked_key(key)):
            obstore.put(self._client, key, data, mode="create")

    def chunks(self, key: str) -> Iterator[bytes]:
        with self._typed("read", checked_key(key)):
            for chunk in obstore.get(self._client, key).stream(min_chunk_size=_CHUNK_BYTES):
                yield bytes(chunk)

    def fill(self, key: str, chunks: Iterator[bytes]) -> None:
        with self._typed("write", checked_key(key)):
            obstore.put(self._client, key, chunks, use_multipart=True, chunk_size=_CHUNK_BYTES, max_concurrency=2)

    def list(self, prefix: str, *, limit: int | None = None) -> list[ObjectInfo]:
        folder = checked_prefix(prefix)
        if limit == 0:
            return []
        chunk = _PAGE if limit is None else min(limit, _PAGE)
        with self._typed("list", folder):
            pages = obstore.list(self._client, folder or None, chunk_size=chunk)
            members = itertools.islice(itertools.chain.from_iterable(pages), limit)
            # A page is in key order, and so are the pages.
            return [_info(member) for member in members]

    def list_folders(self, prefix: str) -> builtins.list[str]:
        folder = checked_prefix(prefix)
        with self._typed("list", folder):
            result = obstore.list_with_delimiter(self._client, folder or None)
        return sorted(path.rsplit("/", 1)[-1] for path in result["common_prefixes"])

    def info(self, key: str) -> ObjectInfo:
        with self._typed("look at", checked_key(key)):
            return _info(obstore.head(self._client, key))

    def delete(self, key: str) -> None:
        with contextlib.suppress(ObjectMissing), self._typed("delete", checked_key(key)):
            obstore.delete(self._client, key)

    def delete_many(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), _PAGE):
            page = [checked_key(key) for key in keys[start : start + _PAGE]]
            try:
                with self._typed("delete", page[0]):
                    obstore.delete(self._client, page)
            except ObjectMissing:
                # Another process deletes the same objects, and this store stops at the first missing one.
                for key in page:
                    self.delete(key)

    def delete_prefix(self, prefix: str) -> int:
        keys = [info.key for info in self.list(prefix)]
        self.delete_many(keys)
        return len(keys)

    @contextlib.contextmanager
    def _typed(self, doing: str, key: str) -> Iterator[None]:
        try:
            yield
        except (exceptions.BaseError, OSError) as error:
            raise typed_client_error(error, doing, key, self.uri) from error


@functools.cache
def _start_client(_process: int) -> None:
    """Start the client's threads. Where they cannot open what they need, no later call of it works."""
    check_free_files()
    obstore.list(MemoryStore()).collect()


class Memory:
    """The content of one `memory://` address: its objects, and other values shared by everything that opens it."""

    def __init__(self) -> None:
        self.client = MemoryStore()
        self._shared: dict[str, Any] = {}
        self._lock = threading.Lock()

    def share(self, name: str, make: Callable[[], Any]) -> Any:
        """The shared value of a name; made once, even if several threads ask at the same time."""
        with self._lock:
            if name not in self._shared:
                self._shared[name] = make()
            return self._shared[name]


_named: dict[str, Memory] = {}
_unnamed: weakref.WeakValueDictionary[str, Memory] = weakref.WeakValueDictionary()
"""A memory without a name lives as long as it is referenced."""
_memories_lock = threading.Lock()


def open_memory(uri: str) -> MemoryObjects:
    """`memory://name` is one store per name, for as long as the process lives. `memory://` alone is a new one each time, with a
    unique address."""
    name = uri.removeprefix("memory://").strip("/")
    address = f"memory://{name or f'unnamed-{uuid.uuid4().hex}'}"
    with _memories_lock:
        memory = _unnamed.get(address) or _named.get(address) or Memory()
        if not name:
            _unnamed[address] = memory
        elif address not in _unnamed:
            _named[address] = memory
    return MemoryObjects(address, memory)


class MemoryObjects(ObjectStore):
    """A store in the memory of this process."""

    def __init__(self, uri: str, memory: Memory) -> None:
        super().__init__(uri, memory.client)
        self.memory = memory


def open_object_store(uri: str, options: Mapping[str, str] | None) -> ObjectStore:
    """A store for an `s3://`, `gs://` or `az://` address. No request is sent yet."""
    scheme = scheme_of(uri)
    address = f"{scheme}://{uri.partition('://')[2].strip('/')}"
    config = storage_options_for(uri, options)
    client = {name: config.pop(name) for name in CLIENT_OPTIONS if name in config}
    repeating = {name: config.pop(name) for name in RETRY_OPTIONS if name in config}
    retries = int(repeating.get("client_max_retries", _MAX_RETRIES))
    retry_seconds = int(repeating.get("client_retry_timeout", _RETRY_SECONDS))
    try:
        store = _STORES[scheme].from_url(
            address,
            config=config,
            client_options=_CLIENT_DEFAULTS
            | {name: value == "true" if name in FLAGS else value for name, value in client.items()},
            retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=retry_seconds)},
        )
    except exceptions.UnknownConfigurationKeyError as error:
        raise UsageError(f"unknown storage option for {address}: {_first_line(error)}") from error
    except (exceptions.BaseError, ValueError) as error:
        raise StoragePermanent(
            f"cannot open {address}: {_first_line(error)}", key="", hint="check the address and the storage options"
        ) from error
    return ObjectStore(address, store)


def typed_client_error(error: Exception, doing: str, key: str, uri: str) -> StorageError:
    """The error to raise instead of `error`, met while `doing` something with `key` in the store at `uri`."""
    text = str(error)
    message = f"cannot {doing} '{key}' in {uri}: {_first_line(error)}"
    # A refused listing raises a generic error, so the status of the answer is checked as well as the class.
    matched = re.search(r"status code: (\d{3})", text)
    status = int(matched.group(1)) if matched else 0
    if is_out_of_files(error):
        return StorageTransient(message, key=key, hint=MORE_FILES)
    if doing == "create" and _REPEATED.search(text) and not _is_taken(error, text):
        # The last of several requests was refused; an earlier one, whose answer was lost, may have been applied.
        return StorageTransient(message, key=key, hint="look at what is stored before you try again")
    if "NoSuchBucket" in text or "ContainerNotFound" in text:
        return StoragePermanent(message, key=key, hint=_NO_BUCKET)
    if isinstance(error, (exceptions.NotFoundError, FileNotFoundError)) or status == 404:
        if doing in ("create", "write", "list"):
            return StoragePermanent(message, key=key, hint=_NO_BUCKET)
        return ObjectMissing(f"'{key}' is not in {uri}", key=key)
    if "ConditionalRequestConflict" in text:
        # Two conditional puts met and S3 decided neither: the key may still be free.
        return StorageTransient(message, key=key, hint="try again")
    if _is_taken(error, text):
        return ObjectExists(f"'{key}' already exists in {uri}", key=key)
    if status in (401, 403) or isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
        return StorageDenied(message, key=key, hint=f"check the credentials and what they may do in {uri}")
    if _may_pass(error, status, text):
        return StorageTransient(message, key=key, hint="the store did not answer properly; try again")
    return StoragePermanent(message, key=key, hint="check the address and the storage options")


def _is_taken(error: Exception, text: str) -> bool:
    is_conflict = isinstance(error, (exceptions.AlreadyExistsError, exceptions.PreconditionError))
    return is_conflict and "ConditionalRequestConflict" not in text


def _may_pass(error: Exception, status: int, text: str) -> bool:
    """Whether the same request may succeed later: no connection, no complete answer in time, or an answer that says so."""
    if status:
        return status >= 500 or status in (408, 409, 429)
    return isinstance(error, (exceptions.JoinError, TimeoutError, ConnectionError)) or "HTTP error" in text


def _first_line(error: Exception) -> str:
    """The first line of the error, without the answer's XML and the client's debug output."""
    lines = str(error).splitlines()
    return lines[0].partition(": <")[0].strip() if lines else type(error).__name__


def _info(meta: Any) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], meta["last_modified"])
