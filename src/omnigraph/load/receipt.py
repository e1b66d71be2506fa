"""What a load tells its caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from omnigraph.history.plan import ChangeMode, PublishPlan, TableChange
from omnigraph.history.values import Commit
from omnigraph.language.catalog import EntityType
from omnigraph.records.rows import WHOLE, RecordForm
from omnigraph.rules.planning import Change
from omnigraph.snapshot import View
from omnigraph.tables.layout import Layout
from omnigraph.tables.staging import Staged
from omnigraph.tasks.engines import LoadMode
from omnigraph.tasks.progress import Stage
from omnigraph.tasks.target import TableVersion

if TYPE_CHECKING:
    from omnigraph.tables.addresses import RowSet


# The new rows of one load, written as fragments and not yet part of any table.

CHANGE_MODES: dict[LoadMode, ChangeMode] = {
    "append": "insert",
    "merge": "upsert",
    "patch": "upsert",
    "delete": "upsert",
    "overwrite": "strict",
}
FORMS: dict[LoadMode, RecordForm] = {
    "append": WHOLE,
    "merge": RecordForm("whole", has_flag=True),
    "patch": RecordForm("partial", has_flag=True),
    "delete": RecordForm("name"),
    "overwrite": WHOLE,
}
REPLACING: tuple[LoadMode, ...] = ("merge", "patch")
"""Modes in which a row takes the place of the one with its id."""


@dataclass(frozen=True)
class StagedRows:
    """The new rows of one table. `place` is a version that holds exactly these rows. `ids_may_clash`: as in TypeReport. `removed`:
    how many rows of the branch may go without one in their place; `absent`: how many more were to go, and the branch has none of
    their ids."""

    key: str
    rows: int
    ids_may_clash: bool
    fragments: tuple[str, ...]
    place: TableVersion
    removed: int = 0
    absent: int = 0

    def may_clash(self, entity: EntityType) -> bool:
        """Whether an id can be that of another row: it was given, or made from a key. Fresh ids are checked only if they are in no
        order."""
        return self.ids_may_clash or bool(entity.key)

    def change(self, mode: LoadMode) -> Change:
        """What the load does to the type, for the rules."""
        has_rows = self.rows > 0
        return Change(
            inserts=has_rows and mode == "append",
            replaces=has_rows and mode != "append",
            deletes=mode == "overwrite" or self.removed > 0,
        )

    def to_json(self, mode: LoadMode) -> dict[str, Any]:
        """`mode` and `removed` are only there where the change depends on rows of the branch as they were."""
        value = {
            "rows": self.rows,
            "has_explicit_ids": self.ids_may_clash,
            "fragments": list(self.fragments),
            "path": self.place.path,
            "version": self.place.version,
        }
        return {**value, "mode": mode, "removed": self.removed} if mode == "patch" or self.removed else value

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any], layout: Layout) -> StagedRows:
        place = TableVersion(value["path"], value["version"], layout)
        fragments = tuple(value["fragments"])
        return cls(key, value["rows"], value["has_explicit_ids"], fragments, place, value.get("removed", 0))


def stage_incoming(
    view: View, key: str, rows: int, ids_may_clash: bool, fragments: tuple[str, ...]
) -> tuple[StagedRows, Staged]:
    staged = view.repository.tables.stage(view.table_or_new(key), fragments=fragments, clear=True, fold=False)
    place = TableVersion(staged.path, staged.version, view.layout(key))
    return StagedRows(key, rows, ids_may_clash, fragments, place), staged


def mode_of(plan: PublishPlan) -> LoadMode:
    """The mode a stored plan was made with."""
    for change in plan.changes:
        if "mode" in change.staged:
            mode: LoadMode = change.staged["mode"]
            return mode
    change_mode: ChangeMode = plan.changes[0].mode
    return next(mode for mode, change in CHANGE_MODES.items() if change == change_mode)


def depends_on_rows(change: TableChange) -> bool:
    """Whether a change was made from rows of the branch as they were: parts of rows were completed with them, or it removes
    them."""
    return "mode" in change.staged


def as_stored(plan: PublishPlan) -> PublishPlan:
    """The plan for another process, which does not know what a change that depends on rows was made from: there it holds for
    the exact state of its table."""
    changes = [replace(change, mode="strict") if depends_on_rows(change) else change for change in plan.changes]
    return replace(plan, changes=tuple(changes))


@dataclass(frozen=True)
class LoadCounts:
    """What a load did to the entities of one type, or of all. `unchanged`: they were there with the same values.

    An overwrite counts every entity of the input as inserted and every one that was there before as deleted. A record that is to
    delete what is not there counts as unchanged.

    >>> assert loaded.types["node:City"] == og.types.LoadCounts(unchanged=1)
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
    incoming: StagedRows,
    mode: LoadMode,
    replaced: RowSet | None,
    unchanged: RowSet | None,
    removed: RowSet | None = None,
) -> LoadCounts:
    """`replaced`: the committed rows that are replaced; `unchanged`: those of them that keep their values;
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
