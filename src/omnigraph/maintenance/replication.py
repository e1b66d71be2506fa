"""Push and pull: a branch is brought from one copy of a graph to another, as long as it only moves forward.

Commits keep their ids, their seq and their incarnation; their position in the chain may differ from copy to copy. A commit is
copied only if the target has everything that it builds on. So a commit of an incarnation is the same in every copy that has it,
and a branch that has diverged is refused in both directions. Everything a commit needs is copied before the branch moves, which
happens by creating its next entry.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import (
    AlreadyExists,
    CommitNotFound,
    Damaged,
    HistoryGap,
    NotFastForward,
    ObjectExists,
    ObjectMissing,
    StorageError,
    StoragePermanent,
    UsageError,
)
from omnigraph.features import check_writable
from omnigraph.history.chain import watermark_key
from omnigraph.history.envelope import schema_key, seal
from omnigraph.history.history import History
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.publish import Attempt, Head
from omnigraph.history.values import Commit, CommitRef, CommitStep, Entry, incarnation_start
from omnigraph.indexing.kinds import kind_of, table_of
from omnigraph.maintenance.reachable import FilesOf, Reachable
from omnigraph.snapshot import Repository
from omnigraph.storage.copying import (
    MAX_AGE_S,
    Copied,
    CopyListener,
    CopyTask,
    StoreAddress,
    copy_between,
    copy_objects,
    unwatched,
)
from omnigraph.storage.store import Store
from omnigraph.tables.adjacency.zones import FOLDER as ZONES_FOLDER, SUFFIX as ZONES_SUFFIX
from omnigraph.tasks.runner import IN_PROCESS, InProcess, Workers
from omnigraph.write.publishing import LostRace, on_newest_head, publish

MAX_COMMITS_PER_ENTRY = 64
OBJECTS_PER_TASK = 64
BYTES_PER_TASK = 256 * 1024 * 1024


@dataclass(frozen=True)
class CopyReport:
    """What a clone, push or pull copied: commits of each branch, tags, objects and bytes.

    >>> report = og.clone("./cities", "./cities-clone")
    >>> assert (report.commits, report.tags) == ({"main": 1}, ())
    """

    commits: dict[str, int]
    """How many commits were copied, by branch."""
    tags: tuple[str, ...]
    objects: int
    bytes: int
    present: int
    """How many objects were there already, from an interrupted copy."""


def push(
    source: Repository,
    target: History,
    branch: str,
    place: StoreAddress,
    workers: Workers = IN_PROCESS,
    watch: CopyListener = unwatched,
) -> CopyReport:
    """Bring a branch of the target up to date with the source, another copy of the graph. `place` is where the target is.

    NotFastForward if the target's branch has commits that the source lacks, or lacks commits that the branch builds on.
    """
    _check_same_graph(source, target)
    looked_at = target.clock()
    # Before the source: what another process copies meanwhile comes from a source that is newer still.
    theirs = target.chain.newest(branch)
    ours = source.history.chain.head(branch)
    transfer = _Transfer(source, target, branch, ours, watch)
    commits = transfer.missing(theirs)
    with source.history.leases.hold(ours.head.commit.ref), target.leases.hold(transfer.base):
        copied = transfer.copy(commits, place, workers)
        reach(Failpoint.PUSH_AFTER_COPY)
        target.retention.check_cutoff(branch, looked_at)
        transfer.publish(Head(theirs, looked_at, confirmed=True), commits)
    tags, more = transfer.copy_tags(commits)
    total = copied + more
    return CopyReport({branch: len(commits)}, tags, total.objects, total.bytes, total.present)


def push_as_one(
    source: Repository,
    target: History,
    branch: str,
    to: str,
    place: StoreAddress,
    workers: Workers = IN_PROCESS,
    watch: CopyListener = unwatched,
    *,
    actor: str | None = None,
) -> CopyReport:
    """Copy the state of a branch, as one commit, to a new branch `to` of the target that starts at the newest commit that both
    have.

    For a branch that has diverged: its own commits stay in the source only.
    """
    _check_same_graph(source, target)
    ours, theirs, since = source.history.chain.head(branch), target.chain.head(branch), target.clock()
    shared = next((commit for commit in source.history.log.walk(ours) if target.log.find(theirs, commit.id)), None)
    if shared is None:
        raise NotFastForward(
            f"branch '{branch}' has no commit in common in the two graphs",
            hint="the branch was deleted and created again in one of them",
        )
    start = _start_in(target, shared.id, branch, source.store.uri)
    target.tags.check_no_tag(to)
    opening = target.branches.opening(to, start, target.new_id())
    before, after = start.head, ours.head
    keys = sorted({*before.tables, *after.tables})
    changes = tuple(
        TableChange(key, "strict", before.table(key), after.table(key))
        for key in keys
        if before.table(key) != after.table(key)
    )
    plan = PublishPlan(
        commit_id=opening.id,
        branch=to,
        incarnation=opening.incarnation,
        base=before.commit.ref,
        schema=before.schema,
        changes=changes,
        actor=actor,
        message=f"{branch} of {source.store.uri} at commit {after.commit.id}",
        new_schema=after.schema if after.schema != before.schema else None,
        opening=opening,
        new_branch=True,
        staged_since=since,
    )
    transfer = _Transfer(source, target, to, ours, watch)
    transfer.known = before
    with source.history.leases.hold(ours.head.commit.ref), target.leases.hold(before.commit.ref):
        whole = CommitStep(after.commit, after.schema, {change.key: change.state for change in changes})
        copied = transfer.copy([_CommitCopy(whole, None)], place, workers)
        publish(target, plan)
    return CopyReport({to: 1}, (), copied.objects, copied.bytes, copied.present)


def _start_in(target: History, commit_id: str, branch: str, source: str) -> Entry:
    """The entry of the commit at which a branch that is pushed starts."""
    try:
        return target.revisions.entry(commit_id)
    except HistoryGap as gap:
        raise HistoryGap(
            f"branch '{branch}' of {source} builds on commit {commit_id}, which a cleanup of {target.store.uri} has removed",
            branch=gap.branch,
            watermark=gap.watermark,
            commit_id=commit_id,
            hint=f"make a new copy (omnigraph clone {target.store.uri} NEW), and write there what only this copy has: 'omnigraph diff "
            f"{commit_id} {branch}' lists it",
        ) from gap


def _check_same_graph(source: Repository, target: History) -> None:
    if source.history.identity.graph_id != target.identity.graph_id:
        raise UsageError(
            f"{target.store.uri} is not a copy of {source.store.uri}",
            hint="push and pull work between a graph and its clones: 'omnigraph clone' makes one",
        )
    check_writable(target.identity.write_features, "this graph")


@dataclass(frozen=True)
class _CommitCopy:
    """A commit to be copied: what it changed and, for a merge, what it reaches."""

    step: CommitStep
    reached: dict[str, int] | None

    @property
    def commit(self) -> Commit:
        return self.step.commit


class _Transfer:
    """The transfer of one branch from one graph to another."""

    def __init__(self, source: Repository, target: History, branch: str, ours: Entry, watch: CopyListener) -> None:
        self.watch = watch
        self.source = source
        self.target = target
        self.branch = branch
        self.ours = ours
        self.base = ours.head.commit.ref
        """The newest commit of the branch that the target has, or the one at which its branch will start, as a commit of the
        target."""
        self.known = ours.head
        """The state at that commit."""

    # ------------------------------------------------------------ commits

    def missing(self, theirs: Entry | None) -> list[_CommitCopy]:
        """The commits of the branch that the target lacks, oldest first. HistoryGap if the source has lost some to a cleanup."""
        try:
            return self._read_missing(theirs)
        except HistoryGap as gap:
            source, target = self.source.store.uri, self.target.store.uri
            raise HistoryGap(
                f"{target} is behind a cleanup: {source} no longer has all the commits of branch '{self.branch}' that it lacks",
                branch=self.branch,
                watermark=gap.watermark,
                hint=f"make a new copy: omnigraph clone {source} NEW; and let cleanup keep what was made since the last push or pull "
                "(--older-than)",
            ) from gap

    def _read_missing(self, theirs: Entry | None) -> list[_CommitCopy]:
        history, head = self.source.history, self.ours.head.commit
        if theirs is None or not theirs.alive:
            start = incarnation_start(self.ours.incarnation)[1]
            self.known = history.chain.read(self.branch, start).before
            self.base = self._target_commit(self.known.commit.ref).ref
        else:
            self._check_moves_on(theirs)
            self.known = theirs.head
            self.base = self.known.commit.ref
        records = history.log.after(self.ours, self.base.seq, limit=head.ref.seq - self.base.seq)
        entries: dict[tuple[str, int], Entry] = {}
        copies = []
        for number, commit in enumerate(records):
            self.watch("read commits", number, len(records))
            place = (commit.ref.branch, commit.ref.position)
            if place not in entries:
                entries[place] = history.lineage.entry_of(commit.ref)
            step = next(step for step in entries[place].steps if step.commit.id == commit.id)
            reached = history.lineage.reached_at(entries[place], commit.ref) if commit.merged else None
            copies.append(_CommitCopy(self._localized(step), reached))
        return copies

    def _check_moves_on(self, theirs: Entry) -> None:
        """NotFastForward unless the target's head is a commit of the source's branch."""
        history, their_head, our_head = self.source.history, theirs.head.commit, self.ours.head.commit
        if theirs.incarnation != self.ours.incarnation:
            raise NotFastForward(
                f"branch '{self.branch}' of {self.target.store.uri} is not the one of {self.source.store.uri}: "
                "it was deleted and created again, or created on either side",
                hint=f"delete one of them: omnigraph branch delete {self.branch} --store ...",
            )
        same = history.log.by_seq(self.ours, their_head.ref.seq) if their_head.ref.seq <= our_head.ref.seq else None
        if same is None or same.id != their_head.id:
            raise self._refusal()

    def _refusal(self) -> NotFastForward:
        return NotFastForward(
            f"branch '{self.branch}' of {self.target.store.uri} has commits that {self.source.store.uri} lacks",
            hint="bring them here first; if both have new commits, push with to='NAME' and merge NAME there",
        )

    def _localized(self, step: CommitStep) -> CommitStep:
        """The step with its merged parent as the target has it."""
        merged = step.commit.merged
        if merged is None:
            return step
        parents = (*step.commit.parents[:1], self._target_commit(merged).ref)
        return replace(step, commit=replace(step.commit, parents=parents))

    def _target_commit(self, ref: CommitRef) -> Commit:
        """A commit that the branch builds on, as the target has it. NotFastForward if it lacks it."""
        try:
            return self.target.revisions.find(ref.id)
        except CommitNotFound:
            raise NotFastForward(
                f"branch '{self.branch}' builds on commit {ref.id} of branch '{ref.branch}', which "
                f"{self.target.store.uri} lacks",
                hint=self._way_out(ref),
            ) from None

    def _way_out(self, missing: CommitRef) -> str:
        newest = self.source.history.chain.newest(missing.branch)
        if newest is not None and newest.alive and newest.incarnation == missing.incarnation:
            return f"bring '{missing.branch}' there first"
        return (
            f"'{missing.branch}' was deleted: make a new copy (omnigraph clone {self.source.store.uri} NEW), or push with to='NAME' "
            "and merge NAME there"
        )

    # ------------------------------------------------------------ files

    def copy(self, commits: Sequence[_CommitCopy], place: StoreAddress, workers: Workers) -> Copied:
        """Copy every object that the commits need and the commit before them does not."""
        source = self.source
        changed = {(key, state) for commit in commits for key, state in commit.step.tables.items() if state is not None}
        wanted, known = Reachable(files_of(source)), Reachable(files_of(source))
        wanted.add_states(state for _, state in changed)
        for state in filter(None, {self.known.table(key) for key, _ in changed}):
            # The source may have cleaned this state up. Then more objects are offered, which the target turns out to have.
            with contextlib.suppress(Damaged, StoragePermanent):
                known.add_states([state])
        objects = dict(sized_objects(source.store, wanted, known))
        objects |= {schema_key(commit.step.schema): 0 for commit in commits if commit.step.schema != self.known.schema}
        if not objects:
            return Copied()
        old_before = self.target.retention.store_now() - MAX_AGE_S
        copied = copy_all(source, self.target.store, objects, place, workers, self.watch, old_before=old_before)
        return copied + copy_zones(source.store, self.target.store, objects)

    # ------------------------------------------------------------ the branch

    def publish(self, head: Head, commits: Sequence[_CommitCopy]) -> None:
        """Move the target's branch forward to the last of the commits. NotFastForward if it has moved elsewhere."""
        ids = [self.base.id, *(commit.commit.id for commit in commits)]
        newest = partial(self.target.publisher.newest_head, self.branch)

        def append(head: Head) -> Head | None:
            """The next entry; None if the target has all commits."""
            if head.entry is None or not head.entry.alive:
                head = self._opened(head)
            assert head.entry is not None, "it was just opened"
            remote_id = head.entry.head.commit.id
            if remote_id not in ids:
                if self.target.log.find(head.entry, ids[-1]) is not None:
                    return None  # Another process has copied these commits, and newer ones.
                raise self._refusal()
            rest = commits[ids.index(remote_id) :]
            if not rest:
                return None
            attempt = Attempt(self.target.publisher, self.branch, head)
            for commit in _for_one_entry(rest):
                attempt.adopt(commit.step, commit.reached)
            if attempt.publish() is None:
                raise LostRace
            cached = self.target.chain.cached_head(self.branch)
            return newest() if cached is None else Head(*cached, confirmed=False)

        next_head: Head | None = head
        while next_head is not None:
            next_head = on_newest_head(self.target, self.branch, newest, append, next_head)

    def _opened(self, head: Head) -> Head:
        """Create the branch in the target as the source has it: the same incarnation, at the same commit."""
        source, target = self.source.history, self.target
        start = incarnation_start(self.ours.incarnation)[1]
        entry = source.chain.read(self.branch, start)
        free = start if head.entry is None else head.entry.position + 1
        if free != start:
            raise NotFastForward(
                f"'{self.branch}' was deleted and created again on both sides",
                hint="push it under another name: omnigraph branch create NAME " + self.branch,
            )
        target.tags.check_no_tag(self.branch)
        local = _start_in(target, self._target_commit(entry.before.commit.ref).id, self.branch, self.source.store.uri)
        if start and head.entry is None:
            target.store.put(watermark_key(self.branch, start), seal({"floor": start}))
        opening = target.branches.opening_at(self.branch, local, entry.id, start)
        target.chain.append(opening, prepared_at=head.seen_at)
        return target.publisher.newest_head(self.branch)

    def copy_tags(self, commits: Sequence[_CommitCopy]) -> tuple[tuple[str, ...], Copied]:
        """Copy the tags of these commits, except those whose names the target uses already."""
        ids = {commit.commit.id for commit in commits}
        if not ids:
            return (), Copied()
        entries = []
        for name, ref in self.source.history.tags.list().items():
            if ref.id in ids:
                try:
                    self.target.tags.create(name, self._target_commit(ref).ref)
                except AlreadyExists:
                    continue
                entries.append(name)
        return tuple(entries), Copied(len(entries))


def _for_one_entry(commits: Sequence[_CommitCopy]) -> Iterator[_CommitCopy]:
    """The first of these commits that fit in one entry: a merge has an entry to itself."""
    for number, commit in enumerate(commits[:MAX_COMMITS_PER_ENTRY]):
        if commit.reached is not None and number:
            return
        yield commit
        if commit.reached is not None:
            return


def files_of(repository: Repository) -> FilesOf:
    return lambda state: repository.tables.files(state.path, state.version, state.digest)


def sized_objects(store: Store, wanted: Reachable, known: Reachable) -> Iterator[tuple[str, int]]:
    """The objects that are wanted and not known, with their sizes; 0 for small ones, whose size is not known."""
    sizes = {key: size for files in wanted.states.values() for key, size in files.data.items()}
    yield from ((key, sizes.get(key) or 0) for key in sorted(wanted.objects - known.objects))
    for folder in sorted(wanted.folders - known.folders):
        yield from ((info.key, info.size) for info in store.list(folder))


def copy_all(
    source: Repository,
    target: Store,
    objects: dict[str, int],
    place: StoreAddress,
    workers: Workers,
    watch: CopyListener,
    *,
    old_before: float,
) -> Copied:
    """Copy objects: concurrently in this process, or on Spark's workers if there are many."""
    listed = sorted(objects.items())
    if isinstance(workers, InProcess) or len(listed) <= OBJECTS_PER_TASK:
        return copy_between(source.store, target, listed, old_before=old_before, watch=watch)
    origin = StoreAddress.of(source.store.uri, source.tables.options)
    tasks = [CopyTask(origin, place, tuple(run), old_before) for run in _runs(listed)]
    copied = sum(workers.map(f"copy {len(listed):,} objects", copy_objects, tasks), Copied())
    watch("copy", len(listed), len(listed), copied.bytes)
    return copied


def copy_zones(source: Store, target: Store, copied: Iterable[str]) -> Copied:
    """Copy the zones of the edge tables that these objects belong to: small files that help to find edges. No commit names them,
    and without them finding an edge only takes longer, so zones that cannot be copied are skipped."""
    tables = {table_of(key) for key in copied if key.startswith("edges/") and kind_of(key) == "data"}
    total = Copied()
    for table in sorted(filter(None, tables)):
        with contextlib.suppress(StorageError):
            for info in source.list(f"{table}/{ZONES_FOLDER}"):
                if info.key.endswith(ZONES_SUFFIX):
                    with contextlib.suppress(ObjectMissing, ObjectExists):
                        data = source.get(info.key)
                        target.create(info.key, data)
                        total += Copied(1, len(data))
    return total


def _runs(objects: Iterable[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    run: list[tuple[str, int]] = []
    for object in objects:
        run.append(object)
        if len(run) >= OBJECTS_PER_TASK or sum(size for _, size in run) >= BYTES_PER_TASK:
            yield run
            run = []
    if run:
        yield run
