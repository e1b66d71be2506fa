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

from omnigraph import errors
from omnigraph.client.credentials import check_token, check_url
from omnigraph.errors import MissingExtra, OmnigraphError, QueryTimeout, ServerUnavailable, UsageError

if TYPE_CHECKING:
    import httpx


# Errors in a server's answers, as the errors that the library raises.

_BY_STATUS: Mapping[int, type[OmnigraphError]] = {
    401: errors.Unauthorized,
    404: errors.NotFound,
    409: errors.Conflict,
    429: errors.TooManyRequests,
}
"""For answers that do not name an error of OmniGraph, such as those of a proxy."""

_INPUT = {
    "type_name": "type",
    "property": "property",
    "entity_id": "id",
    "value": "value",
    "file": "file",
    "line": "line",
}
_ENTITY = {"type_name": "type", "entity_id": "id"}

_ATTRIBUTES: Mapping[type[OmnigraphError], Mapping[str, str]] = {
    errors.LanguageError: {name: name for name in ("rule", "line", "column", "source_line", "file")},
    errors.ParameterError: {"parameter": "parameter"},
    errors.InputError: _INPUT,
    errors.RejectedRecords: {"rejects": "rejects", "total": "total"},
    errors.UnreadableInput: {**_INPUT, "problems": "problems", "total": "total"},
    errors.KeyConflict: {**_ENTITY, "entity_kind": "entity_kind"},
}
"""Attributes of errors and their names among the details, where these differ or some may be left out. For other errors the names
are the same."""

_DEFAULTS: Mapping[type[OmnigraphError], Mapping[str, Any]] = {
    errors.LanguageError: {"rule": "", "line": 0, "column": 0, "source_line": "", "file": None},
    errors.RejectedRecords: {**dict.fromkeys(_INPUT), "rejects": (), "total": 0},
    errors.InputError: dict.fromkeys(_INPUT),
    errors.UnreadableInput: {**dict.fromkeys(_INPUT), "problems": (), "total": 1},
    errors.ExpectedVersionMismatch: {"table_key": "", "expected": 0, "actual": 0, "reason": None, "entity_id": None},
    errors.HistoryGap: {"branch": None, "watermark": None, "commit_id": None},
    errors.KeyConflict: {"type_name": "", "entity_id": "", "entity_kind": "node"},
    errors.PolicyDenied: {"action": "", "branch": None, "target_branch": None, "why": None},
    errors.Damaged: {"file": "", "what": "", "affected": None, "commits": ()},
    errors.MergeConflicts: {"conflicts": (), "schema_conflicts": ()},
    errors.SchemaChangeRefused: {"steps": (), "violations": ()},
    errors.StorageError: {"key": ""},
    errors.OutcomeUnknown: {"commit_id": ""},
}
"""Attributes of an error that the server's answer did not give."""


@contextmanager
def placed_in(text: str, file: str | None) -> Iterator[None]:
    """Within the block, a LanguageError names the caller's file and shows the line of the text."""
    try:
        yield
    except errors.LanguageError as error:
        lines = text.splitlines()
        error.file = file
        error.source_line = lines[error.line - 1] if 0 < error.line <= len(lines) else ""
        raise


def _kinds(root: type[OmnigraphError] = OmnigraphError) -> Iterator[type[OmnigraphError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)


def error_of(status: int, data: bytes, headers: Mapping[str, str]) -> OmnigraphError:
    """The error of an answer, with the details in its body. ServerUnavailable if the answer is not that of an OmniGraph server."""
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("error"), str):
        error: OmnigraphError = _foreign(status)
    else:
        error = _rebuilt(status, body)
    after = headers.get("retry-after", "")
    if after.isdigit():
        vars(error)["retry_after_s"] = float(after)
    return error


def _foreign(status: int) -> OmnigraphError:
    kind = _BY_STATUS.get(status)
    message = f"the server answered with status {status}"
    return ServerUnavailable(message) if kind is None else _error_of(kind, message, None)


def _rebuilt(status: int, body: Mapping[str, Any]) -> OmnigraphError:
    problem = body.get("problem") or {}
    kind = next((known for known in _kinds() if known.code == problem.get("code")), None) or _BY_STATUS.get(status)
    if kind is None or kind is OmnigraphError:
        return ServerUnavailable(f"the server failed: {body['error']}")
    error = _error_of(kind, body["error"], problem.get("hint"))
    details = _details(body, problem)
    for name, value in _attributes(kind, details).items():
        setattr(error, name, value)
    return error


def _error_of(kind: type[OmnigraphError], message: str, hint: str | None) -> OmnigraphError:
    """An error of this class, whatever its constructor takes."""
    error = kind.__new__(kind, message)
    OmnigraphError.__init__(error, message, hint=hint)
    for parent in reversed(kind.__mro__):
        for name, value in _DEFAULTS.get(parent, {}).items():
            setattr(error, name, value)
    return error


_NAMED_IN_MEMBERS = (
    ("recovery_required", "commit_id", "operation_id"),
    ("change_feed_gap", "commit_id", "first_unreadable_commit_id"),
    ("change_diff_refusal", "commit_id", "graph_commit_id"),
    ("key_conflict", "entity_kind", "entity_kind"),
)
"""A member of the body, the name of a detail, and its name in that member."""


def _details(body: Mapping[str, Any], problem: Mapping[str, Any]) -> dict[str, Any]:
    """All details in the body, by the names that errors use for them."""
    details = {name: problem[name] for name in ("rule", "file", "line", "column") if name in problem}
    details |= problem.get("details") or {}
    for member in ("resource_limit", "precondition_failure"):
        details |= body.get(member) or {}
    version = body.get("published_dataset_version_conflict")
    if version is not None:
        details |= {
            "table_key": f"{version['entity_kind']}:{version['type_name']}",
            "expected": version["expected_published_dataset_version"],
            "actual": version["actual_published_dataset_version"],
        }
    for member, name, inner in _NAMED_IN_MEMBERS:
        if inner in (body.get(member) or {}):
            details[name] = body[member][inner]
    if "merge_conflicts" in body:
        details.setdefault("merge_conflicts", body["merge_conflicts"])
    return details


def _attributes(kind: type[OmnigraphError], details: Mapping[str, Any]) -> dict[str, Any]:
    special = next((_SPECIAL[parent] for parent in kind.__mro__ if parent in _SPECIAL), None)
    if special is not None:
        return special(details)
    named = next((_ATTRIBUTES[parent] for parent in kind.__mro__ if parent in _ATTRIBUTES), None)
    if named is None:
        return {name: _frozen(value) for name, value in details.items() if name.isidentifier()}
    return {attribute: _frozen(details[name]) for attribute, name in named.items() if name in details}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _merge_conflicts(details: Mapping[str, Any]) -> dict[str, Any]:
    from omnigraph.api.writes import SchemaConflictJson
    from omnigraph.client.decoding import merge_conflict

    return {
        "conflicts": tuple(merge_conflict(conflict) for conflict in details.get("merge_conflicts", ())),
        "schema_conflicts": tuple(
            SchemaConflictJson.from_json(conflict) for conflict in details.get("schema_conflicts", ())
        ),
    }


def _refused_steps(details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "steps": tuple(details.get("steps", ())),
        "violations": tuple(
            (violation["step"], violation["count"], [(first["id"], first["message"]) for first in violation["first"]])
            for violation in details.get("violations", ())
        ),
    }


_SPECIAL: Mapping[type[OmnigraphError], Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    errors.MergeConflicts: _merge_conflicts,
    errors.SchemaChangeRefused: _refused_steps,
}


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
