"""A graph: writing, reading, history and changes. Branches, tags and prepared loads are its parts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal

from omnigraph.deadlines import Cancellation, Deadline
from omnigraph.errors import UsageError
from omnigraph.graph.arguments import checked
from omnigraph.graph.boundary import names_damage
from omnigraph.graph.branches import GraphBranches
from omnigraph.graph.recovery import GraphRecovery
from omnigraph.graph.snapshots import GraphSnapshot, snapshot_of
from omnigraph.graph.tags import GraphTags
from omnigraph.graph.texts import compiled_read, read_source
from omnigraph.graph.transactions import Transaction
from omnigraph.history import MAIN, Commit, Once, check_attribution
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.lint import LintReport, lint_queries
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.pipeline.engines import Engine, refuse_memory, runner_of, session_of, workers_of
from omnigraph.runtime import Runtime
from omnigraph.storage import Durability
from omnigraph.values.entities import Entity
from omnigraph.views import Repository, View, new_table_id
from omnigraph.write import GroupCommitter, Receipt

if TYPE_CHECKING:
    from omnigraph.changes import Baseline, CommitPage, EntityChange, FeedPage
    from omnigraph.language.schema.migration import MigrationPlan
    from omnigraph.maintenance.optimize import OptimizeReport
    from omnigraph.maintenance.replication import CopyReport
    from omnigraph.maintenance.reports import CleanupReport, StorageReport
    from omnigraph.pipeline.evolve.apply import SchemaReceipt
    from omnigraph.pipeline.evolve.queries import BrokenQuery
    from omnigraph.pipeline.load.inputs import Sources
    from omnigraph.pipeline.load.receipt import LoadReceipt
    from omnigraph.pipeline.repair.report import RepairReport
    from omnigraph.pipeline.spark.frames import GraphTables
    from omnigraph.pipeline.verify.findings import VerifyReport
    from omnigraph.read import EntityVersion, Explanation, Result

LoadMode = Literal["append", "merge", "overwrite"]
FileFormat = Literal["jsonl", "csv", "parquet"]
Verify = Literal["used", "full"]
Lost = Literal["report", "reset", "drop"]


@checked
def init(
    uri: str | Path,
    schema: str | Path,
    *,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = "disk",
    memory: str | int | None = None,
    runtime: Runtime | None = None,
) -> Graph:
    """Make a new graph at a folder or address, with the schema of a `.pg` text or file.

    AlreadyExists when there is one; SchemaError when the schema does not compile. Nothing is written then. `memory` and
    `runtime` are as in `open`.

    >>> cities = og.init("./cities", schema="node City { name: String @key }")
    >>> assert list(cities.schema.nodes) == ["City"]
    """
    text, file = read_source(schema, ".pg")
    catalog = compile_schema(text, file, new_table_id=new_table_id)
    shared = _runtime(memory, runtime)
    return Graph(Repository.create(str(uri), catalog, storage_options, durability, actor, shared))


@checked
def open(
    uri: str | Path,
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = "disk",
    memory: str | int | None = None,
    runtime: Runtime | None = None,
    verify: Verify = "used",
) -> Graph:
    """Open an existing graph. GraphNotFound when there is none, UnsupportedFormat when it needs a newer omnigraph.

    `memory` bounds what is held in memory to answer faster ("1GiB" by default); several graphs share one bound when they
    are given the same `runtime`.

    What is read later is checked as far as it costs nothing: all of history, and the small files of tables. With
    `verify="full"` everything is read and checked now, as `Graph.verify(all=True)` does: Damaged when a file is missing or
    does not hold what was written.

    >>> with og.open("./cities", verify="full") as cities:
    ...     assert cities.commit().kind == "init"
    """
    if verify not in ("used", "full"):
        raise UsageError(f"{verify!r} is no way to verify a graph", hint='verify="used" or verify="full"')
    repository = Repository.open(str(uri), storage_options, durability, _runtime(memory, runtime))
    if verify == "full":
        from omnigraph.pipeline.verify.job import verify as verify_graph

        verify_graph(repository, all=True).raise_damage()
    return Graph(repository)


def _runtime(memory: str | int | None, runtime: Runtime | None) -> Runtime:
    if runtime is None:
        return Runtime() if memory is None else Runtime(memory)
    if not isinstance(runtime, Runtime):
        raise UsageError(f"expected a Runtime, got {type(runtime).__name__}", hint='og.Runtime(memory="1GiB")')
    if memory is not None:
        raise UsageError("memory and runtime exclude each other", hint="og.Runtime(memory=...) has the bound")
    return runtime


@names_damage
class Graph:
    """A graph that was opened. Safe to share between threads; any number of processes may have it open.

    A read takes a `revision`: a branch, a tag, a commit id or a unique beginning of one, or `branch~N`, N commits before
    the branch's head. With `as_of`, a time, it reads that branch as it was then. A write takes a `branch`. Times are UTC.

    >>> g = og.open("./people")
    >>> assert g.schema.edges["Knows"].target == "Person"
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._committer = GroupCommitter(repository)

    def __repr__(self) -> str:
        return f"<Graph {self.uri}>"

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is pending: a commit is durable when the call that made it returns."""
        self.close()

    def close(self) -> None:
        """Forget what is held of the graph in memory. The graph can be used again: it reads from storage then.

        >>> cities = og.open("./cities")
        >>> cities.close()
        """
        self._repository.close()

    @property
    def uri(self) -> str:
        """The folder or address of the graph."""
        return self._repository.store.uri

    @property
    def id(self) -> str:
        """The graph's own id, given when it was made; a copy has the same one."""
        return self._repository.history.identity.graph_id

    @property
    def schema(self) -> Catalog:
        """The schema at the head of main; `g.snapshot(revision).schema` for any other."""
        return self._repository.head(MAIN)[1].catalog

    @property
    def branches(self) -> GraphBranches:
        """Make, list, delete and merge branches."""
        return GraphBranches(self._repository)

    @property
    def tags(self) -> GraphTags:
        """Names for commits."""
        return GraphTags(self._repository)

    @property
    def recovery(self) -> GraphRecovery:
        """Writes that were interrupted between staging and publishing."""
        return GraphRecovery(self._repository)

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
        once: Once | None = None,
    ) -> Receipt:
        """Run a mutation as one transaction; the receipt names the exact commit, or None when nothing changed.

        `once` is as in `transaction`: what is asked for is the text, the parameters and the name.

        >>> receipt = g.mutate("people.gq", {"name": "Bo", "age": 28}, name="grow", actor="ada", message="a birthday")
        >>> assert receipt.affected_nodes == 1
        """
        with self.transaction(branch, actor=actor, message=message, if_commit=if_commit, once=once) as transaction:
            query_name = transaction.mutate(gq, params, name=name)
        return replace(transaction.receipt, query_name=query_name)

    def transaction(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        once: Once | None = None,
    ) -> Transaction:
        """Statements that are published together when the block ends, or not at all when it raises.

        PreconditionFailed when `if_commit` is not the branch's head.

        `once` is a write key: a text, or an application and a number that grows. A write that comes again under its key
        changes nothing, and its receipt (`repeated`) has the commit of the first one; WriteKeyReused when it asks for
        something else. Under a key there is a commit even when nothing changes.

        >>> with g.transaction(actor="ada", once="orders-2026-11-15") as tx:
        ...     tx.insert("Person", name="Cy", age=51)
        ...     tx.insert("Knows", from_="Bo", to="Cy")
        >>> assert tx.receipt.commit == g.commit()
        """
        return Transaction(
            self._repository, self._committer, branch, actor=actor, message=message, if_commit=if_commit, once=once
        )

    def begin(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        once: Once | None = None,
    ) -> Transaction:
        """The same without a block: end it with `commit()` or `rollback()`.

        >>> tx = g.begin()
        >>> tx.insert("Person", name="Nobody")
        >>> tx.rollback()
        """
        return self.transaction(branch, actor=actor, message=message, if_commit=if_commit, once=once)

    def load(
        self,
        sources: Sources,
        *,
        mode: LoadMode,
        branch: str = MAIN,
        from_: str | None = None,
        new_branch: bool = False,
        type: str | None = None,
        format: FileFormat | None = None,
        encoding: str | None = None,
        delimiter: str | None = None,
        rejects: str | Path | None = None,
        engine: Engine = "spark",
        actor: str | None = None,
        message: str | None = None,
        once: Once | None = None,
        show_progress: bool = False,
    ) -> LoadReceipt:
        """Load files, folders, globs, addresses or DataFrames (`{"Person": people}`) as one commit, or nothing.

        `from_` makes a branch that is not there, at that revision, in the same step as the load: there is never a branch
        without its load. A branch that is there, or that somebody else makes meanwhile, is loaded into like any other; with
        `new_branch` it is AlreadyExists. Rejected records refuse the whole load unless `rejects` names a new file for
        them. `encoding` is that of JSON lines and CSV (UTF-8), `delimiter` that of CSV (a comma).

        `once` is as in `transaction`: what is asked for is the mode, the options and what the files hold (of a Spark
        DataFrame, its columns). The file for rejected records that an earlier try has left is replaced.

        >>> receipt = g.load("people.jsonl", mode="merge", branch="inbox", from_="main~1", engine="local")
        >>> assert (receipt.total.updated, receipt.total.unchanged, receipt.branch_created) == (1, 3, True)
        """
        from omnigraph.pipeline.load.job import load

        return load(
            self._repository,
            sources,
            mode=mode,
            branch=branch,
            from_=from_,
            new_branch=new_branch,
            engine=engine,
            format=format,
            type=type,
            actor=actor,
            message=message,
            once=once,
            rejects=rejects,
            encoding=encoding,
            delimiter=delimiter,
            show_progress=show_progress,
        )

    def stream_into(
        self,
        frames: str | Callable[[Any], Mapping[str, Any]],
        *,
        mode: LoadMode,
        branch: str = MAIN,
        rejects: str | Path | None = None,
        actor: str | None = None,
        message: str | None = None,
    ) -> Callable[[Any, int], None]:
        """For `foreachBatch` of a Spark stream: each micro-batch is one commit, however often it is tried.

        `frames` is the type that the batch's rows are of, or a function from a batch to DataFrames by type, as `load` takes
        them. Rejected records stop the query unless `rejects` names a folder, where each batch writes a file of its own.

        >>> into = g.stream_into(lambda batch: {"Person": batch.select("name"), "City": batch.select("city")}, mode="merge")
        """
        from omnigraph.pipeline.load.job import check_mode
        from omnigraph.pipeline.spark.session import require_pyspark

        if not isinstance(frames, str) and not callable(frames):
            raise UsageError(
                f"'frames' must be a type or a function of the batch, got {type(frames).__name__}",
                hint='g.stream_into("Person", mode="append")',
            )
        check_mode(mode)
        check_attribution(actor, message)
        refuse_memory(self.uri)
        require_pyspark()
        from omnigraph.pipeline.spark.stream_sink import StreamInto

        return StreamInto(self._repository, frames, mode, branch, rejects, actor, message)

    def ensure_indexes(self, branch: str = MAIN, *, actor: str | None = None) -> Commit | None:
        """Make every declared index cover every row, as one commit; None when they did already.

        >>> g.ensure_indexes()
        >>> assert g.ensure_indexes() is None
        """
        from omnigraph.maintenance.optimize import maintain

        return maintain(self._repository, branch, rewrite=False, actor=actor).commit

    def optimize(
        self, branch: str = MAIN, *, dry_run: bool = False, engine: Engine = "local", actor: str | None = None
    ) -> OptimizeReport:
        """Compact tables, sort edges by their source and bring indexes up to date, as one commit if there is anything to do.

        The data stays as it is: the commit's diff is empty. It lands beside writers that never stop. With an engine on Spark,
        large tables are written and indexed by Spark's workers. `dry_run` only says what would be done, and why.

        >>> report = g.optimize(dry_run=True)
        >>> assert report.tables[0].actions
        >>> assert g.optimize(actor="ada").commit.kind == "optimize"
        """
        from omnigraph.maintenance.optimize import maintain

        return maintain(
            self._repository,
            branch,
            rewrite=True,
            dry_run=dry_run,
            actor=actor,
            workers=workers_of(engine, self.uri),
        )

    # ------------------------------------------------------------ health

    def verify(
        self,
        revision: str | None = None,
        *,
        all: bool = False,
        deep: bool = False,
        engine: Engine = "local",
        show_progress: bool = False,
    ) -> VerifyReport:
        """Whether the graph is whole: every retained commit of a branch (main) can be read, and every file that it needs is
        there, with its size and its digest. Another revision is looked at alone; `all` means every branch, every tag and
        every prepared load.

        With `deep` the rows are read too, at the heads of the branches and at the tags, or at the revision: their number,
        every rule of the schema, and whether indexes answer as scans do.

        >>> report = g.verify(deep=True)
        >>> assert report.is_whole, report.findings
        """
        from omnigraph.pipeline.verify.job import verify

        return verify(
            self._repository, revision=revision, all=all, deep=deep, engine=engine, show_progress=show_progress
        )

    def repair(
        self,
        branch: str = MAIN,
        *,
        lost: Lost = "report",
        deep: bool = False,
        yes: bool = False,
        actor: str | None = None,
        engine: Engine = "local",
        show_progress: bool = False,
    ) -> RepairReport:
        """Look for damage everywhere, and do what can be done about it; without `yes`, only say what that would be.

        Segments of the log, stored ancestries and watermarks are written again; damaged indexes are built again at the heads
        of branches (with `deep`, stale ones too). What is lost is named. If the head of `branch` cannot be read in full,
        `lost="reset"` sets it to its newest intact commit, as a new commit, and `lost="drop"` commits it without the rows
        whose files are lost and without the edges that ended in them.

        >>> report = g.repair()
        >>> assert report.is_whole and report.steps == ()
        """
        from omnigraph.pipeline.repair.job import repair

        return repair(
            self._repository,
            branch,
            lost=lost,
            deep=deep,
            yes=yes,
            actor=actor,
            engine=engine,
            show_progress=show_progress,
        )

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: str | float | dt.timedelta | None = None,
        branches: Sequence[str] | None = None,
        dry_run: bool = False,
        engine: Engine = "local",
        show_progress: bool = False,
    ) -> CleanupReport:
        """Give back the space of what nothing keeps. With `dry_run` nothing is removed.

        A branch keeps its `keep` newest commits and those younger than `older_than` ("30m", "12h", "7d", "4w", seconds): with
        one of the two, nothing else; with neither, all of them. Heads, tagged commits and commits that later merges need
        are kept whatever the policy. `branches` limits the policy to some; the others keep all their commits. What deleted
        branches and interrupted writes left behind goes too. Nothing goes that was superseded, or staged, within the last
        hour. A commit that is gone can not be read any more (HistoryGap); its record stays in the log.

        >>> report = g.cleanup(keep=10, older_than="7d")
        >>> assert g.verify(all=True).is_whole
        """
        from omnigraph.pipeline.cleanup import cleanup

        return cleanup(
            self._repository,
            keep=keep,
            older_than=older_than,
            branches=branches,
            dry_run=dry_run,
            engine=engine,
            show_progress=show_progress,
        )

    def storage(self, branch: str = MAIN) -> StorageReport:
        """What each type takes up at the head of a branch, what its older commits need beside that, what cleanup could give
        back, and what each branch and tag alone keeps.

        >>> for each in g.storage().types:
        ...     print(each.type, each.rows, each.live_bytes, each.reclaimable_bytes)
        """
        from omnigraph.pipeline.cleanup import storage

        return storage(self._repository, branch)

    # ------------------------------------------------------------ copies

    def push(
        self,
        target: str | Path,
        branch: str = MAIN,
        *,
        to: str | None = None,
        engine: Engine = "local",
        storage_options: Mapping[str, str] | None = None,
        actor: str | None = None,
    ) -> CopyReport:
        """Bring a branch of another copy of this graph to what it is here: the missing files, then the commits.

        The branch there only moves on: NotFastForward when it has commits that are not here, or lacks what these stand on. A
        branch that is not there is made. Tags go with the commits they name. A push that was interrupted goes on when it is
        started again. `storage_options` are those of the target; this graph's own, if they are for the same kind of store.

        `to` is for a branch that went two ways: the target gets a new branch of that name, at the newest commit that both have, with
        all that was done here since as one commit, by `actor`; it can be merged there.

        >>> og.clone("./people", "./people-copy")
        >>> assert g.push("./people-copy").commits == {"main": 0}
        """
        from omnigraph.graph.copies import push

        return push(self._repository, str(target), branch, to, storage_options, engine, actor)

    def pull(
        self,
        source: str | Path,
        branch: str = MAIN,
        *,
        engine: Engine = "local",
        storage_options: Mapping[str, str] | None = None,
    ) -> CopyReport:
        """The same in the other direction: bring a branch here to what it is in another copy of this graph.

        >>> copy = og.open("./people-copy")
        >>> assert copy.pull("./people").commits == {"main": 0}
        """
        from omnigraph.graph.copies import pull

        return pull(self._repository, str(source), branch, storage_options, engine)

    # ------------------------------------------------------------ reading

    def query(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        schema_of: str | None = None,
        engine: Engine = "local",
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> Result:
        """Run a read against one immutable snapshot; after `timeout` seconds it ends with QueryTimeout, and with Cancelled when
        somebody cancels `cancel`.

        The query is written for the snapshot's own schema, or for that of the revision `schema_of`: an old state can be asked
        through newer names, unless its entities may lack what the newer schema requires.

        >>> result = g.query("people.gq", {"of": "Ada"}, name="friends")
        >>> assert result.rows == [{"name": "Bo"}]
        >>> assert g.query("people.gq", {"of": "Bo"}, name="friends", revision="main~3").rows == []
        """
        deadline = Deadline(timeout, cancellation=cancel)
        view = self._view(revision, as_of)
        if schema_of is not None:
            from omnigraph.pipeline.evolve.queries import seen_through

            view = seen_through(view, self._view(schema_of, None))
        plan, bound = compiled_read(gq, view, params, name)
        session = session_of(engine, self.uri)
        if session is not None:
            from omnigraph.pipeline.spark.queries import run_read_on_spark

            return run_read_on_spark(view, plan, bound, session, deadline=deadline)
        from omnigraph.read import run_read

        return run_read(view, plan, bound, deadline=deadline)

    def explain(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
    ) -> Explanation:
        """How a query would run: access paths, their estimates, and the choice.

        >>> print(g.explain("people.gq", {"of": "Ada"}, name="friends"))
        """
        from omnigraph.read import explain

        view = self._view(revision, as_of)
        plan, bound = compiled_read(gq, view, params, name)
        return explain(view, plan, bound)

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        types: Sequence[str] | None = None,
        format: FileFormat = "jsonl",
        force: bool = False,
        engine: Engine = "local",
    ) -> int:
        """Write the graph, or some types of it, at any snapshot; the number of entities written.

        CSV and Parquet go to a folder, a file a type, or one type to a file named `.csv` or `.parquet`. "-" is standard
        output. AlreadyExists for a file that is there, unless `force` replaces it.

        >>> assert g.export("export.jsonl") == 6
        >>> assert g.export("export.csv", format="csv", types=["Person"]) == 3
        """
        from omnigraph.pipeline.export.job import export

        view = self._view(revision, as_of)
        return export(view, target, format=format, types=types, force=force, engine=engine)

    def spark(
        self, engine: Engine = "spark", *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> GraphTables:
        """The graph's types as Spark DataFrames, at one snapshot: `g.spark(session).table("Person")`.

        >>> tables = g.spark("local[2]", revision="main")
        >>> assert tables.table("Person", columns=["name"]).count() == 3
        """
        from omnigraph.pipeline.spark.frames import GraphTables

        session = session_of(engine, self.uri)
        if session is None:
            raise UsageError(
                "DataFrames of Spark need Spark", hint='engine="spark", a Spark master, or a Spark session'
            )
        return GraphTables(self._view(revision, as_of), session)

    def entity(
        self, type: str, id: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> Entity | None:
        """One node or edge by id: `id`, for an edge `from` and `to`, and its properties. None when it is not there.

        >>> ada = g.entity("Person", "Ada")
        >>> assert ada == {"id": "Ada", "name": "Ada", "age": 36, "born": dt.datetime(1815, 12, 10, 6, 30, tzinfo=dt.UTC)}
        >>> assert g.entity("Knows", "ada-bo") == {"id": "ada-bo", "from": "Ada", "to": "Bo", "since": dt.date(2020, 5, 1)}
        """
        from omnigraph.read import entity

        return entity(self._view(revision, as_of), type, id)

    def snapshot(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> GraphSnapshot:
        """What a revision holds: its commit, its schema, and the number of entities of each type.

        >>> assert {type.name: type.entities for type in g.snapshot().types}["Person"] == 3
        """
        return snapshot_of(self._view(revision, as_of))

    def _view(self, revision: str, as_of: str | dt.datetime | None) -> View:
        return self._repository.resolve(revision, as_of)

    # ------------------------------------------------------------ schema

    def lint(self, gq: str | Path, *, revision: str = MAIN, as_of: str | dt.datetime | None = None) -> LintReport:
        """Check every query of a `.gq` text or file against the schema: mistakes, and advice.

        >>> assert g.lint("people.gq").status == "ok"
        """
        text, file = read_source(gq, ".gq")
        return lint_queries(text, self._view(revision, as_of).catalog, file)

    def plan_schema(
        self,
        schema: str | Path,
        *,
        branch: str = MAIN,
        with_: str | Path | None = None,
        allow_data_loss: bool = False,
    ) -> MigrationPlan:
        """What changing a branch to another schema would do, step by step. Nothing is changed.

        `with_` and `allow_data_loss` are as in `apply_schema`; mutations that the change does not fit are refused. Rows are
        not looked at: see `apply_schema(..., dry_run=True)`.

        >>> plan = g.plan_schema(SCHEMA + "node Team { name: String @key }")
        >>> assert plan.lines() == ["add node type 'Team'"]
        """
        from omnigraph.pipeline.evolve.apply import SchemaChange
        from omnigraph.pipeline.evolve.migrating import Migration, check_migration

        text, file = read_source(schema, ".pg")
        before = self._repository.head(branch)[1].catalog
        plan = SchemaChange(text, file, allow_data_loss).plan(before)
        if with_ is not None:
            check_migration(before, plan.catalog, Migration(*read_source(with_, ".gq")))
        return plan

    def broken_queries(self, schema: str | Path, queries: str | Path, *, branch: str = MAIN) -> tuple[BrokenQuery, ...]:
        """Which queries of a folder of `.gq` files, or of one file, changing a branch to another schema would break.

        >>> assert g.broken_queries(SCHEMA, ".") == ()
        """
        from omnigraph.pipeline.evolve.queries import broken_queries

        plan = self.plan_schema(schema, branch=branch)
        return broken_queries(self._repository.head(branch)[1].catalog, plan.catalog, Path(queries))

    def diff_schema(self, a: str, b: str | Path) -> MigrationPlan:
        """The steps from the schema of one revision to that of another, or to a `.pg` file.

        >>> assert g.diff_schema("main", "inbox").lines() == []
        """
        from omnigraph.language.schema.migration import MigrationPlan, compare_catalogs, plan_migration

        before = self._repository.resolve(a).catalog
        if isinstance(b, Path) or b.endswith(".pg"):
            text, file = read_source(b, ".pg")
            return plan_migration(before, text, file)
        after = self._repository.resolve(b).catalog
        return MigrationPlan(compare_catalogs(before, after), after)

    def apply_schema(
        self,
        schema: str | Path,
        *,
        branch: str = MAIN,
        with_: str | Path | None = None,
        allow_data_loss: bool = False,
        dry_run: bool = False,
        engine: Engine = "local",
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
    ) -> SchemaReceipt:
        """Change a branch to another schema, as one commit, or nothing when there is nothing to change.

        SchemaChangeRefused when a step is not possible, or with the entities that are in its way. With `dry_run` that is
        all that is looked at. `with_` are mutations (a `.gq` text or file) that run in the same commit, under the new schema;
        they can read the properties that it drops. `allow_data_loss` consents to hard drops, and to rounding numbers that are too long for F64.

        >>> receipt = g.apply_schema(SCHEMA.replace("age: I32?", "age: I64?"), branch="inbox")
        >>> assert receipt.commit.kind == "schema"
        """
        from omnigraph.pipeline.evolve.apply import SchemaChange, apply_schema
        from omnigraph.pipeline.evolve.migrating import Migration
        from omnigraph.pipeline.progress import Silent

        progress = Silent()
        text, file = read_source(schema, ".pg")
        migration = None if with_ is None else Migration(*read_source(with_, ".gq"))
        return apply_schema(
            self._repository,
            SchemaChange(text, file, allow_data_loss, migration),
            branch,
            partial(runner_of, engine, self.uri, progress),
            dry_run=dry_run,
            actor=actor,
            message=message,
            if_commit=if_commit,
        )

    # ------------------------------------------------------------ history

    def commits(
        self,
        revision: str = MAIN,
        *,
        as_of: str | dt.datetime | None = None,
        limit: int = 50,
        before: str | None = None,
        actor: str | None = None,
    ) -> list[Commit]:
        """The commits up to a revision, newest first, along first parents, inherited ones included; with `before`, those
        older than that commit.

        >>> assert [commit.kind for commit in g.commits(limit=2, actor="ada")] == ["optimize", "mutation"]
        """
        if limit < 1:
            raise UsageError(f"a page has at least one commit, not {limit}")
        history = self._repository.history
        return history.log.page(history.revisions.entry(revision, as_of), limit=limit, before=before, actor=actor)

    def commit(self, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Commit:
        """The commit of a revision.

        >>> assert g.commit("main~1").at < g.commit().at <= dt.datetime.now(dt.UTC)
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
        """Wait until the head of a branch is another commit than `since` (by default, than now), and give it; None when
        `timeout` seconds passed first.

        What is written through this graph is noticed at once, what other processes write within a quarter of a second.
        BranchNotFound when the branch is deleted meanwhile; Cancelled when somebody cancels `cancel`.

        >>> assert g.wait_for_change(since=g.commit("main~1").id) == g.commit()
        >>> assert g.wait_for_change(since=g.commit().id, timeout=0.1) is None
        """
        return self._repository.history.watch.wait(branch, since, Deadline(timeout, cancellation=cancel))

    def history(
        self, type: str, id: str, *, revision: str = MAIN, as_of: str | dt.datetime | None = None
    ) -> list[EntityVersion]:
        """The versions of one entity up to a revision, newest first: the commit and the state it made.

        >>> assert [version.value["age"] for version in g.history("Person", "Bo")] == [28, 27]
        """
        from omnigraph.read import history_of

        entry = self._repository.history.revisions.entry(revision, as_of)
        return list(history_of(self._repository, type, id, entry))

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
    ) -> Iterator[EntityChange]:
        """What changed from one revision to another, entity by entity: nodes, then edges; by type and id. A stream.

        With an engine on Spark, rows are compared by Spark's workers.

        >>> for change in g.diff("main~1", "main", types=["Person"]):
        ...     print(change.op, change.id)
        """
        from omnigraph.changes import ChangeFilter, diff

        before, after = self._repository.resolve(a), self._repository.resolve(b)
        only = ChangeFilter.of(kinds, types, ops, catalog=after.catalog)
        return diff(before, after, only=only, workers=workers_of(engine, self.uri))

    def commit_changes(
        self,
        revision: str,
        *,
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
        from omnigraph.changes import ChangeFilter, commit_changes

        commit = self.commit(revision)
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
        from omnigraph.changes import ChangeFilter, poll

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
        force: bool = False,
    ) -> Baseline:
        """The branch's head as JSON lines, and the cursor that goes on from it: where a reader of changes begins.

        A file that exists is replaced with `force` only.

        >>> base = g.baseline("people.ndjson")
        >>> assert base.snapshot_commit_id == g.commit().id
        """
        from omnigraph.changes import ChangeFilter, write_baseline

        only = ChangeFilter.of(kinds, types, ops, catalog=self._repository.head(branch)[1].catalog)
        return write_baseline(self._repository, out, branch, only=only, replace=force)
