"""Random histories with cleanups in the middle, beside a model that knows nothing of chains, entries or merge bases.

Every item (a row, or one property of a shared row) is edited on one branch only, so its versions are a list, and of two branches
the one that has seen more of the list is right: that is all there is to a merge. Several processes use the same graph, with wall
clocks that are set back and uptimes that stand still; writers are suspended and some die; copies push and pull; feeds are read.
Time passes because every file grows older and the clocks of the processes are told so.

    PYTHONPATH=tests python -m maintenance.histories 1000 3000    # the histories of these seeds
"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maintenance.aging import age

import omnigraph as og
from omnigraph.errors import (
    BranchNotFound,
    BranchReplaced,
    CommitNotFound,
    CursorRejected,
    HistoryGap,
    NotFastForward,
    StagedTooLongAgo,
)
from omnigraph.history import values
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, disarm_all, raising

SCHEMA = """
node Item { key: String @key  a: I32?  b: I32?  c: I32?  d: I32? }
edge Link: Item -> Item { weight: I32? }
edge Tie: Item -> Item @key(src, dst)
"""
READ = """
query items() { match { $i: Item } return { $i.key as key, $i.a as a, $i.b as b, $i.c as c, $i.d as d } }
query links() { match { $x $e:link $y } return { $e.id as id, $e.from as source, $e.to as target, $e.weight as weight } }
query ties() { match { $x $e:tie $y } return { $e.from as source, $e.to as target } }
"""
SHARED = ("s0", "s1", "s2")
COLUMNS = "abcd"
HOUR = 3_600
SURE = HOUR - 100
"""Younger than this is kept for sure: the minutes that a slow machine needs are in between."""
PAUSES = (350, 700, 1_300, 2_000, 4_000, 9_000, 30_000)
MAX_BRANCHES = 4
SWEEPS = [point for point in Failpoint if point.value.startswith("sweep.")]
DEATHS = (
    Failpoint.PUBLISH_BEFORE_CREATE,
    Failpoint.PUBLISH_AFTER_CREATE,
    Failpoint.PUBLISH_BEFORE_ACK,
    Failpoint.TXN_AFTER_STAGE,
)

Item = tuple[str, ...]
"""("row", type, id), ("cell", id, column) of a shared row, or ("tie", source, target)."""
Seen = dict[Item, int]
Content = tuple[frozenset[Any], frozenset[Any], frozenset[Any]]


class Clocks:
    """Those of one process."""

    def __init__(self) -> None:
        self.wall_s = self.uptime_s = 0.0

    def use(self, graph: og.Graph) -> og.Graph:
        history = graph._repository.history
        history.wall_clock = lambda: time.time() + self.wall_s
        history.clock._sources = history.wall_clock, lambda: values.uptime() + self.uptime_s
        return graph


@dataclass
class Branch:
    owner: int
    head: str
    heads: list[tuple[str, float]]
    """Commits that were its head, and from when on."""
    first_parents: list[str] = field(default_factory=list)
    """All that the branch has been, oldest first, what it inherited included."""
    is_from_past: bool = False
    """Whether it began at a commit that was neither the head of a branch nor tagged: where it parted from others may be gone."""


@dataclass
class Suspended:
    transaction: Any
    branch: str
    owner: int
    item: Item
    row: dict[str, Any]
    at: float


@dataclass
class Feed:
    branch: str
    owner: int
    cursor: str
    rows: dict[tuple[str, str], Any]
    read_at: float


@dataclass
class Repository:
    """One graph, or a copy of it."""

    name: str
    folder: Path
    handles: list[tuple[og.Graph, Clocks]] = field(default_factory=list)
    branches: dict[str, Branch] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    past_tags: set[str] = field(default_factory=set)
    """Those of commits that were not the head of a branch when they were tagged."""
    certain: set[str] = field(default_factory=set)
    """Commits whose state can be read for sure."""
    superseded: dict[str, float] = field(default_factory=dict)
    """When a commit was last the head of a branch that has moved on."""
    created: dict[str, float] = field(default_factory=dict)
    cleaned_at: float = -1e9
    suspended: list[Suspended] = field(default_factory=list)
    feeds: list[Feed] = field(default_factory=list)


class World:
    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.now = 0.0
        self.versions: dict[Item, list[Any]] = {}
        self.states: dict[str, Seen] = {}
        """By commit id."""
        self.owners = self.names = 0
        self.trace: list[str] = []
        self.counts: dict[str, int] = {}
        self.repositories = [Repository("graph", folder / "graph")]
        origin = self.repositories[0]
        graph = og.init(origin.folder, SCHEMA, durability="process")
        with graph.transaction() as tx:
            for id in SHARED:
                tx.insert("Item", key=id, a=0, b=0, c=0, d=0)
        self.add_branch(origin, "main", graph.head().id, {}, [])
        self.columns = {origin.branches["main"].owner: "a"}
        for _ in range(2):
            self.open(origin)
        for _ in range(2):
            self.create_branch()

    # ------------------------------------------------------------ what happens

    def run(self, steps: int) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (22, self.edit),
            (16, self.merge),
            (12, self.cleanup),
            (14, self.pass_time),
            (5, self.create_branch),
            (2, self.delete_branch),
            (3, self.tag),
            (2, self.untag),
            (3, self.undo),
            (2, self.optimize),
            (5, self.suspend),
            (5, self.finish),
            (9, self.read_feed),
            (2, self.clone),
            (7, self.pull),
            (5, self.push),
            (5, self.read_old),
            (2, self.open_another),
            (2, self.die),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            (action,) = self.random.choices([action for _, action in actions], weights)
            action()
        self.check_all()

    def say(self, text: str, kind: str = "") -> None:
        self.trace.append(text)
        if kind:
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def open(self, repository: Repository) -> None:
        clocks = Clocks()
        repository.handles.append((clocks.use(og.open(repository.folder, durability="process")), clocks))

    def any_repository(self) -> Repository:
        return self.random.choice([self.repositories[0], *self.repositories])

    def handle(self, repository: Repository) -> og.Graph:
        return self.random.choice(repository.handles)[0]

    def any_branch(self, repository: Repository) -> str:
        return self.random.choice(sorted(repository.branches))

    def new_name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def pass_time(self) -> None:
        seconds = self.random.choice(PAUSES)
        self.now += seconds
        age(self.folder, seconds)
        for repository in self.repositories:
            for _, clocks in repository.handles:
                kind = self.random.choices(("fine", "set back", "set ahead", "paused"), (6, 2, 1, 1))[0]
                back = {
                    "set back": seconds + self.random.choice((-400, 0, 600)),
                    "set ahead": -self.random.choice((60, 5_000)),
                }
                clocks.wall_s += seconds - back.get(kind, 0)
                clocks.uptime_s += 0 if kind == "paused" else seconds
        self.say(f"{seconds} s pass")

    def edit(self) -> None:
        repository = self.any_repository()
        branch = self.any_branch(repository)
        if not self.is_editable(repository, branch):
            return
        seen = dict(self.seen(repository, branch))
        owner = repository.branches[branch].owner
        versions: list[tuple[Item, Any]] = []
        try:
            with self.handle(repository).transaction(branch) as tx:
                for _ in range(self.random.randrange(1, 4)):
                    self.edit_one(tx, owner, seen, versions)
        except BranchReplaced:
            # Another process deleted the branch and made it again a moment ago.
            must(branch != "main", "main was replaced")
            return
        commit = tx.receipt.commit or self.handle(repository).show(branch)  # It may change nothing.
        self.record(repository, branch, commit.id, seen)
        self.say(f"{repository.name}: edit {branch} {commit.id} {versions}", "edits")

    def is_editable(self, repository: Repository, branch: str) -> bool:
        """A branch is edited in one place: the others only follow."""
        return (branch == "main" and repository is self.repositories[0]) or branch.startswith(repository.name)

    def edit_one(self, tx: Any, owner: int, seen: Seen, versions: list[tuple[Item, Any]]) -> None:
        kind = self.random.choice(("node", "node", "drop", "link", "tie", "cell"))
        first = len(versions)
        column = self.columns.get(owner)
        nodes = [f"o{owner}-{number}" for number in range(3)]
        alive = [id for id in nodes if self.value(seen, ("row", "Item", id))]
        if kind == "cell" and column is not None:
            id = self.random.choice(SHARED)
            value = self.random.randrange(4)
            tx.update("Item", id, {column: value})
            versions.append((("cell", id, column), value))
        elif kind == "tie":
            source, target = self.random.choice(SHARED), self.random.choice(SHARED)
            tx.upsert("Tie", from_=source, to=target)
            versions.append((("tie", source, target), True))
        elif kind == "drop" and alive:
            id = self.random.choice(alive)
            tx.delete("Item", id)
            versions.append((("row", "Item", id), None))
            for item in list(seen):
                row = self.value(seen, item)
                if item[:2] == ("row", "Link") and row is not None and id in (row["source"], row["target"]):
                    versions.append((item, None))
        elif kind == "link" and alive:
            id = f"o{owner}-e{self.random.randrange(2)}"
            row = {
                "id": id,
                "source": self.random.choice(alive),
                "target": self.random.choice([*alive, *SHARED]),
                "weight": self.random.randrange(3),
            }
            tx.upsert("Link", {"id": id, "weight": row["weight"]}, from_=row["source"], to=row["target"])
            versions.append((("row", "Link", id), row))
        else:
            id = self.random.choice(nodes)
            row = {"key": id, **{name: self.random.randrange(3) for name in COLUMNS}}
            tx.upsert("Item", row)
            versions.append((("row", "Item", id), row))
        for item, value in versions[first:]:
            if item not in seen or self.value(seen, item) != value:
                self.add_version(seen, item, value)

    def merge(self) -> None:
        repository = self.any_repository()
        source, target = self.any_branch(repository), self.any_branch(repository)
        if source == target or not self.is_editable(repository, target):
            return
        both = repository.branches[source], repository.branches[target]
        try:
            result = self.handle(repository).branches.merge(source, target, by="property")
        except HistoryGap:
            assert any(branch.is_from_past for branch in both), "a merge base is gone"
            self.say(f"{repository.name}: {source} and {target} have no base", "merges refused")
            return
        ours, theirs = self.seen(repository, target), self.seen(repository, source)
        merged = {item: max(ours.get(item, 0), theirs.get(item, 0)) for item in ours | theirs}
        head = self.head_id(repository, target)
        self.record(repository, target, head, merged)
        self.say(
            f"{repository.name}: merge {source} into {target}: {result.outcome} {head}", f"merges {result.outcome}"
        )

    def cleanup(self) -> None:
        repository = self.any_repository()
        options: dict[str, Any] = {"keep": self.random.choice((None, 1, 1, 2, 4))}
        if self.random.random() < 0.4:
            options["older_than"] = self.random.choice((0 if len(self.repositories) == 1 else 600, 600, 5_000, 20_000))
        if self.random.random() < 0.2:
            options["branches"] = [self.any_branch(repository)]
        graph = self.handle(repository)
        if self.random.random() < 0.2:
            before = sorted(self.files(repository))
            graph.maintenance.cleanup(**options, dry_run=True)
            assert sorted(self.files(repository)) == before, "a dry run has changed something"
        death = self.random.choice(SWEEPS) if self.random.random() < 0.15 else None
        if death is not None:
            arm(death, raising(FailpointReached()), nth=self.random.randrange(1, 3))
        killed = False
        try:
            graph.maintenance.cleanup(**options)
        except FailpointReached:
            killed = True
        finally:
            disarm_all()
        # `older_than=0` also compacts: that is a commit.
        for branch in sorted(repository.branches):
            self.record(repository, branch, self.head_id(repository, branch), self.seen(repository, branch))
        self.forget(repository, options)
        self.say(f"{repository.name}: cleanup {options}{' dies at ' + str(death) if killed else ''}", "cleanups")
        self.check_heads(repository)

    def files(self, repository: Repository) -> set[str]:
        return {str(path) for path in repository.folder.rglob("*") if path.is_file()}

    def forget(self, repository: Repository, options: Mapping[str, Any]) -> None:
        """What the policy does not keep may be gone."""
        repository.cleaned_at = self.now
        policy = "older_than" in options or options["keep"] is not None
        keep = options["keep"] or 1
        kept = {commit for commit, until in repository.superseded.items() if self.now - until < SURE}
        kept |= set(repository.tags.values())
        for name, branch in repository.branches.items():
            concerned = name in options["branches"] if "branches" in options else True
            if not policy or not concerned:
                for commit in reversed(branch.first_parents):
                    if commit not in repository.certain:
                        break
                    kept.add(commit)
                continue
            for place, commit in enumerate(reversed(branch.first_parents)):
                young = self.now - repository.created.get(commit, self.now) < options.get("older_than", 0) - 100
                if not (place < keep or young) or commit not in repository.certain:
                    break
                kept.add(commit)
        repository.certain &= kept

    def create_branch(self) -> None:
        repository = self.any_repository()
        if len(repository.branches) >= MAX_BRANCHES + (repository is not self.repositories[0]):
            return
        free = [f"{repository.name}-{number}" for number in range(MAX_BRANCHES)]
        name = self.random.choice([name for name in free if name not in repository.branches] or [""])
        if not name:
            return
        revision, commit = self.any_revision(repository)
        try:
            self.handle(repository).branches.create(name, revision)
        except HistoryGap:
            # A commit that is kept for its age alone may be below the watermark already.
            heads = {branch.head for branch in repository.branches.values()} | set(repository.tags.values())
            assert revision == commit or commit not in heads, f"a branch could not start at {revision}"
            self.say(f"{repository.name}: no branch {name} at {revision}", "branches refused")
            return
        history = self.history_of(repository, commit)
        present = {branch.head for branch in repository.branches.values() if not branch.is_from_past}
        present |= {repository.tags[tag] for tag in repository.tags.keys() - repository.past_tags}
        self.add_branch(repository, name, commit, self.states[commit], history)
        repository.branches[name].is_from_past = commit not in present
        self.say(f"{repository.name}: branch {name} at {revision} = {commit}", "branches")

    def any_revision(self, repository: Repository) -> tuple[str, str]:
        names = sorted(repository.branches)
        choices = [(name, repository.branches[name].head) for name in names]
        choices += [(tag, commit) for tag, commit in sorted(repository.tags.items())]
        choices += [(commit, commit) for commit in sorted(repository.certain)[-6:]]
        return self.random.choice(choices)

    def history_of(self, repository: Repository, commit: str) -> list[str]:
        for branch in repository.branches.values():
            if commit in branch.first_parents:
                return branch.first_parents[: branch.first_parents.index(commit) + 1]
        return [commit]

    def delete_branch(self) -> None:
        repository = self.any_repository()
        names = [name for name in sorted(repository.branches) if self.is_editable(repository, name) and name != "main"]
        if not names:
            return
        name = self.random.choice(names)
        self.handle(repository).branches.delete(name, force=True)
        branch = repository.branches.pop(name)
        repository.superseded[branch.head] = self.now
        repository.feeds = [feed for feed in repository.feeds if feed.branch != name]
        self.say(f"{repository.name}: delete {name}")

    def tag(self) -> None:
        repository = self.any_repository()
        revision, commit = self.any_revision(repository)
        name = self.new_name("v")
        try:
            self.handle(repository).tags.create(name, revision)
        except HistoryGap:
            heads = {branch.head for branch in repository.branches.values()} | set(repository.tags.values())
            assert revision == commit or commit not in heads, f"{revision} could not be tagged"
            return
        if commit not in {branch.head for branch in repository.branches.values() if not branch.is_from_past}:
            repository.past_tags.add(name)
        repository.tags[name] = commit
        self.say(f"{repository.name}: tag {name} at {revision} = {commit}")

    def untag(self) -> None:
        repository = self.any_repository()
        if repository.tags:
            name = self.random.choice(sorted(repository.tags))
            self.handle(repository).tags.delete(name)
            # What only the tag kept has no hour.
            del repository.tags[name]
            self.say(f"{repository.name}: untag {name}")

    def undo(self) -> None:
        """Revert the newest commit of a branch, or reset it, if that touches nothing but what is its own."""
        repository = self.any_repository()
        name = self.any_branch(repository)
        branch = repository.branches[name]
        if not self.is_editable(repository, name) or len(branch.first_parents) < 2:
            return
        older = branch.first_parents[-2]
        before, after = self.states[older], self.states[branch.head]
        changed = [item for item in before | after if self.value(before, item) != self.value(after, item)]
        mine = (f"o{branch.owner}-",)
        if older not in repository.certain or not all(
            (item[0] == "row" and item[2].startswith(mine))
            or (item[0] == "cell" and item[2] == self.columns.get(branch.owner))
            for item in changed
        ):
            return
        if not changed:
            return
        graph = self.handle(repository)
        if self.random.random() < 0.5:
            graph.revert(branch.head, branch=name)
        else:
            graph.reset(name, older)
        seen = dict(after)
        for item in changed:
            self.add_version(seen, item, self.value(before, item))
        self.record(repository, name, self.head_id(repository, name), seen)
        self.say(f"{repository.name}: undo {older} of {name}", "undone")

    def optimize(self) -> None:
        repository = self.any_repository()
        name = self.any_branch(repository)
        if self.is_editable(repository, name):
            self.handle(repository).maintenance.optimize(name)
            self.record(repository, name, self.head_id(repository, name), self.seen(repository, name))
            self.say(f"{repository.name}: optimize {name}")

    def suspend(self) -> None:
        repository = self.any_repository()
        name = self.any_branch(repository)
        if not self.is_editable(repository, name):
            return
        id = self.new_name("late")
        row = {"key": id, **dict.fromkeys(COLUMNS, 1)}
        transaction = self.handle(repository).transaction(name)
        tx = transaction.__enter__()
        tx.insert("Item", row)
        owner = repository.branches[name].owner
        repository.suspended.append(Suspended(transaction, name, owner, ("row", "Item", id), row, self.now))
        self.say(f"{repository.name}: {id} of {name} is suspended")

    def finish(self) -> None:
        repository = self.any_repository()
        if not repository.suspended:
            return
        late = repository.suspended.pop(self.random.randrange(len(repository.suspended)))
        branch = repository.branches.get(late.branch)
        try:
            late.transaction.__exit__(None, None, None)
        except (HistoryGap, StagedTooLongAgo, BranchNotFound, BranchReplaced) as error:
            if branch is not None and branch.owner == late.owner:
                must(repository.cleaned_at >= late.at, f"no cleanup ran, and yet {error}")
            self.say(f"{repository.name}: {late.item[2]} is refused: {error.code}", "suspended refused")
            return
        assert branch is not None, "a commit to a branch that is deleted"
        seen = dict(self.seen(repository, late.branch))
        self.add_version(seen, late.item, late.row)
        commit = late.transaction.receipt.commit
        assert commit is not None
        self.record(repository, late.branch, commit.id, seen)
        self.say(f"{repository.name}: {late.item[2]} is {commit.id} of {late.branch}", "suspended finished")

    def die(self) -> None:
        """A writer that dies anywhere: its write is there as a whole, or nothing of it is."""
        repository = self.any_repository()
        name = self.any_branch(repository)
        if not self.is_editable(repository, name):
            return
        id = self.new_name("dead")
        row = {"key": id, **dict.fromkeys(COLUMNS, 2)}
        clocks = Clocks()
        graph = clocks.use(og.open(repository.folder, durability="process"))
        arm(self.random.choice(DEATHS), raising(FailpointReached()))
        try:
            with contextlib.suppress(FailpointReached), graph.transaction(name) as tx:
                tx.insert("Item", row)
        finally:
            disarm_all()
        head = self.head_id(repository, name)
        seen = dict(self.seen(repository, name))
        if head != repository.branches[name].head:
            self.add_version(seen, ("row", "Item", id), row)
        self.record(repository, name, head, seen)
        self.say(f"{repository.name}: a writer of {name} dies, now {head}", "deaths")

    def open_another(self) -> None:
        repository = self.any_repository()
        self.open(repository)
        if len(repository.handles) > 3:
            repository.handles.pop(self.random.randrange(3))

    # ------------------------------------------------------------ feeds

    def read_feed(self) -> None:
        repository = self.any_repository()
        name = self.any_branch(repository)
        feed = next((feed for feed in repository.feeds if feed.branch == name), None)
        graph = self.handle(repository)
        if feed is None:
            repository.feeds.append(self.follow(repository, graph, name))
            return
        rows, token, cursor, blocks = dict(feed.rows), None, None, 0
        limit = self.random.choice((1, 3, 1_000))
        try:
            while cursor is None:
                place = {"since": feed.cursor} if token is None else {"page_token": token}
                page = graph.changes(name, **place, limit=limit)  # type: ignore[arg-type]
                for block in page.blocks:
                    blocks += 1
                    for change in block.changes:
                        key = (change.type_name, change.id)
                        assert (key in rows) == (change.before is not None), f"{key} {change.op}"
                        if change.before is not None:
                            assert content_of({key: rows.pop(key)}) == content_of({key: change.before}), key
                        if change.after is not None:
                            rows[key] = change.after
                token, cursor = page.next_page_token, page.cursor
                if cursor is not None and not page.caught_up:
                    feed.cursor, cursor = cursor, None
        except (HistoryGap, CursorRejected) as error:
            must(self.now - feed.read_at > SURE, f"a feed that was read {self.now - feed.read_at} s ago: {error}")
            must(isinstance(error, HistoryGap), str(error))
            repository.feeds.remove(feed)
            self.say(f"{repository.name}: the feed of {name} has a gap", "feeds with a gap")
            return
        assert content_of(rows) == self.content(self.seen(repository, name)), f"the feed of {name} is wrong"
        feed.rows, feed.cursor, feed.read_at = rows, cursor, self.now
        self.say(f"{repository.name}: the feed of {name} has {blocks} blocks", "feeds read")

    def follow(self, repository: Repository, graph: og.Graph, name: str) -> Feed:
        cursor = graph.changes(name, start="now").cursor
        assert cursor is not None
        view = graph._repository.resolve(name)
        rows: dict[tuple[str, str], Any] = {}
        for key in view.snapshot.tables:
            table = view.table(key)
            assert table is not None
            type_name = key.partition(":")[2]
            for row in table.read().to_pylist():
                if "src" in row:
                    row = {**row, "from": row.pop("src"), "to": row.pop("dst")}
                rows[type_name, row["id"]] = row
        self.say(f"{repository.name}: a feed of {name} starts")
        return Feed(name, repository.branches[name].owner, cursor, rows, self.now)

    # ------------------------------------------------------------ copies

    def clone(self) -> None:
        if len(self.repositories) > 1:
            return
        origin = self.repositories[0]
        copy = Repository("copy", self.folder / "copy")
        depth = self.random.choice((None, None, 1, 3))
        og.clone(origin.folder, copy.folder, durability="process", depth=depth)
        for _ in range(2):
            self.open(copy)
        for name, branch in origin.branches.items():
            copy.branches[name] = Branch(
                branch.owner, branch.head, [(branch.head, self.now)], list(branch.first_parents)
            )
            copy.branches[name].is_from_past = branch.is_from_past
        copy.tags = dict(origin.tags) if depth is None else {}
        # Of what a cleanup kept below a watermark, a clone has the commits of tags and merge bases only.
        copy.certain = set(copy.tags.values())
        copy.certain |= {branch.head for branch in copy.branches.values()}
        copy.created = dict.fromkeys(copy.certain, self.now)
        copy.cleaned_at = self.now
        self.repositories.append(copy)
        self.say(f"clone depth={depth}", "clones")
        self.check_heads(copy)

    def pull(self) -> None:
        """Branches that are edited in one place are brought to the other, by a pull there or a push from here."""
        self.transfer(by_push=False)

    def push(self) -> None:
        self.transfer(by_push=True)

    def transfer(self, *, by_push: bool) -> None:
        if len(self.repositories) < 2:
            return
        source, target = self.random.sample(self.repositories, 2)
        names = [name for name in sorted(source.branches) if self.is_editable(source, name)]
        if not names:
            return
        name = self.random.choice(names)
        branch, there = source.branches[name], target.branches.get(name)
        what = f"{'push' if by_push else 'pull'} {name} from {source.name} to {target.name}"
        try:
            if by_push:
                self.handle(source).push(target.folder, name)
            else:
                self.handle(target).pull(source.folder, name)
        except (HistoryGap, NotFastForward) as error:
            if there is not None and there.owner == branch.owner and "builds on commit" not in error.message:
                must(isinstance(error, HistoryGap), str(error))
                missing = self.missing(branch, there.head)
                must(missing is None or not missing <= source.certain, f"{what}: everything is there, and yet {error}")
            self.say(f"{what}: {error.code} {error.message}", f"copies {error.code}")
            return
        if there is None or there.owner != branch.owner:
            assert there is None, f"{what}: another branch of this name was there"
            self.add_branch(
                target, name, branch.head, self.states[branch.head], list(branch.first_parents), branch.owner
            )
        before = target.certain | set()
        self.record(target, name, branch.head, self.seen(source, name))
        target.branches[name].first_parents = list(branch.first_parents)
        target.certain = before | {branch.head}
        for tag, commit in source.tags.items():
            if tag not in target.tags and self.head_of_tag(target, tag) == commit:
                target.tags[tag] = commit
        self.say(what, "copied")
        self.check_heads(target)

    def head_of_tag(self, repository: Repository, name: str) -> str | None:
        return next((tag.head for tag in self.handle(repository).tags.list() if tag.name == name), None)

    def missing(self, branch: Branch, head: str) -> set[str] | None:
        if head not in branch.first_parents:
            return None
        return set(branch.first_parents[branch.first_parents.index(head) :])

    # ------------------------------------------------------------ the model

    def add_branch(
        self, repository: Repository, name: str, commit: str, seen: Seen, history: list[str], owner: int | None = None
    ) -> None:
        if owner is None:
            self.owners += 1
            owner = self.owners
            if owner <= len(COLUMNS) and hasattr(self, "columns"):
                self.columns[owner] = COLUMNS[owner - 1]
        repository.branches[name] = Branch(owner, commit, [(commit, self.now)], history or [commit])
        self.states.setdefault(commit, dict(seen))
        repository.certain.add(commit)
        repository.created.setdefault(commit, self.now)

    def record(self, repository: Repository, name: str, commit: str, seen: Seen) -> None:
        branch = repository.branches[name]
        if commit == branch.head:
            assert self.content(seen) == self.content(self.states[commit]), f"{commit} has two states"
            return
        repository.superseded[branch.head] = self.now
        branch.head = commit
        branch.heads.append((commit, self.now))
        branch.first_parents.append(commit)
        if commit in self.states:
            assert self.content(seen) == self.content(self.states[commit]), f"{commit} has two states"
        self.states[commit] = dict(seen)
        repository.certain.add(commit)
        repository.created[commit] = self.now
        self.check(repository, name, commit)

    def seen(self, repository: Repository, branch: str) -> Seen:
        return self.states[repository.branches[branch].head]

    def head_id(self, repository: Repository, branch: str) -> str:
        return og.open(repository.folder).show(branch).id

    def add_version(self, seen: Seen, item: Item, value: Any) -> None:
        versions = self.versions.setdefault(item, [0 if item[0] == "cell" else None])
        if item[0] == "tie":  # the same edge, whoever adds it
            del versions[1:]
        versions.append(value)
        seen[item] = len(versions) - 1

    def value(self, seen: Seen, item: Item) -> Any:
        return self.versions[item][seen.get(item, 0)] if item in self.versions else None

    def content(self, seen: Seen) -> Content:
        items: dict[str, dict[str, Any]] = {id: {"key": id, **dict.fromkeys(COLUMNS, 0)} for id in SHARED}
        links, ties = set(), set()
        for item in seen:
            value = self.value(seen, item)
            if item[0] == "cell":
                items[item[1]][item[2]] = value
            elif item[0] == "tie":
                ties.add(item[1:])
            elif value is not None and item[1] == "Item":
                items[item[2]] = value
            elif value is not None:
                links.add(tuple(value.values()))
        return frozenset(tuple(row.values()) for row in items.values()), frozenset(links), frozenset(ties)

    # ------------------------------------------------------------ checks

    def check(self, repository: Repository, revision: str, commit: str) -> None:
        found = read(self.handle(repository), revision)
        expected = self.content(self.states[commit])
        assert found == expected, difference(revision, found, expected)

    def check_heads(self, repository: Repository) -> None:
        for name, branch in repository.branches.items():
            graph = self.handle(repository)
            assert graph.show(name).id == branch.head, f"the head of {name} is {graph.show(name).id}"
            self.check(repository, name, branch.head)

    def read_old(self) -> None:
        repository = self.any_repository()
        for commit in self.random.sample(sorted(self.states), min(3, len(self.states))):
            self.check_old(repository, self.handle(repository), commit)

    def check_old(self, repository: Repository, graph: og.Graph, commit: str) -> None:
        try:
            found = read(graph, commit)
        except (HistoryGap, CommitNotFound) as error:
            must(commit not in repository.certain, f"{repository.name}: {commit} is kept, and yet {error}")
            return
        expected = self.content(self.states[commit])
        assert found == expected, difference(commit, found, expected)

    def check_all(self) -> None:
        for repository in self.repositories:
            graph = og.open(repository.folder)
            report = graph.maintenance.verify(all=True, deep=True)
            assert report.findings == (), report.findings
            for _, clocks in repository.handles:
                clocks.wall_s = clocks.uptime_s = max(clocks.wall_s, clocks.uptime_s, self.now)
            for commit in self.states:
                self.check_old(repository, graph, commit)
            self.check_heads(repository)
            assert {branch.name for branch in graph.branches.list()} == set(repository.branches)
            for source in sorted(repository.branches):
                for target in sorted(repository.branches):
                    both = repository.branches[source], repository.branches[target]
                    if source != target and not any(branch.is_from_past for branch in both):
                        assert graph.branches.merge(source, target, by="property", dry_run=True).conflicts == ()


def must(condition: bool, text: str) -> None:
    assert condition, text


def read(graph: og.Graph, revision: str) -> Content:
    commit = graph.show(revision).id
    items, links, ties = (
        frozenset(tuple(row.values()) for row in graph.query(READ, name=name, revision=commit).rows)
        for name in ("items", "links", "ties")
    )
    return items, links, ties


def content_of(rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> Content:
    items, links, ties = set(), set(), set()
    for (type_name, _), row in rows.items():
        if type_name == "Item":
            items.add((row["key"], *(row[name] for name in COLUMNS)))
        elif type_name == "Link":
            links.add((row["id"], row["from"], row["to"], row["weight"]))
        else:
            ties.add((row["from"], row["to"]))
    return frozenset(items), frozenset(links), frozenset(ties)


def difference(revision: str, found: Content, expected: Content) -> str:
    return f"{revision}: " + "; ".join(
        f"has {sorted(map(str, one - other))}, should have {sorted(map(str, other - one))}"
        for one, other in zip(found, expected, strict=True)
    )


def run(seed: int, steps: int = 60) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), seed)
        try:
            world.run(steps)
        except BaseException as error:
            error.add_note(f"seed {seed}\n" + "\n".join(world.trace[-60:]))
            raise
        return world.counts


def main() -> Iterator[str]:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    totals: dict[str, int] = {}
    failed = 0
    for seed in range(first, last):
        try:
            for kind, count in run(seed).items():
                totals[kind] = totals.get(kind, 0) + count
        except Exception:
            failed += 1
            yield traceback.format_exc()
        if seed % 20 == 19:
            yield f"{seed + 1 - first} histories, {failed} failed, {totals}"
    yield f"{last - first} histories, {failed} failed, {totals}"


if __name__ == "__main__":
    for line in main():
        print(line, flush=True)
