"""Results of the library in the words of the contract, where these differ from those of the command line.

A member that may be null is there all the same, unless its shape says that it is left out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import LimitExceeded, UsageError
from omnigraph.features import FORMAT
from omnigraph.wire.changes import image_json
from omnigraph.wire.history import commit_json, snapshot_json
from omnigraph.wire.members import JsonObject, present
from omnigraph.wire.reads import result_json
from omnigraph.wire.writes import load_json, merge_json, receipt_json, schema_receipt_json

if TYPE_CHECKING:
    from omnigraph.server.calls import RouteCall


# Pages of what does not shift: a token pins the commits that the first page was made of, and what was asked.

_DIGEST_CHARACTERS = 16


@dataclass(frozen=True)
class PagePosition:
    """Where a page begins: so many items in, of what these commits hold."""

    commits: tuple[str, ...]
    offset: int

    def token(self, call: RouteCall, items: int) -> str:
        """Of the page after one with so many items."""
        value = [list(self.commits), self.offset + items, _request_text(call)]
        return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def place_of(call: RouteCall) -> PagePosition | None:
    """What the request's page token says; None without one. UsageError for one of another graph, route or question."""
    token = call.query.get("page_token")
    if token is None:
        return None
    try:
        commits, offset, request = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        place = PagePosition(tuple(map(str, commits)), int(offset))
    except (binascii.Error, ValueError, TypeError, OverflowError, RecursionError):
        raise _rejected("it is none") from None
    if request != _request_text(call) or not 0 <= place.offset < 2**53:
        raise _rejected("it is of another request")
    return place


def _rejected(why: str) -> UsageError:
    return UsageError(f"page token rejected: {why}", hint="repeat the request that gave it, and change nothing else")


def _request_text(call: RouteCall) -> str:
    """What a page is of: the graph, the route and every other parameter."""
    rest = {name: value for name, value in call.query.items() if name not in ("page_token", "limit")}
    request = json.dumps([call.route.operation_id, dict(call.path), rest], sort_keys=True, default=list)
    return hashlib.sha256(request.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def limit_of(call: RouteCall, default: int, most: int) -> int:
    """How many items a page may have."""
    limit: int = call.query.get("limit", default)
    if limit < 1:
        raise UsageError("'limit' must be at least 1")
    if limit > most:
        raise LimitExceeded(f"a page has at most {most} items", resource="page_items", limit=most, actual=limit)
    return limit


def pinned(call: RouteCall, revisions: Sequence[str]) -> PagePosition:
    """Where the page begins: as the token says, or at the first item of what these revisions are now."""
    place = place_of(call)
    if place is not None and len(place.commits) == len(revisions):
        return place
    if place is not None:
        raise _rejected("it is of another request")
    at = call.query.get("at")
    return PagePosition(tuple(call.graph.show(revision, as_of=at).id for revision in revisions), 0)


if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.evolve.apply import SchemaReceipt
    from omnigraph.graph.reading import GraphSnapshot
    from omnigraph.history.values import Commit
    from omnigraph.load.receipt import LoadReceipt
    from omnigraph.merge.conflicts import MergeConflict
    from omnigraph.merge.three_way import MergeResult
    from omnigraph.read.result import Result
    from omnigraph.write.receipt import Receipt

    Renames = Mapping[str, str]

_COMMIT_NAMES = {"graph_version": "graph_manifest_version"}
_DATASET_NAMES = {"table_path": "dataset_path", "table_version": "published_dataset_version"}


def _renamed(value: JsonObject, names: Renames) -> JsonObject:
    return {names.get(name, name): member for name, member in value.items()}


def commit_shape(commit: Commit) -> JsonObject:
    """Commit: the same object wherever a commit is shown."""
    nulls = dict.fromkeys(("graph_branch", "parent_commit_id", "merged_parent_commit_id", "actor_id"))
    return nulls | _renamed(commit_json(commit), _COMMIT_NAMES)


def optional_commit(commit: Commit | None) -> JsonObject | None:
    return None if commit is None else commit_shape(commit)


def snapshot_shape(branch: str, snapshot: GraphSnapshot) -> JsonObject:
    value = snapshot_json(branch, snapshot)
    return {
        "graph_branch": branch,
        "graph_manifest_version": value["graph_version"],
        "internal_schema_version": FORMAT,
        "graph_commit_id": value["graph_commit_id"],
        "datasets": [{**_renamed(table, _DATASET_NAMES), "native_dataset_branch": None} for table in value["tables"]],
    }


def read_shape(result: Result, *, branch: str | None, snapshot: str | None, names_commit: bool = True) -> JsonObject:
    """Read, with an empty list of rows: they are encoded in pieces. Without rows there are no columns."""
    value = result_json(result, revision="", as_of=None, with_rows=False)
    return present(
        {
            **value,
            "target": {"branch": branch, "snapshot": snapshot},
            "columns": value["columns"] if result.num_rows else None,
            "graph_commit_id": value["graph_commit_id"] if names_commit else None,
        }
    )


def change_shape(receipt: Receipt, query_name: str, actor: str | None) -> JsonObject:
    return {
        "branch": receipt.branch,
        "query_name": query_name,
        "affected_nodes": receipt.affected_nodes,
        "affected_edges": receipt.affected_edges,
        "actor_id": actor,
        "commit": optional_commit(receipt.commit),
    }


def change_detail(receipt: Receipt) -> JsonObject:
    """{types}: what was changed, by table key."""
    return {"types": receipt_json(receipt)["types"]}


def load_shape(receipt: LoadReceipt, *, from_: str | None, actor: str | None) -> JsonObject:
    """Load: `base_branch` repeats what was asked for, even when the branch was there."""
    value = load_json("", receipt)
    gaps: JsonObject = {name: value[name] for name in ("rejected", "missing") if name in value}
    counts = {kind: [_loaded(counts_of_type) for counts_of_type in value[kind]] for kind in ("nodes", "edges")}
    return {
        "branch": receipt.branch,
        "base_branch": from_,
        "branch_created": receipt.branch_created,
        "mode": receipt.mode,
        **counts,
        "total_entities": receipt.total_entities,
        "actor_id": actor,
        "commit": optional_commit(receipt.commit),
        **gaps,
    }


def _loaded(counts: JsonObject) -> JsonObject:
    return {name: counts[name] for name in ("name", "entities_loaded", "skipped", "stubs") if name in counts}


def load_detail(receipt: LoadReceipt) -> JsonObject:
    """{nodes, edges}: with what became of the entities that were loaded."""
    value = load_json("", receipt)
    return {"nodes": value["nodes"], "edges": value["edges"]}


def schema_apply_shape(uri: str, receipt: SchemaReceipt, manifest_version: int) -> JsonObject:
    value = schema_receipt_json(receipt)
    return {
        "uri": uri,
        "supported": value["supported"],
        "applied": value["applied"],
        "step_count": len(value["steps"]),
        "graph_manifest_version": manifest_version,
        "steps": value["steps"],
    }


def merge_shape(result: MergeResult, actor: str | None) -> JsonObject:
    value = merge_json(result)
    return {
        "source": result.source,
        "target": result.target,
        "outcome": result.outcome,
        "actor_id": actor,
        **present(
            {
                "branch_deleted": result.branch_deleted,
                "branch_delete_error": result.branch_delete_error,
                "commit": optional_commit(result.commit),
                "changes": value["changes"] or None,
            }
        ),
    }


def review_shape(result: MergeResult) -> JsonObject:
    """What a merge would do, with its conflicts as a reviewer needs them."""
    value = merge_json(result)
    return {
        "source": result.source,
        "target": result.target,
        "outcome": result.outcome,
        "dry_run": True,
        "base": list(result.bases),
        "source_commit": result.source_commit,
        "target_commit": result.target_commit,
        "changes": value["changes"],
        "conflicts": [_conflict_shape(conflict) for conflict in result.conflicts],
        **{name: value[name] for name in ("schema_conflicts", "schema_steps", "hint") if name in value},
    }


def _conflict_shape(conflict: MergeConflict) -> JsonObject:
    images = {side: image_json(conflict.entity_kind, getattr(conflict, side)) for side in ("base", "ours", "theirs")}
    return {
        **conflict.to_json(),
        "fields": [property.name for property in conflict.properties],
        **present(images),
    }


def merge_detail(result: MergeResult) -> JsonObject:
    """{bases, source_commit, target_commit, schema_steps?}."""
    value = merge_json(result)
    return {name: value[name] for name in ("bases", "source_commit", "target_commit", "schema_steps") if name in value}
