"""Random histories of a graph and of a copy of it, against a model of plain dictionaries.

Whatever happens (writes, loads, branches, merges, tags, changes of the schema, compaction, cleanup, copies, and a death at any
failpoint of any of them), verification in depth stays clean, and every commit that was ever acknowledged reads the same as
when it was made, or was given up by a policy that allowed it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.errors import Conflict, HistoryGap, InputError, NotFound, OmnigraphError
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, disarm_all, raising

SCHEMA = """
node Person { name: String @key  age: I32? @index  bio: String? @index }
node Team { title: String @key }
edge Knows: Person -> Person
edge MemberOf: Person -> Team @card(0..3)
"""
NAMES = [f"p{number}" for number in range(24)]
TEAMS = ["red", "blue"]
BRANCHES = ["main", "work", "side"]
TWO_HOURS = 2 * 3600.0
DEATHS = 0.25
"""How many of the steps die somewhere."""
PUBLISHING = ("table.", "publish.", "history.")
DYING_AT: dict[str, tuple[str, ...]] = {
    "write": ("txn.", *PUBLISHING),
    "load": ("load.", "recovery.", *PUBLISHING),
    "recover": ("recovery.", *PUBLISHING),
    "make branch": ("branch.", "publish."),
    "delete branch": ("branch.", "publish."),
    "merge": ("merge.", *PUBLISHING),
    "tag": ("tag.",),
    "untag": ("tag.",),
    "optimize": ("optimize.", *PUBLISHING),
    "change schema": ("schema.", "publish."),
    "cleanup": ("sweep.",),
    "copy": ("copy.", "clone.", "push."),
    "sync": ("copy.", "clone.", "push.", "publish."),
}
"""The points that a step may reach, by the beginnings of their names."""


REFUSALS = (
    *(Conflict, InputError, NotFound, HistoryGap),
    *(og.errors.AlreadyExists, og.errors.UsageError, og.errors.SchemaError, og.errors.SchemaChangeRefused),
)
"""What a step may be answered with: nothing has happened then."""


class Adversary:
    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.folder = folder
        og.init(folder / "graph", SCHEMA, durability="process")
        self.graph = opened(folder / "graph")
        self.contents: dict[str, str] = {}
        """Commit -> digest of all that it holds."""
        self.given_up: set[str] = set()
        """Commits that some cleanup was allowed to take away."""
        self.gone: set[str] = set()
        """Commits that are not there any more."""
        self.properties = 0
        self.log: list[str] = []
        self.remember()

    # ------------------------------------------------------------ the steps

    def step(self) -> None:
        name = self.random.choices(list(STEPS), [weight for weight, _ in STEPS.values()])[0]
        dies = self.random.random() < DEATHS
        points = [point for point in Failpoint if point.startswith(DYING_AT[name])]
        point, nth = self.random.choice(points), self.random.choice([1, 1, 1, 2, 3])
        self.log.append(f"{name}{f' dying at {point}@{nth}' if dies else ''}")
        before = {branch.name: digest(self.graph, branch.name) for branch in self.graph.branches.list()}
        if dies:
            arm(point, raising(FailpointReached(str(point))), nth=nth)
        try:
            STEPS[name][1](self)
        except FailpointReached:
            self.log[-1] += " (died)"
        except REFUSALS as error:
            self.log[-1] += f" ({error.code})"
        finally:
            disarm_all()
        if dies:
            self.graph = opened(self.folder / "graph")
        if name in QUIET:
            for branch in self.graph.branches.list():
                assert digest(self.graph, branch.name) == before.get(branch.name, digest(self.graph, branch.name)), name
        self.remember()

    def live(self) -> str:
        return self.random.choice([branch.name for branch in self.graph.branches.list()])

    def write(self) -> None:
        with self.graph.transaction(self.live()) as tx:
            for _ in range(self.random.choice([1, 1, 2, 8])):
                self._statement(tx)

    def _statement(self, tx: og.Transaction) -> None:
        name, other = self.random.choice(NAMES), self.random.choice(NAMES)
        match self.random.randrange(6):
            case 0 | 1 | 2:
                values: dict[str, Any] = {
                    "age": self.random.randrange(100),
                    "bio": f"word{self.random.randrange(9)} {name}",
                }
                tx.upsert("Person", name=name, **values)
            case 3:
                tx.delete("Person", name)
            case 4:
                tx.upsert("Person", name=name)
                tx.upsert("Person", name=other)
                tx.insert("Knows", from_=name, to=other)
            case 5:
                tx.upsert("Team", title=(team := self.random.choice(TEAMS)))
                tx.upsert("Person", name=name)
                tx.insert("MemberOf", from_=name, to=team)

    def load(self) -> None:
        chosen = self.random.sample(NAMES, self.random.randrange(1, 12))
        lines = [{"type": "Person", "data": {"name": name, "age": self.random.randrange(100)}} for name in chosen]
        file = self.folder / "load.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        branch = self.live()
        self.graph.load(str(file), mode="merge", branch=branch, engine="local")
        for line in lines:
            loaded: Any = line["data"]
            found = self.graph.entity("Person", loaded["name"], revision=branch)
            assert found is not None
            assert found["age"] == loaded["age"]

    def recover(self) -> None:
        for write in self.graph.recovery.list():
            if self.random.random() < 0.5:
                self.graph.recovery.discard(write.commit_id)
            else:
                self.graph.recovery.resume(write.commit_id)

    def make_branch(self) -> None:
        self.graph.branches.create(self.random.choice(BRANCHES[1:]), self.live())

    def delete_branch(self) -> None:
        name = self.random.choice(BRANCHES[1:])
        commits = {commit.id for commit in self.graph.commits(name, limit=1_000)}
        self.given_up |= commits - self._kept_without(name)
        self.graph.branches.delete(name, force=True)

    def _kept_without(self, name: str) -> set[str]:
        others = [branch.name for branch in self.graph.branches.list() if branch.name != name]
        return {commit.id for other in others for commit in self.graph.commits(other, limit=1_000)}

    def merge(self) -> None:
        names = [branch.name for branch in self.graph.branches.list()]
        source, target = self.random.sample(names, 2) if len(names) > 1 else (names[0], names[0])
        self.graph.branches.merge(source, target, strategy=self.random.choice(["ours", "theirs"]))

    def tag(self) -> None:
        commit = self.random.choice(self.graph.commits(self.live(), limit=6))
        self.graph.tags.create(f"t{self.random.randrange(4)}", commit.id)

    def untag(self) -> None:
        name = f"t{self.random.randrange(4)}"
        held = {tag.name: tag.head.id for tag in self.graph.tags.list()}
        if name in held:
            self.given_up.add(held[name])
        self.graph.tags.delete(name)

    def optimize(self) -> None:
        self.graph.maintenance.optimize(self.live())

    def change_schema(self) -> None:
        self.properties += 1
        more = "".join(f"  extra{number}: String?" for number in range(self.properties))
        changed = SCHEMA.replace("bio: String? @index", f"bio: String? @index{more}")
        if self.properties > 1:
            changed = changed.replace("age: I32? @index", "age: I64? @index").replace(
                "extra0: String?", "extra0: String? @index"
            )
        if self.properties > 2:
            changed = changed.replace("extra1:", 'renamed: String? @rename_from("extra1")  was1:')
        self.graph.schema.apply(changed, branch=self.live())

    def cleanup(self) -> None:
        self.age(self.folder / "graph")
        keep = self.random.choice([1, 2, 3, 5])
        kept = {tag.head.id for tag in self.graph.tags.list()}
        for branch in self.graph.branches.list():
            kept |= {commit.id for commit in self.graph.commits(branch.name, limit=keep)}
        self.given_up |= self.contents.keys() - kept
        self.graph.maintenance.cleanup(keep=keep)

    def age(self, place: Path) -> None:
        """What was written so far was written two hours ago."""
        then = time.time() - TWO_HOURS
        for file in place.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                os.utime(file, (then, then))

    def copy(self) -> None:
        """A copy has the same content and is as whole; what is written there arrives here; who dies on the way goes on."""
        home, place = self.folder / "graph", self.folder / f"copy{len(self.log)}"
        branch = self.live()
        self._to_the_end(lambda: og.clone(home, place))
        copied = opened(place)
        assert digest(copied, branch) == digest(self.graph, branch)
        check(copied)
        for graph in (copied, self.graph)[: self.random.choice([1, 2])]:
            with graph.transaction(branch) as tx:
                tx.upsert("Person", name=f"from {'the copy' if graph is copied else 'home'}")
        if self.graph.show(branch).id in {commit.id for commit in copied.commits(branch, limit=1_000)}:
            self._to_the_end(lambda: copied.push(home, branch))
            assert self.graph.show(branch).id == copied.show(branch).id
            assert digest(self.graph, branch) == digest(copied, branch)
        else:
            for move in (copied.push, copied.pull):
                try:
                    move(home, branch)
                except og.errors.NotFastForward:
                    continue
                raise AssertionError(f"{move.__name__} of branches that parted")
        check(copied)
        shutil.rmtree(place)

    def sync(self) -> None:
        """A copy that stays: commits go there and come back, and it is written to and cleaned up by itself."""
        place, branch = self.folder / "far", self.live()
        if not (place / "graph.json").exists():
            self._to_the_end(lambda: og.clone(self.folder / "graph", place))
        far = opened(place)
        match self.random.choice(["push", "push", "pull", "write", "cleanup"]):
            case "push":
                self._to_the_end(lambda: self.graph.push(place, branch))
            case "pull":
                self._to_the_end(lambda: self.graph.pull(place, branch))
            case "write":
                with far.transaction(branch) as tx:
                    tx.upsert("Person", name=f"far{len(self.log)}")
            case "cleanup":
                self.age(place)
                far.maintenance.cleanup(keep=2)
        self.check_far()

    def check_far(self) -> None:
        """The same commits have the same content there."""
        far = opened(self.folder / "far")
        check(far)
        for branch in far.branches.list():
            for commit in far.commits(branch.name, limit=1_000):
                if commit.id in self.contents:
                    with contextlib.suppress(HistoryGap):
                        assert digest(far, commit.id) == self.contents[commit.id], (
                            f"commit {commit.id} is another there"
                        )

    def _to_the_end(self, move: Callable[[], object]) -> None:
        try:
            move()
        except FailpointReached:
            self.log[-1] += " (died, again)"
            disarm_all()
            move()

    # ------------------------------------------------------------ looking

    def remember(self) -> None:
        """Every commit that is there and was not seen yet."""
        for branch in self.graph.branches.list():
            for commit in self.graph.commits(branch.name, limit=1_000):
                if commit.id not in self.contents and commit.id not in self.given_up:
                    self.contents[commit.id] = digest(self.graph, commit.id)

    def check(self) -> None:
        check(self.graph)
        fresh = og.open(self.folder / "graph", durability="process")
        heads = {branch.head.id for branch in fresh.branches.list()} | {tag.head.id for tag in fresh.tags.list()}
        for commit, content in self.contents.items():
            try:
                assert digest(fresh, commit) == content, f"commit {commit} reads otherwise"
            except (HistoryGap, NotFound):
                assert commit in self.given_up, f"commit {commit} is gone and nobody gave it up"
                assert commit not in heads
                self.gone.add(commit)


def opened(folder: Path) -> og.Graph:
    """With a log that is rolled up often."""
    graph = og.open(folder, durability="process")
    graph._repository.history.log.max_tail = 5
    return graph


def check(graph: og.Graph) -> None:
    findings = graph.maintenance.verify(all=True, deep=True).findings
    assert findings == (), findings


def digest(graph: og.Graph, revision: str) -> str:
    out = io.BytesIO()
    graph.export(out, revision=revision)
    return hashlib.sha256(b"\n".join(sorted(out.getvalue().splitlines()))).hexdigest()


QUIET = frozenset(["make branch", "tag", "untag", "optimize", "cleanup"])
"""Steps that leave the content of every branch as it is."""
Step = Callable[[Adversary], None]
STEPS: dict[str, tuple[int, Step]] = {
    "write": (10, Adversary.write),
    "load": (3, Adversary.load),
    "recover": (2, Adversary.recover),
    "make branch": (3, Adversary.make_branch),
    "delete branch": (1, Adversary.delete_branch),
    "merge": (3, Adversary.merge),
    "tag": (2, Adversary.tag),
    "untag": (1, Adversary.untag),
    "optimize": (3, Adversary.optimize),
    "change schema": (1, Adversary.change_schema),
    "cleanup": (3, Adversary.cleanup),
    "copy": (1, Adversary.copy),
    "sync": (4, Adversary.sync),
}


@contextlib.contextmanager
def told(adversary: Adversary) -> Iterator[None]:
    """With the steps so far in the error."""
    try:
        yield
    except (AssertionError, OmnigraphError) as error:
        steps = "\n".join(f"{number:3} {line}" for number, line in enumerate(adversary.log))
        raise AssertionError(f"{error}\nafter these steps of seed {adversary.seed}:\n{steps}") from error


def play(folder: Path, seed: int, steps: int, check_every: int) -> Adversary:
    adversary = Adversary(folder, seed)
    with told(adversary):
        for number in range(steps):
            adversary.step()
            if number % check_every == 0 or number == steps - 1:
                adversary.check()
    return adversary
