"""A change of one entity, with the entity before and after, and the choice of changes to report."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from omnigraph.changes.projection import kind_of
from omnigraph.errors import UsageError
from omnigraph.language.catalog import Catalog, EntityType
from omnigraph.values.entities import Entity

EntityKind = Literal["node", "edge"]
ChangeOp = Literal["insert", "update", "delete"]

KINDS: tuple[EntityKind, ...] = ("node", "edge")
OPS: tuple[ChangeOp, ...] = ("insert", "update", "delete")
"""In the order in which changes are reported."""

_TYPE_ID_DOMAIN = b"omnigraph.type"
_SEPARATOR = b"\x1f"


def type_id_of(entity: EntityType) -> str:
    """An opaque name for one lifetime of a type: kept by a rename, new when the type is dropped and made anew."""
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
class ChangeFilter:
    """Which changes to report. None: all."""

    kinds: frozenset[str] | None = None
    types: frozenset[str] | None = None
    ops: frozenset[str] | None = None

    @classmethod
    def of(
        cls,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        *,
        catalog: Catalog,
    ) -> ChangeFilter:
        """Checked: a kind, type or operation that does not exist is refused."""
        chosen = cls(*(None if words is None else frozenset(words) for words in (kinds, types, ops)))
        _known("kind", chosen.kinds, KINDS)
        _known("op", chosen.ops, OPS)
        _known("type", chosen.types, [*sorted(catalog.nodes), *sorted(catalog.edges)])
        return chosen

    def wants_type(self, entity: EntityType) -> bool:
        wanted = self.types is None or entity.name in self.types
        return wanted and (self.kinds is None or kind_of(entity) in self.kinds)

    def digest(self) -> str:
        words = [None if each is None else sorted(each) for each in (self.kinds, self.types, self.ops)]
        return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


EVERYTHING = ChangeFilter()


def _known(what: str, words: frozenset[str] | None, allowed: Iterable[str]) -> None:
    unknown = sorted((words or frozenset()) - set(allowed))
    if unknown:
        raise UsageError(f"'{unknown[0]}' is not a {what} of changes", hint=f"one of: {', '.join(allowed)}")
