"""Columns of ids: derived from keys, given, or fresh; and the ends of edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.language.catalog import EntityType, NodeType
from omnigraph.language.identity import has_dates_in_key, node_id, referenced_id
from omnigraph.records.fresh_ids import FreshIds
from omnigraph.values.canonical import milliseconds_text
from omnigraph.values.columns import Doubtful
from omnigraph.values.types import Scalar

if TYPE_CHECKING:
    import pyarrow as pa


def id_column(
    entity: EntityType, explicit: pa.StringArray, columns: dict[str, Any], lines: pa.Int64Array, fresh: FreshIds
) -> tuple[pa.StringArray, int]:
    """The id column and how many ids the source gave: derived for keyed nodes, else given or fresh. Raises Doubtful."""
    import pyarrow.compute as pc

    count = len(explicit) - explicit.null_count
    if count:
        refuse_empty(explicit)
    if isinstance(entity, NodeType) and entity.key:
        derived = _derived(entity, columns)
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

    key = entity.key if isinstance(entity, NodeType) else ()
    members = [columns[name] for name in key if name in columns]
    if explicit.null_count < len(explicit):
        refuse_empty(explicit)
    if isinstance(entity, NodeType) and members and len(members) == len(key):
        derived = _derived(entity, columns)
        if not pc.all(pc.equal(explicit, derived)).as_py():
            raise Doubtful
        return derived
    if explicit.null_count or any(member.null_count < len(member) for member in members):
        raise Doubtful
    return explicit


def _derived(node: NodeType, columns: dict[str, Any]) -> pa.StringArray:
    """`identity.node_id` for a whole column; row by row only if no cast gives the canonical text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    members = [columns[name] for name in node.key]
    if any(member.null_count for member in members):
        raise Doubtful
    only, scalar = members[0], node.properties[node.key[0]].type.scalar
    if len(members) > 1 or scalar.is_float:
        rows = zip(*(member.to_pylist() for member in members), strict=True)
        return pa.array([node_id(node, dict(zip(node.key, row, strict=True))) for row in rows], pa.string())
    match scalar:
        case Scalar.STRING:
            refuse_empty(only)
            return only
        case Scalar.DATE:
            return pc.cast(only.cast(pa.int32()), pa.string())
        case Scalar.DATETIME:
            return pa.array([milliseconds_text(at) for at in only.cast(pa.int64()).to_pylist()], pa.string())
    return pc.cast(only, pa.string())


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
