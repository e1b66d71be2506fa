"""A connection of a client: HTTP/1.1 as uvicorn reads it, with a bound on what comes before a body."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from omnigraph.server.limits import REFUSAL, head_too_large
from omnigraph.server.settings import Limits

HEAD_PIECE_BYTES = 1_024
"""A head is read in pieces of this size: so much of a header that has no end yet may be beyond the limit."""
LINGER_S = 1.0
"""After a refusal the client's bytes are discarded for so long: to close at once would reset the connection, and the client would
lose the answer."""
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
