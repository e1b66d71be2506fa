"""Cursors and page tokens: all state of a reader of changes, which only the reader keeps.

A token is base64url(JSON ‖ SHA-256 of the JSON). It is bound to the graph, to one incarnation of a branch and to the filter, and is
refused elsewhere. The digest detects accidental damage; it is not a signature.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.changes.diff import ChangePosition, id_digest
from omnigraph.changes.entity_changes import KINDS
from omnigraph.errors import CursorRejected

TokenKind = Literal["commit-page", "feed-cursor", "feed-page"]

MAX_TOKEN_BYTES = 4_096
ID_BYTES_EXACT = 256
ID_PREFIX_BYTES = 64
SCOPE_DIGITS = 32
SCOPE = ("graph", "branch", "incarnation of the branch", "filter")
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class ChangeToken:
    """`scope` is what the token is bound to; `seq` and `commit` name the last commit that was delivered completely.

    A page token also has the seq of the last commit of its poll (`cut`) and the `position` inside the commit after `seq`.
    """

    kind: TokenKind
    scope: tuple[str, ...]
    seq: int
    commit: str
    cut: int | None = None
    position: ChangePosition | None = None

    def encode(self) -> str:
        bound = [_bound(member) for member in self.scope]
        value: dict[str, Any] = {"k": self.kind, "s": bound, "n": self.seq, "c": self.commit}
        if self.cut is not None:
            value["e"] = self.cut
        if self.position is not None:
            value["p"] = dataclasses.astuple(self.position)
        data = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        text = _text(data + hashlib.sha256(data).digest())
        assert len(text) <= MAX_TOKEN_BYTES, "every member of a token is bounded"
        return text


def decode_token(text: str, kind: TokenKind, scope: tuple[str, ...]) -> ChangeToken:
    """The token if it is intact, of this kind and bound to this scope. Raises CursorRejected otherwise."""
    value = _value(text)
    try:
        if value["k"] != kind:
            raise CursorRejected(f"it is a {value['k']}, not a {kind}")
        for name, digest, member in zip(SCOPE, value["s"], scope, strict=True):
            if digest != _bound(member):
                raise CursorRejected(f"it belongs to another {name}")
        position = None if value.get("p") is None else ChangePosition(*value["p"])
        if position is not None and position.kind not in KINDS:
            raise CursorRejected("it names no position")
        return ChangeToken(kind, scope, int(value["n"]), str(value["c"]), value.get("e"), position)
    except (KeyError, TypeError, ValueError):
        raise CursorRejected("it is not a cursor") from None


def _bound(member: str) -> str:
    """A short digest of a scope member, which may be long."""
    return id_digest(member)[:SCOPE_DIGITS]


def _text(raw: bytes) -> str:
    """The canonical spelling of a token. base64 ignores the last bits of a text, so a changed letter may decode to the same bytes."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _value(text: str) -> dict[str, Any]:
    if not isinstance(text, str):
        raise CursorRejected(f"expected text, got {type(text).__name__}")
    if len(text) > MAX_TOKEN_BYTES:
        raise CursorRejected("it is too long")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        data, digest = raw[:-_DIGEST_BYTES], raw[-_DIGEST_BYTES:]
        if hashlib.sha256(data).digest() != digest or _text(raw) != text:
            raise CursorRejected("it is damaged")
        value: dict[str, Any] = json.loads(data)
    except (binascii.Error, ValueError):
        raise CursorRejected("it is not a cursor") from None
    return value


def position_of(kind: str, type_id: str, id: str) -> ChangePosition:
    """A position that fits in a token: a very long id as its prefix and a digest."""
    assert kind in KINDS
    data = id.encode()
    if len(data) <= ID_BYTES_EXACT:
        return ChangePosition(kind, type_id, id)
    return ChangePosition(kind, type_id, data[:ID_PREFIX_BYTES].decode(errors="ignore"), id_digest(id))
