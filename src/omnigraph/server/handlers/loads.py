"""Loads: records in a JSON member, or as a stream of lines."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.api.writes import IngestJson, ServedLoad
from omnigraph.errors import UsageError
from omnigraph.server.calls import MAIN, REPLAYED, HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.jobs import load_options, received_files
from omnigraph.server.handlers.writes import counts_of
from omnigraph.server.jobs import receive_into, spool, spool_folder

if TYPE_CHECKING:
    from omnigraph.load.receipt import LoadReceipt


@handles("cluster_load")
def load(call: RouteCall) -> HandlerResult:
    return _load_member(call, call.body.get("from"))


@handles("cluster_ingest")
def ingest(call: RouteCall) -> HandlerResult:
    """A branch that is not there is made from main."""
    return _load_member(call, call.body.get("from") or MAIN)


def _load_member(call: RouteCall, from_: str | None) -> HandlerResult:
    with spool() as place:
        place.write_text(call.body["data"], encoding="utf-8", errors="surrogatepass", newline="")
        return _loaded(call, place, from_, names_uri=True)


@handles("cluster_loadNdjson")
async def load_ndjson(call: RouteCall) -> HandlerResult:
    with spool() as place:
        await receive_into(place, call, call.service.settings.limits.load_body_bytes)
        return await call.run("bulk", partial(_loaded, call, place, call.query.get("from"), names_uri=False))


@handles("loadFiles")
async def load_files(call: RouteCall) -> HandlerResult:
    with spool_folder() as folder:
        places = await received_files(call, folder)
        if not places:
            raise UsageError("the form has no file")
        return await call.run("bulk", partial(_loaded_files, call, places))


def _loaded_files(call: RouteCall, places: list[Path]) -> HandlerResult:
    receipt = call.graph.load(
        places,
        **load_options(call),
        if_commit=call.expected_head,
        once=call.write_key(call.branch),
    )
    if receipt.repeated:
        receipt = _counted(call, receipt)
    return _answered(call, receipt, call.query.get("from"), names_uri=False)


def _counted(call: RouteCall, receipt: LoadReceipt) -> LoadReceipt:
    """A load that was made before, with what its commit changed."""
    from omnigraph.load.receipt import LoadCounts

    assert receipt.commit is not None, "it has a commit"
    changes = counts_of(call, receipt.commit.id)
    counts = {key: LoadCounts(change.inserted, change.updated, 0, change.deleted) for key, change in changes.items()}
    return replace(receipt, types=counts, branch_created=receipt.commit.ref.opens_branch)


def _loaded(call: RouteCall, place: Path, from_: str | None, *, names_uri: bool) -> HandlerResult:
    receipt = call.graph.load(
        place,
        **{**load_options(call), "from_": from_, "format": "jsonl"},
        if_commit=call.expected_head,
        once=call.write_key(call.branch),
    )
    if receipt.repeated:
        # The records of a patch or of a delete do not tell which entities were inserted.
        receipt = _counted(call, receipt) if receipt.mode in ("patch", "delete") else _rebuilt(receipt, place)
    return _answered(call, receipt, from_, names_uri=names_uri)


def _answered(call: RouteCall, receipt: LoadReceipt, from_: str | None, *, names_uri: bool) -> HandlerResult:
    struct = IngestJson if names_uri else ServedLoad
    shown = struct.to_json if call.is_detailed else struct.in_short
    body = shown(receipt, base_branch=from_, actor_id=call.actor_id, uri=call.of_graph.uri)
    commit = None if receipt.commit is None else receipt.commit.id
    if receipt.repeated:
        return HandlerResult(body, commit=commit, headers=REPLAYED)
    return HandlerResult(body, commit=commit, rows=receipt.total_entities, new_commit=receipt.commit)


def _rebuilt(receipt: LoadReceipt, place: Path) -> LoadReceipt:
    """A load that was made before: its commit says nothing of entities that stayed as they were, the same body does."""
    from omnigraph.load.receipt import LoadCounts

    counts: Counter[str] = Counter()
    with place.open("rb") as lines:
        for line in lines:
            record = json.loads(line) if line.strip() else {}
            counts.update(
                f"{kind}:{record[name]}" for kind, name in (("node", "type"), ("edge", "edge")) if name in record
            )
    commit = receipt.commit
    return replace(
        receipt,
        types={key: LoadCounts(inserted=count) for key, count in counts.items()},
        branch_created=commit is not None and commit.ref.opens_branch,
    )
