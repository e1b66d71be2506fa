"""One Blob of one entity: its size, a tag of its content, and its bytes, whole or in part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import NotFound, UsageError
from omnigraph.history import Commit
from omnigraph.read.entities import entity_key
from omnigraph.values.types import Scalar
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa

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
