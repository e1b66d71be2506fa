"""A change of one entity, with the entity before and after, and the choice of changes to report."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.errors import UsageError
from omnigraph.language.catalog import Catalog, EntityType
from omnigraph.language.projection import EntityKind, kind_of
from omnigraph.values.arrow import Entity

ChangeOp = Literal["insert", "update", "delete"]

KINDS: tuple[EntityKind, ...] = ("node", "edge")
OPS: tuple[ChangeOp, ...] = ("insert", "update", "delete")
"""In the order in which changes are reported."""

_TYPE_ID_DOMAIN = b"omnigraph.type"
_SEPARATOR = b"\x1f"


def type_id_of(entity: EntityType) -> str:
    """An opaque name for one lifetime of a type: kept by a rename, new when the type is dropped and made again."""
    text = _SEPARATOR.join([_TYPE_ID_DOMAIN, entity.id.to_bytes(8, "little"), entity.table_id.encode()])
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class EntityChange:
    """What happened to one entity: an insert has only `after`, a delete only `before`, an update both.

    >>> (change,) = g.diff("main~1", "main")
    >>> assert (change.op, change.kind, change.type_name, change.id) == ("update", "node", "Person", "Cy")
    >>> assert (change.before["age"], change.after["age"]) == (51, 2)
    """

    kind: EntityKind
    type_name: str
    type_id: str
    id: str
    op: ChangeOp
    before: Entity | None = None
    after: Entity | None = None

    def __repr__(self) -> str:
        return f"<{self.op} of {self.kind} {self.type_name} {self.id!r}>"


@dataclass(frozen=True)
class TypeChanges:
    """How many entities of a type changed.

    >>> (counts,) = g.diff_stat("main~1", "main")
    >>> assert (counts.type_name, counts.inserts, counts.updates, counts.deletes) == ("Person", 0, 1, 0)
    """

    kind: EntityKind
    type_name: str
    inserts: int
    updates: int
    deletes: int

    def __repr__(self) -> str:
        return f"<{self.kind} {self.type_name}: +{self.inserts} ~{self.updates} -{self.deletes}>"


@dataclass(frozen=True)
class ChangeFilter:
    """Which changes to report. None: all. Types by their stable ids: a type that is renamed is still wanted."""

    kinds: frozenset[str] | None = None
    types: frozenset[int] | None = None
    ops: frozenset[str] | None = None
    ids: frozenset[str] | None = None
    """Of entities; a feed has none of these."""

    @classmethod
    def of(
        cls,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        *,
        catalog: Catalog,
    ) -> ChangeFilter:
        """Checked: a kind, type or operation that does not exist is refused. Types are named as the catalog names them."""
        wanted, names, done = (None if words is None else frozenset(words) for words in (kinds, types, ops))
        _known("kind", wanted, KINDS)
        _known("op", done, OPS)
        _known("type", names, [*sorted(catalog.nodes), *sorted(catalog.edges)])
        tables = catalog.tables.values()
        type_ids = None if names is None else frozenset(table.id for table in tables if table.name in names)
        return cls(wanted, type_ids, done, None if ids is None else frozenset(ids))

    def wants_type(self, entity: EntityType) -> bool:
        wanted = self.types is None or entity.id in self.types
        return wanted and (self.kinds is None or kind_of(entity) in self.kinds)

    def digest(self) -> str:
        chosen: tuple[frozenset[Any] | None, ...] = (self.kinds, self.types, self.ops)
        words = [None if choice is None else sorted(choice) for choice in chosen]
        return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


EVERYTHING = ChangeFilter()


def _known(what: str, words: frozenset[str] | None, allowed: Iterable[str]) -> None:
    unknown = sorted((words or frozenset()) - set(allowed))
    if unknown:
        raise UsageError(f"'{unknown[0]}' is not a {what} of changes", hint=f"one of: {', '.join(allowed)}")
