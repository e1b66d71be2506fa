"""JSON over HTTP to a provider that may be slow, limited, broken or down.

A request is repeated while that can help: no answer, an answer that breaks off or is not JSON, or one of the statuses in
`_RETRIED`. It waits as long as the provider asks (Retry-After), else twice as long each time. Keys are read from the environment
when a request is made, and never appear in an error, log or representation; redirects, which could carry them elsewhere, are not
followed.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph._internal.deadlines import Deadline
from omnigraph.errors import EmbeddingRefused, EmbeddingUnavailable

TIMEOUT_S = 30.0
MAX_WAIT_S = 60.0
"""How long one batch may take, including retries."""
MAX_RETRIES = 4
INITIAL_BACKOFF_S = 0.2
MAX_REASON_LENGTH = 300
"""How many characters of a provider's own message an error repeats."""
CHUNK_BYTES = 1 << 16
_RETRIED = frozenset([408, 409, 425, 429, 500, 502, 503, 504])


@dataclass(frozen=True)
class Clock:
    """The time, and waiting; in tests, waiting takes no time."""

    now: Callable[[], float] = time.monotonic
    today: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


class RateLimit:
    """At most this many requests a minute, evenly spaced. Threads take turns."""

    def __init__(self, per_minute: float | None, clock: Clock) -> None:
        self._interval_s = 0.0 if per_minute is None else 60.0 / per_minute
        self._clock = clock
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        if not self._interval_s:
            return
        with self._lock:
            now = self._clock.now()
            send_at = max(now, self._next)
            self._next = send_at + self._interval_s
        if send_at > now:
            self._clock.sleep(send_at - now)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _Interrupted(Exception):
    """An attempt that failed and may be repeated; `wait_s` is the wait that the provider asks for."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


@dataclass
class JsonRequests:
    """Requests to one provider. `key_variables`: environment variables; the first that is set holds the key."""

    provider: str
    base_url: str
    key_variables: tuple[str, ...]
    key_header: Callable[[str], tuple[str, str]]
    needs_key: bool = True
    per_minute: float | None = None
    timeout_s: float = TIMEOUT_S
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self._limit = RateLimit(self.per_minute, self.clock)
        self._opener = urllib.request.build_opener(_NoRedirects())

    def post(self, path: str, body: Mapping[str, Any], max_bytes: int, deadline: Deadline) -> Any:
        """The decoded answer to a request. Raises EmbeddingUnavailable if there is none, EmbeddingRefused if the provider
        refuses."""
        key = self._key()
        end = self.clock.now() + MAX_WAIT_S
        backoff_s = INITIAL_BACKOFF_S
        for tried in range(MAX_RETRIES + 1):
            deadline.check()
            self._limit.wait()
            try:
                return self._posted(path, body, max_bytes, key, end, deadline)
            except _Interrupted as interrupted:
                wait_s = backoff_s * random.uniform(0.5, 1.0) if interrupted.wait_s is None else interrupted.wait_s
                remaining_s = deadline.remaining_s()
                left = end - self.clock.now()
                if tried == MAX_RETRIES or wait_s > left or (remaining_s is not None and wait_s > remaining_s):
                    deadline.check()
                    raise self._unavailable(interrupted, tried, wait_s, key) from None
            self.clock.sleep(wait_s)
            backoff_s *= 2
        raise AssertionError("the last try returns or raises")

    def _unavailable(self, interrupted: _Interrupted, tried: int, wait_s: float, key: str | None) -> Exception:
        advice = f" and asks to wait {wait_s:.0f} s" if interrupted.wait_s is not None else ""
        message = f"{self.provider} did not embed: {interrupted}{advice} (tried {tried + 1} times)"
        return EmbeddingUnavailable(_without(message, key), hint="try again later; what was embedded before is kept")

    def _posted(
        self, path: str, body: Mapping[str, Any], max_bytes: int, key: str | None, end: float, deadline: Deadline
    ) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "omnigraph"}
        if key is not None:
            headers.update([self.key_header(key)])
        left = [self.timeout_s, end - self.clock.now(), deadline.remaining_s()]
        timeout_s = max(min(seconds for seconds in left if seconds is not None), 0.001)
        try:
            request = urllib.request.Request(
                f"{self.base_url}{path}", json.dumps(body).encode(), headers, method="POST"
            )
            with self._opener.open(request, timeout=timeout_s) as answer:
                data = self._read(answer, max_bytes, min(end, self.clock.now() + timeout_s))
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise self._refused(refusal, key) from None
        except TimeoutError:
            raise _Interrupted(f"no answer within {timeout_s:.0f} s") from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _Interrupted(f"no answer within {timeout_s:.0f} s") from None
            raise _Interrupted(f"cannot be reached: {error.reason}") from None
        except http.client.IncompleteRead:
            raise _Interrupted("the answer broke off") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Interrupted(f"the connection failed: {type(error).__name__}") from None
        except ValueError as error:  # an invalid address or header
            raise EmbeddingRefused(
                _without(f"a request to {self.provider} is not valid: {error}", key),
                hint="check OMNIGRAPH_EMBED_BASE_URL",
            ) from None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise _Interrupted("the answer is not JSON") from None

    def _read(self, answer: Any, max_bytes: int, end: float) -> bytes:
        """The whole body, unless it is larger than any right answer, or arrives too slowly."""
        pieces: list[bytes] = []
        size = 0
        while piece := answer.read1(CHUNK_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise EmbeddingRefused(
                    f"{self.provider} answered with more than {max_bytes:,} bytes",
                    hint="check that OMNIGRAPH_EMBED_BASE_URL is the address of an embeddings server",
                )
            if self.clock.now() > end:
                raise _Interrupted("the answer came too slowly")
        expected = answer.headers.get("Content-Length", "")
        if expected.isdigit() and int(expected) != size:
            raise _Interrupted("the answer broke off")
        return b"".join(pieces)

    def _refused(self, refusal: urllib.error.HTTPError, key: str | None) -> Exception:
        message = f"status {refusal.code}"
        try:
            reason = _message(json.loads(refusal.read(CHUNK_BYTES)))
        except (ValueError, RecursionError, OSError, http.client.HTTPException):
            reason = ""
        message += f": {reason[:MAX_REASON_LENGTH]}" if reason else ""
        if refusal.code in _RETRIED:
            return _Interrupted(message, self._requested_wait(refusal.headers.get("Retry-After")))
        hint = "see the provider's message, and check the model in the schema and the texts in the data"
        if refusal.code in (401, 403):
            hint = f"set {self.key_variables[0]} to a key that the provider accepts"
        elif refusal.code == 404:
            hint = "check the model of @embed (or OMNIGRAPH_EMBED_MODEL) and OMNIGRAPH_EMBED_BASE_URL"
        return EmbeddingRefused(_without(f"{self.provider} refused to embed: {message}", key), hint=hint)

    def _requested_wait(self, header: str | None) -> float | None:
        """Retry-After: seconds, or a date."""
        if header is None:
            return None
        try:
            return max(float(header), 0.0)
        except ValueError:
            pass
        try:
            return max(email.utils.parsedate_to_datetime(header).timestamp() - self.clock.today(), 0.0)
        except (ValueError, OverflowError):
            return None

    def _key(self) -> str | None:
        for variable in self.key_variables:
            if key := os.environ.get(variable):
                return key
        if not self.needs_key:
            return None
        raise EmbeddingRefused(
            f"{self.provider} needs a key, and {' or '.join(self.key_variables)} is not set",
            hint=f"set {self.key_variables[0]} in the environment (on Spark, also of the executors), "
            "or OMNIGRAPH_EMBED_PROVIDER=wordllama to embed without a server",
        )


def _message(body: Any) -> str:
    """The message of a refusal: {"error": {"message": …}} or {"error": …}; "" if there is none."""
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""


def _without(text: str, key: str | None) -> str:
    return text if not key else text.replace(key, "***")
