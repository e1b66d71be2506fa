"""Whole entities by id: in a result, one at a time, and along history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import UsageError
from omnigraph.history import MAIN, Commit
from omnigraph.language.arrow import arrow_type
from omnigraph.language.catalog import PropertyType, Scalar
from omnigraph.views import Stores, View

if TYPE_CHECKING:
    import pyarrow as pa


def object_fields(view: View, types: Sequence[str]) -> dict[str, PropertyType]:
    """The properties an object of these types shows, Blobs left out (they are read on their own).

    Over several types: the properties of all of them, except one that two types declare differently.
    """
    fields: dict[str, PropertyType] = {}
    clashing: set[str] = set()
    for type_name in types:
        for name, one in view.catalog.nodes[type_name].properties.items():
            if one.type.scalar is Scalar.BLOB:
                continue
            if name in fields and arrow_type(fields[name]) != arrow_type(one.type):
                clashing.add(name)
            fields[name] = one.type
    return {name: type_ for name, type_ in fields.items() if name not in clashing}


def objects(view: View, types: Sequence[str], ids: pa.Array, type_names: pa.Array | None) -> pa.Array:
    """One struct (id and properties) per id, in the same order."""
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
    found = pa.concat_tables(pieces)
    present = _tagged(found.column("id").combine_chunks(), None if type_names is None else pa.array(tags))
    place = pc.index_in(_tagged(ids, type_names), value_set=present)
    ordered = found.take(place).combine_chunks()
    arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in ordered.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(struct))


def _tagged(ids: pa.Array, type_names: pa.Array | None) -> pa.Array:
    import pyarrow.compute as pc

    return ids if type_names is None else pc.binary_join_element_wise(type_names, ids, "/")


def entity(view: View, type_name: str, entity_id: str) -> dict[str, Any] | None:
    """A node or edge with all its properties (`from` and `to` for an edge); None when it is not there."""
    key = entity_key(view, type_name)
    table = view.table(key)
    if table is None:
        return None
    rows = table.lookup("id", [entity_id]).to_pylist()
    if not rows:
        return None
    row: dict[str, Any] = rows[0]
    if key.startswith("edge:"):
        row = {"id": row.pop("id"), "from": row.pop("src"), "to": row.pop("dst"), **row}
    return row


def entity_key(view: View, type_name: str) -> str:
    """The table key of a type name; a node type wins over an edge type of the same name."""
    for key in (f"node:{type_name}", f"edge:{type_name}"):
        if key in view.catalog.tables:
            return key
    raise UsageError(f"the schema has no type {type_name}")


@dataclass(frozen=True)
class EntityVersion:
    """What a commit made of an entity; `value` is None when the commit removed it."""

    commit: Commit
    value: dict[str, Any] | None


def history_of(stores: Stores, type_name: str, entity_id: str, branch: str = MAIN) -> Iterator[EntityVersion]:
    """The versions of an entity along first parents, newest first. Commits that left its table alone are not opened."""
    entry = stores.history.chain.head(branch)
    newer: tuple[Commit, Any, dict[str, Any] | None] | None = None
    for commit in stores.history.log.walk(entry):
        view = stores.resolve(commit.id)
        key = next((k for k in (f"node:{type_name}", f"edge:{type_name}") if k in view.catalog.tables), None)
        state = None if key is None else view.state(key)
        if newer is not None and state == newer[1]:
            newer = (commit, state, newer[2])
            continue
        value = None if key is None else entity(view, type_name, entity_id)
        if newer is not None and newer[2] != value:
            yield EntityVersion(newer[0], newer[2])
        newer = (commit, state, value)
    if newer is not None and newer[2] is not None:
        yield EntityVersion(newer[0], newer[2])
