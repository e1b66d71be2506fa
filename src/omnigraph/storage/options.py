"""Storage options: one set of names and values that obstore, Lance and Spark executors all understand.

A caller gives options in any usual spelling: `AWS_REGION`, `aws_region` or just `region`. Which option a short name means
depends on the scheme (`endpoint` of `az://` is Azure's), and a name that the scheme does not have is refused. What is not
given comes from the environment, under its full name only. `storage_options_for` returns the resolved set, so a process
on another machine, without that environment, opens the same store with the same credentials.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

from omnigraph.errors import UsageError
from omnigraph.storage.local import LocalStore
from omnigraph.storage.store import Store
from omnigraph.storage.syncing import Durability

CLIENT_OPTIONS = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "timeout",
    "user_agent",
)
"""How the HTTP client behaves, for every object store."""
RETRY_OPTIONS = ("client_max_retries", "client_retry_timeout", "download_retry_count")
FLAGS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "aws_virtual_hosted_style_request",
        "aws_skip_signature",
        "aws_unsigned_payload",
        "aws_request_payer",
        "google_skip_signature",
        "azure_storage_use_emulator",
        "azure_skip_signature",
        "azure_use_azure_cli",
    }
)
WHOLE_NUMBERS = frozenset({*RETRY_OPTIONS, "pool_max_idle_per_host"})

_S3_CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_S3: dict[str, tuple[str, ...]] = {
    "aws_access_key_id": (),
    "aws_secret_access_key": (),
    "aws_session_token": ("token",),
    "aws_region": ("default_region",),
    "aws_endpoint": ("endpoint_url_s3", "endpoint_url"),
    "aws_virtual_hosted_style_request": (),
    "aws_skip_signature": (),
    "aws_unsigned_payload": (),
    "aws_request_payer": (),
    "aws_server_side_encryption": (),
    "aws_sse_kms_key_id": (),
    "aws_web_identity_token_file": (),
    "aws_role_arn": (),
    "aws_role_session_name": (),
    "aws_container_credentials_relative_uri": (),
    "aws_container_credentials_full_uri": (),
    "aws_container_authorization_token_file": (),
}
_GCS: dict[str, tuple[str, ...]] = {
    "google_service_account": ("service_account_path",),
    "google_service_account_key": (),
    "google_application_credentials": (),
    "google_base_url": ("endpoint_url", "endpoint"),
    "google_skip_signature": (),
}
_AZURE: dict[str, tuple[str, ...]] = {
    "azure_storage_account_name": (),
    "azure_storage_account_key": ("access_key",),
    "azure_storage_sas_token": ("sas_key",),
    "azure_storage_token": ("bearer_token",),
    "azure_storage_client_id": (),
    "azure_storage_client_secret": (),
    "azure_storage_tenant_id": ("authority_id",),
    "azure_storage_endpoint": ("endpoint_url",),
    "azure_storage_use_emulator": (),
    "azure_federated_token_file": (),
    "azure_skip_signature": (),
    "azure_use_azure_cli": (),
}
_SCHEMES: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "s3": (("aws_",), _S3),
    "gs": (("google_",), _GCS),
    "az": (("azure_storage_", "azure_"), _AZURE),
}
"""For each scheme: its prefixes, longest first, and its options with their other short names."""

_SECRETS = frozenset(
    {
        *("aws_secret_access_key", "aws_session_token", "google_service_account_key"),
        *("azure_storage_account_key", "azure_storage_sas_token", "azure_storage_token", "azure_storage_client_secret"),
    }
)


def is_secret(spelled: str) -> bool:
    """Whether an option is a secret that grants access to a store, in any spelling and for any scheme."""
    return any(_full_name(scheme, spelled) in _SECRETS for scheme in _SCHEMES)


def scheme_of(uri: str) -> str:
    """`s3`, `gs`, `az`, `memory` or whatever precedes `://`; `file` for a plain path."""
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return "file"
    return {"s3a": "s3", "gcs": "gs", "azure": "az"}.get(scheme.lower(), scheme.lower())


def storage_options_for(uri: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    """The resolved options for the store at `uri`: given ones first, then the environment's, in Lance's names.

    UsageError for a name that the scheme does not have, or a value that is not valid. If no credentials are found anywhere, none
    are added: each client then asks the machine it runs on (instance role, workload identity).
    """
    scheme = scheme_of(uri)
    if scheme not in _SCHEMES:
        if options:
            place = "local disk" if scheme == "file" else f"{scheme}://"
            raise UsageError(f"{place} takes no storage options, and '{next(iter(options))}' was given")
        return {}
    explicit = _explicit(scheme, options or {})
    inherited = _inherited(scheme)
    if explicit.keys() & set(_S3_CREDENTIALS):
        # A half-given pair must not be completed from the environment: key and secret belong together.
        inherited = {name: value for name, value in inherited.items() if name not in _S3_CREDENTIALS}
    resolved = inherited | explicit
    if any(resolved.get(name, "").startswith("http://") for name in _endpoints(scheme)):
        resolved.setdefault("allow_http", "true")
    return resolved


def options_shared_with(uri: str, options: Mapping[str, str]) -> dict[str, str]:
    """The resolved options of a graph that apply to another address: all of them if it has the same scheme, otherwise none."""
    _, table = _SCHEMES.get(scheme_of(uri), ((), {}))
    return dict(options) if table.keys() & options.keys() else {}


def _endpoints(scheme: str) -> Sequence[str]:
    return [name for name in _SCHEMES[scheme][1] if name.endswith(("endpoint", "base_url"))]


def _spellings(scheme: str) -> dict[str, str]:
    """The short names of options and what they mean. An earlier spelling wins over a later one."""
    prefixes, table = _SCHEMES[scheme]
    spellings: dict[str, str] = {}
    for name, others in table.items():
        own = next(name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix))
        for short in (own, *others):
            spellings.setdefault(short, name)
    return spellings | {name: name for name in CLIENT_OPTIONS}


def _short_name(scheme: str, spelled: str) -> str:
    lowered = spelled.lower()
    prefixes, _ = _SCHEMES[scheme]
    return next((lowered.removeprefix(prefix) for prefix in prefixes if lowered.startswith(prefix)), lowered)


def _full_name(scheme: str, spelled: str) -> str | None:
    """The option that a spelling means; None if the scheme has no such option."""
    lowered = spelled.lower()
    if lowered in _SCHEMES[scheme][1] or lowered in RETRY_OPTIONS:
        return lowered
    return _spellings(scheme).get(_short_name(scheme, spelled))


def _explicit(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    _, table = _SCHEMES[scheme]
    spellings = _spellings(scheme)
    order = {short: rank for rank, short in enumerate(spellings)}
    ranked: dict[str, tuple[tuple[int, int], str]] = {}
    for spelled, value in options.items():
        if not isinstance(spelled, str) or not isinstance(value, (str, bool, int)):
            raise UsageError(
                f"storage option {spelled!r} must be a text, got {type(value).__name__}",
                hint='give a dict of texts, such as {"region": "eu-west-1"}',
            )
        name = _full_name(scheme, spelled)
        if name is None:
            raise _unknown(scheme, spelled, [*table, *CLIENT_OPTIONS, *RETRY_OPTIONS], list(spellings))
        rank = (0 if spelled.lower() == name else 1, order.get(_short_name(scheme, spelled), 0))
        if name not in ranked or rank < ranked[name][0]:
            ranked[name] = (rank, _checked(name, spelled, value))
    return {name: value for name, (_, value) in ranked.items()}


def _inherited(scheme: str) -> dict[str, str]:
    """The options in the environment, under names with the scheme's prefix."""
    prefixes, table = _SCHEMES[scheme]
    spellings = _spellings(scheme)
    environment = {name.lower(): value for name, value in os.environ.items() if value}
    inherited: dict[str, str] = {}
    for short, name in spellings.items():
        if name not in table and name != "allow_http":
            continue
        for spelled in (name, *(f"{prefix}{short}" for prefix in prefixes)):
            if spelled != "allow_http" and spelled in environment:
                inherited.setdefault(name, _checked(name, spelled.upper(), environment[spelled]))
    return inherited


def _checked(name: str, spelled: str, value: str | bool | int) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if name in FLAGS and text.lower() not in ("true", "false", "1", "0"):
        raise UsageError(f"storage option '{spelled}' must be true or false, got '{text}'")
    if name in FLAGS:
        return "true" if text.lower() in ("true", "1") else "false"
    if name in WHOLE_NUMBERS and not text.isdecimal():
        raise UsageError(f"storage option '{spelled}' must be a whole number, got '{text}'")
    return text


def _unknown(scheme: str, spelled: str, names: Sequence[str], short: Sequence[str]) -> UsageError:
    close = difflib.get_close_matches(spelled.lower(), [*names, *short], n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"{scheme}:// takes {', '.join(names)}"
    return UsageError(f"'{spelled}' is not a storage option of {scheme}://", hint=hint)


# Opening the store at an address.


def open_store(uri: str, *, storage_options: Mapping[str, str] | None = None, durability: Durability = "disk") -> Store:
    """The store at a path, `file://`, `memory://name`, `s3://bucket/prefix`, `gs://...` or `az://...`.

    Nothing is read or created yet. `durability` matters on local disk only: object stores answer when data is safe.
    """
    scheme = scheme_of(uri)
    if scheme in ("file", "memory"):
        storage_options_for(uri, storage_options)  # raises if any are given: memory has no options
    if scheme == "file":
        path = unquote(urlsplit(uri).path) if "://" in uri else uri
        if not path:
            raise UsageError(
                "the address of a graph is empty", hint="give a folder or an address such as s3://bucket/graph"
            )
        return LocalStore(path, durability=durability)
    from omnigraph.storage import objects  # the client library is loaded only for those who need it

    if scheme == "memory":
        return objects.open_memory(uri)
    if scheme in ("s3", "gs", "az"):
        return objects.open_object_store(uri, storage_options)
    raise UsageError(f"'{uri}' has an unknown scheme", hint="use a path, file://, memory://, s3://, gs:// or az://")
