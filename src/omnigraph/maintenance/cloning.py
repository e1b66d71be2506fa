"""Clones: a copy of a graph in another place, with its identity and all or some of its branches, in full or with their newest
commits only.

Objects are copied unchanged. `graph.json` is copied last: until then there is no graph in the other place, and a clone that was
interrupted continues from what is there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import AlreadyExists, Damaged, HistoryGap, ObjectExists, ObjectMissing, StorageError, UsageError
from omnigraph.history.chain import MAIN, folder_of, key_of, position_of, watermark_key
from omnigraph.history.envelope import seal
from omnigraph.history.genesis import GRAPH_KEY
from omnigraph.history.history import History
from omnigraph.history.tags import tag_key
from omnigraph.history.values import CommitRef, Entry
from omnigraph.maintenance.reachable import Reachable, history_objects, merge_bases
from omnigraph.maintenance.replication import CopyReport, copy_all, copy_zones, files_of, sized_objects
from omnigraph.metering import Threads
from omnigraph.snapshot import Repository
from omnigraph.storage.copying import COPY_THREADS, Copied, CopyListener, StoreAddress, unwatched
from omnigraph.storage.store import Store
from omnigraph.tasks.runner import IN_PROCESS, Workers

T = TypeVar("T")


@dataclass
class _Chosen:
    """What a clone copies of a graph."""

    entries: dict[tuple[str, int], Entry] = field(default_factory=dict)
    closing: list[Entry] = field(default_factory=list)
    """The last entry of each deleted branch, so that its positions are not used again."""
    floors: dict[str, int] = field(default_factory=dict)
    tags: dict[str, CommitRef] = field(default_factory=dict)


def clone(
    source: Repository,
    place: StoreAddress,
    *,
    branches: Sequence[str] | None = None,
    depth: int | None = None,
    workers: Workers = IN_PROCESS,
    watch: CopyListener = unwatched,
) -> CopyReport:
    """Copy main and the given branches (None: all), each with its newest `depth` commits (None: all), and the tags of these."""
    if depth is not None and depth < 1:
        raise UsageError(f"the depth of a clone must be at least 1, got {depth}", hint="depth=1")
    target = place.open()
    _check_no_graph(target)
    chosen = _choose(source.history, branches, depth, watch)
    with _explaining(source.history, chosen):
        copied = _copy(source, target, chosen, place, workers, watch)
    commits: dict[str, int] = {}
    for entry in chosen.entries.values():
        commits[entry.branch] = commits.get(entry.branch, 0) + len(entry.steps)
    return CopyReport(commits, tuple(chosen.tags), copied.objects, copied.bytes, copied.present)


def _copy(
    source: Repository, target: Store, chosen: _Chosen, place: StoreAddress, workers: Workers, watch: CopyListener
) -> Copied:
    """Copy what was chosen, `graph.json` last."""
    objects = _objects(source, chosen, watch)
    present = {info.key: info.size for info in target.list("")}
    missing = {
        key: size for key, size in objects.items() if present.get(key) is None or present[key] != (size or present[key])
    }
    with source.history.leases.hold(source.history.chain.head(MAIN).head.commit.ref):
        copied = copy_all(source, target, missing, place, workers, watch, old_before=0.0)
    copied += Copied(present=len(objects) - len(missing)) + copy_zones(source.store, target, objects)
    for branch, floor in chosen.floors.items():
        target.put(watermark_key(branch, floor), seal({"floor": floor}))
    keys = [key_of(*at) for at in chosen.entries] + [key_of(entry.branch, entry.position) for entry in chosen.closing]
    copied += _copy_same(source.store, target, [*keys, *map(tag_key, chosen.tags)])
    reach(Failpoint.CLONE_BEFORE_GRAPH_JSON)
    return copied + _copy_same(source.store, target, [GRAPH_KEY])


@contextlib.contextmanager
def _explaining(history: History, chosen: _Chosen) -> Iterator[None]:
    """Within the block, an error because of a missing file becomes HistoryGap if a cleanup has removed commits meanwhile."""
    try:
        yield
    except (Damaged, StorageError) as error:
        removed_from = next(
            (branch for branch, position in chosen.entries if history.chain.find(branch, position) is None), None
        )
        if removed_from is None:
            raise
        raise HistoryGap(
            f"a cleanup removed commits of branch '{removed_from}' while it was copied",
            branch=removed_from,
            watermark=history.chain.floor(removed_from),
            hint="clone again: what was copied is not copied twice",
        ) from error


def _check_no_graph(target: Store) -> None:
    try:
        target.info(GRAPH_KEY)
    except ObjectMissing:
        return
    raise AlreadyExists(f"there is a graph at {target.uri} already", hint="'omnigraph pull' brings it up to date")


def _choose(history: History, branches: Sequence[str] | None, depth: int | None, watch: CopyListener) -> _Chosen:
    names = history.chain.branches()
    wanted = set(names) if branches is None else {MAIN, *branches}
    for name in branches or ():
        history.chain.head(name)  # BranchNotFound if it does not exist
    tags = history.tags.list()
    chosen, heads = _Chosen(), list[Entry]()
    for name in names:
        newest = history.chain.newest(name)
        if newest is None:
            continue
        tagged = [ref for ref in tags.values() if ref.branch == name]
        if not newest.alive:
            chosen.closing.append(newest)
            chosen.floors[name] = newest.position
            if branches is None and depth is None:
                # Deleting a branch leaves its tags, and a tag keeps its commit.
                chosen.entries.update({(name, ref.position): history.chain.read(name, ref.position) for ref in tagged})
        elif name in wanted:
            heads.append(newest)
            _choose_branch(history, newest, depth, tagged, chosen, watch)
    _choose_inherited(history, heads, depth, chosen)
    chosen.tags = {name: ref for name, ref in tags.items() if (ref.branch, ref.position) in chosen.entries}
    _choose_merge_bases(history, heads, chosen)
    return chosen


def _choose_inherited(history: History, heads: Sequence[Entry], depth: int | None, chosen: _Chosen) -> None:
    """The entries of commits that branches have from deleted ones, which may have had their own names: such a commit may even be the
    head of a branch."""
    deleted = {entry.branch for entry in chosen.closing}
    for head in heads:
        for commit in islice(history.log.walk(head), depth if deleted else 1):
            place = (commit.ref.branch, commit.ref.position)
            if commit.ref.branch not in {head.branch, *deleted} or place in chosen.entries:
                continue
            entry = history.chain.find(*place)
            if entry is None:
                break  # a cleanup removed it, and what is older
            chosen.entries[place] = entry


def _choose_merge_bases(history: History, heads: Sequence[Entry], chosen: _Chosen) -> None:
    """The entries of the commits from which what is copied can be merged, unless their branch is not copied."""
    tagged = {ref: chosen.entries[ref.branch, ref.position] for ref in chosen.tags.values()}
    copied = {entry.branch for entry in (*heads, *chosen.closing)}
    for ref in (commit.ref for commit in merge_bases(history, heads, tagged)):
        place = (ref.branch, ref.position)
        if ref.branch in copied and place not in chosen.entries and (entry := history.chain.find(*place)) is not None:
            chosen.entries[place] = entry


def _choose_branch(
    history: History,
    newest: Entry,
    depth: int | None,
    tagged: Sequence[CommitRef],
    chosen: _Chosen,
    watch: CopyListener,
) -> None:
    branch = newest.branch
    positions = sorted({position_of(info.key) for info in history.store.list(folder_of(branch))})
    floor = history.chain.floor(branch)
    kept = [position for position in positions if floor <= position <= newest.position]
    if depth is None:
        # Cleanup keeps the entries of tagged commits, even below the watermark.
        kept += [ref.position for ref in tagged if ref.position < floor]
    taken: list[Entry] = []
    for run in _batches(sorted(set(kept), reverse=True)):
        watch(f"read commits of {branch}", len(taken), len(kept))
        with Threads(COPY_THREADS) as pool:
            taken += pool.map(lambda position: history.chain.read(branch, position), run)
        if depth is not None and sum(len(entry.steps) for entry in taken) >= depth:
            taken = _newest(taken, depth)
            break
    chosen.entries.update({(branch, entry.position): entry for entry in taken})
    oldest = min(entry.position for entry in taken)
    if depth is not None and oldest > 0:
        chosen.floors[branch] = oldest
    elif floor > 0:
        chosen.floors[branch] = floor


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while run := list(islice(rest, COPY_THREADS)):
        yield run


def _newest(entries: Sequence[Entry], depth: int) -> list[Entry]:
    """The first of these entries, which are newest first, that together have at least `depth` commits."""
    taken: list[Entry] = []
    for entry in entries:
        taken.append(entry)
        if sum(len(entry.steps) for entry in taken) >= depth:
            break
    return taken


def _objects(source: Repository, chosen: _Chosen, watch: CopyListener) -> dict[str, int]:
    """All objects that the entries need, except the entries and `graph.json`, with sizes where they are known and 0 otherwise."""
    reachable = Reachable(files_of(source))
    for number, run in enumerate(_batches(chosen.entries.values())):
        watch("read tables", number * COPY_THREADS, len(chosen.entries))
        reachable.add_entries(run)
    for entry in chosen.closing:
        reachable.objects |= history_objects(entry)
    last = {GRAPH_KEY, *(key_of(*at) for at in chosen.entries)}
    last |= {key_of(entry.branch, entry.position) for entry in chosen.closing}
    objects = dict(sized_objects(source.store, reachable, Reachable(files_of(source))))
    return {key: size for key, size in objects.items() if key not in last}


def _copy_same(source: Store, target: Store, keys: Sequence[str]) -> Copied:
    """Copy small objects. AlreadyExists if the target has one of them with different bytes."""
    with Threads(COPY_THREADS) as pool:
        return sum(pool.map(lambda key: _copied_same(source, target, key), keys), Copied())


def _copied_same(source: Store, target: Store, key: str) -> Copied:
    data = source.get(key)
    try:
        target.create(key, data)
    except ObjectExists:
        if target.get(key) != data:
            raise AlreadyExists(
                f"{target.uri} has files of another graph: '{key}'", hint="choose another place, or empty this one"
            ) from None
        return Copied(present=1)
    return Copied(1, len(data))
