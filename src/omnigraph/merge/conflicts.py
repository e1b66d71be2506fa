"""Conflicts of a merge: one value per entity, of seven kinds, with the state on each side."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

from omnigraph.errors import (
    CardinalityViolation,
    EndpointMissing,
    InputError,
    UniqueViolation,
    UsageError,
    ValueViolation,
)
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.language.projection import kind_of
from omnigraph.merge.resolutions import Resolution, Take
from omnigraph.values.arrow import Entity, JsonValue, Value, entity_value, with_zone
from omnigraph.values.json_values import json_value

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

DIVERGENCES: dict[ConflictKind, str] = {
    "divergent_insert": "both branches inserted it with different values",
    "divergent_update": "both branches changed it differently",
    "delete_vs_update": "one branch deleted it and the other changed it",
}
"""The kinds that are not broken rules of the schema."""


_END_NAMES = {"src": "from", "dst": "to"}


class NoValue:
    """What a property of an entity that is not there has: not even null.

    >>> assert isinstance(og.NO_VALUE, og.types.NoValue)
    """

    def __repr__(self) -> str:
        return "NO_VALUE"

    def __reduce__(self) -> str:
        return "NO_VALUE"


NO_VALUE: Final = NoValue()


@dataclass(frozen=True)
class Sides:
    """The rows of one entity on each side; None if it does not exist there. Columns without an agreed value are missing from the base."""

    base: Mapping[str, Any] | None
    ours: Mapping[str, Any] | None
    theirs: Mapping[str, Any] | None

    @property
    def images(self) -> dict[str, Entity | None]:
        """The entity on each side."""
        return {side: None if row is None else entity_value(row) for side, row in vars(self).items()}


NOWHERE: Final = Sides(None, None, None)


def digest_of(sides: Sides) -> str:
    """A digest of the entity's states on all three sides."""
    return _digest(sides.images)


def _digest(images: Mapping[str, Entity | None]) -> str:
    text = json.dumps([json_value(images[side]) for side in ("base", "ours", "theirs")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class PropertyConflict:
    """One property of an entity in conflict: at the merge base, on the target (ours) and on the source (theirs).

    NO_VALUE where the entity is not there, and at a base on which crossed merges did not agree.

    >>> (age,) = conflict.properties
    >>> assert (age.name, age.base, age.ours, age.theirs) == ("age", 51, 2, 1)
    """

    name: str
    base: Value | NoValue = NO_VALUE
    ours: Value | NoValue = NO_VALUE
    theirs: Value | NoValue = NO_VALUE

    def to_json(self) -> dict[str, JsonValue]:
        """{name, base?, ours?, theirs?}: what has no value is left out."""
        sides = {"base": self.base, "ours": self.ours, "theirs": self.theirs}
        shown = {side: json_value(value) for side, value in sides.items() if value is not NO_VALUE}
        return {"name": self.name, **shown}


@dataclass(frozen=True)
class MergeConflict:
    """One entity that a merge could not decide: what each side has of the properties concerned, and the entity as a whole at the
    base, on the target (`ours`) and on the source (`theirs`), None where it is not there.

    >>> g.mutate(Path("people.gq"), {"name": "Cy", "age": 2}, name="grow")
    >>> (conflict,) = g.branches.merge("spring", dry_run=True).conflicts
    >>> assert (conflict.kind, conflict.entity_id) == ("divergent_update", "Cy")
    """

    entity_kind: str
    type_name: str
    entity_id: str | None
    kind: ConflictKind
    message: str
    properties: tuple[PropertyConflict, ...] = field(default=(), hash=False)
    base: Entity | None = field(default=None, hash=False)
    ours: Entity | None = field(default=None, hash=False)
    theirs: Entity | None = field(default=None, hash=False)

    @cached_property
    def digest(self) -> str:
        """Of the three images: a resolution names the one that it was decided about."""
        return _digest({"base": self.base, "ours": self.ours, "theirs": self.theirs})

    def resolve(self, take: Take, value: Mapping[str, Any] | None = None) -> Resolution:
        """The decision about this entity, as it is now, for `g.branches.merge(..., resolutions=[...])`.

        >>> assert conflict.resolve("theirs").seen == conflict.digest
        """
        return Resolution(self.entity_kind, self.type_name, self.entity_id or "", take, self.digest, value)

    def resolve_properties(self, takes: Mapping[str, Take], values: Mapping[str, Any] | None = None) -> Resolution:
        """The decision about this entity property by property: each that is named as the target ("ours"), the source ("theirs") or
        the base has it, or with a value of yours; all others as the target has them, or the source where the target has no
        such entity.

        >>> assert conflict.resolve_properties({"age": "theirs"}).value["age"] == conflict.theirs["age"]
        """
        start = self.ours or self.theirs or self.base
        if start is None:
            raise UsageError(f"{self.type_name} '{self.entity_id}' is on no side", hint="resolve it with a value")
        value = {name: item for name, item in start.items() if name != "id"}
        for name, take in takes.items():
            side = {"ours": self.ours, "theirs": self.theirs, "base": self.base}.get(take)
            if side is None or name not in side:
                raise UsageError(
                    f"{self.type_name} '{self.entity_id}' has no {name} to take from {take}",
                    hint="ours, theirs or base, where the entity is; or a value",
                )
            value[name] = side[name]
        return self.resolve("value", {**value, **(values or {})})

    def discarded_by(self, strategy: Literal["ours", "theirs"]) -> tuple[str, ...]:
        """The properties that only the other branch changed: letting one branch win the whole entity loses these changes.
        `by="property"` keeps them.

        >>> assert conflict.discarded_by("theirs") == ()
        """
        if self.kind != "divergent_update":
            return ()
        loser = "theirs" if strategy == "ours" else "ours"
        return tuple(name for name, side in changed_by_one(self.properties).items() if side == loser)

    @property
    def is_divergence(self) -> bool:
        """Whether the branches changed one entity differently, which a strategy settles."""
        return self.kind in DIVERGENCES

    @property
    def order(self) -> tuple[int, str, str, str, str]:
        """Nodes before edges, then by type, entity and kind."""
        return (self.entity_kind != "node", self.type_name, self.entity_id or "", self.kind, self.message)

    @classmethod
    def of_violation(cls, entity: EntityType, error: InputError) -> MergeConflict:
        """A rule that the merged graph breaks. The properties concerned have no values yet: see `with_values`."""
        kind = KIND_OF_ERROR[type(error)]
        # Too many or too few edges do not concern the properties of one edge.
        columns = () if kind == "cardinality_violation" else (error.property or "").replace(",", " ").split()
        concerned = tuple(PropertyConflict(_END_NAMES.get(name, name)) for name in columns)
        return cls(kind_of(entity), entity.name, error.entity_id, kind, error.message, concerned)

    def __repr__(self) -> str:
        return f"<{self.kind} of {self.entity_kind} {self.type_name} {self.entity_id!r}>"

    def to_json(self) -> dict[str, JsonValue]:
        """{entity_kind, type_name, entity_id?, kind, message, properties: [{name, base?, ours?, theirs?}], digest,
        discarded_by?: {ours?: [name], theirs?: [name]}}.

        >>> assert conflict.to_json()["properties"] == [{"name": "age", "base": 51, "ours": 2, "theirs": 1}]
        """
        sides: tuple[Literal["ours", "theirs"], ...] = ("ours", "theirs")
        discarded: dict[str, JsonValue] = {side: list(names) for side in sides if (names := self.discarded_by(side))}
        return {
            "entity_kind": self.entity_kind,
            "type_name": self.type_name,
            "entity_id": self.entity_id,
            "kind": self.kind,
            "message": self.message,
            "properties": [property.to_json() for property in self.properties],
            "digest": self.digest,
            **({"discarded_by": discarded} if discarded else {}),
        }


def changed_by_one(properties: Sequence[PropertyConflict]) -> dict[str, str]:
    """The properties that only one branch changed, and which. The two ends of an edge count as one property."""
    ends = [property for property in properties if property.name in _END_NAMES.values()]
    others = [[property] for property in properties if property.name not in _END_NAMES.values()]
    changed: dict[str, str] = {}
    for value in (ends, *others):
        for side, other in (("ours", "theirs"), ("theirs", "ours")):
            if all(getattr(property, other) == property.base for property in value):
                changed |= dict.fromkeys((property.name for property in value), side)
    return changed


def divergence(
    entity: EntityType, id: str, kind: ConflictKind, rows: Sides, *, only_clashes: bool = False
) -> MergeConflict:
    """A conflict of the three-way rule, with the properties in which the branches differ; with `only_clashes`, those that both
    changed."""
    differing = tuple(property for property in properties_of(entity, rows) if _is_contested(property, rows))
    if only_clashes and kind == "divergent_update":
        settled = changed_by_one(differing)
        differing = tuple(property for property in differing if property.name not in settled)
    names = "" if kind == "delete_vs_update" else f" ({', '.join(property.name for property in differing)})"
    message = f"{entity.name} '{id}': {DIVERGENCES[kind]}{names}"
    images = rows.images
    return MergeConflict(
        kind_of(entity), entity.name, id, kind, message, differing, images["base"], images["ours"], images["theirs"]
    )


def with_values(conflict: MergeConflict, entity: EntityType, rows: Sides) -> MergeConflict:
    """A broken rule with each side's state: the properties concerned, and the entity as a whole."""
    names = {property.name for property in conflict.properties}
    concerned = tuple(property for property in properties_of(entity, rows) if property.name in names)
    images = rows.images
    return replace(conflict, properties=concerned, base=images["base"], ours=images["ours"], theirs=images["theirs"])


def properties_of(entity: EntityType, rows: Sides) -> Iterator[PropertyConflict]:
    """Every property of an entity on the three sides; the ends of an edge are `from` and `to`."""
    columns = [*(_END_NAMES if isinstance(entity, EdgeType) else ()), *entity.properties]
    for column in columns:
        base, ours, theirs = (
            with_zone((row or {}).get(column, NO_VALUE)) for row in (rows.base, rows.ours, rows.theirs)
        )
        yield PropertyConflict(_END_NAMES.get(column, column), base, ours, theirs)


def _is_contested(property: PropertyConflict, rows: Sides) -> bool:
    """Whether the branches differ in the property; if one side lacks the entity, whether the other changed it."""
    if rows.ours is not None and rows.theirs is not None:
        return bool(property.ours != property.theirs)
    return bool(property.base != (property.theirs if rows.ours is None else property.ours))
