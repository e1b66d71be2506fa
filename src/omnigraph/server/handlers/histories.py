"""History across branches: differences, the log of several, tags."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.api.changes import ChangeJson
from omnigraph.api.history import ServedCommit, TagJson
from omnigraph.api.structs import JsonObject, present
from omnigraph.api.writes import MigrationJson
from omnigraph.errors import LimitExceeded, UsageError
from omnigraph.server.bodies import ARROW, table_answer
from omnigraph.server.calls import MAIN, HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.commits import IMMUTABLE
from omnigraph.server.handlers.entities import NEXT_PAGE
from omnigraph.server.handlers.streams import MAX_PAGE_CHANGES
from omnigraph.server.headers import accepts
from omnigraph.server.pages import PagePosition, limit_of, pinned, place_of

if TYPE_CHECKING:
    from omnigraph.changes.entity_changes import EntityChange
    from omnigraph.history.values import Commit

MAX_REFS = 100
MAX_LOG_DEPTH = 100_000


@handles("getDiff")
def diff(call: RouteCall) -> HandlerResult:
    query = call.query
    limit, place = limit_of(call, 1_000, MAX_PAGE_CHANGES), pinned(call, [query["from"], query["to"]])
    before, after = place.commits
    changes = call.graph.diff(before, after, types=query.get("type"), kinds=query.get("kind"), ops=query.get("op"))
    ends = {"from": before, "to": after}
    headers = dict(IMMUTABLE) if (query["from"], query["to"]) == place.commits else {}
    if query.get("summary"):
        return HandlerResult({**ends, "summary": _summary(changes)}, commit=after, headers=headers)
    page = list(itertools.islice(changes, place.offset, place.offset + limit + 1))
    token = place.token(call, limit) if len(page) > limit else None
    shown = [ChangeJson.to_json(change) for change in page[:limit]]
    if accepts(call.request.headers, ARROW):
        headers = headers | ({} if token is None else {NEXT_PAGE: token})
        return table_answer(_change_table(shown), "diff", after, call.request.headers, headers)
    body = {**ends, "changes": shown, **present({"next_page_token": token})}
    return HandlerResult(body, commit=after, rows=len(shown), headers=headers)


@handles("getSchemaDiff")
def schema_diff(call: RouteCall) -> HandlerResult:
    before, after = pinned(call, [call.query["from"], call.query["to"]]).commits
    plan = call.graph.schema.diff(before, after)
    return HandlerResult(
        {"from": before, "to": after, **MigrationJson.to_json(plan), "lines": plan.lines()}, commit=after
    )


def _summary(changes: Any) -> list[JsonObject]:
    """By type: how many entities were inserted, updated and deleted, and in how many updates each property changed."""
    ops: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    properties: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for change in changes:
        key = (change.kind, change.type_name)
        ops[key][change.op] += 1
        properties[key].update(_changed(change))
    return [
        {
            "entity_kind": kind,
            "type_name": name,
            **{op: counts[op] for op in ("insert", "update", "delete")},
            "properties": dict(properties[kind, name]),
        }
        for (kind, name), counts in ops.items()
    ]


def _changed(change: EntityChange) -> list[str]:
    if change.before is None or change.after is None:
        return []
    return [name for name, value in change.after.items() if change.before.get(name) != value]


def _change_table(changes: list[JsonObject]) -> pa.Table:
    """Changes as rows; the images are JSON text, because each type has properties of its own."""

    def image(change: JsonObject, side: str) -> str | None:
        return json.dumps(change[side], ensure_ascii=False) if side in change else None

    rows = [
        {
            "kind": change["kind"],
            "type_id": change["type"]["id"],
            "type_name": change["type"]["name"],
            "id": change["id"],
            "op": change["op"],
            "before": image(change, "before"),
            "after": image(change, "after"),
        }
        for change in changes
    ]
    names = ("kind", "type_id", "type_name", "id", "op", "before", "after")
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.utf8()) for name in names]))


@handles("getLog")
def log(call: RouteCall) -> HandlerResult:
    """Every commit comes before its parents; among those that may come next, the newest does."""
    graph, limit = call.graph, limit_of(call, 200, 1_000)
    refs = list(dict.fromkeys(call.query.get("ref", ())))
    if len(refs) > MAX_REFS:
        raise LimitExceeded(f"a log has at most {MAX_REFS} refs", resource="refs", limit=MAX_REFS, actual=len(refs))
    branches = call.known_branches()
    tags = call.known_tags()
    at = call.query.get("at")
    if refs or at is not None:
        heads = [graph.show(name, as_of=at) for name in refs or [branch.name for branch in branches]]
    else:
        heads = [branch.head for branch in branches]
    place = place_of(call) or PagePosition(tuple(dict.fromkeys(commit.id for commit in heads)), 0)
    wanted = place.offset + limit + 1
    if wanted > MAX_LOG_DEPTH:
        raise UsageError(
            f"a log is at most {MAX_LOG_DEPTH} commits deep", hint="GET /commits continues from any commit"
        )
    commits: dict[str, Commit] = {}
    for head in place.commits:
        commits |= {commit.id: commit for commit in graph.commits(head, limit=wanted)}
    ordered = _in_order(commits)
    page = ordered[place.offset : place.offset + limit]
    shown = {commit.id for commit in page}
    named = [(branch.name, branch.head.id) for branch in branches] + [(tag.name, tag.head.id) for tag in tags]
    names: dict[str, list[str]] = defaultdict(list)
    for name, id in named:
        if id in shown:
            names[id].append(name)
    token = place.token(call, limit) if len(ordered) > place.offset + limit else None
    etag = hashlib.sha256(json.dumps(named).encode()).hexdigest()
    body = {
        "commits": [ServedCommit.to_json(commit) for commit in page],
        "refs": names,
        **present({"next_page_token": token}),
    }
    return HandlerResult(body, etag=etag[:32], rows=len(page))


def _in_order(commits: dict[str, Commit]) -> list[Commit]:
    parents = {
        id: [parent.id for parent in (commit.parent, commit.merged) if parent is not None and parent.id in commits]
        for id, commit in commits.items()
    }
    children = Counter(parent for ids in parents.values() for parent in ids)
    ready = [(-commit.at.timestamp(), id) for id, commit in commits.items() if not children[id]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, id = heapq.heappop(ready)
        ordered.append(commits[id])
        for parent in parents[id]:
            children[parent] -= 1
            if not children[parent]:
                heapq.heappush(ready, (-commits[parent].at.timestamp(), parent))
    return ordered


@handles("listTags")
def list_tags(call: RouteCall) -> HandlerResult:
    return HandlerResult({"tags": [TagJson.to_json(tag) for tag in call.known_tags()]})


@handles("createTag")
def create_tag(call: RouteCall) -> HandlerResult:
    tag = call.graph.tags.create(call.body["name"], call.body.get("at") or MAIN)
    return HandlerResult(TagJson.to_json(tag), commit=tag.head.id)


@handles("deleteTag")
def delete_tag(call: RouteCall) -> HandlerResult:
    call.graph.tags.delete(call.path["tag"])
    return HandlerResult({"name": call.path["tag"]})
