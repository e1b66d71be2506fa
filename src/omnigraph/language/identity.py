"""The id of an entity with a key: a pure function of the key, so that the same key gives the same entity everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime

from omnigraph.errors import RecordError, UsageError, ValueViolation
from omnigraph.language.catalog import EntityType, NodeType
from omnigraph.values.canonical import canonical_text, key_text
from omnigraph.values.entities import OUTSIDE_NAMES
from omnigraph.values.types import Scalar


def derived_id(entity: EntityType, values: Mapping[str, object]) -> str:
    """The id of a keyed entity: the key's canonical text, or a compact JSON array of texts when it has several members. The ends of
    an edge are in `values` as ids, under `src` and `dst`.

    Members are in the order in which the schema declares the key. Raises ValueViolation if one is missing, or if the only one is
    empty: an id is never empty.
    """
    if not entity.key:
        raise UsageError(f"{entity.name} has no @key, so its ids are not derived")
    texts = [_member_text(entity, name, values.get(name)) for name in entity.key]
    if texts == [""]:
        name = entity.key[0]
        raise ValueViolation(
            f"key property {entity.name}.{name} is empty", type_name=entity.name, property=name, value=""
        )
    return texts[0] if len(texts) == 1 else id_of_members(texts)


def _member_text(entity: EntityType, name: str, value: object) -> str:
    shown = OUTSIDE_NAMES.get(name, name)
    if value is None:
        raise ValueViolation(f"key property {entity.name}.{shown} is missing", type_name=entity.name, property=shown)
    try:
        return canonical_text(value, entity.key_type(name))
    except TypeError as error:
        message = f"key property {entity.name}.{shown}: {error}"
        raise RecordError(message, type_name=entity.name, property=shown, value=value) from None


def id_of_members(texts: Sequence[str]) -> str:
    """The id of an entity whose key has several members, from their canonical texts."""
    return json.dumps(texts, separators=(",", ":"), ensure_ascii=False)


def has_dates_in_key(node_type: NodeType) -> bool:
    """Whether ids of this type may be written in a form other than the canonical one."""
    return any(node_type.properties[name].type.scalar in (Scalar.DATE, Scalar.DATETIME) for name in node_type.key)


def referenced_id(node_type: NodeType, reference: object) -> object:
    """The id that an end of an edge refers to: dates and instants in a key may be written as ISO text or, in a key of one member,
    given as values."""
    if not has_dates_in_key(node_type):
        return reference
    types = [node_type.properties[name].type for name in node_type.key]
    if len(types) == 1:
        if isinstance(reference, str):
            return key_text(reference, types[0])
        if isinstance(reference, date | datetime):
            try:
                return canonical_text(reference, types[0])
            except TypeError:
                return reference
        return reference
    if not isinstance(reference, str):
        return reference
    try:
        members = json.loads(reference)
    except (ValueError, RecursionError):
        return reference
    if not isinstance(members, list) or len(members) != len(types) or not all(isinstance(m, str) for m in members):
        return reference
    texts = [key_text(member, type) for member, type in zip(members, types, strict=True)]
    return reference if texts == members else id_of_members(texts)
