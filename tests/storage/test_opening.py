"""Addresses and storage options."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from omnigraph.errors import ObjectMissing, UsageError
from omnigraph.storage import open_store, storage_options_for


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)


def test_a_named_memory_is_shared_and_an_unnamed_one_is_not() -> None:
    open_store("memory://test-opening/one").put("a", b"1")
    assert open_store("memory://test-opening/one/").get("a") == b"1"
    for other in ("memory://test-opening/two", "memory://", "memory://"):
        with pytest.raises(ObjectMissing):
            open_store(other).get("a")
    open_store("memory://").put("a", b"1")
    assert open_store("memory://").list("") == []


@pytest.mark.parametrize("uri", ["ftp://x/y", "http://x/y", "", "file://"])
def test_an_address_that_names_no_store_is_refused(uri: str) -> None:
    with pytest.raises(UsageError):
        open_store(uri)


@pytest.mark.parametrize(
    ("uri", "options", "shown"),
    [
        ("s3://bucket/graphs/one/", {"region": "eu-west-1"}, "s3://bucket/graphs/one"),
        ("s3a://bucket/graphs/one", {"region": "eu-west-1"}, "s3://bucket/graphs/one"),
        ("s3://bucket", {"region": "eu-west-1"}, "s3://bucket"),
        ("gs://bucket/one", {"google_skip_signature": "true"}, "gs://bucket/one"),
        ("az://container/one", {"account_name": "a", "account_key": "a2V5"}, "az://container/one"),
    ],
)
def test_object_stores_open_without_asking_anything(uri: str, options: dict[str, str], shown: str) -> None:
    assert open_store(uri, storage_options=options).uri == shown


def test_local_and_memory_need_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "r")
    assert storage_options_for("/some/path", {"aws_region": "x"}) == {}
    assert storage_options_for("memory://x") == {}


@pytest.mark.parametrize(
    "spelled",
    [
        {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "r", "AWS_ENDPOINT_URL": "https://e"},
        {"access_key_id": "k", "secret_access_key": "s", "region": "r", "endpoint": "https://e"},
        {
            "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
            "aws_default_region": "r",
            "aws_endpoint": "https://e",
        },
    ],
)
def test_every_usual_spelling_means_the_same(spelled: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "r", "aws_endpoint": "https://e"}
    assert storage_options_for("s3://b/g", spelled) == expected
    for name, value in spelled.items():
        if name.isupper():
            monkeypatch.setenv(name, value)
    assert storage_options_for("s3://b/g", spelled) == expected


def test_given_options_win_over_the_environment_and_key_pairs_are_not_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "env-token")
    monkeypatch.setenv("AWS_REGION", "env-region")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "default-region")
    given = {"access_key_id": "key", "secret_access_key": "secret"}
    assert storage_options_for("s3://b/g", given) == {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "env-region",
    }
    assert storage_options_for("s3://b/g")["aws_session_token"] == "env-token"
    assert storage_options_for("s3://b/g", {"region": "given-region"})["aws_region"] == "given-region"


def test_the_endpoint_meant_for_s3_wins_over_the_general_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://general")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3")
    assert storage_options_for("s3://b/g")["aws_endpoint"] == "https://s3"


def test_a_plain_http_endpoint_allows_http_unless_told_otherwise() -> None:
    assert storage_options_for("s3://b", {"endpoint": "http://h:1"})["allow_http"] == "true"
    assert storage_options_for("s3://b", {"endpoint": "http://h:1", "allow_http": "false"})["allow_http"] == "false"
    assert "allow_http" not in storage_options_for("s3://b", {"endpoint": "https://h:1"})


def test_other_clouds_take_their_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "r")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/key.json")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert storage_options_for("gs://b/g") == {"google_application_credentials": "/key.json"}
    assert storage_options_for("az://c/g") == {"azure_storage_account_name": "account"}


def test_the_client_library_is_loaded_only_for_those_who_need_it() -> None:
    program = "import sys, omnigraph.storage as s; s.open_store('/tmp/x'); sys.exit('obstore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
