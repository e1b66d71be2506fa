"""The ASGI application: the checks of a request in order, the handler, and the response."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from omnigraph.api.structs import present
from omnigraph.errors import (
    Cancelled,
    GraphNotFound,
    MergeConflicts,
    OmnigraphError,
    PolicyDenied,
    TooManyRequests,
    UsageError,
)
from omnigraph.history.history import new_ulid
from omnigraph.metering import StoreCost
from omnigraph.policy.ask import AccessRequest
from omnigraph.server import headers as checked
from omnigraph.server.auth import PARAMETER as TICKET, Actor, authenticate
from omnigraph.server.calls import REPLAYED, HandlerResult, RouteCall, encoded
from omnigraph.server.handlers import all_handlers
from omnigraph.server.handlers.binding import Handler
from omnigraph.server.logs import RequestLog
from omnigraph.server.problems import DEFECT, error_json, row_of
from omnigraph.server.registry import Served, ServedSource
from omnigraph.server.route import JSON, Route, Router
from omnigraph.server.routes import ROUTES
from omnigraph.server.service import Service
from omnigraph.server.settings import REFUSAL, ServerSettings, too_large
from omnigraph.server.telemetry import RequestSpan, SpanPart, Traces
from omnigraph.server.validation import check_path, checked_body, checked_parameters, trimmed

CLIENT_GONE = 499
"""In the log: nobody was there to take the answer."""


class Application:
    """Serves the graphs of a source. `served`: what the source has loaded."""

    def __init__(
        self,
        source: ServedSource,
        served: Served,
        settings: ServerSettings | None = None,
        log: RequestLog | None = None,
        tracer: Traces | None = None,
    ) -> None:
        self._log = log or RequestLog()
        self.service = Service(source, served, settings or ServerSettings(), tracer, self._log)
        self.service.application = self
        self._handlers = all_handlers()
        self._asynchronous = {name for name, handler in self._handlers.items() if inspect.iscoroutinefunction(handler)}
        self._router = Router(ROUTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        with self.service.metrics.in_flight(is_named="authorization" in request.headers):
            await self._exchange(request, scope, receive, send)

    async def _exchange(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(self.service, request, self._log)
        try:
            response = await self._respond(exchange)
        except ClientDisconnect:
            exchange.finish(CLIENT_GONE)
            return
        added = {"X-Request-Id": exchange.request_id, **checked.cors_headers(request.headers, self.service.settings)}
        response.raw_headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in added.items()]
        try:
            await response(scope, receive, exchange.counting(send))
        except OmnigraphError as error:  # in the middle of a stream: the connection is cut, and no line says why
            self._log.write("stream_broken", request_id=exchange.request_id, error=error.message)
            raise
        finally:
            exchange.finish(response.status_code)

    async def _respond(self, exchange: _Exchange) -> Response:
        try:
            return await self._answered(exchange)
        except Cancelled:
            raise ClientDisconnect from None  # only the client's going cancels
        except OmnigraphError as error:
            return exchange.refused(error)
        except ClientDisconnect:
            raise
        except Exception as error:  # A defect: whoever asks learns nothing of it, the log everything.
            return exchange.failed(error)

    async def _answered(self, exchange: _Exchange) -> Response:
        service, request = self.service, exchange.request
        if refusal := request.scope.get("extensions", {}).get(REFUSAL):
            raise refusal
        checked.check_origin(request.method, request.headers, service.settings, request.scope["scheme"])
        if checked.is_preflight(request.method, request.headers, service.settings):
            return Response(headers={**checked.EVERY_ANSWER, **checked.PREFLIGHT})
        raw_path = request.scope.get("raw_path") or request.url.path.encode()
        route, path = self._router.find(request.method, raw_path)
        exchange.route = route
        call = RouteCall(service, service.served, route, request, exchange.request_id, path=trimmed(route, dict(path)))
        exchange.call = call
        with call.held:
            answer = await self._handled(call, self._handlers[route.operation_id])
            return exchange.response(answer, call.held.pop_all())

    async def _handled(self, call: RouteCall, handler: Handler) -> HandlerResult:
        for step in STEPS:
            await step(call)
        route = call.route
        if not route.remembers_answers or call.idempotency_key is None:
            return await self._run(call, handler)
        key = call.write_key(str(call.value(route.branch_from) or ""))
        work = partial(self._run, call, handler)
        answer, is_replayed = await call.service.replays.once(str(key), call.digest, work)
        return replace(answer, headers={**answer.headers, **REPLAYED}, new_commit=None) if is_replayed else answer

    async def _run(self, call: RouteCall, handler: Handler) -> HandlerResult:
        if call.route.operation_id not in self._asynchronous:
            return await call.run(call.route.pool, partial(_called, handler, call))
        answer = handler(call)
        assert not isinstance(answer, HandlerResult), "a handler that is awaited"
        return await answer


# What every request passes before its handler runs, in the order of the contract.


async def check_size(call: RouteCall) -> None:
    """Of the body, if the request says it."""
    call.size = checked.declared_size(call.request.headers) or 0
    if call.size > call.body_limit:
        raise too_large(call.body_limit, call.size)


async def identify(call: RouteCall) -> None:
    """Whose token it is."""
    if not call.route.is_open and call.served.verifiers:
        call.actor = _actor_of(call)


def _actor_of(call: RouteCall) -> Actor | None:
    """The actor: the owner of the token, or of the ticket in the link."""
    request = call.request
    tickets, token = request.query_params.getlist(TICKET), request.headers.get("authorization")
    if len(tickets) > 1:
        raise UsageError(f"the query parameter '{TICKET}' is given twice")
    ticket = next(iter(tickets), None)
    if ticket is None or token is not None or request.method not in ("GET", "HEAD"):
        return authenticate(call.served.verifiers, token)
    raw_path = request.scope.get("raw_path") or request.url.path.encode()
    target = f"{raw_path.decode('latin-1').partition('?')[0]}?{request.url.query}"
    return call.service.tickets.redeem(ticket, target)


async def find_graph(call: RouteCall) -> None:
    """The graph, or whether the caller may do this with the server."""
    route = call.route
    if route.is_of_graph:
        call.target = call.served.graphs.get(call.path["graph_id"])
        if call.target is None:
            raise GraphNotFound(f"graph '{call.path['graph_id'][:100]}' not found")
    elif route.action is not None:
        action: Any = route.action
        call.served.server_gate.check(call.actor_id, AccessRequest(action))


async def parse(call: RouteCall) -> None:
    """Path, headers, parameters and body, each checked against the table of routes."""
    route, request = call.route, call.request
    check_path(call.path)
    call.expected_head = checked.expected_head(route, request.headers)
    call.idempotency_key = checked.idempotency_key(route, request.headers)
    call.message = checked.commit_message(route, request.headers, call.service.settings.limits)
    query = request.query_params.multi_items() if request.scope["query_string"] else []
    call.query = checked_parameters(route, [pair for pair in query if pair[0] != TICKET])
    if route.body is not None and not route.is_streamed_in:
        data = await _read_body(request, call.body_limit)
        call.size = len(data)
        checked.check_content_type(route, request.headers, has_body=call.size > 0)
        call.body = checked_body(route, data)
        call.message = call.body.get("message", call.message)
    elif route.body is not None:
        checked.check_content_type(route, request.headers, has_body=True)


async def _read_body(request: Request, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise too_large(limit, size)
        pieces.append(piece)
    return b"".join(pieces)


async def authorise(call: RouteCall) -> None:
    """A write that is forbidden takes no place among the writes."""
    if call.route.is_write:
        call.ask_graph()


async def admit(call: RouteCall) -> None:
    if call.route.is_write:
        call.admit(call.size)


STEPS = (check_size, identify, find_graph, parse, authorise, admit)


def _called(handler: Handler, call: RouteCall) -> HandlerResult:
    """Runs in a pool thread, which also encodes JSON: a large body would block the event loop."""
    answer = handler(call)
    assert isinstance(answer, HandlerResult)
    return replace(answer, body=encoded(answer.body)) if isinstance(answer.body, dict) else answer


class _Exchange:
    """One request and its response, for the log."""

    def __init__(self, service: Service, request: Request, log: RequestLog) -> None:
        self.service = service
        self.log = log
        self.request = request
        self.request_id = checked.given_request_id(request.headers) or new_ulid()
        self.started = time.time()
        self.route: Route | None = None
        self.call: RouteCall | None = None
        self.answer: HandlerResult | None = None
        self.bytes = 0

    def counting(self, send: Send) -> Send:
        """Counts the bytes of the response body."""

        async def counted(message: Message) -> None:
            self.bytes += len(message.get("body", b""))
            await send(message)

        return counted

    def response(self, answer: HandlerResult, held: contextlib.ExitStack) -> Response:
        """`held` is released when the response is complete: at the end of a stream, or at once."""
        self.answer = answer
        headers = {**checked.EVERY_ANSWER, **self._context_headers(answer), **answer.headers}
        if answer.etag is not None and self.request.method in ("GET", "HEAD") and answer.status == 200:
            headers["ETag"] = f'"{answer.etag}"'
            if checked.fits_tag(self.request.headers, answer.etag):
                held.close()
                return Response(status_code=304, headers=headers)
        body = answer.body
        if isinstance(body, bytes | dict):
            held.close()
        if isinstance(body, dict):
            return Response(encoded(body), answer.status, headers, JSON)
        if isinstance(body, bytes):
            return Response(body, answer.status, headers, answer.media_type if body else None)
        stream = self._pulled(body) if isinstance(body, Iterator) else body
        return StreamingResponse(_holding(stream, held), answer.status, headers, answer.media_type)

    def _context_headers(self, answer: HandlerResult) -> dict[str, str]:
        headers = {}
        if answer.commit is not None:
            headers["Omnigraph-Graph-Commit"] = answer.commit
        parts: list[str] = []
        if self.call is not None:
            parts.extend(f"{name};dur={(end - start) * 1000:.1f}" for name, (start, end) in self.call.timings.items())
            if cost := str(self.call.meter.cost()):
                took = sum(request.ended - request.started for request in self.call.meter.requests)
                parts.append(f'store;dur={took * 1000:.1f};desc="{cost}"')
        if parts:
            headers["Server-Timing"] = ", ".join(parts)
        if self.route is not None and self.route.successor is not None and self.call is not None:
            successor = f"/graphs/{self.call.path['graph_id']}{self.route.successor}"
            headers |= {"Deprecation": "true", "Link": f'<{successor}>; rel="successor-version"'}
        return headers

    async def _pulled(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Each piece is produced in the pool after the previous one was sent, so a slow reader occupies no thread."""
        assert self.route is not None
        owner = "" if self.call is None else self.call.actor_id or ""
        try:
            while True:
                work = partial(next, pieces, None)
                piece = await self.service.pools.run(
                    self.route.pool, work if self.call is None else partial(self.call.meter.run, work), owner
                )
                if piece is None:
                    return
                yield piece
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                await self.service.pools.run(self.route.pool, close)

    def refused(self, error: OmnigraphError) -> Response:
        row = row_of(error)
        self._note(error)
        headers = {**checked.EVERY_ANSWER, **row.headers(error)}
        if self.call is not None:
            headers |= self._context_headers(HandlerResult({}))
        return Response(encoded(error_json(error)), row.status, headers, JSON)

    def _note(self, error: OmnigraphError) -> None:
        """How refusals appear in the log and in the metrics."""
        match error:
            case PolicyDenied():
                actor = self.call and self.call.actor_id
                self.log.write("denied", request_id=self.request_id, actor=actor, why=error.why, **error.details())
            case TooManyRequests():
                self.service.metrics.rejected()
            case MergeConflicts():
                self.service.metrics.conflicting(conflict.kind for conflict in error.conflicts)
        if row_of(error).is_generic:
            self.log.defect(self.request_id, error)

    def failed(self, error: Exception) -> Response:
        self.log.defect(self.request_id, error)
        return Response(encoded(DEFECT), 500, dict(checked.EVERY_ANSWER), JSON)

    def finish(self, status: int) -> None:
        """Write the log line of the request, and record its metrics."""
        ended = time.time()
        seconds = max(ended - self.started, 0.0)
        route = "-" if self.route is None else self.route.path
        self.service.metrics.answered(route, self.request.method, status, seconds)
        answer, call = self.answer, self.call
        if answer is not None and answer.new_commit is not None and call is not None:
            self.service.metrics.committed(call.of_graph.id, answer.new_commit.ref.branch, answer.new_commit.kind)
        cost = None if call is None else call.meter.cost()
        if call is not None and cost is not None:
            self.service.metrics.add_cost(route, call.meter.by_kind, cost)
        self._trace(route, status, ended, cost)
        self.log.write(
            "request",
            request_id=self.request_id,
            actor=None if call is None else call.actor_id,
            graph=None if call is None or call.target is None else call.target.id,
            method=self.request.method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            rows=None if answer is None else answer.rows,
            bytes=self.bytes,
            commit=None if answer is None else answer.commit,
        )

    def _trace(self, route: str, status: int, ended: float, cost: StoreCost | None) -> None:
        tracer, answer, call = self.service.tracer, self.answer, self.call
        if tracer is None:
            return
        attributes = present(
            {
                "http.request.method": self.request.method,
                "http.route": route,
                "http.response.status_code": status,
                "omnigraph.request_id": self.request_id,
                "omnigraph.graph": None if call is None or call.target is None else call.target.id,
                "graph.commit_id": None if answer is None else answer.commit,
                **({} if cost is None else {f"omnigraph.store.{name}": value for name, value in asdict(cost).items()}),
            }
        )
        parts = [] if call is None else [SpanPart(name, *times) for name, times in call.timings.items()]
        if call is not None:
            parts += [
                SpanPart(f"store {request.kind}", request.started, request.ended, {"omnigraph.store.key": request.key})
                for request in call.meter.requests
            ]
        name = f"{self.request.method} {route}"
        tracer.record(RequestSpan(name, self.started, ended, parts, attributes, self.request.headers))


async def _holding(stream: AsyncIterator[bytes], held: contextlib.ExitStack) -> AsyncIterator[bytes]:
    with held:
        async for piece in stream:
            yield piece


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
