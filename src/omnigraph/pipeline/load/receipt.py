"""What a load tells its caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.history import Commit
from omnigraph.pipeline.choices import LoadMode
from omnigraph.pipeline.load.incoming import Incoming
from omnigraph.pipeline.stages import Stage
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class LoadCounts:
    """What a load did to the entities of one type, or of all. `unchanged`: they were there with the same values.

    An overwrite counts every entity of the input as inserted and every one that was there before as deleted. A record that is to
    delete what is not there counts as unchanged.

    >>> assert loaded.types["node:City"] == og.LoadCounts(unchanged=1)
    """

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0

    @property
    def loaded(self) -> int:
        """Entities of the input."""
        return self.inserted + self.updated + self.unchanged


def count_rows(
    view: View,
    incoming: Incoming,
    mode: LoadMode,
    replaced: np.ndarray[Any, Any] | None,
    unchanged: np.ndarray[Any, Any] | None,
    removed: np.ndarray[Any, Any] | None = None,
) -> LoadCounts:
    """`replaced`: addresses of the committed rows that are replaced; `unchanged`: those of them that keep their values;
    `removed`: rows that go."""
    if mode == "overwrite":
        return LoadCounts(inserted=incoming.rows, deleted=view.rows(incoming.key))
    met = 0 if replaced is None else len(replaced)
    same = 0 if unchanged is None else len(unchanged)
    gone = 0 if removed is None else len(removed)
    return LoadCounts(incoming.rows - met, met - same, same + incoming.absent, gone)


@dataclass(frozen=True)
class LoadRefusal:
    """Records that a load would not take for one reason. `message` is that of the first of them. A record may have several reasons.

    `can_be_set_aside`: with a file for rejected records the rest would be loaded; otherwise the whole load is refused.

    >>> tried = g.load("people.jsonl", mode="append", engine="local", dry_run=True)
    >>> assert {each.code for each in tried.refusals} == {"key_conflict"}
    """

    code: str
    message: str
    count: int
    type_name: str | None = None
    property: str | None = None
    places: tuple[str, ...] = ()
    """Where the first of them are: files with lines."""
    can_be_set_aside: bool = True


@dataclass(frozen=True)
class MissingNodes:
    """Nodes that one end of the edges of a type names, and that there are not. `edges` name `nodes` different ones.

    >>> assert g.load("people.jsonl", mode="merge", engine="local", missing="skip", dry_run=True).missing == ()
    """

    edge: str
    end: str
    """"from" or "to"."""
    node: str
    edges: int
    nodes: int
    examples: tuple[str, ...]
    """The first of their ids."""


@dataclass(frozen=True)
class LoadReceipt:
    """What a load did. `types` says it by table key. `commit` is the one this load published (None: it changed nothing).

    >>> loaded = g.load("people.jsonl", mode="merge", engine="local")
    >>> assert (loaded.total_entities, loaded.rejected) == (4, 0)
    """

    branch: str
    mode: str
    types: Mapping[str, LoadCounts]
    commit: Commit | None
    actor: str | None = None
    rejected: int = 0
    base_branch: str | None = None
    branch_created: bool = False
    repeated: bool = False
    """The branch had a commit under the write key already: `commit` is that one, and nothing was loaded."""
    is_dry_run: bool = False
    """Nothing was written: `types` says what would be, `rejected` how many records would not be taken, and `refusals` why."""
    refusals: tuple[LoadRefusal, ...] = ()
    missing: tuple[MissingNodes, ...] = ()
    """Of a load with `missing`: the nodes that were missing."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """By table key: edges that were set aside because a node is missing. They are among the `rejected`."""
    stubs: Mapping[str, int] = field(default_factory=dict)
    """By table key: nodes that were created because edges name them. They are not among those of `types`."""
    duplicates: Mapping[str, int] = field(default_factory=dict)
    """By table key, of a merge: inserted edges with the ends and values of edges that the branch had. A `@key` of the edge type lets
    a load meet them."""
    without_adjacency: Mapping[str, str] = field(default_factory=dict)
    """By table key: why its adjacency was not stored. Reads build it in memory instead; `optimize` tries again."""
    engine: str | None = None
    """Where the work was done ("in process", "on Spark"), and in a few words why there; None when another process did it."""
    engine_reason: str | None = None
    seconds: float = 0.0
    stages: tuple[Stage, ...] = ()
    """What the work consisted of, stage by stage."""

    @classmethod
    def of_repeated(cls, branch: str, mode: str, commit: Commit) -> LoadReceipt:
        """Of a load that was made before."""
        return cls(branch, mode, {}, commit, commit.actor, repeated=True)

    @property
    def total(self) -> LoadCounts:
        """The counts of all types together."""
        counts = self.types.values()
        return LoadCounts(
            sum(count.inserted for count in counts),
            sum(count.updated for count in counts),
            sum(count.unchanged for count in counts),
            sum(count.deleted for count in counts),
        )

    @property
    def loaded(self) -> Mapping[str, int]:
        """Entities of the input by table key."""
        return {key: counts.loaded for key, counts in self.types.items()}

    @property
    def total_entities(self) -> int:
        """Entities of the input."""
        return self.total.loaded

    def __repr__(self) -> str:
        commit = "no commit" if self.commit is None else self.commit.id
        if self.is_dry_run:
            return (
                f"<LoadReceipt: dry run on {self.branch}, {self.total_entities} entities fit, {self.rejected} do not>"
            )
        if self.repeated:
            return f"<LoadReceipt: loaded before on {self.branch}, {commit}>"
        return f"<LoadReceipt: {self.total_entities} entities on {self.branch} with {self.mode}, {commit}>"
