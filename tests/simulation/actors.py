"""The actors: each is a process of its own, with the real history code over the simulated store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from greenlet import greenlet
from simulation.model import Model
from simulation.world import Objects, SimStore, World

from omnigraph.errors import Damaged, ExpectedVersionMismatch, OmnigraphError
from omnigraph.history.genesis import Identity
from omnigraph.history.history import History
from omnigraph.history.plan import LONG_AGO, PreparedPlan, PublishPlan, TableChange
from omnigraph.history.publish import SCHEMA
from omnigraph.history.values import Commit, Entry, Snapshot, TableState, WriteKey
from omnigraph.history.write_keys import KeyName
from omnigraph.maintenance.cleanup import Cleaner
from omnigraph.maintenance.reachable import RetentionPolicy
from omnigraph.storage.store import Store
from omnigraph.tables.verifying import TableFiles
from omnigraph.testing.stores import SimulatedCrash
from omnigraph.write.publishing import Write, publish, publish_group

TABLES = {"node:A": "nodes/A-0000000000", "node:B": "nodes/B-0000000000", "edge:C": "edges/C-0000000000"}
BRANCHES = ("main", "dev")
RENEWED_AFTER_S = 2_000.0
NOT_DENIED = (
    "batches",
    "create_branch",
    "group",
    "keyed_branch",
    "keyed_group",
    "keyed_prepared",
    "prepared",
    "prepared_branch",
    "published_twice",
    "recover",
    "sweep",
)
"""Operations of several steps: a failure does not say that nothing of them is there, or will be."""


@dataclass(frozen=True)
class Here:
    store: Store


@dataclass(frozen=True)
class SimTables:
    """Tables that are nothing but files: a version names its manifest and a data file of each commit whose change it holds."""

    model: Model
    objects: Objects
    has_files: bool = True

    def files_of(self, state: TableState) -> TableFiles:
        manifest, *data = self.model.files_of(state)
        if manifest not in self.objects.held:
            raise Damaged(manifest, "it is missing")
        return TableFiles(manifest, dict.fromkeys(data), frozenset(), {})

    def table_paths(self, schema: str) -> set[str]:
        return set(TABLES.values())


class Actor:
    """One process: some operations in a row; after a crash a new process may go on with the rest of them."""

    def __init__(self, world: World, identity: Identity, script: list[str], *, max_tail: int, label: str) -> None:
        self.world = world
        self.model: Model = world.model
        self.identity = identity
        self.script = script
        self.max_tail = max_tail
        self.branch_chance = 0.3
        self.batch = 0
        """The next number of the sequence that every actor writes, as several queries with one checkpoint would."""
        self.issued: list[str] = []
        self.label = label
        self.history = self._start()
        self.greenlet = greenlet(self._live)
        self.greenlet.label = label  # type: ignore[attr-defined] # for the trace

    def _start(self) -> History:
        return History(
            SimStore(self.world),
            self.identity,
            new_id=self._new_id,
            wall_clock=lambda: self.world.now - self.world.set_back.get(self.label, 0.0),
            uptime=self.world.clock,
            sleep=lambda _: None,
            jitter=lambda: 0.5,
            max_tail=self.max_tail,
        )

    def _new_id(self) -> str:
        issued = self.world.new_id()
        self.issued.append(issued)
        return issued

    def _live(self, *_: object) -> None:
        self.world.hub.switch()  # born; the first turn comes later
        while self.script:
            operation = self.script.pop(0)
            self.issued = []
            self.world.note("begins", operation)
            try:
                getattr(self, operation)()
            except OmnigraphError as error:
                self.world.note("fails", repr(error))
                if error.outcome == "not_committed" and operation not in NOT_DENIED:
                    self.model.denial(self.issued)
            except SimulatedCrash:
                if self.world.random.random() < 0.3:
                    return
                self.history = self._start()

    # ------------------------------------------------------------ writes

    def append(self) -> None:
        self._publish(*self._plan(self._branch(), ("insert",)))

    def strict(self) -> None:
        self._publish(*self._plan(self._branch(), ("strict",)))

    def mixed(self) -> None:
        """Two tables at once, one of them strictly, and the third one read."""
        self._publish(*self._plan(self._branch(), ("insert", "strict"), reads=1))

    def reading(self) -> None:
        """An insert that relies on another table (as an edge relies on its ends)."""
        self._publish(*self._plan(self._branch(), ("insert",), reads=1))

    def exact(self) -> None:
        """Only on top of the very commit that was read."""
        plan, snapshot = self._plan(self._branch(), ("insert",))
        self._publish(replace(plan, if_commit=snapshot.commit.id), snapshot)

    def schema(self) -> None:
        """A schema change, with the table of a type that it drops: planned again by its author, never carried over."""
        plan, snapshot = self._plan(self._branch(), ("strict",), reads=1)
        plan = replace(plan, new_schema=plan.commit_id)
        self.model.meant(plan, snapshot)
        self.model.acknowledged(publish(self.history, plan))

    def evolve(self) -> None:
        """The same by an author who plans it again when somebody was first."""
        for _ in range(2):
            try:
                return self.schema()
            except ExpectedVersionMismatch:
                continue
        return self.schema()

    def group(self) -> None:
        branch = self._branch()
        head = self._head(branch)
        kinds: tuple[tuple[str, ...], ...] = (("insert",), ("insert",), ("strict",), ("insert", "insert"))
        count = 2 + int(self.world.random.random() * 2)
        plans = [self._plan_on(head, kinds[int(self.world.random.random() * len(kinds))]) for _ in range(count)]
        for plan in plans:
            self.model.meant(plan, head.head)
        staged = count == 2
        members = [Write(plan, self._rebase, staged) for plan in plans]
        outcomes = publish_group(self.history, members, stage_together=self._stage_together)
        for plan, outcome in zip(plans, outcomes, strict=True):
            if isinstance(outcome, Commit):
                self.model.acknowledged(outcome)
            elif outcome.outcome == "not_committed":
                self.model.denial([plan.commit_id])

    def prepared(self) -> None:
        """A long write: its plan is kept, published, removed. Somebody else may publish it too."""
        plan, snapshot = self._plan(self._branch(), ("insert",))
        self.model.meant(plan, snapshot)
        self._publish(self._kept(plan, snapshot), snapshot)
        self.history.recovery.remove(plan.commit_id)

    # ------------------------------------------------------------ write keys

    def keyed(self) -> None:
        """One of few keys, asking mostly for the same."""
        self._publish_keyed(self._plan(self._branch(), ("insert",)), self._key())

    def keyed_strict(self) -> None:
        self._publish_keyed(self._plan(self._branch(), ("strict",)), self._key())

    def batches(self) -> None:
        """The next numbers of a sequence, each until it is acknowledged."""
        for _ in range(3):
            key = KeyName.of(("query", self.batch)).asking("rows")
            self._publish_keyed(self._plan("main", ("insert",)), key)
            self.batch += 1

    def keyed_branch(self) -> None:
        plan, snapshot = self._opening_plan()
        plan = replace(plan, once=self._key())
        self.model.meant(plan, snapshot)
        self._publish_keyed((self._kept(plan, snapshot), snapshot), plan.once)
        self.history.recovery.remove(plan.commit_id)

    def keyed_prepared(self) -> None:
        plan, snapshot = self._plan(self._branch(), ("insert",))
        plan = replace(plan, once=self._key())
        self.model.meant(plan, snapshot)
        self._publish_keyed((self._kept(plan, snapshot), snapshot), plan.once)
        self.history.recovery.remove(plan.commit_id)

    def keyed_group(self) -> None:
        head = self._head(self._branch())
        plans = [replace(self._plan_on(head, ("insert",)), once=self._key()) for _ in range(3)]
        for plan in plans:
            self.model.meant(plan, head.head)
        members = [Write(plan, self._rebase, is_staged=False) for plan in plans]
        outcomes = publish_group(self.history, members, stage_together=self._stage_together)
        for plan, outcome in zip(plans, outcomes, strict=True):
            if isinstance(outcome, Commit):
                self.model.acknowledged(outcome, plan.once)
            elif outcome.outcome == "not_committed":
                self.model.denial([plan.commit_id])

    def _publish_keyed(self, planned: tuple[PublishPlan, Snapshot], key: WriteKey | None) -> None:
        plan, snapshot = replace(planned[0], once=key), planned[1]
        self.model.meant(plan, snapshot)
        self.model.acknowledged(publish(self.history, plan, self._rebase), key)

    def _key(self) -> WriteKey:
        chance = self.world.random.random
        return KeyName.of(f"key {int(chance() * 3)}").asking("rows" if chance() < 0.9 else "other rows")

    # ------------------------------------------------------------ branches made by writes

    def _kept(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        self.model.meant(plan, snapshot)  # Somebody may recover it although the answer to storing it is lost.
        self.history.recovery.keep(PreparedPlan(plan, 0, {}), lambda: self.history.retention.check_prepared(plan))
        return replace(plan, kept_since=self.history.clock(), staged_since=None)

    def long_write(self) -> None:
        """A write that stages for hours, and renews its lease every hour or so."""
        branch = self._branch()
        plan, snapshot = self._plan(branch, ("insert",))
        leases = self.history.leases
        lease = leases.begin(snapshot.commit.ref, self.history.clock())
        for _ in range(4):
            leases.renew(lease)
            self.world.now += RENEWED_AFTER_S
        self._publish(plan, snapshot)
        leases.release(lease)

    def prepared_branch(self) -> None:
        """A write that makes its branch, or joins the one that somebody makes meanwhile, or wants a new one only."""
        plan, snapshot = self._opening_plan()
        self.model.meant(plan, snapshot)
        self._publish(self._kept(plan, snapshot), snapshot)
        self.history.recovery.remove(plan.commit_id)

    def published_twice(self) -> None:
        """A write that made its branch is published again after the branch was deleted: it is in no other one."""
        plan, snapshot = self._opening_plan()
        self._publish(self._kept(plan, snapshot), snapshot)
        self.history.branches.delete("dev", force=True)
        self._publish(plan, snapshot)

    def _opening_plan(self) -> tuple[PublishPlan, Snapshot]:
        since = self.history.clock()
        opening = self.history.branches.opening("dev", self._head("main"), self._new_id())
        plan = replace(self._plan_on(opening, ("insert",), commit_id=opening.id), staged_since=since)
        new_branch = self.world.random.random() < 0.5
        return replace(plan, opening=opening, new_branch=new_branch), opening.before

    def recover(self) -> None:
        for prepared in self.history.recovery.list():
            if prepared.provisional:
                continue
            plan = replace(prepared.plan, kept_since=LONG_AGO)
            self.model.acknowledged(publish(self.history, plan, self._rebase), plan.once)
            self.history.recovery.remove(prepared.commit_id)

    def _publish(self, plan: PublishPlan, snapshot: Snapshot) -> None:
        self.model.meant(plan, snapshot)
        self.model.acknowledged(publish(self.history, plan, self._rebase))

    def _plan(self, branch: str, modes: tuple[str, ...], reads: int = 0) -> tuple[PublishPlan, Snapshot]:
        head = self._head(branch)
        return self._plan_on(head, modes, reads), head.head

    def _plan_on(
        self, head: Entry, modes: tuple[str, ...], reads: int = 0, commit_id: str | None = None
    ) -> PublishPlan:
        commit_id, snapshot = commit_id or self._new_id(), head.head
        start = int(self.world.random.random() * len(TABLES))
        names = list(TABLES)
        keys = [names[(start + offset) % len(names)] for offset in range(len(modes) + reads)]
        changes = tuple(
            TableChange(key, mode, snapshot.table(key), self._staged(snapshot.table(key), key, commit_id))  # type: ignore[arg-type]
            for key, mode in zip(keys, modes, strict=False)
        )
        relied = tuple(keys[len(modes) :])
        return PublishPlan(
            commit_id=commit_id,
            branch=head.branch,
            incarnation=head.incarnation,
            base=snapshot.commit.ref,
            schema=snapshot.schema,
            changes=changes,
            reads=relied,
            read_states={key: snapshot.table(key) for key in relied},
            staged_since=self.history.clock(),
        )

    def _staged(self, before: TableState | None, key: str, commit_id: str) -> TableState:
        """Three changes of four are small, and their rows inline; those that are inline already are folded first, if they would be too
        many. The others make a new version of the table: its manifest, and the data files of this commit and of those that it
        folds, unless an earlier attempt has written them."""
        most = self.model.max_inline
        if before is None or most == 0 or commit_id.encode()[-1] % 4 == 0:
            return self._written(self.model.next_version(before, TABLES[key], commit_id))
        if before.inline.row_count + 1 > most:
            before = self._written(self.model.folded(before))
        return self.model.with_rows_in_commit(before, commit_id)

    def _written(self, state: TableState) -> TableState:
        manifest, *data = self.model.files_of(state)
        for file in (*data, manifest):
            if file not in self.model.written_files:
                self.world.write(file, b"")
        return state

    def _rebase(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        """Put the same change on what is there now, as a writer puts its rows on the new version. Under another schema its
        writer alone knows its tables, and gives up now and then."""
        if plan.schema != snapshot.schema:
            if plan.commit_id.encode()[-1] % 3 == 0:
                raise ExpectedVersionMismatch(SCHEMA, plan.base.seq, snapshot.commit.ref.seq)
            for change in plan.changes:
                if change.mode == "strict" and change.base != snapshot.table(change.key):
                    raise ExpectedVersionMismatch(change.key, 0, 0)
            plan = replace(plan, schema=snapshot.schema)
        self.model.meant(plan, snapshot)
        changes = []
        for change in plan.changes:
            now = snapshot.table(change.key)
            if now != change.base:
                change = replace(change, base=now, state=self._staged(now, change.key, plan.commit_id))
            changes.append(change)
        return replace(plan, changes=tuple(changes))

    def _stage_together(self, snapshot: Snapshot, plans: Mapping[int, PublishPlan]) -> Mapping[int, PublishPlan]:
        """The changes of several plans, each on top of the one before it; the last of three goes by itself."""
        tables = dict(snapshot.tables)
        staged = {}
        for index, plan in list(plans.items())[:2]:
            self.model.meant(plan, snapshot)
            changes = []
            for change in plan.changes:
                now = tables.get(change.key)
                tables[change.key] = self._staged(now, change.key, plan.commit_id)
                changes.append(replace(change, base=now, state=tables[change.key]))
            staged[index] = replace(plan, changes=tuple(changes))
        return staged

    # ------------------------------------------------------------ branches, tags, retention, reads

    def create_branch(self) -> None:
        source = self._head("main")
        if self.world.random.random() < 0.3:
            source = self.history.revisions.entry("main~1")
        entry = self.history.branches.create("dev", source)
        self.model.opened.add(entry.incarnation)
        self.model.head_seen("dev", 0, entry)

    def delete_branch(self) -> None:
        self.history.branches.delete("dev", force=True)

    def tag(self) -> None:
        steps = int(self.world.random.random() * 4)
        head = self._head("main")
        snapshot = self.history.revisions.resolve(f"main~{min(steps, head.head.commit.ref.seq)}")
        name = f"t{self.world.new_id()}"
        self.history.tags.create(name, snapshot.commit.ref)
        self.model.tagged(name, snapshot.commit.ref)

    def untag(self) -> None:
        for name in self.history.tags.list():
            self.history.tags.delete(name)
            return

    def sweep(self) -> None:
        """Of one branch, or of all; the second look and the deletions are steps in which anybody may come between."""
        chance = self.world.random.random
        branches = frozenset({self._branch()}) if chance() < 0.5 else None
        older_than = 0.0 if chance() < 0.5 else None
        policy = RetentionPolicy(keep=1 + int(chance() * 2), older_than=older_than, branches=branches)
        cleaner = Cleaner(self.history, Here(self.history.store), SimTables(self.model, self.world.objects), threads=1)
        cleaner.sweep(cleaner.survey(policy))

    def look(self) -> None:
        branch = self._branch()
        since = len(self.model.chains.get(branch, ()))
        self.model.head_seen(branch, since, self.history.chain.newest(branch))

    def _head(self, branch: str) -> Entry:
        since = len(self.model.chains.get(branch, ()))
        head = self.history.chain.head(branch)
        self.model.head_seen(branch, since, head)
        return head

    def _branch(self) -> str:
        return BRANCHES[int(self.world.random.random() < self.branch_chance)]


OPERATIONS: tuple[tuple[str, float], ...] = (
    ("append", 5), ("strict", 4), ("mixed", 2), ("reading", 2), ("exact", 1), ("schema", 0.5), ("group", 2),
    ("prepared", 1), ("long_write", 0.7), ("recover", 1), ("create_branch", 1.5), ("prepared_branch", 2), ("published_twice", 0.3), ("delete_branch", 1.5), ("tag", 1), ("untag", 0.3),
    ("sweep", 2), ("look", 1),
)  # fmt: skip

KEYED_OPERATIONS: tuple[tuple[str, float], ...] = (
    ("keyed", 4), ("keyed_strict", 1), ("batches", 3), ("keyed_group", 2), ("keyed_branch", 1), ("keyed_prepared", 1), ("recover", 1),
    ("append", 1), ("create_branch", 0.7), ("delete_branch", 0.7), ("sweep", 0.5),
)  # fmt: skip
"""Of schedules about write keys."""

SCHEMA_OPERATIONS: tuple[tuple[str, float], ...] = (
    ("schema", 2), ("evolve", 3), ("append", 3), ("strict", 2), ("mixed", 1), ("reading", 2), ("exact", 0.5), ("group", 3), ("prepared", 1),
    ("recover", 1), ("create_branch", 1), ("prepared_branch", 1), ("delete_branch", 1), ("tag", 1), ("sweep", 1),
)  # fmt: skip
"""Of schedules about schema changes, against every kind of writer and against each other."""
