"""Refusals of what is too large."""

from __future__ import annotations

from omnigraph.errors import LimitExceeded


def too_large(limit: int, actual: int) -> LimitExceeded:
    return LimitExceeded(
        f"the body has more than {limit} bytes", resource="graph_batch_request_bytes", limit=limit, actual=actual
    )
