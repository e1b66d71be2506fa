"""Requests to a server, repeated where that is safe and answered with a value or a typed error."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from omnigraph.client.credentials import check_token, check_url
from omnigraph.client.problems import error_of
from omnigraph.errors import MissingExtra, OmnigraphError, QueryTimeout, ServerUnavailable, UsageError

if TYPE_CHECKING:
    import httpx

JSON = "application/json"
DETAILED = "application/vnd.omnigraph+json"
"""The media type of answers with more members than the contract requires."""
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"

Repeat = Literal["always", "unsent"]
"""When a request may be repeated: always (it reads, or it carries a key), or only if it did not reach the server."""

ATTEMPTS = 4
INITIAL_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
"""If the server asks for a longer pause, the request is not repeated."""
CONNECT_TIMEOUT_S = 10.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_LATER = frozenset({429, 502, 503, 504})

Query = Mapping[str, str | int | bool | Sequence[str] | None]


@dataclass(frozen=True)
class Reply:
    """A successful answer."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.data)
        except ValueError:
            raise ServerUnavailable("the server did not answer in JSON") from None


class Connection:
    """One server, with the token for it. Safe to share between threads."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 120.0,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise MissingExtra(
                "a served graph needs httpx, which is not installed", hint="pip install 'omnigraph[client]'"
            ) from None
        if timeout <= 0:
            raise UsageError(f"the timeout must be positive, got {timeout:g}")
        self.url = check_url(url)
        self._pause = pause
        self._timeout = timeout
        headers = {} if token is None else {"Authorization": f"Bearer {check_token(token)}"}
        if httpx.URL(self.url).host in _LOOPBACK:
            headers["Accept-Encoding"] = "identity"  # On a loopback, compression takes longer than it saves.
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=CONNECT_TIMEOUT_S),
            transport=transport,
            # A redirect must not send the token to another server.
            follow_redirects=False,
        )

    def __repr__(self) -> str:
        return f"<Connection to {self.url}>"

    def close(self) -> None:
        self._http.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        content: Callable[[], Iterator[bytes]] | None = None,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        accept: str = DETAILED,
        repeat: Repeat = "always",
        timeout: float | None = None,
    ) -> Reply:
        """Send a request. A refusal raises the error that its body names; ServerUnavailable if there is no answer.

        `content` returns the pieces of a large body, and is called for each attempt. QueryTimeout after `timeout` seconds, if it
        is given.
        """

        def once() -> Reply:
            with self._opened(
                method, path, query, body, content, content_type, {**(headers or {}), "Accept": accept}, timeout
            ) as response:
                return Reply(response.status_code, response.headers, response.read())

        return self._repeating(once, repeat)

    @contextmanager
    def stream(
        self, method: str, path: str, *, query: Query | None = None, body: Mapping[str, Any] | None = None
    ) -> Iterator[Iterator[bytes]]:
        """The pieces of an answer, as they arrive. ServerUnavailable if it breaks off."""
        with self._opened(
            method, path, query, body, None, JSON, {"Accept": f"{NDJSON}, {JSON};q=0.5"}, None
        ) as response:
            yield self._pieces(response)

    def _pieces(self, response: httpx.Response) -> Iterator[bytes]:
        import httpx

        try:
            yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise self._no_answer("the answer broke off", error) from None

    @contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Mapping[str, Any] | None,
        content: Callable[[], Iterator[bytes]] | None,
        content_type: str,
        headers: Mapping[str, str],
        timeout: float | None,
    ) -> Iterator[httpx.Response]:
        """A successful response; any other status is raised as an error."""
        import httpx

        data = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        sent = data if content is None else content()
        typed = {} if sent is None else {"Content-Type": content_type}
        limit = httpx.Timeout(self._timeout if timeout is None else timeout, connect=CONNECT_TIMEOUT_S)
        try:
            with self._http.stream(
                method, path, params=tuple(_pairs(query)), content=sent, headers={**headers, **typed}, timeout=limit
            ) as response:
                if response.status_code >= 300:
                    raise error_of(response.status_code, response.read(), response.headers)
                yield response
        except httpx.TimeoutException as error:
            if timeout is not None:
                raise QueryTimeout(timeout) from None
            raise self._no_answer("no answer in time", error) from None
        except httpx.TransportError as error:
            raise self._no_answer("no answer", error) from None

    def _no_answer(self, what: str, error: Exception) -> ServerUnavailable:
        import httpx

        unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        reason = str(error) or type(error).__name__
        return ServerUnavailable(f"{what} from {self.url}: {reason}", is_sent=not unsent)

    def _repeating(self, once: Callable[[], Reply], repeat: Repeat) -> Reply:
        pause = INITIAL_PAUSE_S
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return once()
            except OmnigraphError as error:
                wait = _wait_before_repeating(error, repeat, pause)
                if wait is None or attempt == ATTEMPTS:
                    raise
            self._pause(wait)
            pause = min(pause * 4, MAX_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")


def _wait_before_repeating(error: OmnigraphError, repeat: Repeat, pause: float) -> float | None:
    """Seconds to wait before the next attempt, or None if the error is final."""
    if isinstance(error, QueryTimeout) or not error.retry:
        return None
    if repeat == "unsent" and not (isinstance(error, ServerUnavailable) and not error.is_sent):
        return None
    retry_after_s: float | None = getattr(error, "retry_after_s", None)
    if retry_after_s is not None and retry_after_s > MAX_PAUSE_S:
        return None
    return max(retry_after_s or 0.0, pause * random.uniform(0.5, 1.0))


def _pairs(query: Query | None) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        if value is None:
            continue
        if isinstance(value, bool):
            pairs.append((name, "true" if value else "false"))
        elif isinstance(value, str | int):
            pairs.append((name, str(value)))
        else:
            pairs += [(name, item) for item in value]
    return pairs


def segment(text: str) -> str:
    """A name as one segment of a path."""
    return quote(text, safe="")


def listed_graphs(connection: Connection) -> list[dict[str, str]]:
    """The graphs of a server: {graph_id, uri}."""
    graphs: list[dict[str, str]] = connection.send("GET", "/graphs").json()["graphs"]
    return graphs
