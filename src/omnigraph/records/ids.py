"""Columns of ids: derived from keys, given, or fresh; and the ends of edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.language.catalog import EntityType, NodeType
from omnigraph.language.identity import has_dates_in_key, id_of_members, referenced_id
from omnigraph.records.fresh_ids import FreshIds
from omnigraph.values.canonical import canonical_text, milliseconds_text
from omnigraph.values.columns import Doubtful
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    import pyarrow as pa


def id_column(
    entity: EntityType, explicit: pa.StringArray, columns: dict[str, Any], lines: pa.Int64Array, fresh: FreshIds
) -> tuple[pa.StringArray, int]:
    """The id column and how many ids the source gave: derived where there is a key, else given or fresh. Raises Doubtful."""
    import pyarrow.compute as pc

    count = len(explicit) - explicit.null_count
    if count:
        refuse_empty(explicit)
    if entity.key:
        derived = derived_ids(entity, columns)
        if count and not pc.all(pc.equal(explicit, derived)).as_py():
            raise Doubtful
        return derived, count
    if count == len(explicit):
        return explicit, count
    fresh_ids = fresh.for_rows(lines)
    return (pc.coalesce(explicit, fresh_ids) if count else fresh_ids), count


def named_id_column(entity: EntityType, explicit: pa.StringArray, columns: dict[str, Any]) -> pa.StringArray:
    """The ids of entities that are named by id or by whole key; the members of the key are in `columns`, if given. Raises
    Doubtful."""
    import pyarrow.compute as pc

    members = [columns[name] for name in entity.key if name in columns]
    if explicit.null_count < len(explicit):
        refuse_empty(explicit)
    if members and len(members) == len(entity.key):
        derived = derived_ids(entity, columns)
        if not pc.all(pc.equal(explicit, derived)).as_py():
            raise Doubtful
        return derived
    if explicit.null_count or any(member.null_count < len(member) for member in members):
        raise Doubtful
    return explicit


def derived_ids(entity: EntityType, columns: Mapping[str, pa.Array]) -> pa.StringArray:
    """`identity.derived_id` for whole columns. Raises Doubtful if a member is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [_canonical_texts(columns[name], entity.key_type(name)) for name in entity.key]
    if len(texts) == 1:
        refuse_empty(texts[0])
        return texts[0]
    if any(pc.any(pc.match_substring_regex(text, _ESCAPED)).as_py() for text in texts):
        rows = zip(*(text.to_pylist() for text in texts), strict=True)
        return pa.array([id_of_members(row) for row in rows], pa.string())
    separated = [part for text in texts for part in ('","', text)]
    return pc.binary_join_element_wise('["', *separated[1:], '"]', "")


_ESCAPED = r'["\\\x00-\x1f]'
"""Characters that JSON writes in another way."""


def _canonical_texts(values: pa.Array, type: PropertyType) -> pa.StringArray:
    """`canonical_text` for a whole column; value by value only if no cast gives it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.null_count:
        raise Doubtful
    match type.scalar:
        case Scalar.STRING:
            return values
        case Scalar.DATE:
            return pc.cast(values.cast(pa.int32()), pa.string())
        case Scalar.DATETIME:
            return pa.array([milliseconds_text(at) for at in values.cast(pa.int64()).to_pylist()], pa.string())
        case Scalar.F32 | Scalar.F64:
            return pa.array([canonical_text(value, type) for value in values.to_pylist()], pa.string())
    return pc.cast(values, pa.string())


def end_column(node: NodeType, references: pa.Array) -> pa.StringArray:
    """The ids of the nodes at one end of edges. Raises Doubtful."""
    import pyarrow as pa

    if references.null_count:
        raise Doubtful
    refuse_empty(references)
    if not has_dates_in_key(node):
        return references
    return pa.array([referenced_id(node, reference) for reference in references.to_pylist()], pa.string())


def refuse_empty(ids: pa.Array) -> None:
    """Raises Doubtful if one is empty."""
    import pyarrow.compute as pc

    if pc.any(pc.equal(pc.binary_length(ids), 0)).as_py():
        raise Doubtful
