"""What a merge could not decide: one value per entity, of seven kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.changes.projection import kind_of
from omnigraph.errors import CardinalityViolation, EndpointMissing, InputError, UniqueViolation, ValueViolation
from omnigraph.language.catalog import EntityType

ConflictKind = Literal[
    "divergent_insert",
    "divergent_update",
    "delete_vs_update",
    "orphan_edge",
    "unique_violation",
    "cardinality_violation",
    "value_constraint_violation",
]

KIND_OF_ERROR: dict[type[InputError], ConflictKind] = {
    EndpointMissing: "orphan_edge",
    UniqueViolation: "unique_violation",
    CardinalityViolation: "cardinality_violation",
    ValueViolation: "value_constraint_violation",
}


@dataclass(frozen=True)
class MergeConflict:
    entity_kind: str
    type_name: str
    entity_id: str | None
    kind: ConflictKind
    message: str

    @property
    def order(self) -> tuple[int, str, str, str, str]:
        """Nodes before edges, then by type, entity and kind."""
        return (self.entity_kind != "node", self.type_name, self.entity_id or "", self.kind, self.message)

    @classmethod
    def of_violation(cls, entity: EntityType, error: InputError) -> MergeConflict:
        return cls(kind_of(entity), entity.name, error.entity_id, KIND_OF_ERROR[type(error)], error.message)

    def to_json(self) -> dict[str, Any]:
        return {
            "entity_kind": self.entity_kind,
            "type_name": self.type_name,
            "entity_id": self.entity_id,
            "kind": self.kind,
            "message": self.message,
        }


_REASONS = {
    "divergent_insert": "both branches inserted it with different values",
    "divergent_update": "both branches changed it differently",
    "delete_vs_update": "one branch deleted it and the other changed it",
}


def divergence(entity: EntityType, id: str, kind: ConflictKind, fields: str) -> MergeConflict:
    """A conflict of the row rule; `fields` names what was changed differently."""
    where = f" ({fields})" if fields and kind != "delete_vs_update" else ""
    return MergeConflict(kind_of(entity), entity.name, id, kind, f"{entity.name} '{id}': {_REASONS[kind]}{where}")
