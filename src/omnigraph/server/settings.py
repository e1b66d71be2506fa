"""What a server is told when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from omnigraph.errors import HeadTooLarge, LimitExceeded, UsageError
from omnigraph.maintenance.reports import parse_duration

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """On everything that a client sends, and on what is sent back."""

    header_bytes: int = 64 * 1024
    headers: int = 100
    body_bytes: int = MIB
    load_body_bytes: int = 32 * MIB
    query_bytes: int = 256 * 1024
    result_rows: int = 1_000_000
    result_bytes: int = 256 * MIB
    query_seconds: float = 60.0
    actor_reads: int = 64
    actor_writes: int = 16
    actor_bytes: int = 4 * 1024 * MIB
    message_bytes: int = 1_024
    commits: int = 1_000

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Limits:
        """The defaults, with what the environment sets. UsageError for what is not a number."""
        set_there = {}
        for name, variable in _VARIABLES.items():
            text = environment.get(variable)
            if text is not None:
                if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**63):
                    raise UsageError(f"{variable} is '{text[:100]}'", hint="a number above 0")
                set_there[name] = int(text)
        return replace(cls(), **set_there)


_VARIABLES = {
    "body_bytes": "OMNIGRAPH_BODY_BYTES_MAX",
    "load_body_bytes": "OMNIGRAPH_LOAD_BODY_BYTES_MAX",
    "actor_reads": "OMNIGRAPH_PER_ACTOR_READS_MAX",
    "actor_writes": "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX",
    "actor_bytes": "OMNIGRAPH_PER_ACTOR_BYTES_MAX",
    "query_seconds": "OMNIGRAPH_QUERY_SECONDS_MAX",
}


@dataclass(frozen=True)
class MaintenancePolicy:
    """How often the graphs are maintained, and how much of their history is kept: commits of this age ("30d"), or all."""

    every_s: float
    retain: str | None = None

    def __post_init__(self) -> None:
        if self.retain is not None:
            parse_duration(self.retain)


@dataclass(frozen=True)
class ServerSettings:
    limits: Limits = field(default_factory=Limits)
    hosts: frozenset[str] = frozenset()
    """Names, without ports, that the Host header may have, beside localhost and the address that the server listens at."""
    cors_origins: frozenset[str] = frozenset()
    grace_seconds: int = 30
    log_format: str = "text"
    maintenance: MaintenancePolicy | None = None
    """None: whoever may, maintains the graphs by hand."""


# Refusals of what is too large.

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
