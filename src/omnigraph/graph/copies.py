"""Copies of a graph: clone, push and pull."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError
from omnigraph.graph.arguments import checked
from omnigraph.graph.boundary import names_damage
from omnigraph.graph.state import GraphState
from omnigraph.history import MAIN, History, check_attribution
from omnigraph.history.genesis import read_identity
from omnigraph.pipeline.engines import Engine, workers_of
from omnigraph.pipeline.progress import CopyProgress, shown_on
from omnigraph.storage import Durability, open_store
from omnigraph.storage.options import options_shared_with, scheme_of, storage_options_for
from omnigraph.views import Repository

if TYPE_CHECKING:
    from omnigraph.maintenance.replication import CopyReport
    from omnigraph.storage.copying import StoreAddress


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
    show_progress: bool = False,
) -> CopyReport:
    """Copy a graph to another place, as an independent graph with the same identity and the same commits. `branches` are those to
    copy in addition to main (None: all); `depth` is how many commits of each (None: all): older ones are HistoryGap in the clone.
    Tags are copied with the commits they name. The target becomes a graph only when everything has been copied; a clone that was
    interrupted resumes when it is started again. AlreadyExists if there is a graph already.

    `storage_options` are those of the source, and of the target if it is in a store of the same kind.

    >>> og.clone("./cities", "./cities-copy", depth=10)
    >>> assert og.open("./cities-copy").commit() == og.open("./cities").commit()
    """
    from omnigraph.maintenance.cloning import clone as clone_graph

    repository = Repository.open(str(source), storage_options, durability)
    place = place_of(repository, str(target), target_options, durability)
    with shown_on(sys.stderr, show_progress) as progress:
        workers = workers_of(engine, repository.store.uri, progress)
        watch = CopyProgress(progress)
        return clone_graph(repository, place, branches=branches, depth=depth, workers=workers, watch=watch)


@names_damage
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
        show_progress: bool = False,
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
        with shown_on(sys.stderr, show_progress) as progress:
            workers, watch = workers_of(engine, self.uri, progress), CopyProgress(progress)
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
        show_progress: bool = False,
    ) -> CopyReport:
        """The reverse of `push`: bring a branch here up to date with another copy of this graph.

        >>> copy = og.open("./people-copy")
        >>> assert copy.pull("./people").commits == {"main": 0}
        """
        from omnigraph.maintenance.replication import push

        place = place_of(self._repository, str(source), storage_options)
        origin = Repository.open(place.uri, dict(place.options) or None)
        own = place_of(origin, self.uri, self._repository.tables.options)
        with shown_on(sys.stderr, show_progress) as progress:
            workers = workers_of(engine, self.uri, progress)
            return push(origin, self._repository.history, branch, own, workers, CopyProgress(progress))


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
