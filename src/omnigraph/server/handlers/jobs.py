"""Large loads as jobs: started, followed, cancelled; and loads of Arrow."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.api.structs import JsonObject
from omnigraph.api.writes import ServedLoad
from omnigraph.errors import NotFound, RecordError, UsageError
from omnigraph.policy.ask import AccessRequest, is_allowed
from omnigraph.server.calls import MAIN, REPLAYED, HandlerResult, RouteCall
from omnigraph.server.components import COMPONENTS
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.feeds import event
from omnigraph.server.jobs import Job, receive_into, spool
from omnigraph.server.route import EVENTS, NDJSON
from omnigraph.server.settings import too_large
from omnigraph.storage.options import scheme_of

if TYPE_CHECKING:
    from omnigraph.graph.maintenance import PreparedWrite
    from omnigraph.load.receipt import LoadReceipt

PIECE_BYTES = 64 * 1024
MAX_FILES = 1_000
MAX_NAME = 100
COMMENT_SECONDS = 15.0


@handles("startLoad")
async def start_load(call: RouteCall) -> HandlerResult:
    call.ask_graph()
    sources = [_allowed(source, call.served.load_sources) for source in call.body["sources"]]
    if not 1 <= len(sources) <= MAX_FILES:
        raise UsageError(f"a load has 1 to {MAX_FILES} sources")
    return _started(call, sources, call.body)


def _allowed(source: str, prefixes: tuple[str, ...]) -> str:
    """UsageError for what does not lie below an address that the cluster file allows: no request reaches other files, and the load
    follows no link out of there."""
    from omnigraph.load.files import ConfinedPath

    parts = source.replace("\\", "/").split("/")
    is_plain = ".." not in parts and "\0" not in source and "%" not in source
    above = [prefix for prefix in prefixes if source.startswith(f"{prefix.rstrip('/')}/")]
    if not is_plain or not above:
        raise UsageError(
            f"'{source[:200]}' is not below an address that may be loaded from",
            hint="the cluster file names them (server: load_sources); or upload the file",
        )
    return ConfinedPath(source, max(above, key=len)) if scheme_of(source) == "file" else source


@handles("startUpload")
async def start_upload(call: RouteCall) -> HandlerResult:
    """The files of a form are kept until the job has ended."""
    call.ask_graph()
    call.service.jobs.check_room()
    job = _job(call, call.query)
    try:
        sources = await received_files(call, job.folder)
        if not sources:
            raise UsageError("the form has no file")
    except BaseException:
        job.cancellation.cancel()
        call.service.jobs.discard(job)
        raise
    return _begun(call, job, sources, call.query)


async def received_files(call: RouteCall, folder: Path) -> list[Path]:
    """The files of a form, each in a folder of its own. UsageError for what is no form."""
    from python_multipart.exceptions import FormParserError
    from starlette.datastructures import UploadFile
    from starlette.exceptions import HTTPException
    from starlette.formparsers import MultiPartException

    limit, size = call.service.settings.limits.load_body_bytes, 0
    receive = call.request.receive

    async def counted() -> Any:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise too_large(limit, size)
        return message

    request = type(call.request)(call.request.scope, counted)
    places: list[Path] = []
    try:
        async with request.form(max_files=MAX_FILES, max_fields=0) as form:
            for number, (_, part) in enumerate(form.multi_items()):
                if isinstance(part, UploadFile):
                    place = folder / str(number) / _uncompressed(file_name(part.filename))
                    await call.service.pools.run("write", partial(_keep, part, place))
                    places.append(place)
    except (MultiPartException, FormParserError, HTTPException, KeyError) as error:
        raise UsageError(f"the body is not a form with files: {getattr(error, 'message', error)}") from None
    return places


def file_name(header: str | None) -> str:
    """What a file is called here: its name says its format, and of CSV and Parquet its type. It is no path and no pattern."""
    name = re.sub(r"[^\w.-]", "_", (header or "").replace("\\", "/").rpartition("/")[2]).lstrip(".")
    return name[-MAX_NAME:] or "data.jsonl"


def _uncompressed(name: str) -> str:
    """UsageError for a compressed file: its text may be of any size, whatever the body's."""
    from omnigraph.load.files import COMPRESSIONS

    if Path(name).suffix.lower() in COMPRESSIONS:
        raise UsageError(f"'{name}' is compressed, which an upload may not be", hint="unpack it")
    return name


def _keep(part: Any, place: Path) -> None:
    place.parent.mkdir()
    with place.open("wb") as file:
        while piece := part.file.read(PIECE_BYTES):
            file.write(piece)


def load_options(call: RouteCall) -> dict[str, Any]:
    """What a request says of a load, as the library takes it: those of its options that the route declares."""
    from omnigraph.load.options import LoadOptions

    route = call.route
    component = None if route.body is None else route.body.component
    declared = {parameter.name for parameter in route.parameters} | set(
        () if component is None else COMPONENTS[component]["properties"]
    )
    options = {"mode": "merge"}
    for option in fields(LoadOptions):
        name = option.name.rstrip("_")
        if name in declared and (value := call.value(name)) is not None:
            options[option.name] = value
    return {**options, "branch": call.branch, "engine": "local", "message": call.message}


def _job(call: RouteCall, options: Mapping[str, Any]) -> Job:
    return Job(call.of_graph.id, call.actor_id, options.get("branch") or MAIN, options.get("mode") or "merge")


def _started(call: RouteCall, sources: list[str], options: Mapping[str, Any]) -> HandlerResult:
    call.service.jobs.check_room()
    return _begun(call, _job(call, options), sources, options)


def _begun(call: RouteCall, job: Job, sources: list[Any], options: Mapping[str, Any]) -> HandlerResult:
    async def work(job: Job) -> JsonObject:
        return await call.service.pools.run("bulk", partial(_load, call, job, sources, options))

    call.service.jobs.start(job, work)
    return HandlerResult(
        {"job_id": job.id},
        status=202,
        headers={"Location": f"{call.request.url.path.partition('/jobs')[0]}/jobs/{job.id}"},
    )


def _load(call: RouteCall, job: Job, sources: list[Any], options: Mapping[str, Any]) -> JsonObject:
    job.become_running()
    try:
        receipt: LoadReceipt = call.graph.load(
            sources,
            **load_options(call),
            rejects=job.rejects if options.get("keep_rejects") else None,
            progress=job.tell,
        )
    finally:
        job.remove_uploads()
    job.rejected = receipt.rejected
    return ServedLoad.in_short(receipt, base_branch=options.get("from"), actor_id=call.actor_id)


def _own_job(call: RouteCall) -> Job:
    """NotFound for a job of somebody else, unless the caller may see all."""
    job = call.service.jobs.find(call.path["job_id"])
    if job is None or job.graph_id != call.of_graph.id or not (job.actor_id == call.actor_id or _is_admin(call)):
        raise NotFound("there is no such job", hint="jobs live in the process that runs them")
    return job


def _is_admin(call: RouteCall) -> bool:
    gate = call.of_graph.gate
    return gate is None or is_allowed(gate, call.actor_id, AccessRequest("admin"))


@handles("listJobs")
async def list_jobs(call: RouteCall) -> HandlerResult:
    """The caller's own; whoever may maintain the graph sees all, and what earlier processes had prepared."""
    call.ask_graph()
    is_admin = _is_admin(call)
    jobs = call.service.jobs.of_graph(call.of_graph.id)
    shown = [job.to_json() for job in jobs if is_admin or job.actor_id == call.actor_id]
    prepared = await call.run("read", call.graph.recovery.list) if is_admin else []
    return HandlerResult({"jobs": [*shown, *(_left_over(write) for write in prepared if write.branch is not None)]})


def _left_over(write: PreparedWrite) -> JsonObject:
    """A load that was prepared and not published, as a job."""
    return {
        "job_id": write.commit_id,
        "state": "prepared",
        "branch": write.branch,
        "seconds": 0,
        "rows": write.total_entities,
        "bytes": 0,
        "rejected": 0,
    }


@handles("getJob")
async def get_job(call: RouteCall) -> HandlerResult:
    return HandlerResult(_own_job(call).to_json())


@handles("cancelJob")
async def cancel_job(call: RouteCall) -> HandlerResult:
    job = _own_job(call)
    job.cancellation.cancel()
    return HandlerResult(job.to_json())


@handles("followJob")
async def follow_job(call: RouteCall) -> HandlerResult:
    job = _own_job(call)

    async def events() -> AsyncIterator[bytes]:
        seen = -1
        while not call.service.is_draining:
            if seen == job.version and not await job.changed(COMMENT_SECONDS):
                yield b": still here\n\n"
                continue
            seen, is_over = job.version, job.is_over
            yield event("state", job.to_json(), None)
            if is_over:
                return

    return HandlerResult(events(), media_type=EVENTS)


@handles("getRejects")
def get_rejects(call: RouteCall) -> HandlerResult:
    place = _own_job(call).rejects
    if not place.exists():
        raise NotFound("the job set no records aside", hint="start it with keep_rejects")

    def pieces() -> Iterator[bytes]:
        with place.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    return HandlerResult(pieces(), media_type=NDJSON)


@handles("loadArrow")
async def load_arrow(call: RouteCall) -> HandlerResult:
    with spool() as place:
        await receive_into(place, call, call.service.settings.limits.load_body_bytes)
        return await call.run("bulk", partial(_load_arrow, call, place))


def _load_arrow(call: RouteCall, place: Path) -> HandlerResult:
    query = call.query
    receipt = call.graph.load(
        {query["type"]: _arrow_table(place)},
        **{**load_options(call), "type": None},
        if_commit=call.expected_head,
        once=call.write_key(call.branch),
    )
    commit = None if receipt.commit is None else receipt.commit.id
    body = ServedLoad.in_short(receipt, base_branch=query.get("from"), actor_id=call.actor_id)
    replayed = REPLAYED if receipt.repeated else {}
    return HandlerResult(body, commit=commit, rows=receipt.total_entities, headers=replayed)


def _arrow_table(place: Path) -> pa.Table:
    try:
        with pa.memory_map(str(place)) as file:
            table = pa.ipc.open_stream(file).read_all()
        table.validate(full=True)  # What is sent may point anywhere.
        return table
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RecordError(f"the body is not an Arrow stream: {error}") from None
