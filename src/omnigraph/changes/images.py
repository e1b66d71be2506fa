"""A change of one entity, with its images before and after, as a value and as JSON."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.changes.projection import kind_of
from omnigraph.errors import UsageError
from omnigraph.language.catalog import Catalog, EntityType
from omnigraph.values.json_values import json_value

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
class Image:
    """An entity at one time. `endpoints` is (from, to) for edges."""

    properties: Mapping[str, Any]
    endpoints: tuple[str, str] | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], entity: EntityType) -> Image:
        ends = (row["src"], row["dst"]) if kind_of(entity) == "edge" else None
        return cls({name: row[name] for name in entity.properties}, ends)

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"properties": {name: json_value(each) for name, each in self.properties.items()}}
        if self.endpoints is not None:
            value["endpoints"] = {"from": self.endpoints[0], "to": self.endpoints[1]}
        return value


@dataclass(frozen=True)
class EntityChange:
    """An insert has only `after`, a delete only `before`, an update both."""

    kind: EntityKind
    type_name: str
    type_id: str
    id: str
    op: ChangeOp
    before: Image | None = None
    after: Image | None = None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "kind": self.kind,
            "type": {"id": self.type_id, "name": self.type_name},
            "id": self.id,
            "op": self.op,
        }
        if self.before is not None:
            value["before"] = self.before.to_json()
        if self.after is not None:
            value["after"] = self.after.to_json()
        return value


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
