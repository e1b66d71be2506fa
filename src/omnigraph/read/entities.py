"""Whole entities by id: in a result, and one at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import NotFound, UsageError
from omnigraph.history.values import Commit
from omnigraph.snapshot import View
from omnigraph.values.arrow import Entity, arrow_type, entity_value
from omnigraph.values.types import PropertyType, Scalar


def object_fields(view: View, types: Sequence[str]) -> dict[str, PropertyType]:
    """The properties that an object of these types shows, without Blobs (they are read on their own).

    For several types: the properties of all of them, except those that two types declare differently.
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
    entities = pa.concat_tables(pieces)
    present = _tagged(entities.column("id").combine_chunks(), None if type_names is None else pa.array(tags))
    place = pc.index_in(_tagged(ids, type_names), value_set=present)
    ordered = entities.take(place).combine_chunks()
    arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in ordered.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(struct), mask=pc.is_null(ids))


def _tagged(ids: pa.Array, type_names: pa.Array | None) -> pa.Array:
    return ids if type_names is None else pc.binary_join_element_wise(type_names, ids, "/")


def entity(view: View, type_name: str, entity_id: str) -> Entity | None:
    """A node or edge with all its properties (`from` and `to` for an edge); None if it does not exist."""
    key = entity_key(view, type_name)
    table = view.table(key)
    if table is None:
        return None
    rows = table.lookup("id", [entity_id]).to_pylist()
    if not rows:
        return None
    return entity_value(rows[0])


def entity_key(view: View, type_name: str) -> str:
    """The table key of a type name; a node type wins over an edge type of the same name, unless `edge:Name` is given."""
    for key in (type_name, *_keys(type_name)):
        if key in view.catalog.tables:
            return key
    raise UsageError(f"the schema has no type '{type_name}'", hint=f"it has: {', '.join(sorted(view.catalog.tables))}")


def _keys(type_name: str) -> tuple[str, str]:
    return f"node:{type_name}", f"edge:{type_name}"


# One Blob of one entity: its size, a tag of its content, and its bytes, whole or in part.

PIECE_BYTES = 4 * 2**20
ETAG_BYTES = 16


@dataclass(frozen=True)
class Blob:
    """A Blob at one commit. Equal `etag`s mean equal bytes; another write of its type may change the tag alone.

    >>> photos = og.init("./photos", "node Photo { name: String @key  image: Blob? }")
    >>> with photos.transaction() as tx:
    ...     tx.insert("Photo", name="sea", image=b"blue and grey")
    >>> sea = photos.blob("Photo", "sea", "image")
    >>> assert (sea.size, sea.read(), sea.read(5, 3)) == (13, b"blue and grey", b"and")
    """

    size: int
    etag: str
    commit: Commit
    _content: pa.Buffer = field(repr=False, compare=False)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes from `offset` on, at most `length` of them; none beyond the end.

        >>> assert sea.read(9, 1_000) == b"grey"
        """
        return b"".join(self.pieces(offset, length))

    def pieces(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Like `read`, in pieces of at most 4 MiB.

        >>> assert b"".join(sea.pieces()) == b"blue and grey"
        """
        if offset < 0 or (length is not None and length < 0):
            raise UsageError("offset and length must be at least 0")
        end = self.size if length is None else min(self.size, offset + length)
        return (
            self._content.slice(start, min(PIECE_BYTES, end - start)).to_pybytes()
            for start in range(offset, end, PIECE_BYTES)
        )


def blob(view: View, type_name: str, entity_id: str, property_name: str) -> Blob:
    """Raises UsageError if the property does not exist or is not a Blob; NotFound if the entity does not exist, or the property
    is null."""
    key = entity_key(view, type_name)
    entity = view.entity(key)
    declared = entity.properties.get(property_name)
    if declared is None or declared.type.scalar is not Scalar.BLOB or declared.type.is_list:
        blobs = [name for name, property in entity.properties.items() if property.type.scalar is Scalar.BLOB]
        raise UsageError(
            f"'{property_name}' is not a Blob of {entity.name}",
            hint=f"it has: {', '.join(blobs)}" if blobs else f"{entity.name} has no Blobs",
        )
    table = view.table(key)
    rows = None if table is None else table.lookup("id", [entity_id], [property_name])
    if table is None or rows is None or not rows.num_rows:
        raise NotFound(f"there is no {entity.name} '{entity_id}'")
    content = rows.column(0)[0].as_buffer()
    if content is None:
        raise NotFound(f"{entity.name} '{entity_id}' has no {property_name}")
    named = "\0".join(
        [table.path, str(table.version), *([table.digest] if table.inline else []), entity_id, property_name]
    )
    etag = hashlib.sha256(named.encode()).digest()[:ETAG_BYTES].hex()
    return Blob(content.size, etag, view.snapshot.commit, content)
