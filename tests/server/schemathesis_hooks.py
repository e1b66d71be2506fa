"""How bodies of lines are written, and which requests are none, for schemathesis."""

from __future__ import annotations

import re
from typing import Any

import schemathesis

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.arrow.stream")
def lines(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@schemathesis.hook
def filter_case(_context: Any, case: Any) -> bool:
    """A header with a control character is not HTTP: the parser below the application answers 400 in plain text and closes
    the connection, before there is a request that a route, and so the document, could say anything about."""
    return not any(isinstance(value, str) and CONTROL.search(value) for value in (case.headers or {}).values())
