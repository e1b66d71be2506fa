"""The server process: binds its socket, opens the graphs, announces its address, and shuts down in order."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.server.app import Application
from omnigraph.server.connection import HttpConnection
from omnigraph.server.logs import RequestLog
from omnigraph.server.registry import Served, ServedSource
from omnigraph.server.settings import ServerSettings
from omnigraph.server.tracing import tracer_of

BACKLOG = 2048
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
MAX_HEAPS = 2
ACCEPTING_S = 1.0
"""After a signal to stop; clients that go on connecting do not keep the server."""
_M_ARENA_MAX = -8
"""Of <malloc.h>."""
_LOOK_SECONDS = 0.2
"""Between two looks at whether a worker has ended before it listened."""


@dataclass(frozen=True)
class Listening:
    """Where and how a server listens."""

    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    metrics_bind: tuple[str, int] | None = None

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def parse_bind(text: str) -> tuple[str, int]:
    """Parses `host:port`; raises UsageError for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise UsageError(f"'{text}' is not an address to listen at", hint="for example 127.0.0.1:8080")
    return host.strip("[]"), int(port)


def bound_socket(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet. Port 0 picks a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise UsageError(f"cannot listen at {host}:{port}: {error.strerror}", hint="choose another --bind") from None
    bound.set_inheritable(True)
    return bound


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serve(
    source: ServedSource,
    listening: Listening,
    settings: ServerSettings,
    announce: Callable[[str], None] = lambda _address: None,
) -> int:
    """Serve until a signal arrives, and return the exit code. `announce` is called with the address once the server listens."""
    _share_heaps()
    with bound_socket(listening.host, listening.port) as bound:
        worker = _Worker(source, listening, settings, bound, announce)
        return _run(worker) if listening.workers == 1 else _Supervisor(worker).run()


def _share_heaps() -> None:
    """Let all threads allocate from a few heaps. By default the C library gives each thread its own heap and keeps freed memory in
    it, so a server with many threads grows until each of them has handled its largest request."""
    with contextlib.suppress(OSError, AttributeError):  # another C library, which has no such heaps
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MAX_HEAPS)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _run(worker: _Worker) -> int:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(worker.run())


class _Server(uvicorn.Server):
    """uvicorn without signal handlers (the worker has them), with a callback once the socket listens."""

    def __init__(self, config: uvicorn.Config, listens: Callable[[], None]) -> None:
        super().__init__(config)
        self._listens = listens

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._listens()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Connections that wait to be accepted would be reset with the socket: they are accepted, and answered like the others."""
        last = time.monotonic() + ACCEPTING_S
        while sockets and select.select(sockets, [], [], 0)[0] and time.monotonic() < last:
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # for what was accepted last
        await super().shutdown(sockets)


@dataclass
class _Worker:
    """One process that answers requests."""

    source: ServedSource
    listening: Listening
    settings: ServerSettings
    bound: socket.socket
    announce: Callable[[str], None]
    log: RequestLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = RequestLog(self.settings.log_format)

    async def run(self) -> int:
        try:
            tracer = tracer_of(os.environ)
            served = await asyncio.to_thread(self.source.load)
        except OmnigraphError as error:
            self.log.write("refused_to_start", error=error.message, hint=error.hint)
            return 1
        for graph, reason in served.set_aside.items():
            self.log.write("graph_set_aside", graph=graph, reason=reason)
        app = Application(self.source, served, self.settings, self.log, tracer)
        server = _Server(self._config(app), partial(self._listens, served))
        self._handle_signals(app, server)
        metrics = await self._serve_metrics(app)
        await server.serve(sockets=[self.bound])
        if metrics is not None:
            metrics.close()
        app.service.close()
        self.log.write("stopped")
        sys.stdout.flush()
        sys.stderr.flush()
        # Threads that are still writing do not hold the process: a write has committed or it has not.
        os._exit(0)

    def _listens(self, served: Served) -> None:
        """Announce the address, and then load the engine, so that the server is up early and the first query waits less."""
        self.announce(address_of(self.bound))
        threading.Thread(target=_warm, args=(served,), name="omnigraph-warm", daemon=True).start()

    def _config(self, app: Any) -> uvicorn.Config:
        key, certificate = self.listening.tls_key, self.listening.tls_certificate
        connection: Any = partial(HttpConnection, limits=self.settings.limits)
        return uvicorn.Config(
            app,
            http=connection,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            backlog=BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=self.settings.grace_seconds,
            ssl_keyfile=None if key is None else str(key),
            ssl_certfile=None if certificate is None else str(certificate),
        )

    def _handle_signals(self, app: Application, server: uvicorn.Server) -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            app.service.drain()
            server.should_exit = True

        for stop_signal in _STOP_SIGNALS:
            loop.add_signal_handler(stop_signal, stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, self._reload, app))

    def _reload(self, app: Application) -> None:
        try:
            served = app.service.reload()
        except OmnigraphError as error:
            self.log.write("reload_failed", error=error.message, hint=error.hint)
        else:
            self.log.write("reloaded", graphs=len(served.graphs), revision=served.revision)

    async def _serve_metrics(self, app: Application) -> asyncio.Server | None:
        """Metrics at a separate address, without authentication."""
        if self.listening.metrics_bind is None:
            return None

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), timeout=10)
                text = app.service.metrics.text()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + text)
                await writer.drain()
            writer.close()

        host, port = self.listening.metrics_bind
        return await asyncio.start_server(answer, host, port)


def _warm(served: Served) -> None:
    for graph in served.graphs.values():
        with contextlib.suppress(OmnigraphError):  # whoever asks is told
            graph.warm()


class _Supervisor:
    """Several workers on one socket. Each opens the graphs itself, since any number of processes may write to a graph."""

    def __init__(self, worker: _Worker) -> None:
        self._worker = worker
        self._children: set[int] = set()
        self._is_stopping = False
        self._ready, self._told = os.pipe()

    def run(self) -> int:
        for stop_signal in _STOP_SIGNALS:
            signal.signal(stop_signal, self._stop)
        signal.signal(signal.SIGHUP, self._forward)
        for _ in range(self._worker.listening.workers):
            self._start()
        if self._all_listen():
            self._worker.announce(address_of(self._worker.bound))
        return self._wait()

    def _all_listen(self) -> bool:
        """Wait until every worker listens; False if one has ended, or all were told to end."""
        waiting = len(self._children)
        while waiting and not self._is_stopping:
            if select.select([self._ready], [], [], _LOOK_SECONDS)[0]:
                os.read(self._ready, 1)
                waiting -= 1
            elif os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return False
        return not self._is_stopping

    def _start(self) -> None:
        child = os.fork()
        if child:
            self._children.add(child)
            return
        code = 1
        try:
            for stop_signal in _STOP_SIGNALS:
                signal.signal(stop_signal, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            code = _run(replace(self._worker, announce=self._tell))
        finally:
            os._exit(code)

    def _tell(self, _address: str) -> None:
        os.write(self._told, b"1")

    def _wait(self) -> int:
        """Wait until every worker has ended. A worker killed by a signal is replaced; one that cannot start ends all."""
        code = 0
        while self._children:
            child, status = os.wait()
            self._children.discard(child)
            if self._is_stopping:
                continue
            if os.WIFSIGNALED(status):
                self._worker.log.write("worker_died", signal=os.WTERMSIG(status))
                self._start()
            else:
                code = os.WEXITSTATUS(status)
                self._is_stopping = True
                self._signal(signal.SIGTERM)
        return code

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True
        self._signal(signal.SIGTERM)

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        self._signal(signal.Signals(number))

    def _signal(self, number: signal.Signals) -> None:
        for child in tuple(self._children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
