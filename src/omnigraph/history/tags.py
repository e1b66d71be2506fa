"""Tags: names for commits. A tag is one object that never changes, and protects its commit from cleanup."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import (
    AlreadyExists,
    Damaged,
    HistoryGap,
    ObjectMissing,
    OmnigraphError,
    StorageError,
    TagNotFound,
    UsageError,
)
from omnigraph.features import check_writable
from omnigraph.history.chain import Chain, check_branch_name
from omnigraph.history.envelope import read_as, seal, unseal
from omnigraph.history.retention import Retention
from omnigraph.history.values import CommitRef, decode_ref, encode_ref
from omnigraph.storage.store import Store


@dataclass(frozen=True)
class _Tag:
    """`id` tells two tags of one name apart."""

    id: str
    commit: CommitRef


class Tags:
    def __init__(
        self,
        store: Store,
        chain: Chain,
        retention: Retention,
        new_id: Callable[[], str],
        write_features: Sequence[str] = (),
    ) -> None:
        self.store = store
        self.chain = chain
        self.retention = retention
        self.new_id = new_id
        self.write_features = write_features

    def create(self, name: str, commit: CommitRef) -> None:
        """Create a tag. AlreadyExists if the name is taken by a branch, or by a tag of another commit; the same tag twice is
        fine.

        HistoryGap if the commit is below the watermark, and no branch or tag is there: a cleanup that has not seen the tag may remove it.
        """
        check_branch_name(name)
        check_writable(self.write_features, "this graph")
        self._check_no_branch(name)
        tag_id = self.new_id()
        reach(Failpoint.TAG_BEFORE_CREATE)
        try:
            self.store.create(tag_key(name), seal({"id": tag_id, "commit": encode_ref(commit)}))
        except StorageError as error:
            held = self._held_after(error, name)
            if held.commit != commit:
                raise AlreadyExists(
                    f"tag '{name}' exists already", hint="delete it first, or choose another name"
                ) from None
            if held.id != tag_id:
                return
        reach(Failpoint.TAG_AFTER_CREATE)
        try:
            self._check_no_branch(name)
            self._check_kept(commit)
        except OmnigraphError:
            self._take_back(name, tag_id)
            raise

    def _check_kept(self, commit: CommitRef) -> None:
        """HistoryGap if a cleanup that has not seen the tag may remove the commit. None removes a commit at which a branch or another tag
        is: a branch that started there, and has no commit of its own, may be at a commit below the watermark."""
        try:
            self.retention.check_kept(commit, "it cannot be tagged any more")
        except HistoryGap:
            heads = map(self.chain.newest, self.chain.branches())
            is_head = any(head is not None and head.alive and head.head.commit.ref == commit for head in heads)
            if not is_head and len(self.ids_naming(commit)) < 2:  # One is the new tag.
                raise

    def _held_after(self, error: StorageError, name: str) -> _Tag:
        """The tag of a name after an error of its creation, which may have succeeded. Raises the error if there is none."""
        with contextlib.suppress(StorageError):
            if (held := self._held(name)) is not None:
                return held
        raise error

    def _take_back(self, name: str, tag_id: str) -> None:
        """Delete the tag if it is still ours. Errors of this are suppressed: the one being handled says more."""
        with contextlib.suppress(StorageError):
            held = self._held(name)
            if held is not None and held.id == tag_id:
                self.store.delete(tag_key(name))

    def _check_no_branch(self, name: str) -> None:
        """Checked before the tag is created, and after: a branch that was created meanwhile could not see the tag, and stays."""
        newest = self.chain.newest(name)
        if newest is not None and newest.alive:
            raise AlreadyExists(f"'{name}' is a branch", hint="choose another name for the tag")

    def check_no_tag(self, name: str) -> None:
        """AlreadyExists if a tag has the name that a branch is about to get.

        Creating a tag checks for the branch before and after. If both checks happen between this one and the branch's entry, both
        exist: the name is ambiguous until one of them is deleted.
        """
        if self.find(name) is not None:
            raise AlreadyExists(
                f"'{name}' is a tag", hint=f"choose another name for the branch, or `omnigraph tag delete {name}`"
            )

    def find(self, name: str) -> CommitRef | None:
        """The commit that the tag names. None for an invalid name, which may not even be valid as the name of a file."""
        try:
            check_branch_name(name)
        except UsageError:
            return None
        held = self._held(name)
        return None if held is None else held.commit

    def _held(self, name: str) -> _Tag | None:
        key = tag_key(name)
        try:
            data = self.store.get(key)
        except ObjectMissing:
            return None
        affected = f"tag '{name}' names no commit"
        value = unseal(key, data, affected)
        return read_as(key, lambda: _Tag(value["id"], decode_ref(value["commit"])), affected)

    def ids_naming(self, commit: CommitRef) -> list[str]:
        """The ids of all tags of a commit: a tag that is created again has a new id."""
        held = [self._held(name) for name in self._names()]
        return [tag.id for tag in held if tag is not None and tag.commit == commit]

    def delete(self, name: str) -> None:
        """Delete a tag. A damaged one can be deleted too, and then created again."""
        check_writable(self.write_features, "this graph")
        with contextlib.suppress(Damaged):
            if self.find(name) is None:
                raise TagNotFound(f"tag '{name}' does not exist")
        self.store.delete(tag_key(name))

    def list(self) -> dict[str, CommitRef]:
        tags = {name: self.find(name) for name in self._names()}
        return {name: ref for name, ref in sorted(tags.items()) if ref is not None}

    def _names(self) -> Iterator[str]:
        return (unquote(info.key.rsplit("/", 1)[1].removesuffix(".json")) for info in self.store.list("tags"))


def tag_key(name: str) -> str:
    return f"tags/{quote(name, safe='')}.json"
