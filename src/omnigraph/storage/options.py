"""Storage options: one set of names and values that obstore, Lance and Spark executors all understand.

A caller gives options in any usual spelling (`AWS_REGION`, `region`, `aws_region`); what is not given comes from the
process's environment. `storage_options_for` returns the resolved set, so a process on another machine, without that
environment, opens the same store with the same credentials.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_S3 = (
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "aws_region",
    "aws_endpoint",
    "aws_virtual_hosted_style_request",
    "aws_skip_signature",
    "aws_unsigned_payload",
    "aws_request_payer",
    "aws_server_side_encryption",
    "aws_sse_kms_key_id",
    "aws_web_identity_token_file",
    "aws_role_arn",
    "aws_role_session_name",
    "aws_container_credentials_relative_uri",
    "aws_container_credentials_full_uri",
    "aws_container_authorization_token_file",
)
_GCS = (
    "google_service_account",
    "google_service_account_key",
    "google_application_credentials",
    "google_base_url",
    "google_skip_signature",
)
_AZURE = (
    "azure_storage_account_name",
    "azure_storage_account_key",
    "azure_storage_sas_token",
    "azure_storage_token",
    "azure_storage_client_id",
    "azure_storage_client_secret",
    "azure_storage_tenant_id",
    "azure_storage_endpoint",
    "azure_storage_use_emulator",
    "azure_federated_token_file",
    "azure_skip_signature",
    "azure_use_azure_cli",
)
_ALIASES = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "aws_token": "aws_session_token",
    "token": "aws_session_token",
    "region": "aws_region",
    "aws_default_region": "aws_region",
    "default_region": "aws_region",
    "endpoint": "aws_endpoint",
    "endpoint_url": "aws_endpoint",
    "aws_endpoint_url_s3": "aws_endpoint",
    "aws_endpoint_url": "aws_endpoint",
    "virtual_hosted_style_request": "aws_virtual_hosted_style_request",
    "skip_signature": "aws_skip_signature",
    "aws_allow_http": "allow_http",
    "service_account": "google_service_account",
    "service_account_path": "google_service_account",
    "google_service_account_path": "google_service_account",
    "service_account_key": "google_service_account_key",
    "application_credentials": "google_application_credentials",
    "account_name": "azure_storage_account_name",
    "azure_account_name": "azure_storage_account_name",
    "account_key": "azure_storage_account_key",
    "azure_account_key": "azure_storage_account_key",
    "sas_token": "azure_storage_sas_token",
    "azure_client_id": "azure_storage_client_id",
    "azure_client_secret": "azure_storage_client_secret",
    "azure_tenant_id": "azure_storage_tenant_id",
}
_OF_SCHEME = {"s3": _S3, "gs": _GCS, "az": _AZURE}


def scheme_of(uri: str) -> str:
    """`s3`, `gs`, `az`, `memory` or whatever stands before `://`; `file` for a plain path."""
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return "file"
    return {"s3a": "s3", "gcs": "gs", "azure": "az"}.get(scheme.lower(), scheme.lower())


def storage_options_for(uri: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    """The resolved options for the store at `uri`: given ones first, then the environment's, in Lance's names.

    Empty for local disk and memory. When no credentials are found anywhere, none are put in: each client then asks the
    machine it runs on (instance role, workload identity).
    """
    names = _OF_SCHEME.get(scheme_of(uri))
    if names is None:
        return {}
    given = _canonical(options or {})
    # A half-given pair must not be completed from the environment: key and secret belong together.
    skipped = set(_S3[:3]) if given.keys() & set(_S3[:3]) else set()
    wanted = (*names, "allow_http") if names is _S3 else names
    inherited = _canonical(os.environ)
    resolved = {name: inherited[name] for name in wanted if inherited.get(name) and name not in skipped}
    resolved.update(given)
    if resolved.get("aws_endpoint", "").startswith("http://"):
        resolved.setdefault("allow_http", "true")
    return resolved


def _canonical(options: Mapping[str, str]) -> dict[str, str]:
    """Names in their one spelling. Of two spellings the canonical name wins, then the one that is earlier in `_ALIASES`."""
    lowered = {name.lower(): str(value) for name, value in options.items()}
    canonical = {target: lowered[alias] for alias, target in reversed(_ALIASES.items()) if alias in lowered}
    return canonical | {name: value for name, value in lowered.items() if name not in _ALIASES}
