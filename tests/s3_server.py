"""A real S3 server for tests: ministack behind a small wrapper that logs every request and breaks some on demand.

`S3Server` starts it in a process of its own. The log also sees what Lance asks for. `python s3_server.py <socket fd>`
is that process; it ends when its standard input closes, so it never outlives the tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

FaultKind = Literal["answer_lost", "refused", "slow"]
_KEY_ID = "test"
_AUTHORIZATION = f"AWS4-HMAC-SHA256 Credential={_KEY_ID}/20260101/us-east-1/s3/aws4_request, Signature=none"


@dataclass(frozen=True)
class S3Request:
    """One request as the server saw it. `start` and `end` are of the machine's monotonic clock."""

    method: str
    bucket: str
    key: str
    query: str
    range: str | None
    condition: str | None
    status: int
    bytes_in: int
    bytes_out: int
    start: float
    end: float

    @property
    def kind(self) -> str:
        """`LIST` for a listing, `CREATE` for a conditional put, otherwise the method."""
        if self.method == "GET" and "list-type=2" in self.query:
            return "LIST"
        return "CREATE" if self.method == "PUT" and self.condition == "*" else self.method


class S3Server:
    """Use as a context manager, or the session-wide fixture `s3`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._buckets = itertools.count(1)
        self.url = ""

    def start(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "OMNIGRAPH_"))}
        environment |= {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": "s3", "IOT_MTLS_ENABLED": "0"}
        environment |= {"LOG_LEVEL": "ERROR", "SFTP_ENABLED": "0"}
        # The listening socket is handed over: no port can be taken in between, and early requests simply wait.
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env=environment,
        )
        listener.close()
        self._warm_up()

    def _warm_up(self) -> None:
        """The server loads parts of itself at the first use; no test's first request should pay for that."""
        bucket = self.new_bucket()
        self._control("PUT", f"/{bucket}/warm", {})
        self._control("GET", f"/{bucket}/warm")
        self.reset()

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(timeout=60)
            self._process = None

    def __enter__(self) -> S3Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def options(self) -> dict[str, str]:
        """Storage options for `open_store`, Lance and Spark alike."""
        return {
            "aws_access_key_id": _KEY_ID,
            "aws_secret_access_key": "test",
            "aws_region": "us-east-1",
            "aws_endpoint": self.url,
            "allow_http": "true",
        }

    def new_bucket(self) -> str:
        """The name of a new empty bucket; its address is `s3://<name>`."""
        name = f"bucket-{next(self._buckets)}"
        self._control("PUT", f"/{name}")
        return name

    def requests(self) -> list[S3Request]:
        """What came and was answered (or dropped) since the last reset, in the order of arrival."""
        log = [S3Request(**entry) for entry in json.loads(self._control("GET", "/_log"))]
        return sorted(log, key=lambda request: request.start)

    def reset(self) -> None:
        """Empty the log, drop all faults, no latency, nobody waits for others."""
        self._control("POST", "/_reset")

    def hops(self) -> int:
        """Sequential hops of the log (see `sequential_hops`).

        The server handles one request at a time, so parallel requests overlap in its log only under `latency` or in a
        `meeting`. Requests that wait for each other never overlap.
        """
        from omnigraph.testing.stores import sequential_hops

        return sequential_hops((request.start, request.end) for request in self.requests())

    @contextlib.contextmanager
    def latency(self, seconds: float) -> Iterator[None]:
        """Every request meanwhile takes at least this long; requests wait side by side."""
        self._control("POST", "/_latency", {"seconds": seconds})
        try:
            yield
        finally:
            self._control("POST", "/_latency", {"seconds": 0})

    def meeting(self, requests: int) -> None:
        """The next so many requests wait until all of them are there: they are side by side, however slow the machine."""
        self._control("POST", "/_meeting", {"requests": requests})

    def fault(
        self,
        kind: FaultKind,
        *,
        method: str = "*",
        key: str = "*",
        times: int = 1,
        status: int = 503,
        code: str = "Injected",
        seconds: float = 0.0,
    ) -> None:
        """Break the next `times` requests whose method and key fit the patterns.

        `answer_lost`: applied, then the connection is cut. `refused`: not applied, answered with `status`
        and S3's error `code`. `slow`: `seconds` late.
        """
        fault = {
            "kind": kind,
            "method": method,
            "key": key,
            "times": times,
            "status": status,
            "code": code,
            "seconds": seconds,
        }
        self._control("POST", "/_fault", fault)

    def _control(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": _AUTHORIZATION},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=120) as answer:
            return bytes(answer.read())


class Recorder:
    """The ASGI application in the server's process. It runs on one event loop, so it needs no locks."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.log: list[dict[str, Any]] = []
        self.faults: list[dict[str, Any]] = []
        self.latency = 0.0
        self.meeting = 0
        self.met = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].startswith("/_"):
            await self._control(scope["path"], receive, send)
        else:
            await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        start = time.monotonic()
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        _, bucket, key = (unquote(scope["raw_path"].decode().partition("?")[0]) + "/").split("/", 2)
        entry = {
            "method": scope["method"], "bucket": bucket, "key": key.removesuffix("/"),
            "query": scope["query_string"].decode(), "range": headers.get("range"),
            "condition": headers.get("if-none-match"), "status": 0, "bytes_in": 0, "bytes_out": 0, "start": start,
        }  # fmt: skip
        log = self.log
        fault = self._take_fault(entry["method"], entry["key"])
        kind = fault["kind"] if fault else ""

        def ended() -> None:
            """Written down before the client can know: what it asks next comes later, and finds this in the log."""
            if "end" not in entry:
                entry["end"] = time.monotonic()
                log.append(entry)

        async def counted_receive() -> Any:
            message = await receive()
            entry["bytes_in"] += len(message.get("body", b""))
            return message

        async def counted_send(message: Any) -> None:
            entry["status"] = message.get("status", entry["status"])
            entry["bytes_out"] += len(message.get("body", b""))
            if message["type"] == "http.response.body" and not message.get("more_body"):
                ended()
            if kind != "answer_lost":
                await send(message)

        if self.meeting:
            await self._meet()
        if pause := self.latency + (fault["seconds"] if fault else 0.0):
            await asyncio.sleep(pause)
        try:
            if fault and kind == "refused":
                while (await counted_receive()).get("more_body"):
                    pass
                await _answer(counted_send, fault["status"], f"<Error><Code>{fault['code']}</Code></Error>".encode())
            else:
                await self.inner(scope, counted_receive, counted_send)
        finally:
            ended()
        if kind == "answer_lost":
            await _cut(send)

    async def _meet(self) -> None:
        met = self.met
        self.meeting -= 1
        if self.meeting == 0:
            met.set()
        await met.wait()

    def _take_fault(self, method: str, key: str) -> dict[str, Any] | None:
        for fault in self.faults:
            if fnmatch.fnmatch(method, fault["method"]) and fnmatch.fnmatch(key, fault["key"]) and fault["times"] > 0:
                fault["times"] -= 1
                return fault
        return None

    async def _control(self, path: str, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if path == "/_reset":
            # Requests that are still under way end in the old log: what one test gave up on is not seen by the next.
            self.log, self.faults, self.latency, self.meeting = [], [], 0.0, 0
            self.met.set()
        elif path == "/_fault":
            self.faults.append(json.loads(body))
        elif path == "/_latency":
            self.latency = json.loads(body)["seconds"]
        elif path == "/_meeting":
            self.meeting, self.met = json.loads(body)["requests"], asyncio.Event()
        await _answer(send, 200, json.dumps(self.log if path == "/_log" else None).encode())


async def _answer(send: Any, status: int, body: bytes) -> None:
    length = str(len(body)).encode()
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": body})


async def _cut(send: Any) -> None:
    """Close the connection under the answer. `send` belongs to uvicorn's request, which knows its transport."""
    cycle = send.__self__
    cycle.transport.abort()
    while not cycle.disconnected:
        await asyncio.sleep(0)


def main() -> None:
    import uvicorn
    from ministack.app import app

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    listener = socket.socket(fileno=int(sys.argv[1]))
    config = uvicorn.Config(
        Recorder(app),
        http="h11",
        loop="asyncio",
        lifespan="off",
        log_level="error",
        timeout_keep_alive=120,
        backlog=256,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
