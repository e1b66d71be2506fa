"""Where tokens come from: the environment, or a file that keeps only their digests. They are never logged."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omnigraph.errors import UsageError
from omnigraph.server.auth import StaticTokens, TokenEntry

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
        raise UsageError(f"{where}: sha256 is not a digest in hexadecimal", hint="'omnigraph token new' makes an entry")
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
