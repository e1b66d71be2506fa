"""Who asks. An actor comes from a token and from nothing else that a request carries."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from omnigraph.errors import Unauthorized


@dataclass(frozen=True)
class Actor:
    id: str
    groups: tuple[str, ...] = ()
    source: str = "static"


class TokenVerifier(Protocol):
    def verify(self, token: str) -> Actor | None:
        """Whose token it is; None when it is nobody's here."""


@dataclass(frozen=True)
class TokenEntry:
    """A token as it is kept: only its digest. `expires` is in seconds since 1970."""

    actor: str
    digest: bytes
    expires: float | None = None


class StaticTokens:
    """Tokens that are known beforehand. Every entry is compared, whichever fits: the time tells nothing."""

    def __init__(self, entries: Sequence[TokenEntry], clock: Callable[[], float] = time.time) -> None:
        self._entries = tuple(entries)
        self._clock = clock

    def __repr__(self) -> str:
        return f"<StaticTokens of {len(self._entries)} actors>"

    def verify(self, token: str) -> Actor | None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        matching = None
        for entry in self._entries:
            if hmac.compare_digest(entry.digest, digest):
                matching = entry
        if matching is None or (matching.expires is not None and matching.expires <= self._clock()):
            return None
        return Actor(matching.actor)


def authenticate(verifiers: Sequence[TokenVerifier], header: str | None) -> Actor:
    """The actor of an Authorization header. Unauthorized without one, and for a token that no verifier knows."""
    scheme, _, token = (header or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("this needs a bearer token", hint="send the header 'Authorization: Bearer TOKEN'")
    for verifier in verifiers:
        actor = verifier.verify(token)
        if actor is not None:
            return actor
    raise Unauthorized("the bearer token is not known here, or has expired")
