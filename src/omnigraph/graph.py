"""The front door: init, open, and everything one can do with a graph."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from omnigraph.errors import AlreadyExists, UsageError
from omnigraph.history import MAIN, Commit, CommitRef, Prepared, parse_time
from omnigraph.language.catalog import Catalog
from omnigraph.language.parameters import bind_parameters
from omnigraph.language.query.compiler import compile_query
from omnigraph.language.query.plan import MutationPlan, ReadPlan
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.storage import Durability
from omnigraph.views import Repository, View, new_table_id
from omnigraph.write import GroupCommitter, Receipt, run_mutation
from omnigraph.write import Transaction as WriteTransaction

if TYPE_CHECKING:
    from omnigraph.changes import Baseline, CommitPage, EntityChange, FeedPage
    from omnigraph.changes.workers import Workers
    from omnigraph.merge import By, MergeResult, Strategy
    from omnigraph.pipeline.load.job import LoadReceipt
    from omnigraph.pipeline.spark.frames import GraphTables
    from omnigraph.read import Result

Engine = Literal["local", "spark"]
LoadMode = Literal["append", "merge", "overwrite"]
FileFormat = Literal["jsonl", "csv", "parquet"]


def init(
    uri: str | Path,
    schema: str | Path,
    *,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = "disk",
) -> Graph:
    """Make a new graph at a folder or address, with the schema of a `.pg` text or file.

        g = og.init("./people", schema="node Person { name: String @key }")

    AlreadyExists when there is one; SchemaError when the schema does not compile. Nothing is written then.
    """
    text, file = read_source(schema, ".pg")
    catalog = compile_schema(text, file, new_table_id=new_table_id)
    return Graph(Repository.create(str(uri), catalog, storage_options, durability, actor))


def open(
    uri: str | Path, *, storage_options: Mapping[str, str] | None = None, durability: Durability = "disk"
) -> Graph:
    """Open an existing graph. GraphNotFound, or UnsupportedFormat when a newer omnigraph wrote it."""
    return Graph(Repository.open(str(uri), storage_options, durability))


class Graph:
    """A graph that was opened. Safe to share between threads; any number of processes may have it open."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._committer = GroupCommitter(repository)
        self.branches = GraphBranches(self)
        self.tags = GraphTags(self)
        self.recovery = GraphRecovery(self)

    @property
    def uri(self) -> str:
        return self._repository.store.uri

    @property
    def schema(self) -> Catalog:
        """The typed catalog of the head of main."""
        return self._repository.head(MAIN)[1].catalog

    # ------------------------------------------------------------ writing

    def mutate(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
    ) -> Receipt:
        """Run a mutation as one transaction; the receipt names the exact commit, or None when nothing changed."""
        with self.transaction(branch, actor=actor, message=message, if_commit=if_commit) as transaction:
            transaction.mutate(gq, params, name=name)
        return transaction.receipt

    @contextmanager
    def transaction(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
    ) -> Iterator[Transaction]:
        """Statements that are published together when the block ends, or not at all when it raises.

        with g.transaction("main", actor="ada") as tx:
            tx.insert("Person", name="Ada", age=36)
        """
        transaction = Transaction(
            self._repository, self._committer, branch, actor=actor, message=message, if_commit=if_commit
        )
        yield transaction
        transaction.commit()

    def load(
        self,
        sources: Any,
        *,
        mode: LoadMode,
        branch: str = MAIN,
        from_: str | None = None,
        engine: Engine = "spark",
        spark: Any = None,
        master: str | None = None,
        format: FileFormat | None = None,
        type: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        rejects: str | Path | None = None,
        show_progress: bool = False,
    ) -> LoadReceipt:
        """Load files, folders, globs, addresses or DataFrames as one commit, or nothing.

            g.load("people.jsonl", mode="append")
            g.load({"Person": people, "Knows": knows}, mode="merge", branch="review", from_="main")

        `from_` makes a missing branch first. Rejected records refuse the whole load unless `rejects` names a file for them.
        """
        from omnigraph.pipeline.load.job import load

        made = from_ is not None and not self.branches.exists(branch)
        if made:
            assert from_ is not None
            self.branches.create(branch, from_)
        try:
            receipt = load(
                self._repository,
                sources,
                mode=mode,
                branch=branch,
                engine=engine,
                spark=spark,
                master=master,
                format=format,
                type=type,
                actor=actor,
                message=message,
                rejects=rejects,
                show_progress=show_progress,
            )
        except BaseException:
            if made:
                self.branches.delete(branch)
            raise
        return replace(receipt, base_branch=from_ if made else None, branch_created=made)

    def ensure_indexes(self, branch: str = MAIN, *, actor: str | None = None) -> Commit | None:
        """Make every declared index cover every row, as one commit; None when they did already."""
        from omnigraph.maintenance.optimize import maintain

        return maintain(self._repository, branch, rewrite=False, actor=actor)

    def optimize(self, branch: str = MAIN, *, actor: str | None = None) -> Commit | None:
        """Rewrite tables that lie in many parts into few, and make every index cover every row; None if nothing was to do.

        The rows stay as they are: the commit's diff is empty.
        """
        from omnigraph.maintenance.optimize import maintain

        return maintain(self._repository, branch, rewrite=True, actor=actor)

    # ------------------------------------------------------------ reading

    def query(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        snapshot: str | None = None,
        at: str | dt.datetime | None = None,
        engine: Engine = "local",
        spark: Any = None,
    ) -> Result:
        """Run a read against one immutable snapshot: a branch's head, a commit / tag / `branch~N`, or a time."""
        view = self.view(branch, snapshot, at)
        plan, bound = compiled(gq, view, params, name)
        if not isinstance(plan, ReadPlan):
            raise UsageError(f"'{plan.name}' is a mutation", hint="use mutate")
        if engine == "spark":
            from omnigraph.pipeline.spark.queries import run_read_on_spark

            return replace(run_read_on_spark(view, plan, bound, spark), query_name=plan.name)
        from omnigraph.read import run_read

        return replace(run_read(view, plan, bound), query_name=plan.name)

    def explain(
        self, gq: str | Path, params: Mapping[str, object] | None = None, *, name: str | None = None, branch: str = MAIN
    ) -> Any:
        """How a query would run: access paths, their estimates, and the choice."""
        from omnigraph.read import explain

        view = self.view(branch)
        plan, bound = compiled(gq, view, params, name)
        if not isinstance(plan, ReadPlan):
            raise UsageError(f"'{plan.name}' is a mutation; only reads can be explained")
        return explain(view, plan, bound)

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        format: FileFormat = "jsonl",
        branch: str | None = None,
        snapshot: str | None = None,
        types: Sequence[str] | None = None,
        force: bool = False,
        engine: Engine = "spark",
        spark: Any = None,
    ) -> int:
        """Write the graph, or some types of it, at any snapshot; the number of entities written.

            g.export("people.jsonl")
            g.export("people.csv", format="csv", types=["Person"])

        CSV and Parquet go to a folder, a file a type, or one type to a file named `.csv` or `.parquet`. "-" is standard
        output. AlreadyExists for a file that is there, unless `force` replaces it.
        """
        from omnigraph.pipeline.export.job import export

        view = self.view(branch, snapshot)
        return export(view, target, format=format, types=types, force=force, engine=engine, spark=spark)

    def spark(self, session: Any = None, *, branch: str | None = None, snapshot: str | None = None) -> GraphTables:
        """The graph's types as Spark DataFrames, at one snapshot: `g.spark(session).table("Person")`."""
        from omnigraph.pipeline.spark.frames import graph_tables
        from omnigraph.pipeline.spark.session import spark_session

        return graph_tables(self.view(branch, snapshot), session or spark_session())

    def entity(self, type: str, id: str, *, at: str | None = None) -> dict[str, Any] | None:
        """One node or edge by id, at any revision; None when it is not there."""
        from omnigraph.read import entity

        return entity(self._repository.resolve(MAIN if at is None else at), type, id)

    def history(self, type: str, id: str, *, branch: str = MAIN) -> list[Any]:
        """The versions of one entity along a branch, newest first: the commit and the state it made."""
        from omnigraph.read import history_of

        return list(history_of(self._repository, type, id, branch))

    def view(self, branch: str | None = None, snapshot: str | None = None, at: str | dt.datetime | None = None) -> View:
        """The snapshot that a read names: at most one of a revision (`snapshot`) and a time on a branch (`at`)."""
        if snapshot is not None:
            if branch is not None or at is not None:
                raise UsageError("give a snapshot alone, or a branch with an optional time")
            return self._repository.resolve(snapshot)
        head = self._repository.history.chain.head(MAIN if branch is None else branch)
        if at is None:
            return self._repository.view(head.head)
        moment = parse_time(at) if isinstance(at, str) else at if at.tzinfo else at.replace(tzinfo=dt.UTC)
        if moment is None:
            raise UsageError(f"'{at}' is not a time", hint="write 2026-07-01 or 2026-07-01T12:00:00Z")
        return self._repository.view(self._repository.history.revisions.at(head, moment))

    # ------------------------------------------------------------ history

    def commits(
        self, branch: str = MAIN, limit: int = 50, before: str | None = None, actor: str | None = None
    ) -> list[Commit]:
        """Newest first, along first parents, inherited commits included; those older than the commit `before`."""
        if limit < 1:
            raise UsageError(f"a page has at least one commit, not {limit}")
        history = self._repository.history
        return history.log.page(history.chain.head(branch), limit=limit, before=before, actor=actor)

    def commit(self, id: str) -> Commit:
        return self._repository.history.revisions.find(id)

    # ------------------------------------------------------------ changes

    def diff(
        self,
        a: str,
        b: str,
        *,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        engine: Engine = "local",
        spark: Any = None,
    ) -> Iterator[EntityChange]:
        """What changed from one revision to another, entity by entity: nodes, then edges; by type and id. A stream.

        for change in g.diff("main~5", "main", types=["Person"]):
            print(change.op, change.id)

        With engine "spark" rows are compared by Spark's workers.
        """
        from omnigraph.changes import ChangeFilter, diff

        before, after = self._repository.resolve(a), self._repository.resolve(b)
        only = ChangeFilter.of(kinds, types, ops, catalog=after.catalog)
        return diff(before, after, only=only, workers=_workers(engine, spark))

    def commit_changes(
        self,
        id: str,
        *,
        limit: int = 1_000,
        page_token: str | None = None,
        types: Iterable[str] | None = None,
        kinds: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> CommitPage:
        """Exactly what a commit changed against its first parent, a page at a time."""
        from omnigraph.changes import ChangeFilter, commit_changes

        commit = self.commit(id)
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

            page = g.changes("main", start="beginning")
            while page.next_page_token:
                page = g.changes("main", page_token=page.next_page_token)
            later = g.changes("main", since=page.cursor)
        """
        from omnigraph.changes import ChangeFilter, poll

        only = ChangeFilter.of(kinds, types, ops, catalog=self.view(branch).catalog)
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
    ) -> Baseline:
        """The branch's head as JSON lines, and the cursor that goes on from it: where a reader of changes begins."""
        from omnigraph.changes import ChangeFilter, write_baseline

        only = ChangeFilter.of(kinds, types, ops, catalog=self.view(branch).catalog)
        return write_baseline(self._repository, out, branch, only=only)


class Transaction(WriteTransaction):
    """A transaction with the languages: mutations and queries that see its own changes."""

    @property
    def receipt(self) -> Receipt:
        """What was published; only after the block has ended."""
        if self._receipt is None:
            raise UsageError("the transaction is not committed yet")
        return self._receipt

    def mutate(self, gq: str | Path, params: Mapping[str, object] | None = None, *, name: str | None = None) -> None:
        plan, bound = compiled(gq, self.view, params, name)
        if not isinstance(plan, MutationPlan):
            raise UsageError(f"'{plan.name}' is a read", hint="use query")
        run_mutation(self, plan, bound)

    def query(self, gq: str | Path, params: Mapping[str, object] | None = None, *, name: str | None = None) -> Result:
        from omnigraph.read import run_read

        plan, bound = compiled(gq, self.view, params, name)
        if not isinstance(plan, ReadPlan):
            raise UsageError(f"'{plan.name}' is a mutation", hint="use mutate")
        return replace(run_read(self.preview(), plan, bound), query_name=plan.name)


class GraphBranches:
    def __init__(self, graph: Graph) -> None:
        self._history = graph._repository.history
        self._graph = graph

    def create(self, name: str, from_: str = MAIN) -> Commit:
        """A branch at another branch's head, or at any older commit (tag, commit id, `branch~N`). One put."""
        history = self._history
        if from_ in history.chain.branches():
            source = history.chain.head(from_)
            return history.branches.create(name, source).head.commit
        snapshot = history.revisions.resolve(from_)
        source = history.lineage.entry_of(snapshot.commit.ref)
        return history.branches.create(name, source, snapshot).head.commit

    def list(self) -> list[str]:
        return [entry.branch for entry in self._history.branches.list()]

    def delete(self, name: str) -> None:
        self._history.branches.delete(name)

    def exists(self, name: str) -> bool:
        newest = self._history.chain.newest(name)
        return newest is not None and newest.alive

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        strategy: Strategy = "fail",
        by: By = "row",
        dry_run: bool = False,
        delete_branch: bool = False,
        actor: str | None = None,
        message: str | None = None,
        engine: Engine = "local",
        spark: Any = None,
    ) -> MergeResult:
        """Bring a branch's changes into another, as one commit with two parents.

        MergeConflicts, with every conflict, when the branches contradict each other; nothing is published then. Strategy
        "ours" lets the target win, "theirs" the source; `by="property"` merges an entity property by property. With
        engine "spark" rows are compared by Spark's workers: for branches that changed very much.
        """
        from omnigraph.merge import merge_branches

        return merge_branches(
            self._graph._repository,
            source,
            into,
            strategy=strategy,
            by=by,
            dry_run=dry_run,
            delete_branch=delete_branch,
            actor=actor,
            message=message,
            workers=_workers(engine, spark),
        )


class GraphTags:
    def __init__(self, graph: Graph) -> None:
        self._history = graph._repository.history

    def create(self, name: str, at: str = MAIN) -> Commit:
        """Name a commit; tagged commits are kept by cleanup."""
        snapshot = self._history.revisions.resolve(at)
        newest = self._history.chain.newest(name)
        if newest is not None and newest.alive:
            raise AlreadyExists(f"'{name}' is a branch", hint="choose another name for the tag")
        self._history.tags.create(name, snapshot.commit.ref)
        return snapshot.commit

    def list(self) -> dict[str, CommitRef]:
        return self._history.tags.list()

    def delete(self, name: str) -> None:
        self._history.tags.delete(name)


class GraphRecovery:
    """Loads that died between staging and publishing. Opening a graph never looks at them."""

    def __init__(self, graph: Graph) -> None:
        self._repository = graph._repository

    def list(self) -> list[Prepared]:
        return self._repository.history.recovery.list()

    def resume(self, commit_id: str) -> Commit:
        """Publish what was staged; the same commit when it was published already."""
        from omnigraph.pipeline.load.recovery import resume

        return resume(self._repository, commit_id)

    def discard(self, commit_id: str) -> None:
        self._repository.history.recovery.get(commit_id)
        self._repository.history.recovery.remove(commit_id)


def _workers(engine: Engine, spark: Any) -> Workers:
    """Who compares rows for a merge or a diff."""
    from omnigraph.changes.workers import IN_PROCESS, OnSpark

    if engine == "local":
        return IN_PROCESS
    from omnigraph.pipeline.spark.runner import SparkRunner
    from omnigraph.pipeline.spark.session import cores_of, spark_session

    session = spark or spark_session()
    return OnSpark(SparkRunner(session, cores_of(session)))


def compiled(
    gq: str | Path, view: View, params: Mapping[str, object] | None, name: str | None
) -> tuple[ReadPlan | MutationPlan, dict[str, object]]:
    """A query's plan under the view's schema, and its bound parameters."""
    text, file = read_source(gq, ".gq")
    plan = compile_query(text, view.catalog, name, file)
    return plan, bind_parameters(plan.parameters, params or {})


def read_source(text_or_path: str | Path, suffix: str = "") -> tuple[str, str | None]:
    """A text as it is; a Path, or a one-line string that ends like a file, is read."""
    is_path = isinstance(text_or_path, Path) or (
        suffix != "" and text_or_path.endswith(suffix) and "\n" not in text_or_path
    )
    if not is_path:
        return str(text_or_path), None
    path = Path(text_or_path)
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
