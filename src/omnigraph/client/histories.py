"""The history of a served graph: commits, diffs and changes."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from omnigraph.api.history import ServedCommit
from omnigraph.client import decoding
from omnigraph.client.connection import Query
from omnigraph.client.decoding import write_baseline
from omnigraph.client.state import ENGINE, RemoteState, listed, only_default, without_nulls
from omnigraph.errors import BranchNotFound, HistoryGap, QueryTimeout, UsageError
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit

if TYPE_CHECKING:
    from omnigraph._internal.deadlines import Cancellation
    from omnigraph.changes.entity_changes import EntityChange, TypeChanges
    from omnigraph.changes.feed import Baseline, CommitPage, FeedPage
    from omnigraph.language.projection import EntityKind
    from omnigraph.tasks.engines import Engine

MAX_COMMITS = 128
"""How many commits a poll of changes covers at most."""


MAX_WAIT_S = 60
"""How long a server waits at most before it answers."""
GRACE_S = 30.0


class RemoteHistoryMethods:
    """The methods of a served graph that read its history."""

    _state: RemoteState

    def commits(
        self,
        revision: str = MAIN,
        *,
        as_of: str | dt.datetime | None = None,
        limit: int = 50,
        before: str | None = None,
        actor: str | None = None,
        kind: str | None = None,
    ) -> list[Commit]:
        """The commits up to a revision, newest first; with `before`, those older than that commit."""
        if limit < 1:
            raise UsageError(f"a page has at least one commit, not {limit}")
        if as_of is None:
            try:
                return self._log(revision, limit, before, actor, kind)
            except (BranchNotFound, UsageError):
                if revision == MAIN:
                    raise
        newest = self.show(revision, as_of=as_of)
        if before is not None:
            return self._log(newest.ref.branch, limit, before, actor, kind)
        first = [newest] if actor in (None, newest.actor) and kind in (None, newest.kind) else []
        rest = limit - len(first)
        return first + (self._log(newest.ref.branch, rest, newest.id, actor, kind) if rest else [])

    def _log(self, branch: str, limit: int, before: str | None, actor: str | None, kind: str | None) -> list[Commit]:
        commits: list[Commit] = []
        filters = {"before": before, "actor": actor, "kind": kind}
        while len(commits) < limit:
            page = self._state.get("/commits", branch=branch, limit=min(limit - len(commits), 1_000), **filters).json()
            commits += [ServedCommit.from_json(commit) for commit in page["commits"]]
            filters["before"] = page.get("next_page_token")
            if filters["before"] is None:
                break
        return commits

    def head(self, branch: str = MAIN) -> Commit:
        """The newest commit of a branch."""
        (newest,) = self._state.get("/commits", branch=branch, limit=1).json()["commits"]
        return ServedCommit.from_json(newest)

    def show(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Commit:
        """The commit of a revision."""
        return self._state.commit(self._state.commit_id(revision, as_of))

    def diff(
        self,
        a: str,
        b: str,
        *,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        engine: Engine = "local",
    ) -> Iterator[EntityChange]:
        """What changed from one revision to another, entity by entity. A stream."""
        only_default("engine", engine, "local", ENGINE)
        wanted = None if ids is None else frozenset(ids)
        changes = self._diff(a, b, _filters(types, kinds, ops))
        return (change for change in changes if wanted is None or change.id in wanted)

    def diff_stat(
        self, a: str, b: str, *, types: Iterable[str] | None = None, kinds: Iterable[str] | None = None
    ) -> list[TypeChanges]:
        """How many entities of each type changed from one revision to another. Fetches every change to count it."""
        from omnigraph.changes.entity_changes import TypeChanges

        counts: dict[tuple[EntityKind, str], Counter[str]] = {}
        for change in self._diff(a, b, _filters(types, kinds, None)):
            counts.setdefault((change.kind, change.type_name), Counter())[change.op] += 1
        return [
            TypeChanges(kind, name, count["insert"], count["update"], count["delete"])
            for (kind, name), count in sorted(counts.items(), key=lambda item: (item[0][0] == "edge", item[0][1]))
        ]

    def _diff(self, a: str, b: str, filters: dict[str, list[str] | None]) -> Iterator[EntityChange]:
        token: str | None = None
        while True:
            page = self._state.get("/diff", **{"from": a, "to": b}, page_token=token, **filters).json()
            schemas = self._schemas(page["from"], page["to"])
            yield from (decoding.change(change, schemas) for change in page["changes"])
            token = page.get("next_page_token")
            if token is None:
                return

    def _schemas(self, before: str | None, after: str) -> decoding.ChangeSchemas:
        return decoding.ChangeSchemas(self._state.catalog(after), lambda: self._state.catalog(before or after))

    def commit_changes(
        self,
        revision: str = MAIN,
        *,
        as_of: str | dt.datetime | None = None,
        limit: int = 1_000,
        page_token: str | None = None,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> CommitPage:
        """Exactly what a commit changed against its first parent, a page at a time."""
        of = self.show(revision, as_of=as_of)
        value = self._state.get(
            f"/commits/{of.id}/changes", limit=limit, page_token=page_token, **_filters(types, kinds, ops)
        ).json()
        return decoding.commit_page(value, of, self._schemas(None if of.parent is None else of.parent.id, of.id))

    def changes(
        self,
        branch: str = MAIN,
        since: str | None = None,
        *,
        start: str | None = None,
        page_token: str | None = None,
        limit: int = 1_000,
        max_commits: int = MAX_COMMITS,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> FeedPage:
        """What the commits of a branch changed, in order: after a cursor, from a start, or the next page of a poll."""
        only_default("max_commits", max_commits, MAX_COMMITS, f"a poll of a server covers {MAX_COMMITS} commits")
        value = self._state.get(
            "/changes",
            branch=branch,
            cursor=since,
            start=start,
            page_token=page_token,
            limit=limit,
            **_filters(types, kinds, ops),
        ).json()
        blocks = []
        for block in value["blocks"]:
            id = block["cause"]["graph_commit_id"]
            schemas = self._schemas(block["cause"].get("parent_commit_id"), id)
            blocks.append(decoding.block(block, self._state.commit(id), schemas))
        return decoding.feed_page(value, blocks)

    def baseline(
        self,
        out: str | Path | IO[bytes],
        *,
        branch: str = MAIN,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        overwrite: bool = False,
    ) -> Baseline:
        """The branch's head as JSON lines, and the cursor from which changes continue."""
        with self._state.connection.stream(
            "POST", f"{self._state.path}/changes/baseline", body=self._baseline_body(branch, types, kinds, ops)
        ) as pieces:
            return write_baseline(pieces, out, overwrite=overwrite)

    def baseline_stream(
        self,
        *,
        branch: str = MAIN,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> Iterator[bytes]:
        """A baseline as bytes in chunks, as the server sends them."""
        return self._state.streamed("/changes/baseline", self._baseline_body(branch, types, kinds, ops))

    def _baseline_body(
        self,
        branch: str,
        types: Iterable[str] | None,
        kinds: Iterable[str] | None,
        ops: Iterable[str] | None,
    ) -> dict[str, Any]:
        return without_nulls({"branch": branch, **_filters(types, kinds, ops)})

    def wait_for_change(
        self,
        branch: str = MAIN,
        *,
        since: str | None = None,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> Commit | None:
        """Wait until the head of a branch is a commit other than `since` (by default, the current one), and return it; None if
        `timeout` seconds pass first. The server answers when the head moves."""
        only_default("cancel", cancel, None, "use timeout instead")
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            head = self.head(branch)
            since = head.id if since is None else since
            left = end - time.monotonic()
            if head.id != since:
                return head
            if left <= 0:
                return None
            self._wait(branch, since, left)

    def _wait(self, branch: str, since: str, seconds: float) -> None:
        """Wait until there may be a change or the time has passed; the caller then checks."""
        wait = math.ceil(min(seconds, MAX_WAIT_S))
        query: Query = {"branch": branch, "start": f"after:{since}", "limit": 1, "wait": wait}
        patience = seconds if seconds <= MAX_WAIT_S else wait + GRACE_S
        try:
            self._state.connection.send("GET", f"{self._state.path}/changes", query=query, timeout=patience)
        except (QueryTimeout, HistoryGap):
            return


def _filters(
    types: Iterable[str] | None, kinds: Iterable[str] | None, ops: Iterable[str] | None
) -> dict[str, list[str] | None]:
    return {"type": listed(types), "kind": listed(kinds), "op": listed(ops)}
