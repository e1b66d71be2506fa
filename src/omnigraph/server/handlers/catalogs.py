"""The typed schema as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.api.structs import JsonObject, present
from omnigraph.server.calls import MAIN, HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.commits import IMMUTABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.indexing.indexes import IndexState
    from omnigraph.language.catalog import Catalog, EntityType, Property


@handles("getCatalog")
def get_catalog(call: RouteCall) -> HandlerResult:
    revision = call.query.get("rev") or MAIN
    snapshot = call.graph.snapshot(revision, as_of=call.query.get("at"))
    counts = {f"{type_.kind}:{type_.name}": type_.entities for type_ in snapshot.types}
    commit = snapshot.commit.id
    indexes: dict[str, list[JsonObject]] = {}
    for index in call.graph.indexes(commit):
        indexes.setdefault(index.table_key, []).append(_index(index))
    body = {"graph_commit_id": commit, **catalog_shape(snapshot.schema, counts, indexes)}
    return HandlerResult(body, commit=commit, etag=commit, headers=IMMUTABLE if revision == commit else {})


def _index(state: IndexState) -> JsonObject:
    """An index by the property that it is of; an edge's ends are `from` and `to` here."""
    ends = {"src": "from", "dst": "to"} if state.table_key.startswith("edge:") else {}
    return present(
        {
            "property": ends.get(state.column, state.column),
            "kind": state.kind,
            "covered_rows": state.covered_rows,
            "pending_rows": state.pending_rows,
            "reason": state.reason,
        }
    )


def catalog_shape(catalog: Catalog, counts: Mapping[str, int], indexes: Mapping[str, list[JsonObject]]) -> JsonObject:
    return {
        "schema_hash": catalog.hash,
        "nodes": [
            {**_type(node, counts, indexes), "key": list(node.key), **_nonempty(implements=list(node.implements))}
            for node in catalog.nodes.values()
        ],
        "edges": [
            {
                **_type(edge, counts, indexes),
                "key": list(edge.key),
                "from": edge.source,
                "to": edge.target,
                "min_out": edge.min_out,
                "max_out": edge.max_out,
            }
            for edge in catalog.edges.values()
        ],
        "interfaces": [
            {
                "name": interface.name,
                "properties": [_property(property) for property in interface.properties.values()],
                "types": [node.name for node in catalog.implementers(interface.name)],
                **present({"description": interface.description}),
            }
            for interface in catalog.interfaces.values()
        ],
    }


def _type(entity: EntityType, counts: Mapping[str, int], indexes: Mapping[str, list[JsonObject]]) -> JsonObject:
    return {
        "name": entity.name,
        "properties": [_property(property) for property in entity.properties.values()],
        "constraints": [
            present(
                {
                    "kind": constraint.kind,
                    "fields": list(constraint.fields),
                    "minimum": constraint.minimum,
                    "maximum": constraint.maximum,
                    "pattern": constraint.pattern,
                }
            )
            for constraint in entity.constraints
        ],
        "entity_count": counts[entity.table_key],
        "indexes": indexes.get(entity.table_key, []),
        **present({"description": entity.description, "instruction": entity.instruction}),
    }


def _property(property: Property) -> JsonObject:
    type, is_vector = property.type, property.type.dimension is not None
    embed = property.embed
    return {
        "name": property.name,
        "type": str(type),
        "scalar": type.scalar.value,
        "nullable": type.nullable,
        "list": type.is_list,
        **_nonempty(enum=list(type.enum), interfaces=list(property.interfaces)),
        **present(
            {
                "vector_dim": type.dimension,
                "default": property.default,
                "description": property.description,
                "metric": property.metric if is_vector else None,
                "language": property.language if property.language != "english" else None,
                "embed": embed and present({"source": embed.source, "model": embed.model}),
            }
        ),
    }


def _nonempty(**lists: list[str]) -> JsonObject:
    """Without the empty ones."""
    return {name: value for name, value in lists.items() if value}
