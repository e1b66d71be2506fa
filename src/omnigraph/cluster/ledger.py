"""The ledger: what was applied. Each revision is one object, created with a conditional put; the newest one is valid."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.errors import (
    ClusterConflict,
    ConfigurationError,
    NotFound,
    ObjectExists,
    ObjectMissing,
    Problem,
    StorageError,
)
from omnigraph.storage.store import Store

VERSION = 1
_FOLDER = "__cluster"
_LEDGER = f"{_FOLDER}/ledger"
_LOCK = f"{_FOLDER}/lock.json"
_CATALOGUE = f"{_FOLDER}/catalogue"

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Ledger:
    """One revision of what was applied. `token` identifies exactly this revision; it is "" before the first one."""

    revision: int = 0
    token: str = ""
    config_digest: str = ""
    name: str = ""
    resources: Mapping[str, Record] = field(default_factory=dict)
    server: Record = field(default_factory=dict)
    statuses: Mapping[str, Record] = field(default_factory=dict)
    approvals: tuple[Record, ...] = ()
    recoveries: tuple[Record, ...] = ()
    """Removals of graphs that are decided and perhaps not finished."""
    observed_at: str = ""

    @property
    def is_there(self) -> bool:
        return self.revision > 0

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "state_revision": self.revision,
            "applied_revision": {
                "config_digest": self.config_digest,
                "name": self.name,
                "resources": dict(self.resources),
                "server": dict(self.server),
            },
            "resource_statuses": dict(self.statuses),
            "approval_records": list(self.approvals),
            "recovery_records": list(self.recoveries),
            "observations": {"observed_at": self.observed_at} if self.observed_at else {},
        }


def _ledger(key: str, data: bytes) -> Ledger:
    try:
        value = json.loads(data)
        if value["version"] != VERSION:
            raise ConfigurationError(
                [Problem("unsupported_state_version", f"version {value['version']} of the ledger is not known", key)],
                hint="use a newer omnigraph",
            )
        applied = value["applied_revision"]
        return Ledger(
            value["state_revision"],
            f"sha256:{hashlib.sha256(data).hexdigest()}",
            applied["config_digest"],
            applied["name"],
            applied["resources"],
            applied["server"],
            value["resource_statuses"],
            tuple(value["approval_records"]),
            tuple(value["recovery_records"]),
            value["observations"].get("observed_at", ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationError([Problem("invalid_state_json", "the ledger cannot be read", key)]) from None


class LedgerStore:
    """The ledger, the lock and the catalogue at the root of a cluster's storage."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def read(self) -> Ledger:
        """The newest revision, or an empty one if there is none."""
        revisions = self.store.list(_LEDGER)
        if not revisions:
            return Ledger()
        key = revisions[-1].key
        return _ledger(key, self.store.get(key))

    def revisions(self) -> list[int]:
        """The numbers of all revisions, oldest first."""
        return [int(info.key.rpartition("/")[2].removesuffix(".json")) for info in self.store.list(_LEDGER)]

    def revision(self, number: int) -> Ledger:
        """NotFound if there is no such revision."""
        key = f"{_LEDGER}/{number:012d}.json"
        data = self.store.find(key)
        if data is None:
            raise NotFound(f"the cluster has no revision {number}")
        return _ledger(key, data)

    def publish(self, ledger: Ledger) -> Ledger:
        """Publish this as the revision after the one it was changed from. ClusterConflict if another process was first."""
        newer = replace(ledger, revision=ledger.revision + 1)
        data = json.dumps(newer.to_json(), sort_keys=True, indent=1, ensure_ascii=False).encode()
        key = f"{_LEDGER}/{newer.revision:012d}.json"
        if not self._create(key, data):
            raise ClusterConflict(
                "state_cas_mismatch",
                f"the cluster was changed meanwhile: its ledger is past revision {ledger.revision}",
                hint="look at 'omnigraph cluster plan' and apply again",
            )
        return _ledger(key, data)

    def _create(self, key: str, data: bytes) -> bool:
        """Create an object; False if there is another one. One attempt can be several requests, so no error is proof that none of
        them was applied."""
        try:
            self.store.create(key, data)
        except StorageError as error:
            with contextlib.suppress(StorageError):
                if self.store.find(key) == data:
                    return True
            if not isinstance(error, ObjectExists):
                raise
            return False
        return True

    # ------------------------------------------------------------ lock

    def lock(self, id: str, operation: str, actor: str | None, now: dt.datetime) -> None:
        """Acquire the lock. ClusterConflict if it is held."""
        holder = {"version": VERSION, "id": id, "operation": operation, "actor": actor, "at": now.isoformat()}
        if not self._create(_LOCK, json.dumps(holder).encode()):
            held = self.holder()
            if held is not None and held["id"] != id:
                raise ClusterConflict(
                    "state_lock_held",
                    f"the cluster is locked by '{held['operation']}' since {held['at']}",
                    hint=f"wait for it; if it died, 'omnigraph cluster force-unlock {held['id']}'",
                )
            if held is None:
                self.lock(id, operation, actor, now)

    def holder(self) -> Record | None:
        """The holder of the lock, if there is one."""
        try:
            held = json.loads(self.store.get(_LOCK))
            if held["version"] != VERSION:
                raise ConfigurationError(
                    [Problem("unsupported_state_lock_version", "the lock has an unknown version", _LOCK)]
                )
            return {name: held[name] for name in ("id", "operation", "actor", "at")}
        except ObjectMissing:
            return None
        except (ValueError, KeyError, TypeError):
            raise ConfigurationError([Problem("invalid_state_lock", "the lock cannot be read", _LOCK)]) from None

    def unlock(self, id: str) -> None:
        """Release the lock, or break that of a process that died. ClusterConflict if its id is another one."""
        held = self.holder()
        if held is None:
            raise ClusterConflict("state_lock_id_mismatch", "the cluster is not locked", hint="there is nothing to do")
        if held["id"] != id:
            raise ClusterConflict(
                "state_lock_id_mismatch",
                f"the lock has the id '{held['id']}', not '{id}'",
                hint="'omnigraph cluster status' shows it",
            )
        self.store.delete(_LOCK)

    # ------------------------------------------------------------ catalogue

    def keep(self, digest: str, text: str) -> None:
        """Store a text under its digest; a damaged one is replaced."""
        key = _payload_key(digest)
        if not self._create(key, text.encode()):
            self.store.put(key, text.encode())

    def payload(self, digest: str) -> str:
        """The text with a digest. ConfigurationError if it is missing or damaged."""
        key = _payload_key(digest)
        try:
            data = self.store.get(key)
        except ObjectMissing:
            raise ConfigurationError(
                [Problem("catalog_payload_missing", f"the catalogue has no {digest}", key)],
                hint="'omnigraph cluster apply' writes it again",
            ) from None
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            raise ConfigurationError(
                [Problem("catalog_payload_digest_mismatch", f"the catalogue has another text for {digest}", key)],
                hint="'omnigraph cluster apply' writes it again",
            )
        return data.decode()


def _payload_key(digest: str) -> str:
    return f"{_CATALOGUE}/{digest.removeprefix('sha256:')}"
