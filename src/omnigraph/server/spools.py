"""Request bodies to load, spooled to files so that their size is limited by disk, not memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from omnigraph.errors import OmnigraphError
from omnigraph.server.calls import RouteCall
from omnigraph.server.limits import too_large

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
