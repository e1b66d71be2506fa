"""Looking for damage: every object of history, and every file of the tables that branches and tags show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import unquote

from omnigraph.errors import Damaged, HistoryGap, NotFound, ObjectMissing
from omnigraph.history import History, Snapshot, TableState
from omnigraph.history.chain import folder_of, position_of
from omnigraph.history.encoding import decode_records
from omnigraph.history.envelope import read_as, unseal
from omnigraph.history.schemas import schema_key
from omnigraph.views import Repository, verify_files


def verify_graph(repository: Repository) -> Iterator[Damaged]:
    """Everything that is damaged, as far as it can be told. Reads the whole history, and on local disk all current data."""
    yield from verify_objects(repository)
    seen: set[TableState] = set()
    for snapshot in _shown(repository):
        tables = {key: state for key, state in snapshot.tables.items() if state not in seen}
        seen.update(tables.values())
        yield from verify_files(repository.view(Snapshot(snapshot.commit, snapshot.schema, tables)))


def verify_objects(repository: Repository) -> Iterator[Damaged]:
    """Every object of history that is damaged, or missing though another one names it."""
    checks: dict[str, Callable[[str], object]] = {
        "history": partial(_check_history, repository),
        "tags": lambda key: repository.history.tags.find(_name(key)),
        "recovery": lambda key: repository.history.recovery.get(_name(key)),
        "retention": lambda key: unseal(key, repository.store.get(key)),
        "schemas": lambda key: repository.catalog(_name(key)),
    }
    for folder, check in checks.items():
        for info in repository.store.list(folder):
            try:
                check(info.key)
            except Damaged as damage:
                yield damage
            except (NotFound, ObjectMissing):
                pass  # Published or discarded meanwhile.
    named: dict[str, str] = {}
    for branch in repository.history.chain.branches():
        yield from _verify_chain(repository.history, branch, named)
    for key in sorted(named.keys() - {info.key for folder in checks for info in repository.store.list(folder)}):
        yield Damaged(key, "it is missing", affected=f"{named[key]} needs it")


def _verify_chain(history: History, branch: str, named: dict[str, str]) -> Iterator[Damaged]:
    """Every entry that a branch should have. `named` gets the objects that they name, and by which entry."""
    positions = [position_of(info.key) for info in history.store.list(folder_of(branch))]
    kept = range(history.chain.floor(branch), max(positions, default=-1) + 1)
    for position in sorted({*positions, *kept}):
        try:
            entry = history.chain.read(branch, position)
        except HistoryGap:
            continue  # Swept meanwhile.
        except Damaged as damage:
            yield damage
            continue
        schemas = {entry.before.schema, *(step.schema for step in entry.steps)}
        objects = [*(schema_key(digest) for digest in schemas), *(segment.key for segment in entry.segments)]
        if entry.ancestry.stored is not None:
            objects.append(entry.ancestry.stored)
        named.update(dict.fromkeys(objects, f"entry {position} of branch '{branch}'"))


def _check_history(repository: Repository, key: str) -> None:
    data = repository.store.get(key)
    if key.endswith(".ancestry.json"):
        value = unseal(key, data)
        read_as(key, lambda: dict(value["reached"]))
    else:
        decode_records(data, key)


def _shown(repository: Repository) -> Iterator[Snapshot]:
    """The heads of the living branches, and what tags name; what cannot be read is reported as an object."""
    history = repository.history
    for name in history.chain.branches():
        try:
            newest = history.chain.newest(name)
        except Damaged:
            continue
        if newest is not None and newest.alive:
            yield newest.head
    for info in repository.store.list("tags"):
        try:
            found = history.tags.find(_name(info.key))
            if found is not None:
                yield history.revisions.snapshot(found)
        except Damaged:
            continue


def _name(key: str) -> str:
    return unquote(key.rsplit("/", 1)[1].removesuffix(".json"))
