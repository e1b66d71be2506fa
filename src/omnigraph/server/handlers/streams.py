"""Streams: exports, baselines and the pages of changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.api.changes import CommitChangesJson
from omnigraph.errors import CommitNotFound, LimitExceeded, PolicyDenied
from omnigraph.server.bodies import compressed
from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.commits import IMMUTABLE, named_commit
from omnigraph.server.route import NDJSON

if TYPE_CHECKING:
    from omnigraph.changes.feed import FeedPage

MAX_PAGE_CHANGES = 8_192
CAPTURES = 5
"""So often a baseline is begun anew because its branch has moved."""
EXPORT_TYPES = {
    "ndjson": NDJSON,
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv",
}
"""The media type of each format of an export."""
COMPRESSIBLE = ("ndjson", "csv")
"""Those that are text; the others compress themselves."""


@handles("cluster_export")
def export(call: RouteCall) -> HandlerResult:
    """Everything that can be refused is refused before the first byte: the branch is pinned, and its first piece made."""
    graph, format = call.graph, call.body.get("format", "ndjson")
    revision, commit_id = _exported(call)
    pieces = graph.export_stream(
        revision=revision,
        types=call.body.get("type_names"),
        format="jsonl" if format == "ndjson" else format,
    )
    media_type = EXPORT_TYPES[format]
    if format not in COMPRESSIBLE:
        return HandlerResult(begun(pieces), media_type=media_type, commit=commit_id)
    body, headers = compressed(begun(pieces), call.request.headers)
    return HandlerResult(body, media_type=media_type, commit=commit_id, headers=headers)


def _exported(call: RouteCall) -> tuple[str, str | None]:
    """The revision to export, and its commit. Who may export and not read is not told the commit."""
    try:
        commit_id = call.graph.show(call.revision()).id
    except PolicyDenied:
        return call.value("snapshot") or call.branch, None
    return commit_id, commit_id


@handles("cluster_captureChangeBaseline")
def baseline(call: RouteCall) -> HandlerResult:
    pieces, commit = _captured(call)
    body, headers = compressed(begun(pieces), call.request.headers)
    return HandlerResult(body, media_type=NDJSON, headers=headers, commit=commit)


def _captured(call: RouteCall) -> tuple[Iterator[bytes], str | None]:
    """A baseline and the commit it is of: the head that was the same before and after it was captured. Among writers that never
    stop, only the last line says it, as it does for who may export and not read."""
    body = call.body
    for _ in range(CAPTURES):
        before = _head(call)
        pieces = call.graph.baseline_stream(
            branch=call.branch, types=body.get("type"), kinds=body.get("kind"), ops=body.get("op")
        )
        if before is None or before == _head(call):
            return pieces, before
    return pieces, None


def _head(call: RouteCall) -> str | None:
    """The commit that the branch stands at; None where the caller may not know, or the branch is not there: the baseline says so."""
    try:
        return call.graph.show(call.branch).id
    except (PolicyDenied, CommitNotFound):
        return None


def begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same stream, with its first piece made: what fails at once fails before the answer begins."""
    first = next(pieces, b"")

    def stream() -> Iterator[bytes]:
        yield first
        yield from pieces

    return stream()


@handles("cluster_getCommitChanges")
def commit_changes(call: RouteCall) -> HandlerResult:
    """A commit that the caller may not read is as unknown as one that is not there."""
    query = call.query
    try:
        commit = named_commit(call)
        page = call.graph.commit_changes(
            commit.id,
            limit=page_limit(call),
            page_token=query.get("page_token"),
            types=query.get("type"),
            kinds=query.get("kind"),
            ops=query.get("op"),
        )
    except PolicyDenied:
        raise CommitNotFound(f"commit '{call.path['commit_id']}' not found") from None
    return HandlerResult(CommitChangesJson.to_json(page), commit=commit.id, headers=IMMUTABLE, rows=len(page.changes))


def note_lag(call: RouteCall, page: FeedPage) -> None:
    """How far the reader is behind the head."""
    lag = 0
    if not page.caught_up and page.blocks:
        lag = call.graph.show(call.branch).ref.seq - page.blocks[-1].commit.ref.seq
    call.service.metrics.lagging(call.of_graph.id, lag)


def page_limit(call: RouteCall) -> int:
    """How many changes a page may have. LimitExceeded for more than a page can."""
    limit: int = call.query.get("limit", 1_000)
    if limit > MAX_PAGE_CHANGES:
        raise LimitExceeded(
            f"a page has at most {MAX_PAGE_CHANGES} changes, not {limit}",
            resource="commit_changes_page_changes",
            limit=MAX_PAGE_CHANGES,
            actual=limit,
        )
    return limit
