"""Jobs: work that continues after its request was answered. A job ends with the process; a prepared load outlives it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from omnigraph._internal.deadlines import Cancellation
from omnigraph.api.structs import JsonObject, present
from omnigraph.errors import Cancelled, OmnigraphError, TooManyRequests
from omnigraph.history.history import new_ulid
from omnigraph.server.calls import RouteCall
from omnigraph.server.logs import RequestLog
from omnigraph.server.problems import DEFECT, error_json
from omnigraph.server.settings import too_large

if TYPE_CHECKING:
    from omnigraph.tasks.progress import Status


# Request bodies to load, spooled to files so that their size is limited by disk, not memory.

_WRITE_BYTES = 1024 * 1024
BODY_NAME = "body"
"""What messages call the file: where it lies is nobody's business."""

E = TypeVar("E", bound=OmnigraphError)


@contextmanager
def spool_folder() -> Iterator[Path]:
    """A temporary folder for files. Errors within the block name each file by its own name."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-") as name:
        try:
            yield Path(name)
        except OmnigraphError as error:
            folders = sorted(str(path) + "/" for path in Path(name).iterdir())
            for folder in folders:
                error = _without_place(error, folder, "")
            raise _without_place(error, name) from None


@contextmanager
def spool() -> Iterator[Path]:
    """A temporary file. Errors within the block do not reveal its path."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
        place = Path(folder) / f"{BODY_NAME}.ndjson"
        try:
            yield place
        except OmnigraphError as error:
            raise _without_place(error, str(place)) from None


def _without_place(error: E, place: str, called: str = BODY_NAME) -> E:
    for name, value in vars(error).items():
        setattr(error, name, _replaced(value, place, called))
    error.args = tuple(_replaced(value, place, called) for value in error.args)
    return error


def _replaced(value: Any, place: str, called: str) -> Any:
    match value:
        case str():
            return value.replace(place, called)
        case Mapping():
            return {name: _replaced(item, place, called) for name, item in value.items()}
        case list() | tuple():
            return type(value)(_replaced(item, place, called) for item in value)
    return value


async def receive_into(place: Path, call: RouteCall, limit: int) -> int:
    """Write the body to a file, a megabyte at a time, and return its size. Raises LimitExceeded beyond `limit` bytes."""
    size = held = 0
    pieces: list[bytes] = []
    with place.open("wb") as file:
        async for piece in call.request.stream():
            size += len(piece)
            held += len(piece)
            if size > limit:
                raise too_large(limit, size)
            pieces.append(piece)
            if held >= _WRITE_BYTES:
                data, pieces, held = b"".join(pieces), [], 0
                await call.service.pools.run("write", partial(file.write, data))
        file.write(b"".join(pieces))
    return size


MAX_JOBS = 200
MAX_ACTIVE_JOBS = 16

State = Literal["queued", "running", "done", "failed", "cancelled"]
Work = Callable[["Job"], Coroutine[Any, Any, JsonObject]]


class Job:
    """One load. Its state changes on the event loop; its progress may be reported from any thread."""

    def __init__(self, graph_id: str, actor_id: str | None, branch: str, mode: str) -> None:
        self.id = new_ulid()
        self.graph_id, self.actor_id = graph_id, actor_id
        self.branch, self.mode = branch, mode
        self.state: State = "queued"
        self.folder = Path(tempfile.mkdtemp(prefix="omnigraph-job-"))
        self.result: JsonObject | None = None
        self.error: JsonObject | None = None
        self.rejected = 0
        self.cancellation = Cancellation()
        self._status: Status | None = None
        self._rows = self._bytes = 0
        self._started, self._ended = time.monotonic(), 0.0
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self.version = 0
        """Grows with every change."""

    @property
    def rejects(self) -> Path:
        """The file with the rejected records."""
        return self.folder / "rejects.ndjson"

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    def tell(self, status: Status) -> None:
        """Report the progress of the load. Raises Cancelled if it should end."""
        self._status = status
        self._rows, self._bytes = max(self._rows, status.rows), max(self._bytes, status.bytes)
        self._loop.call_soon_threadsafe(self._touch)
        if self.cancellation.is_cancelled:
            raise Cancelled

    def become_running(self) -> None:
        """Called by the worker thread. Raises Cancelled if the job was cancelled."""
        self._loop.call_soon_threadsafe(self.become, "running")
        if self.cancellation.is_cancelled:
            raise Cancelled

    def remove_uploads(self) -> None:
        """Remove the uploaded files; rejected records stay."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)

    def become(self, state: State) -> None:
        self.state = state
        if self.is_over:
            self._ended = time.monotonic()
        self._touch()

    def _touch(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, timeout_s: float) -> bool:
        """Wait this long for a change; whether there was one."""
        waiting = asyncio.ensure_future(self._changed.wait())
        done, _ = await asyncio.wait([waiting], timeout=timeout_s)
        waiting.cancel()
        return bool(done)

    def to_json(self) -> JsonObject:
        status = self._status
        seconds = (self._ended if self.is_over else time.monotonic()) - self._started
        return {
            "job_id": self.id,
            "state": self.state,
            "branch": self.branch,
            "mode": self.mode,
            "seconds": round(seconds, 3),
            "rows": self._rows,
            "bytes": self._bytes,
            "rejected": self.rejected,
            "actor_id": self.actor_id,
            **({} if status is None else {"stage": status.stage, "done": status.done, "tasks": status.tasks}),
            **present({"result": self.result, "error": self.error}),
        }


class Jobs:
    """The jobs of a process. Used on the event loop only."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._running: set[asyncio.Task[None]] = set()

    def check_room(self) -> None:
        if sum(not job.is_over for job in self._jobs.values()) >= MAX_ACTIVE_JOBS:
            raise TooManyRequests(
                f"{MAX_ACTIVE_JOBS} jobs have not ended yet", hint="wait for one of them, or cancel it"
            )

    def start(self, job: Job, work: Work) -> None:
        self._jobs[job.id] = job
        while len(self._jobs) > MAX_JOBS and (oldest := next(iter(self._jobs.values()))).is_over:
            self._forget(oldest)
        task = asyncio.ensure_future(self._run(job, work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, job: Job, work: Work) -> None:
        try:
            job.result = await work(job)
            job.become("done")
        except Cancelled:
            job.become("cancelled")
        except OmnigraphError as error:
            job.error = error_json(error)
            job.become("failed")
        except Exception as error:  # A defect: whoever asks learns nothing of it, the log everything.
            self._log.defect(job.id, error)
            job.error = DEFECT
            job.become("failed")

    def find(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def of_graph(self, graph_id: str) -> list[Job]:
        """Newest first."""
        return [job for job in reversed(self._jobs.values()) if job.graph_id == graph_id]

    def cancel(self) -> None:
        """Cancel all jobs; what they wrote is removed unless it was already published."""
        for job in self._jobs.values():
            job.cancellation.cancel()

    def close(self) -> None:
        self.cancel()
        for job in list(self._jobs.values()):
            self._forget(job)

    def discard(self, job: Job) -> None:
        """Of a job that was not started."""
        shutil.rmtree(job.folder, ignore_errors=True)

    def _forget(self, job: Job) -> None:
        del self._jobs[job.id]
        shutil.rmtree(job.folder, ignore_errors=True)
