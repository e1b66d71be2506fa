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

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog
from omnigraph.server.maintaining import Maintenance
from omnigraph.server.registry import Served, ServedSource
from omnigraph.server.settings import REFUSAL, Limits, ServerSettings, head_too_large
from omnigraph.server.telemetry import tracer_of

# A connection of a client: HTTP/1.1 as uvicorn reads it, with a bound on what comes before a body.

HEAD_PIECE_BYTES = 1_024
"""A head is read in pieces of this size: so much of a header that has no end yet may be beyond the limit."""
LINGER_S = 1.0
"""After a refusal the client's bytes are discarded for so long: to close at once would reset the connection, and the client would
lose the answer."""
MAX_DISCARDED_BYTES = 2**20
"""Of a refused client: then its bytes are no longer read, because to read them keeps the event loop from those of others."""
LAST_REQUEST_S = 0.5
"""When the server stops, a request on a connection that is idle may be on its way: so long it is still answered."""


class HttpConnection(HttpToolsProtocol):
    """The parser collects the header it is in, and reports it when it is complete: bytes that made it report nothing are counted."""

    def __init__(self, *, limits: Limits, **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self._limits = limits
        self._unreported_bytes = 0
        self._head_bytes = 0
        self._is_head_complete = False
        self._is_refused = False
        """Or nothing more is answered: what the client sends is discarded."""
        self._discarded_bytes = 0
        self._is_stopping = False

    def shutdown(self) -> None:
        """The server stops: close after the request that is being answered, or after the next if it comes soon. A connection
        that is closed with unread bytes is reset, so this side ends first."""
        self._is_stopping = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(LAST_REQUEST_S, self._end)

    def _end(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._is_refused = True
            _Lingering(self.transport, self.loop).close()

    def data_received(self, data: bytes) -> None:
        start = 0
        while start < len(data) and not (self._is_refused or self.transport.is_closing()):
            piece = data[start : start + (self._limits.header_bytes if self._is_head_complete else HEAD_PIECE_BYTES)]
            start += len(piece)
            self._unreported_bytes += len(piece)
            super().data_received(piece)
            read = self._head_bytes + self._unreported_bytes
            if read > self._limits.header_bytes + HEAD_PIECE_BYTES and not self._is_refused:
                self._refuse()
        if self._is_refused and not self.transport.is_closing():
            self._discarded_bytes += len(data) - start
            if self._discarded_bytes > MAX_DISCARDED_BYTES:
                self.transport.pause_reading()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = self._unreported_bytes = 0
        self._is_head_complete = False

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._add(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of the head, or of the trailer of a body in chunks."""
        super().on_header(name, value)
        self._add(len(name) + len(value))

    def _add(self, size: int) -> None:
        self._head_bytes += size
        self._unreported_bytes = 0
        if self._head_bytes > self._limits.header_bytes or len(self.headers) > self._limits.headers:
            self._is_refused = True
            raise ValueError("the head is too large")  # ends the parser, which calls send_400_response

    def on_headers_complete(self) -> None:
        if not self.url.startswith(b"/"):
            self._take_host_of_target()
        super().on_headers_complete()
        self._is_head_complete = True
        if self._is_stopping:
            self.cycle.keep_alive = False

    def _take_host_of_target(self) -> None:
        """A target with a scheme and a host (as sent to proxies) decides which server is meant, whatever the header says."""
        target = httptools.parse_url(self.url)
        hosts = [value for name, value in self.headers if name == b"host"]
        if target.host is None or target.schema not in (b"http", b"https") or len(hosts) > 1:
            return
        port = b"" if target.port is None else b":%d" % target.port
        self.headers[:] = [(name, value) for name, value in self.headers if name != b"host"]
        self.headers.append((b"host", target.host + port))

    def on_body(self, body: bytes) -> None:
        self._head_bytes = self._unreported_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_head_complete = False

    def send_400_response(self, msg: str) -> None:
        if self._is_refused:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        """Let the application answer, as it answers everything. A request that it has begun with is cut."""
        self._is_refused = True
        if self._is_head_complete and not self.cycle.response_complete:
            self.transport.close()
            return
        pending = self.cycle
        size, count = max(self._head_bytes, self._unreported_bytes), len(self.headers or ())
        self.on_message_begin()
        error = head_too_large(self._limits, size, count)
        scope = {"method": "-", "path": "/", "raw_path": b"/", "query_string": b"", "extensions": {REFUSAL: error}}
        self.scope.update(scope)  # type: ignore[typeddict-item]  # as uvicorn fills it
        self.cycle = RequestResponseCycle(
            scope=self.scope,
            transport=_Lingering(self.transport, self.loop),  # type: ignore[arg-type]  # what a cycle uses of one
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=False,
            on_response=self.on_response_complete,
        )
        self.cycle.more_body = False
        self.cycle.message_event.set()
        if pending is None or pending.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.pipeline.appendleft((self.cycle, self.app))


class _Lingering:
    """A transport that ends its own side first, and closes after a while."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        if not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()
        self._loop.call_later(LINGER_S, self._transport.close)


BACKLOG = 2048
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
MAX_HEAPS = 2
ACCEPTING_S = 1.0
"""After a signal to stop; clients that go on connecting do not keep the server."""
SWITCH_S = 0.001
"""A thread that computes in Python lets another run after this time: short requests switch several times, and Python's own 5 ms each
time make them wait for whoever compiles a long query."""
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
    sys.setswitchinterval(SWITCH_S)
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
        server = _Server(self._config(app), partial(self._listens, served, app.service.maintenance))
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

    def _listens(self, served: Served, maintenance: Maintenance | None) -> None:
        """Announce the address, and then load the engine, so that the server is up early and the first query waits less."""
        self.announce(address_of(self.bound))
        threading.Thread(target=_warm, args=(served,), name="omnigraph-warm", daemon=True).start()
        if maintenance is not None:
            maintenance.start()

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
        self._maintainer: int | None = None
        """One worker maintains the graphs."""
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
        maintains = self._maintainer is None
        child = os.fork()
        if child:
            self._children.add(child)
            if maintains:
                self._maintainer = child
            return
        code = 1
        try:
            for stop_signal in _STOP_SIGNALS:
                signal.signal(stop_signal, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            settings = self._worker.settings
            settings = settings if maintains else replace(settings, maintenance=None)
            code = _run(replace(self._worker, announce=self._tell, settings=settings))
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
                self._maintainer = None if child == self._maintainer else self._maintainer
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
