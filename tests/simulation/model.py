"""What must hold, told independently of the code under test: one linear chain per branch, kept in plain lists.

The model sees every object the moment it is written or removed, whoever does it, and every answer an actor gets.
A stored table version is stood for by the tuple of commits whose changes it holds.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from omnigraph.history import chain as chain_module
from omnigraph.history.chain import position_of
from omnigraph.history.plan import PublishPlan
from omnigraph.history.values import Commit, CommitRef, Entry, Snapshot, TableState, WriteKey
from omnigraph.values.inline_rows import NO_INLINE, InlineChange

Content = tuple[str, ...]
KEPT_S = 3_600.0
"""What was the head of a branch so recently is there."""


class Violation(BaseException):
    """An invariant does not hold. No `Exception`: nothing in the code under test may swallow it."""


@dataclass(frozen=True)
class Intent:
    """What an actor meant with a commit, at its last (re)base: the incarnation of the branch (None: the one it makes, or, unless
    it has to be new, whichever is there), the schema, and what it read."""

    incarnation: str | None
    schema: str
    read: dict[str, Content]
    new_branch: bool = False


@dataclass
class Model:
    max_inline: int
    """Rows of a table that may stand in commits."""
    folds: int = 0
    content: dict[int, Content] = field(default_factory=dict)
    data: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """By version: the names of its data files. Of what a commit itself carried, the one of the write that folded it."""
    chains: dict[str, list[Entry]] = field(default_factory=dict)
    """Every entry that ever was in a branch's chain, by position, swept or not."""
    entry_ids: set[str] = field(default_factory=set)
    commits: dict[str, Commit] = field(default_factory=dict)
    incarnations: set[str] = field(default_factory=set)
    reached: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of each commit: the incarnations it descends from, and how far."""
    swept: set[tuple[str, int]] = field(default_factory=set)
    garbage: set[str] = field(default_factory=set)
    made_anew: int = 0
    """How often a swept position was created again; each is garbage."""
    times: dict[tuple[str, int], float] = field(default_factory=dict)
    """When each entry was written."""
    floors: dict[str, int] = field(default_factory=dict)
    tags: dict[str, CommitRef] = field(default_factory=dict)
    """Acknowledged ones."""
    untagged: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    intents: dict[str, tuple[Intent, ...]] = field(default_factory=dict)
    """By commit: several, where it was put on several states, or by several processes that publish one plan."""
    written_files: set[str] = field(default_factory=set)
    """Files of tables that were staged, whether they are still there or not."""
    removed_files: int = 0
    opened: set[str] = field(default_factory=set)
    """Incarnations whose making was acknowledged: who dies while it makes a branch at a commit that goes may leave a useless one."""

    def copy(self) -> Model:
        result = copy.copy(self)
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            setattr(result, name, value if isinstance(value, int) else value.copy())
        result.chains = {branch: list(entries) for branch, entries in self.chains.items()}
        return result

    # ------------------------------------------------------------ tables

    def next_version(self, before: TableState | None, path: str, commit_id: str) -> TableState:
        """Stage one change of a table: a new stored version that holds what `before` held, and this commit's change."""
        version = len(self.content) + 1
        self.content[version] = (*self.of(before), commit_id)
        folded = (f"fold-{version}",) if before is not None and before.inline else ()
        self.data[version] = (*(self.data[before.version] if before else ()), *folded, commit_id)
        generation, rows = (before.generation, before.rows) if before else (0, 0)
        return TableState(path, version, generation + 1, rows + 1)

    def folded(self, before: TableState) -> TableState:
        """A stored version that holds what stands in commits, too, for the next rows to stand on."""
        version = len(self.content) + 1
        self.content[version] = self.of(before)
        self.data[version] = (*self.data[before.version], f"fold-{version}")
        self.folds += 1
        return replace(before, version=version, inline=NO_INLINE)

    def with_rows_in_commit(self, before: TableState, commit_id: str) -> TableState:
        """The same where the change stands in the commit itself, on top of the stored version."""
        inline = before.inline.with_change(InlineChange(("id",), ((commit_id,),)))
        return replace(before, generation=before.generation + 1, rows=before.rows + 1, inline=inline)

    def files_of(self, state: TableState) -> list[str]:
        """The manifest of a version and its data files, oldest change first."""
        data = [f"{state.path}/data/{name}.lance" for name in self.data[state.version]]
        return [f"{state.path}/_versions/d{state.version}.manifest", *data]

    def of(self, state: TableState | None) -> Content:
        if state is None:
            return ()
        return (*self.content[state.version], *(id for change in state.inline for id in change.ids))

    # ------------------------------------------------------------ what happens to objects

    def written(self, key: str, data: bytes, now: float) -> None:
        room, _, rest = key.partition("/")
        if room == "branches":
            branch, position = unquote(rest.partition("/")[0]), position_of(key)
            self._entry_written(branch, position, key, chain_module.decode_entry(data, key))
            self.times.setdefault((branch, position), now)
        elif room in ("nodes", "edges"):
            self.written_files.add(key)
        elif room == "retention":
            branch = unquote(rest.partition("/")[0])
            self.floors[branch] = max(self.floors.get(branch, 0), position_of(key))

    def removed(self, key: str, now: float) -> None:
        room, _, rest = key.partition("/")
        if room in ("nodes", "edges"):
            self.removed_files += 1
        elif room == "tags":
            name = unquote(rest.removesuffix(".json"))
            self.tags.pop(name, None)
            self.untagged.add(name)
        elif room == "branches":
            branch, position = unquote(rest.partition("/")[0]), position_of(key)
            if key in self.garbage:
                self.garbage.remove(key)
                return
            self._require(position < self.floors.get(branch, 0), f"{branch}/{position} removed above the watermark")
            self._require(position != len(self.chains[branch]) - 1, f"the newest entry of {branch} was removed")
            for name, ref in self.tags.items():
                self._require((ref.branch, ref.position) != (branch, position), f"tag {name} lost its commit")
            self._require(
                now - self._left_at(branch, position) >= KEPT_S, f"{branch}/{position} was removed though it was a head"
            )
            self.swept.add((branch, position))

    def _left_at(self, branch: str, position: int) -> float:
        """The last time at which the branch, or another one that still lives, was at a commit of this entry."""
        left = 0.0
        for name, chain in self.chains.items():
            for at, entry in enumerate(chain):
                ref = entry.head.commit.ref
                is_told = entry.incarnation in self.opened and chain[-1].alive
                if entry.alive and (name == branch or is_told) and (ref.branch, ref.position) == (branch, position):
                    left = max(left, self.times.get((name, at + 1), float("inf")))
        return left

    def _entry_written(self, branch: str, position: int, key: str, entry: Entry) -> None:
        chain = self.chains.setdefault(branch, [])
        if position < len(chain):
            self._require((branch, position) in self.swept, f"{branch}/{position} was written twice")
            self.garbage.add(key)
            self.made_anew += 1
            return
        self._require(position == len(chain), f"{branch} has a gap before {position}")
        self._require(entry.branch == branch and entry.position == position, "an entry that does not know its place")
        self._require(entry.id not in self.entry_ids, f"entry {entry.id} is in the chain twice")
        self._require(entry.id not in self.denied, f"entry {entry.id} was denied and is visible")
        previous = chain[-1] if chain else None
        if entry.op == "create":
            self._check_opening(entry, previous)
        elif previous is not None:
            self._check_following(entry, previous)
        chain.append(entry)
        self.entry_ids.add(entry.id)

    def _check_opening(self, entry: Entry, previous: Entry | None) -> None:
        self._require(previous is None or not previous.alive, f"{entry.branch} was made while it lives")
        self._require(entry.incarnation not in self.incarnations, f"incarnation {entry.incarnation} appears twice")
        self._require(entry.before.commit.id in self.commits, "a branch starts at no commit")
        self._require(entry.id not in self.intents or bool(entry.steps), f"{entry.branch} was made without its commit")
        self.incarnations.add(entry.incarnation)
        self._check_steps(entry)

    def _check_following(self, entry: Entry, previous: Entry) -> None:
        self._require(previous.alive, f"{entry.op} on the deleted branch {entry.branch}")
        self._require(entry.incarnation == previous.incarnation, f"{entry.branch}: an entry of another incarnation")
        self._require(
            entry.before == previous.head, f"{entry.branch}/{entry.position} does not start where the last ended"
        )
        self._check_steps(entry)

    def _check_steps(self, entry: Entry) -> None:
        snapshot = entry.before
        for step, after in zip(entry.steps, entry.snapshots(), strict=True):
            self._check_commit(step.commit, snapshot, after, entry)
            self.reached[step.commit.id] = {**self.reached[snapshot.commit.id], entry.incarnation: step.commit.ref.seq}
            snapshot = after
        self._require(entry.ancestry.reached == self.reached[snapshot.commit.id], f"entry {entry.id}: another ancestry")

    def _check_commit(self, commit: Commit, before: Snapshot, after: Snapshot, entry: Entry) -> None:
        self._require(commit.id not in self.commits, f"commit {commit.id} is in the chain twice")
        self._require(commit.id not in self.denied, f"commit {commit.id} was denied and is visible")
        self._require(commit.parents[0] == before.commit.ref, f"commit {commit.id} has another parent")
        place = (commit.ref.branch, commit.ref.incarnation, commit.ref.position, commit.ref.seq)
        expected = (entry.branch, entry.incarnation, entry.position, before.commit.ref.seq + 1)
        self._require(place == expected, f"commit {commit.id} is elsewhere")
        self._require(commit._at_us > before.commit._at_us, "time went back")
        self._check_meant(commit, before, entry)
        for key, state in after.tables.items():
            old = before.table(key)
            if state != old:
                generation = old.generation if old else 0
                wanted = (*self.of(old), commit.id)
                self._require(self.of(state) == wanted, f"commit {commit.id} lost or repeated changes of {key}")
                self._require(state.generation == generation + 1, f"{key} does not count up")
        if commit._write_key is not None:
            self._require(
                commit._write_key.id not in self.keys_of(before.commit), f"commit {commit.id}: a key used twice"
            )
        self.commits[commit.id] = commit

    def _check_meant(self, commit: Commit, before: Snapshot, entry: Entry) -> None:
        """Somebody meant the commit for the state that it stands on."""
        last = self.intents[commit.id][-1]
        self._require(
            last.incarnation in (None, entry.incarnation),
            f"commit {commit.id} was meant for another incarnation of {entry.branch}",
        )
        self._require(not last.new_branch or entry.op == "create", f"commit {commit.id} wanted a new branch")
        fitting = [intent for intent in self.intents[commit.id] if intent.schema == before.schema]
        self._require(bool(fitting), f"commit {commit.id} was made for another schema")
        for key in last.read:
            state = self.of(before.table(key))
            fitting = [intent for intent in fitting if intent.read[key] == state]
            self._require(bool(fitting), f"commit {commit.id} relied on an older {key}")

    def keys_of(self, commit: Commit) -> list[str]:
        """The write keys along first parents, newest first."""
        keys = [] if commit._write_key is None else [commit._write_key.id]
        while commit.parents:
            commit = self.commits[commit.parents[0].id]
            keys += [] if commit._write_key is None else [commit._write_key.id]
        return keys

    # ------------------------------------------------------------ what actors are told

    def acknowledged(self, commit: Commit, key: WriteKey | None = None) -> None:
        """A write was answered with this commit; one under a key with the commit that has the key."""
        held = self.commits.get(commit.id)
        self._require(key is None or commit._write_key == key, f"commit {commit.id} was made under another key")
        self._require(
            held is not None and held.ref == commit.ref, f"commit {commit.id} was acknowledged and is not there"
        )

    def denial(self, ids: list[str]) -> None:
        for each in ids:
            self._require(each not in self.commits and each not in self.entry_ids, f"{each} was denied and is visible")
            self.denied.add(each)

    def tagged(self, name: str, ref: CommitRef) -> None:
        """A tag was acknowledged; somebody else may have deleted it again by then."""
        if name not in self.untagged:
            self._require((ref.branch, ref.position) not in self.swept, f"tag {name} names a swept commit")
            self.tags[name] = ref

    def head_seen(self, branch: str, since: int, entry: Entry | None) -> None:
        """A read of the head: an entry that was the newest at some moment since the read began (at length `since`)."""
        chain = self.chains.get(branch, [])
        if entry is None:
            self._require(since == 0, f"{branch} was not found")
        else:
            inside = since - 1 <= entry.position < len(chain) and chain[entry.position].id == entry.id
            self._require(inside, f"an old or false head of {branch} was read")

    def meant(self, plan: PublishPlan, snapshot: Snapshot) -> None:
        read = {key: self.of(snapshot.table(key)) for key in plan.reads}
        incarnation = plan.incarnation if plan.opening is None else None
        intent = Intent(incarnation, plan.schema, read, plan.new_branch)
        self.intents[plan.commit_id] = (*self.intents.get(plan.commit_id, ()), intent)

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise Violation(what)
