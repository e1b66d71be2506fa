"""A graph: the class that `init` and `open` return."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError
from omnigraph.graph.access import SCHEMA, Caller, GraphState, public_api
from omnigraph.graph.arguments import checked
from omnigraph.graph.branches import GraphBranches, GraphTags
from omnigraph.graph.history import HistoryMethods, UndoMethods
from omnigraph.graph.maintenance import GraphMaintenance, GraphRecovery
from omnigraph.graph.reading import ReadMethods
from omnigraph.graph.texts import read_source
from omnigraph.graph.writing import WriteMethods
from omnigraph.history.chain import MAIN
from omnigraph.history.genesis import read_identity
from omnigraph.history.history import History
from omnigraph.history.plan import check_attribution
from omnigraph.snapshot import Repository
from omnigraph.storage.options import open_store, options_shared_with, scheme_of, storage_options_for
from omnigraph.storage.syncing import Durability
from omnigraph.tasks.engines import Engine, make_runner, make_workers
from omnigraph.tasks.progress import CopyProgress, shown_on

if TYPE_CHECKING:
    from omnigraph.evolve.apply import BrokenQuery, SchemaReceipt
    from omnigraph.language.catalog import Catalog
    from omnigraph.language.query.lint import LintReport
    from omnigraph.language.schema.migration import MigrationPlan
    from omnigraph.maintenance.replication import CopyReport
    from omnigraph.storage.copying import StoreAddress


# Copies of a graph: clone, push and pull.


@checked
def clone(
    source: str | Path,
    target: str | Path,
    *,
    branches: Sequence[str] | None = None,
    depth: int | None = None,
    engine: Engine = "local",
    storage_options: Mapping[str, str] | None = None,
    target_options: Mapping[str, str] | None = None,
    durability: Durability = "disk",
    progress: bool = False,
) -> CopyReport:
    """Copy a graph to another place, as an independent graph with the same identity and the same commits. `branches` are those to
    copy in addition to main (None: all); `depth` is how many commits of each (None: all): older ones are HistoryGap in the clone.
    Tags are copied with the commits they name. The target becomes a graph only when everything has been copied; a clone that was
    interrupted resumes when it is started again. AlreadyExists if there is a graph already.

    `storage_options` are those of the source, and of the target if it is in a store of the same kind.

    >>> og.clone("./cities", "./cities-copy", depth=10)
    >>> assert og.open("./cities-copy").head() == og.open("./cities").head()
    """
    from omnigraph.maintenance.cloning import clone as clone_graph

    repository = Repository.open(str(source), storage_options, durability)
    place = place_of(repository, str(target), target_options, durability)
    with shown_on(sys.stderr, progress) as shown:
        workers = make_workers(engine, repository.store.uri, shown)
        watch = CopyProgress(shown)
        return clone_graph(repository, place, branches=branches, depth=depth, workers=workers, watch=watch)


@public_api
class CopyMethods(GraphState):
    """The methods of a graph that exchange branches with other copies of it."""

    def push(
        self,
        target: str | Path,
        branch: str = MAIN,
        *,
        to: str | None = None,
        engine: Engine = "local",
        storage_options: Mapping[str, str] | None = None,
        actor: str | None = None,
        progress: bool = False,
    ) -> CopyReport:
        """Bring a branch of another copy of this graph up to date with this one: first the missing files, then the commits.

        The branch there only moves forward: NotFastForward if it has commits that are not here, or lacks commits that these build
        on. A missing branch is created. Tags are pushed with the commits they name. A push that was interrupted resumes when it
        is started again. `storage_options` are those of the target; this graph's own, if they are for the same kind of store.

        `to` is for a branch that has diverged: the target gets a new branch of that name, which starts at the newest commit that
        both have and adds everything done here since as one commit, by `actor`. It can be merged there.

        >>> og.clone("./people", "./people-copy")
        >>> assert g.push("./people-copy").commits == {"main": 0}
        """
        from omnigraph.maintenance.replication import push, push_as_one

        check_attribution(actor, None)
        place = place_of(self._repository, str(target), storage_options)
        store = place.open()
        history = History(store, read_identity(store))
        with shown_on(sys.stderr, progress) as shown:
            workers, watch = make_workers(engine, self.uri, shown), CopyProgress(shown)
            if to is None:
                return push(self._repository, history, branch, place, workers, watch)
            return push_as_one(self._repository, history, branch, to, place, workers, watch, actor=actor)

    def pull(
        self,
        source: str | Path,
        branch: str = MAIN,
        *,
        engine: Engine = "local",
        storage_options: Mapping[str, str] | None = None,
        progress: bool = False,
    ) -> CopyReport:
        """The reverse of `push`: bring a branch here up to date with another copy of this graph.

        >>> copy = og.open("./people-copy")
        >>> assert copy.pull("./people").commits == {"main": 0}
        """
        from omnigraph.maintenance.replication import push

        place = place_of(self._repository, str(source), storage_options)
        origin = Repository.open(place.uri, dict(place.options) or None)
        own = place_of(origin, self.uri, self._repository.tables.options)
        with shown_on(sys.stderr, progress) as shown:
            workers = make_workers(engine, self.uri, shown)
            return push(origin, self._repository.history, branch, own, workers, CopyProgress(shown))


def place_of(
    repository: Repository, uri: str, options: Mapping[str, str] | None, durability: Durability = "disk"
) -> StoreAddress:
    """Where another copy of the graph is. Without `options`, the graph's own are used as far as they fit."""
    from omnigraph.storage.copying import StoreAddress

    for address in (uri, repository.store.uri):
        if scheme_of(address) == "memory":
            raise UsageError(
                f"{address} lives in the memory of one process, and has no files to copy",
                hint="export it, and load the export into a graph on disk or in an object store",
            )
    chosen = options_shared_with(uri, repository.tables.options) if options is None else dict(options)
    return StoreAddress.of(
        open_store(uri, storage_options=chosen or None).uri, storage_options_for(uri, chosen), durability
    )


# Schemas: checking queries against them, comparing and changing them.


@public_api
class GraphSchema:
    """The schema of a graph: its catalog, and how it is compared and changed.

    >>> assert g.schema.catalog.edges["Knows"].target == "Person"
    """

    _asks = SCHEMA

    def __init__(self, repository: Repository, caller: Caller | None = None) -> None:
        self._repository = repository
        self._caller = caller

    def __repr__(self) -> str:
        return f"<schema of {self._repository.store.uri}>"

    @property
    def catalog(self) -> Catalog:
        """The schema at the head of main; `g.snapshot(revision).schema` for any other.

        >>> assert list(g.schema.catalog.nodes) == ["City", "Person"]
        """
        return self._repository.head(MAIN)[1].catalog

    def plan(
        self,
        schema: str | Path,
        *,
        branch: str = MAIN,
        with_: str | Path | None = None,
        allow_data_loss: bool = False,
    ) -> MigrationPlan:
        """What changing a branch to another schema would do, step by step. Nothing is changed.

        `with_` and `allow_data_loss` are as in `apply`; mutations that do not fit the new schema are refused. Rows are not
        checked: see `apply(..., dry_run=True)`.

        >>> plan = g.schema.plan(SCHEMA + "node Team { name: String @key }")
        >>> assert plan.lines() == ["add node type 'Team'"]
        """
        from omnigraph.evolve.apply import Migration, SchemaChange, check_migration

        text, file = read_source(schema, ".pg")
        before = self._repository.head(branch)[1].catalog
        plan = SchemaChange(text, file, allow_data_loss).plan(before)
        if with_ is not None:
            check_migration(before, plan.catalog, Migration(*read_source(with_, ".gq")))
        return plan

    def broken_queries(self, schema: str | Path, queries: str | Path, *, branch: str = MAIN) -> tuple[BrokenQuery, ...]:
        """Which queries of a folder of `.gq` files, or of one file, changing a branch to another schema would break.

        >>> assert g.schema.broken_queries(SCHEMA, ".") == ()
        """
        from omnigraph.evolve.apply import broken_queries

        plan = self.plan(schema, branch=branch)
        return broken_queries(self._repository.head(branch)[1].catalog, plan.catalog, Path(queries))

    def diff(self, a: str, b: str | Path) -> MigrationPlan:
        """The steps from the schema of one revision to that of another, or to that of a file, which is given as a `Path`.

        >>> assert g.schema.diff("main", "inbox").lines() == []
        """
        from omnigraph.language.schema.migration import MigrationPlan, compare_catalogs, plan_migration

        before = self._repository.resolve(a).catalog
        if isinstance(b, Path):
            text, file = read_source(b, ".pg")
            return plan_migration(before, text, file)
        after = self._repository.resolve(b).catalog
        return MigrationPlan(compare_catalogs(before, after), after)

    def apply(
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
        progress: bool = False,
    ) -> SchemaReceipt:
        """Change a branch to another schema, as one commit; no commit if nothing changes. SchemaChangeRefused if a step is not
        possible, or if entities prevent it, with these entities. With `dry_run` this is only checked. `with_` are mutations (a
        `.gq` text or file) that run in the same commit, under the new schema; they can read the properties and types that it
        drops. `allow_data_loss` permits hard drops, after which no read of the branch sees the values, and rounding of numbers
        that are too long for F64.

        >>> receipt = g.schema.apply(SCHEMA.replace("age: I32?", "age: I64?"), branch="inbox")
        >>> assert receipt.commit.kind == "schema"
        """
        from omnigraph.evolve.apply import Migration, SchemaChange, apply_schema
        from omnigraph.tasks.progress import shown_on

        text, file = read_source(schema, ".pg")
        migration = None if with_ is None else Migration(*read_source(with_, ".gq"))
        with shown_on(sys.stderr, progress) as shown:
            return apply_schema(
                self._repository,
                SchemaChange(text, file, allow_data_loss, migration),
                branch,
                partial(make_runner, engine, self._repository.store.uri, shown),
                progress=shown,
                dry_run=dry_run,
                actor=actor,
                message=message,
                if_commit=if_commit,
            )


@public_api
class Graph(WriteMethods, UndoMethods, CopyMethods, ReadMethods, HistoryMethods):
    """An open graph. Safe to share between threads; any number of processes may have it open.

    A read takes a `revision`: a branch, a tag, a commit id or a unique beginning of one, or `branch~N`, N commits before
    the branch's head. With `as_of`, a time, it reads that branch as it was then. A write takes a `branch`. Times are UTC.

    >>> g = og.open("./people")
    >>> assert g.head().ref.branch == "main"
    """

    def __repr__(self) -> str:
        return f"<Graph {self.uri}>"

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is pending: a commit is durable when the call that made it returns."""
        self.close()

    def lint(self, gq: str | Path, *, revision: str = MAIN, as_of: str | dt.datetime | None = None) -> LintReport:
        """Check every query of a `.gq` text or file against the schema: mistakes, and advice.

        >>> assert g.lint(Path("people.gq")).status == "ok"
        """
        from omnigraph.language.query.lint import lint_queries

        text, file = read_source(gq, ".gq")
        return lint_queries(text, self._repository.resolve(revision, as_of).catalog, file)

    def close(self) -> None:
        """Drop what is cached of the graph in memory. The graph can still be used: it then reads from storage.

        >>> cities = og.open("./cities")
        >>> cities.close()
        """
        self._repository.close()

    def as_(self, actor: str, *, query: str | None = None) -> Graph:
        """The same graph, used by an actor: writes are recorded under that name, and the policy is asked about it.

        `query` is for a server of stored queries: the policy is asked for each call as part of the stored query of this name.

        >>> assert g.as_("bo").branches.exists("main")
        """
        return Graph(self._repository, (self._caller or Caller(None, None)).named(actor, query), self._committer)

    @property
    def id(self) -> str:
        """The graph's id, given when it was created; copies have the same one."""
        return self._repository.history.identity.graph_id

    @property
    def schema(self) -> GraphSchema:
        """The schema: look at it, compare it, change it."""
        return GraphSchema(self._repository, self._caller)

    @property
    def maintenance(self) -> GraphMaintenance:
        """Compact, index, verify, repair and clean up."""
        return GraphMaintenance(self._repository, self._caller)

    @property
    def branches(self) -> GraphBranches:
        """Create, list, delete and merge branches."""
        return GraphBranches(self._repository, self._caller)

    @property
    def tags(self) -> GraphTags:
        """Names for commits."""
        return GraphTags(self._repository, self._caller)

    @property
    def recovery(self) -> GraphRecovery:
        """Writes that were interrupted between staging and publishing."""
        return GraphRecovery(self._repository, self._caller)
