"""Tags: names for commits. A tag is one object, made once, and protects its commit from the sweep."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote

from omnigraph.errors import AlreadyExists, HistoryGap, ObjectExists, ObjectMissing, StorageTransient, TagNotFound
from omnigraph.history.chain import Chain, check_branch_name
from omnigraph.history.values import CommitRef
from omnigraph.storage import Store
from omnigraph.storage.failpoints import Failpoint, reach


class Tags:
    def __init__(self, store: Store, chain: Chain) -> None:
        self.store = store
        self.chain = chain

    def create(self, name: str, commit: CommitRef) -> None:
        """AlreadyExists when the name is taken by another commit; the same tag twice is fine.

        HistoryGap when the commit lies below what a sweep keeps: a sweep that had not seen the tag may take it away.
        """
        check_branch_name(name)
        reach(Failpoint.TAG_BEFORE_CREATE)
        try:
            self.store.create(_key(name), json.dumps({"commit": commit.to_json()}).encode())
        except (ObjectExists, StorageTransient):
            held = self.find(name)
            if held is None:
                raise
            if held != commit:
                raise AlreadyExists(
                    f"tag '{name}' exists already, at commit {held.id}", hint="delete it first, or choose another name"
                ) from None
        reach(Failpoint.TAG_AFTER_CREATE)
        if self.chain.floor(commit.branch) > commit.position:
            self.store.delete(_key(name))
            raise HistoryGap(
                f"commit {commit.id} is older than what cleanup keeps, so it cannot be tagged any more",
                hint="tag a newer commit",
            )

    def find(self, name: str) -> CommitRef | None:
        try:
            return CommitRef.from_json(json.loads(self.store.get(_key(name)))["commit"])
        except ObjectMissing:
            return None

    def delete(self, name: str) -> None:
        if self.find(name) is None:
            raise TagNotFound(f"tag '{name}' does not exist")
        self.store.delete(_key(name))

    def list(self) -> dict[str, CommitRef]:
        names = [unquote(info.key.rsplit("/", 1)[1].removesuffix(".json")) for info in self.store.list("tags")]
        found = {name: self.find(name) for name in names}
        return {name: ref for name, ref in sorted(found.items()) if ref is not None}


def _key(name: str) -> str:
    return f"tags/{quote(name, safe='')}.json"
