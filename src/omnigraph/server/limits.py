"""Refusals of what is too large."""

from __future__ import annotations

from omnigraph.errors import HeadTooLarge, LimitExceeded
from omnigraph.server.settings import Limits

REFUSAL = "omnigraph.refusal"
"""The extension of a scope with the error that the connection refused the request with."""


def too_large(limit: int, actual: int) -> LimitExceeded:
    return LimitExceeded(
        f"the body has more than {limit} bytes", resource="graph_batch_request_bytes", limit=limit, actual=actual
    )


def head_too_large(limits: Limits, size: int, count: int) -> HeadTooLarge:
    """For a request whose head has this many bytes and headers, or more."""
    if count > limits.headers:
        return HeadTooLarge(
            f"the request has more than {limits.headers} headers",
            resource="request_headers",
            limit=limits.headers,
            actual=count,
        )
    return HeadTooLarge(
        f"the target and the headers of the request have more than {limits.header_bytes} bytes",
        resource="request_header_bytes",
        limit=limits.header_bytes,
        actual=size,
    )
