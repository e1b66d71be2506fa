"""Who asks. An actor comes from a token and from nothing else that a request carries."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from omnigraph.errors import TooManyRequests, Unauthorized, UsageError


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


# Tickets: links that work once, within a minute, for one path, with the rights of the actor who requested them.
#
# A browser cannot put a token on a link.

TICKET_SECONDS = 60
MAX_TICKETS = 10_000
PARAMETER = "ticket"


@dataclass(frozen=True)
class _Ticket:
    actor: Actor | None
    target: tuple[object, ...]
    expires: float


class Tickets:
    """Used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: OrderedDict[str, _Ticket] = OrderedDict()

    def issue(self, actor: Actor | None, target: str) -> str:
        """A ticket for a path with its query string."""
        self._forget_old()
        if len(self._tickets) >= MAX_TICKETS:
            raise TooManyRequests("too many tickets wait to be used", hint="try again in a minute")
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = _Ticket(actor, _target(target), self._clock() + TICKET_SECONDS)
        return ticket

    def redeem(self, ticket: str, target: str) -> Actor | None:
        """Redeem a ticket: returns its actor, once. Raises Unauthorized if it is unknown, expired or for another path."""
        self._forget_old()
        held = self._tickets.get(ticket)
        if held is None or held.target != _target(target):
            raise Unauthorized("the ticket is not valid here", hint="ask for another one")
        del self._tickets[ticket]
        return held.actor

    def _forget_old(self) -> None:
        now = self._clock()
        while self._tickets and next(iter(self._tickets.values())).expires <= now:
            self._tickets.popitem(last=False)


def check_target(path: str, graph_id: str) -> str:
    """Raises UsageError unless it is just a path below the graph."""
    try:
        parts = urlsplit(path)
    except ValueError:
        raise UsageError("a ticket is for a path below its graph") from None
    if parts.scheme or parts.netloc or parts.fragment or not parts.path.startswith(f"/graphs/{graph_id}/"):
        raise UsageError("a ticket is for a path below its graph", hint=f"/graphs/{graph_id}/blob?type=...")
    return path


def _target(path: str) -> tuple[object, ...]:
    parts = urlsplit(path)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != PARAMETER]
    return (parts.path, tuple(sorted(query)))


# Where tokens come from: the environment, or a file that keeps only their digests. They are never logged.

AWS_SECRET = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"
FILE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
JSON = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
ONE = "OMNIGRAPH_SERVER_BEARER_TOKEN"
DEFAULT_ACTOR = "default"

_MEMBERS = {"actor", "sha256", "expires", "note"}


def tokens_of(environment: Mapping[str, str]) -> StaticTokens | None:
    """The tokens that the environment names, from the first source that is set; None without one.

    UsageError for a source that cannot be read, for blank actors and tokens, and for one token of two actors.
    """
    if environment.get(AWS_SECRET):
        return StaticTokens(_plain(_parsed(_aws_secret(environment[AWS_SECRET]), AWS_SECRET), AWS_SECRET))
    if environment.get(FILE):
        return StaticTokens(_from_file(Path(environment[FILE])))
    if environment.get(JSON):
        return StaticTokens(_plain(_parsed(environment[JSON], JSON), JSON))
    if ONE in environment:
        return StaticTokens(_plain({DEFAULT_ACTOR: environment[ONE]}, ONE))
    return None


def new_token(actor: str, *, expires: dt.datetime | None = None, note: str | None = None) -> tuple[str, str]:
    """A fresh token of 256 bits, and the entry of a token file that keeps its digest."""
    _check_actor(actor, "the command")
    token = secrets.token_urlsafe(32)
    entry: dict[str, str] = {"actor": actor, "sha256": hashlib.sha256(token.encode()).hexdigest()}
    if expires is not None:
        entry["expires"] = expires.isoformat()
    if note is not None:
        entry["note"] = note
    members = [f"{name}: {json.dumps(value)}" for name, value in entry.items()]
    return token, "- {" + ", ".join(members) + "}"


def _aws_secret(name: str) -> str:
    try:
        import boto3  # type: ignore[import-not-found]  # not a dependency: whoever keeps tokens there has it
    except ModuleNotFoundError:
        raise UsageError(f"{AWS_SECRET} needs boto3, which is not installed", hint="pip install boto3") from None
    return str(boto3.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"])


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise UsageError(f"{where} is not JSON", hint='for example {"ada": "TOKEN"}') from None


def _from_file(path: Path) -> list[TokenEntry]:
    """A list of entries with digests, or an object of tokens by actor; YAML or JSON."""
    import yaml

    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        # What the parser says of a file may repeat what is in it.
        raise UsageError(f"cannot read the tokens in {path}", hint="it must be a YAML or JSON file in UTF-8") from None
    where = str(path)
    if isinstance(value, list):
        return _distinct([_entry(item, f"{where}, entry {number}") for number, item in enumerate(value, 1)], where)
    return _plain(value, where)


def _entry(value: Any, where: str) -> TokenEntry:
    if not isinstance(value, dict) or not {"actor", "sha256"} <= value.keys() <= _MEMBERS:
        raise UsageError(f"{where}: an entry has actor and sha256, and may have expires and note")
    actor, digest = value["actor"], value["sha256"]
    _check_actor(actor, where)
    try:
        raw = bytes.fromhex(digest) if isinstance(digest, str) else b""
    except ValueError:
        raw = b""
    if len(raw) != hashlib.sha256().digest_size:
        raise UsageError(f"{where}: sha256 is not a digest in hexadecimal", hint="'omnigraph token' makes an entry")
    return TokenEntry(actor, raw, _seconds(value.get("expires"), where))


def _seconds(value: Any, where: str) -> float | None:
    if value is None:
        return None
    try:
        at = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        at = at if isinstance(at, dt.datetime) else dt.datetime(at.year, at.month, at.day)
    except (ValueError, AttributeError):
        raise UsageError(f"{where}: expires is not a time", hint="for example 2027-01-31T00:00:00Z") from None
    return (at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at).timestamp()


def _plain(value: Any, where: str) -> list[TokenEntry]:
    if not isinstance(value, dict) or not value:
        raise UsageError(f"{where} must be tokens by actor", hint='for example {"ada": "TOKEN"}')
    entries = []
    for actor, token in value.items():
        _check_actor(actor, where)
        if not isinstance(token, str) or not token.strip():
            raise UsageError(f"{where}: the token of '{actor}' is blank")
        entries.append(TokenEntry(actor, hashlib.sha256(token.strip().encode()).digest()))
    return _distinct(entries, where)


def _check_actor(actor: Any, where: str) -> None:
    if not isinstance(actor, str) or not actor.strip():
        raise UsageError(f"{where}: an actor is blank")


def _distinct(entries: Sequence[TokenEntry], where: str) -> list[TokenEntry]:
    owners: dict[bytes, str] = {}
    for entry in entries:
        if owners.setdefault(entry.digest, entry.actor) != entry.actor:
            raise UsageError(f"{where}: '{owners[entry.digest]}' and '{entry.actor}' have the same token")
    return list(entries)
