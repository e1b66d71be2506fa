"""History: commits, versions of an entity, diffs and the change feed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, get_args

from omnigraph._internal.deadlines import Cancellation, Deadline
from omnigraph.errors import NotFound, UsageError
from omnigraph.graph.access import GraphState, public_api
from omnigraph.graph.arguments import Distance, distance_between
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit, CommitKind
from omnigraph.tasks.engines import Engine, make_workers

if TYPE_CHECKING:
    from omnigraph.changes.entity_changes import EntityChange, TypeChanges
    from omnigraph.changes.feed import Baseline, CommitPage, FeedPage
    from omnigraph.language.schema.merging import Strategy
    from omnigraph.merge.resolutions import Resolution
    from omnigraph.merge.three_way import By, MergeResult
    from omnigraph.read.entity_history import EntityVersion


# Undo: reverting a commit, or everything since a revision.


@public_api
class UndoMethods(GraphState):
    """The methods of a graph that undo changes. They add commits and remove none."""

    def revert(
        self,
        commit: str,
        *,
        branch: str = MAIN,
        strategy: Strategy = "fail",
        by: By = "row",
        dry_run: bool = False,
        actor: str | None = None,
        message: str | None = None,
        resolutions: Sequence[Resolution] = (),
    ) -> MergeResult:
        """Undo what a commit changed, on a branch as it is now, as one commit; for a merge, what it changed against its first
        parent. `commit` is any revision.

        Later changes to the same entities conflict as in a merge, and are settled in the same way: "ours" is the branch, "theirs" the state before
        the commit. MergeConflicts if a conflict is not settled; nothing is published then.

        >>> draft = g.branches.create("draft")
        >>> receipt = g.mutate(Path("people.gq"), {"name": "Ada", "age": 99}, name="grow", branch="draft")
        >>> result = g.revert("draft", branch="draft", actor="ada")
        >>> assert g.entity("Person", "Ada", revision="draft") == g.entity("Person", "Ada")
        """
        from omnigraph.merge.merge import MergeOptions
        from omnigraph.merge.revert import revert_commit

        options = MergeOptions(strategy, by, dry_run, actor, message, resolutions)
        return revert_commit(self._repository, self._repository.history.revisions.commit(commit), branch, options)

    def reset(self, branch: str, to: str, *, actor: str | None = None, message: str | None = None) -> Commit | None:
        """Give a branch the content and the schema of any revision, as one commit; None if it has them already.

        The previous content stays in the branch's history. PreconditionFailed if another commit reaches the branch meanwhile.

        >>> assert g.reset("draft", "draft~1", actor="ada").kind == "reset"
        >>> g.branches.delete("draft", force=True)
        """
        from omnigraph.merge.revert import reset_branch

        entry = self._repository.history.revisions.entry(to)
        return reset_branch(self._repository, branch, entry, actor=actor, message=message)


@public_api
class HistoryMethods(GraphState):
    """The methods of a graph that say what was done to it."""

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
        """The commits up to a revision, newest first, along first parents, inherited ones included; with `before`, those
        older than that commit. `actor` and `kind` ("load", "merge", …) leave out all others.

        >>> assert [commit.kind for commit in g.commits(limit=1, actor="ada")] == ["mutation"]
        """
        if limit < 1:
            raise UsageError(f"a page has at least one commit, not {limit}")
        if kind is not None and kind not in get_args(CommitKind):
            raise UsageError(f"'{kind}' is not a kind of commits", hint=", ".join(get_args(CommitKind)))
        history = self._repository.history
        entry = history.revisions.entry(revision, as_of)
        return history.log.page(entry, limit=limit, before=before, actor=actor, kind=kind)

    def head(self, branch: str = MAIN) -> Commit:
        """The newest commit of a branch.

        >>> assert g.head().at <= dt.datetime.now(dt.UTC)
        """
        return self._repository.history.chain.head(branch.strip()).head.commit

    def show(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Commit:
        """The commit of a revision.

        >>> assert g.show("main~1").at < g.show("main").at
        """
        return self._repository.history.revisions.commit(revision, as_of)

    def wait_for_change(
        self,
        branch: str = MAIN,
        *,
        since: str | None = None,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> Commit | None:
        """Wait until the head of a branch is a commit other than `since` (by default, the current one), and return it; None if
        `timeout` seconds pass first. Writes through this graph are noticed at once, those of other processes within a quarter of
        a second. BranchNotFound if the branch is deleted meanwhile; Cancelled if `cancel` is cancelled.

        >>> assert g.wait_for_change(since=g.show("main~1").id) == g.head()
        >>> assert g.wait_for_change(since=g.head().id, timeout=0.1) is None
        """
        return self._repository.history.watch.wait(branch, since, Deadline(timeout, cancellation=cancel))

    def history(
        self, type: str, id: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> list[EntityVersion]:
        """The versions of one entity up to a revision, newest first, each with its commit.

        >>> assert [version.value["age"] for version in g.history("Person", "Bo")] == [28, 27]
        """
        from omnigraph.read.entity_history import history_of

        entry = self._repository.history.revisions.entry(revision, as_of)
        return list(history_of(self._repository, type, id, entry))

    def blame(
        self, type: str, id: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> dict[str, Commit]:
        """Which commit gave each property of an entity the value it has at a revision; for an edge, `from` and `to` as well. For
        a value that came with a merge, it is the commit of the merged branch. NotFound if there is no such entity.

        >>> assert g.blame("Person", "Bo")["age"].message == "a birthday"
        """
        from omnigraph.read.entity_history import blame_of

        setters = blame_of(self._repository, type, id, self._repository.history.revisions.entry(revision, as_of))
        if not setters:
            raise NotFound(f"{type} '{id[:100]}' is not there", hint="'omnigraph log' shows what was changed")
        return setters

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
        """What changed from one revision to another, entity by entity: nodes, then edges; by type and id. A stream.

        `ids` limits the diff to the entities with these ids. With an engine on Spark, rows are compared by Spark's workers.

        >>> for change in g.diff("main~1", "main", types=["Person"]):
        ...     print(change.op, change.id)
        """
        from omnigraph.changes.diff import diff
        from omnigraph.changes.entity_changes import ChangeFilter

        before, after = self._repository.resolve(a), self._repository.resolve(b)
        only = ChangeFilter.of(kinds, types, ops, ids, catalog=after.catalog)
        return diff(before, after, only=only, workers=make_workers(engine, self.uri))

    def diff_stat(
        self, a: str, b: str, *, types: Iterable[str] | None = None, kinds: Iterable[str] | None = None
    ) -> list[TypeChanges]:
        """How many entities of each type were inserted, updated and deleted from one revision to another; types without changes
        are left out. Reads ids only, and rows that were stored again.

        >>> inserts = {counts.type_name: counts.inserts for counts in g.diff_stat("main~2", "main")}
        >>> assert inserts["Knows"] == 1
        """
        from omnigraph.changes.diff import change_counts
        from omnigraph.changes.entity_changes import ChangeFilter

        before, after = self._repository.resolve(a), self._repository.resolve(b)
        return change_counts(before, after, only=ChangeFilter.of(kinds, types, catalog=after.catalog))

    def distance(self, a: str, b: str = MAIN) -> Distance:
        """How far apart two revisions are: the commits that only `a` reaches, and those that only `b` does.

        >>> assert g.distance("main~1") == og.types.Distance(ahead=0, behind=1)
        """
        history = self._repository.history
        return distance_between(history, *(history.revisions.entry(revision) for revision in (a, b)))

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
        """Exactly what a commit changed against its first parent, a page at a time.

        >>> (grown,) = [commit for commit in g.commits() if commit.message == "a birthday"]
        >>> (change,) = g.commit_changes(grown.id).changes
        >>> assert (change.before["age"], change.after["age"]) == (27, 28)
        """
        from omnigraph.changes.entity_changes import ChangeFilter
        from omnigraph.changes.feed import commit_changes

        commit = self.show(revision, as_of=as_of)
        after = self._repository.view(self._repository.history.revisions.snapshot(commit.ref))
        only = ChangeFilter.of(kinds, types, ops, catalog=after.catalog)
        return commit_changes(self._repository, commit, only=only, limit=limit, page_token=page_token)

    def changes(
        self,
        branch: str = MAIN,
        since: str | None = None,
        *,
        start: str | None = None,
        page_token: str | None = None,
        limit: int = 1_000,
        max_commits: int = 128,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> FeedPage:
        """What the commits of a branch changed, in order: after the cursor `since`, or from a `start` (`now`, the default,
        `beginning` or `after:<commit id>`), or the next page of a poll.

        >>> page = g.changes("main", start="beginning")
        >>> while page.next_page_token:
        ...     page = g.changes("main", page_token=page.next_page_token)
        >>> later = g.changes("main", since=page.cursor)
        >>> assert later.caught_up
        """
        from omnigraph.changes.entity_changes import ChangeFilter
        from omnigraph.changes.feed import poll

        only = ChangeFilter.of(kinds, types, ops, catalog=self._repository.head(branch)[1].catalog)
        return poll(
            self._repository,
            branch,
            cursor=since,
            start=start,
            page_token=page_token,
            only=only,
            limit=limit,
            max_commits=max_commits,
        )

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
        """The branch's head as JSON lines, and the cursor from which changes continue: where a reader of changes begins.

        An existing file is replaced only with `overwrite`.

        >>> base = g.baseline("people.ndjson")
        >>> assert base.snapshot_commit_id == g.head().id
        """
        from omnigraph.changes.entity_changes import ChangeFilter
        from omnigraph.changes.feed import write_baseline

        only = ChangeFilter.of(kinds, types, ops, catalog=self._repository.head(branch)[1].catalog)
        return write_baseline(self._repository, out, branch, only=only, replace=overwrite)

    def baseline_stream(
        self,
        *,
        branch: str = MAIN,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> Iterator[bytes]:
        """A baseline as bytes in chunks, as in `export_stream`. Its last line is `{"baseline": {...}}`, with the cursor.

        >>> *_, last = b"".join(g.baseline_stream()).splitlines()
        >>> assert g.head().id.encode() in last
        """
        from omnigraph.changes.entity_changes import ChangeFilter
        from omnigraph.changes.feed import baseline_blocks
        from omnigraph.export.job import chunks

        only = ChangeFilter.of(kinds, types, ops, catalog=self._repository.head(branch)[1].catalog)
        return chunks(baseline_blocks(self._repository, branch, only=only))
