"""Whole entities by id: in a result, one at a time, and along history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError
from omnigraph.history import Commit, Entry, TableState
from omnigraph.language.projection import by_id
from omnigraph.values.arrow import arrow_type
from omnigraph.values.entities import Entity, entity_value
from omnigraph.values.types import PropertyType, Scalar
from omnigraph.views import Repository, View

if TYPE_CHECKING:
    import pyarrow as pa


def object_fields(view: View, types: Sequence[str]) -> dict[str, PropertyType]:
    """The properties an object of these types shows, Blobs left out (they are read on their own).

    Over several types: the properties of all of them, except one that two types declare differently.
    """
    fields: dict[str, PropertyType] = {}
    clashing: set[str] = set()
    for type_name in types:
        for name, property_ in view.catalog.nodes[type_name].properties.items():
            if property_.type.scalar is Scalar.BLOB:
                continue
            if name in fields and arrow_type(fields[name]) != arrow_type(property_.type):
                clashing.add(name)
            fields[name] = property_.type
    return {name: type_ for name, type_ in fields.items() if name not in clashing}


def objects(view: View, types: Sequence[str], ids: pa.Array, type_names: pa.Array | None) -> pa.Array:
    """One struct (id and properties) per id, in the same order; null for null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fields = object_fields(view, types)
    struct = pa.struct([pa.field("id", pa.utf8()), *(pa.field(n, arrow_type(t)) for n, t in fields.items())])
    if len(ids) == 0:
        return pa.array([], struct)
    pieces: list[pa.Table] = []
    tags: list[str] = []
    for type_name in types:
        wanted = ids if type_names is None else ids.filter(pc.equal(type_names, type_name))
        table = view.table(f"node:{type_name}")
        if table is None or len(wanted) == 0:
            continue
        own = [name for name in fields if name in view.catalog.nodes[type_name].properties]
        rows = table.lookup("id", pc.unique(wanted).to_pylist(), ["id", *own])
        missing = {name: pa.nulls(rows.num_rows, arrow_type(fields[name])) for name in fields if name not in own}
        columns = {"id": rows.column("id"), **{n: missing[n] if n in missing else rows.column(n) for n in fields}}
        pieces.append(pa.table(columns))
        tags += [type_name] * rows.num_rows
    if not pieces:
        return pa.nulls(len(ids), struct)
    found = pa.concat_tables(pieces)
    present = _tagged(found.column("id").combine_chunks(), None if type_names is None else pa.array(tags))
    place = pc.index_in(_tagged(ids, type_names), value_set=present)
    ordered = found.take(place).combine_chunks()
    arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in ordered.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(struct), mask=pc.is_null(ids))


def _tagged(ids: pa.Array, type_names: pa.Array | None) -> pa.Array:
    import pyarrow.compute as pc

    return ids if type_names is None else pc.binary_join_element_wise(type_names, ids, "/")


def entity(view: View, type_name: str, entity_id: str) -> Entity | None:
    """A node or edge with all its properties (`from` and `to` for an edge); None when it is not there."""
    key = entity_key(view, type_name)
    table = view.table(key)
    if table is None:
        return None
    rows = table.lookup("id", [entity_id]).to_pylist()
    if not rows:
        return None
    return entity_value(rows[0])


def entity_key(view: View, type_name: str) -> str:
    """The table key of a type name; a node type wins over an edge type of the same name, unless `edge:Name` says which."""
    for key in (type_name, *_keys(type_name)):
        if key in view.catalog.tables:
            return key
    raise UsageError(f"the schema has no type '{type_name}'", hint=f"it has: {', '.join(sorted(view.catalog.tables))}")


@dataclass(frozen=True)
class EntityVersion:
    """What a commit made of an entity; `value` is None when the commit removed it.

    >>> newest = g.history("Person", "Cy")[0]
    >>> assert (newest.commit, newest.value["age"]) == (g.commit(), 2)
    """

    commit: Commit
    value: Entity | None

    def __repr__(self) -> str:
        return f"<EntityVersion at {self.commit.id}: {'removed' if self.value is None else 'written'}>"


def history_of(repository: Repository, type_name: str, entity_id: str, entry: Entry) -> Iterator[EntityVersion]:
    """The versions of an entity along first parents up to the last commit of an entry, newest first. UsageError for a type
    that is not in the schema there. Each version has the names of its time; renames of the type are no versions.

    Costs what changed: only commits at which the type's table moved are read, and found by halving.
    """
    view = repository.view(entry.head)
    type_id = view.entity(entity_key(view, type_name)).id
    commits = list(repository.history.log.walk(entry))
    states = _States(repository, commits, type_id)
    value = states.entity(0, entity_id)
    for place in states.changes():
        before = states.entity(place + 1, entity_id)
        if before != value:
            yield EntityVersion(commits[place], states.entity(place, entity_id))
        value = before
    if value is not None:
        yield EntityVersion(commits[-1], states.entity(len(commits) - 1, entity_id))


class _States:
    """A type's table along a log, newest commit first. A state never comes back once it was replaced."""

    def __init__(self, repository: Repository, commits: Sequence[Commit], type_id: int) -> None:
        self._repository, self._commits, self._type_id = repository, commits, type_id
        self._seen: dict[int, tuple[View, TableState | None]] = {}

    def _at(self, place: int) -> tuple[View, TableState | None]:
        if place not in self._seen:
            view = self._repository.resolve(self._commits[place].id)
            known = by_id(view.catalog).get(self._type_id)
            self._seen[place] = (view, None if known is None else view.state(known.table_key))
        return self._seen[place]

    def changes(self) -> Iterator[int]:
        """The places whose state differs from that of the next older commit, newest first."""
        stack = [(0, len(self._commits) - 1)]
        while stack:
            newest, oldest = stack.pop()
            if newest >= oldest or self._at(newest)[1] == self._at(oldest)[1]:
                continue
            if newest + 1 == oldest:
                yield newest
                continue
            middle = (newest + oldest) // 2
            stack += [(middle, oldest), (newest, middle)]

    def entity(self, place: int, entity_id: str) -> Entity | None:
        view, state = self._at(place)
        return None if state is None else entity(view, by_id(view.catalog)[self._type_id].name, entity_id)


def _keys(type_name: str) -> tuple[str, str]:
    return f"node:{type_name}", f"edge:{type_name}"
