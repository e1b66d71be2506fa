"""How bodies of lines are written, for schemathesis."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.arrow.stream")
def lines(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
