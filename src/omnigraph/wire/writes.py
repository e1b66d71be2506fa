"""What writes changed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from omnigraph.wire.history import commit_json
from omnigraph.wire.members import JsonObject, present

if TYPE_CHECKING:
    from omnigraph.write import Receipt


def receipt_json(receipt: Receipt, query_name: str) -> JsonObject:
    """{branch, query_name, affected_nodes, affected_edges, types: {key: {inserted, updated, deleted}}, actor_id?, commit?}."""
    changed = {key: counts for key, counts in sorted(receipt.types.items()) if counts.total}
    return present(
        {
            "branch": receipt.branch,
            "query_name": query_name,
            "affected_nodes": receipt.affected_nodes,
            "affected_edges": receipt.affected_edges,
            "types": {key: dataclasses.asdict(counts) for key, counts in changed.items()},
            "actor_id": receipt.actor,
            "commit": receipt.commit and commit_json(receipt.commit),
        }
    )
