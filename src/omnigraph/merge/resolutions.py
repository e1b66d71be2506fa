"""What somebody decided about entities in conflict.

A decision is about three images of an entity: at the base, on the target (ours) and on the source (theirs). Their digest goes with
it, so that nobody merges a choice that was made about other values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from omnigraph.errors import UsageError
from omnigraph.history.plan import MAX_MESSAGE_BYTES
from omnigraph.values.arrow import JsonValue
from omnigraph.values.json_values import json_value

Take: TypeAlias = Literal["ours", "theirs", "base", "delete", "value"]
TAKES: tuple[Take, ...] = get_args(Take)
MAX_NAMED = 100
_MEMBERS = {"entity_kind", "type_name", "entity_id", "take", "seen", "value"}
_ENDS = ("from", "to")
_IMAGE_MEMBERS = {"properties", "endpoints"}


@dataclass(frozen=True)
class Resolution:
    """What becomes of one entity in conflict. `seen` is the digest of the conflict that it was decided about.

    `take`: what the target has ("ours"), the source ("theirs") or both had before ("base"), each of which may be nothing;
    "delete"; or "value": this `value`, with all its properties (what is left out is null, or its default; a Blob is then the
    target's, or the source's) and, of an edge, `from` and `to`.

    >>> decided = conflict.resolve("value", {"name": "Cy", "age": 3})
    >>> assert (decided.take, decided.seen) == ("value", conflict.digest)
    """

    entity_kind: str
    type_name: str
    entity_id: str
    take: Take
    seen: str
    value: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        for name in ("entity_kind", "type_name", "entity_id", "take", "seen"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"'{name}' of a resolution must be text, got {type(getattr(self, name)).__name__}")
        if self.entity_kind not in ("node", "edge"):
            raise UsageError(f"'{self.entity_kind}' is not a kind of entity", hint="node or edge")
        if self.take not in TAKES:
            raise UsageError(f"a resolution takes {', '.join(TAKES)}, not '{self.take}'")
        if (self.take == "value") != isinstance(self.value, Mapping):
            raise UsageError(f"the resolution of {self} has a value exactly when it takes 'value'")

    def __str__(self) -> str:
        return f"{self.type_name} '{self.entity_id}'"

    @property
    def table_key(self) -> str:
        """The type by kind and name, as in `MergeResult.types`."""
        return f"{self.entity_kind}:{self.type_name}"

    @classmethod
    def from_json(cls, members: object) -> Resolution:
        """From {entity_kind, type_name, entity_id, take, seen, value?: {properties, endpoints?: {from, to}}}.

        >>> members = {"entity_kind": "node", "type_name": "Person", "entity_id": "Cy", "take": "ours", "seen": conflict.digest}
        >>> assert og.Resolution.from_json(members) == conflict.resolve("ours")
        """
        if not isinstance(members, Mapping):
            raise UsageError(f"a resolution is an object, not {type(members).__name__}")
        if unknown := sorted(set(map(str, members)) - _MEMBERS):
            raise UsageError(f"a resolution has no '{unknown[0]}'", hint=f"it has: {', '.join(sorted(_MEMBERS))}")
        if missing := sorted(_MEMBERS - {"value"} - set(members)):
            raise UsageError(f"a resolution needs '{missing[0]}'")
        value = members.get("value")
        return cls(**{**members, "value": None if value is None else _entity(value)})

    def to_json(self) -> dict[str, JsonValue]:
        """What `from_json` takes.

        >>> assert og.Resolution.from_json(decided.to_json()) == decided
        """
        members = {name: getattr(self, name) for name in ("entity_kind", "type_name", "entity_id", "take", "seen")}
        if self.value is None:
            return members
        ends = {name: self.value[name] for name in _ENDS if name in self.value and self.entity_kind == "edge"}
        properties = {name: json_value(item) for name, item in self.value.items() if name not in ends}
        return {**members, "value": {"properties": properties, **({"endpoints": ends} if ends else {})}}


def _entity(image: object) -> dict[str, Any]:
    """The entity of an image {properties, endpoints?}."""
    known = isinstance(image, Mapping) and set(image) <= _IMAGE_MEMBERS
    properties = image.get("properties", {}) if isinstance(image, Mapping) else None
    ends = image.get("endpoints", {}) if isinstance(image, Mapping) else None
    if not known or not isinstance(properties, Mapping) or not isinstance(ends, Mapping) or set(ends) - {"from", "to"}:
        raise UsageError("the value of a resolution is {properties, endpoints?: {from, to}}")
    return {**properties, **ends}


def check_resolutions(resolutions: object) -> tuple[Resolution, ...]:
    """Raises UsageError unless these are resolutions, at most one per entity."""
    if not isinstance(resolutions, Sequence) or isinstance(resolutions, str):
        raise UsageError(f"'resolutions' must be a list of Resolution, got {type(resolutions).__name__}")
    seen: set[tuple[str, str]] = set()
    for resolution in resolutions:
        if not isinstance(resolution, Resolution):
            raise UsageError(f"'resolutions' must be a list of Resolution, got {type(resolution).__name__} in it")
        if (resolution.table_key, resolution.entity_id) in seen:
            raise UsageError(f"there are two resolutions of {resolution}")
        seen.add((resolution.table_key, resolution.entity_id))
    return tuple(resolutions)


def described(message: str | None, resolutions: Sequence[Resolution]) -> str | None:
    """The message of the merge commit: the caller's, followed by the resolutions as far as they fit."""
    if not resolutions:
        return message
    start = f"{message}\n\n" if message else ""
    named = [f"{resolution} ({resolution.take})" for resolution in resolutions[:MAX_NAMED]]
    while True:
        more = f" and {len(resolutions) - len(named)} more" if len(named) < len(resolutions) else ""
        text = f"{start}resolved: {', '.join(named)}{more}"
        if len(text.encode()) <= MAX_MESSAGE_BYTES or not named:
            return text if len(text.encode()) <= MAX_MESSAGE_BYTES else message
        named.pop()
