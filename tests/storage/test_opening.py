"""Addresses and storage options."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from omnigraph.errors import ObjectMissing, UsageError
from omnigraph.storage.options import is_secret, open_store, options_shared_with, storage_options_for


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


def test_local_and_memory_take_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "r")
    assert storage_options_for("/some/path") == {}
    assert storage_options_for("memory://x") == {}
    for uri in ("/some/path", "memory://x"):
        with pytest.raises(UsageError, match="takes no storage options"):
            open_store(uri, storage_options={"aws_region": "x"})


@pytest.mark.parametrize(
    ("uri", "options", "resolved"),
    [
        ("az://c/g", {"endpoint": "http://h:1"}, {"azure_storage_endpoint": "http://h:1", "allow_http": "true"}),
        ("az://c/g", {"azure_allow_http": "true"}, {"allow_http": "true"}),
        ("az://c/g", {"AZURE_STORAGE_ALLOW_HTTP": "1"}, {"allow_http": "true"}),
        (
            "az://c/g",
            {"token": "t", "account_name": "a"},
            {"azure_storage_token": "t", "azure_storage_account_name": "a"},
        ),
        ("az://c/g", {"azure_endpoint": "https://e"}, {"azure_storage_endpoint": "https://e"}),
        ("gs://b/g", {"endpoint": "https://e"}, {"google_base_url": "https://e"}),
        ("gs://b/g", {"skip_signature": "TRUE"}, {"google_skip_signature": "true"}),
        ("s3://b/g", {"token": "t"}, {"aws_session_token": "t"}),
        ("s3://b/g", {"skip_signature": True}, {"aws_skip_signature": "true"}),
        ("s3://b/g", {"endpoint": "https://short", "aws_endpoint": "https://long"}, {"aws_endpoint": "https://long"}),
    ],
)
def test_a_short_name_means_the_option_of_its_scheme(
    uri: str, options: dict[str, str], resolved: dict[str, str]
) -> None:
    assert storage_options_for(uri, options) == resolved
    assert storage_options_for(uri, resolved) == resolved, "what is resolved stays as it is on another machine"


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("az://c/g", {"aws_region": "r"}, "'aws_region' is not a storage option of az://"),
        (
            "s3://b/g",
            {"azure_storage_account_name": "a"},
            "'azure_storage_account_name' is not a storage option of s3://",
        ),
        ("gs://b/g", {"region": "r"}, "'region' is not a storage option of gs://"),
        ("s3://b/g", {"regoin": "r"}, "did you mean 'region'?"),
        ("s3://b/g", {"allow_http": "perhaps"}, "'allow_http' must be true or false, got 'perhaps'"),
        ("az://c/g", {"azure_allow_http": "yes"}, "'azure_allow_http' must be true or false, got 'yes'"),
        ("s3://b/g", {"client_max_retries": "many"}, "'client_max_retries' must be a whole number, got 'many'"),
        ("s3://b/g", {"region": None}, "must be a text, got NoneType"),
        ("s3://b/g", {7: "r"}, "storage option 7 must be a text"),
    ],
)
def test_an_option_that_the_scheme_does_not_have_is_refused_by_name(
    uri: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(uri, storage_options=options)
    assert said in f"{caught.value} {caught.value.hint}"


def test_the_environment_counts_under_full_names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "REGION", "ENDPOINT", "TIMEOUT", "ALLOW_HTTP"):
        monkeypatch.setenv(name, "1")
    assert storage_options_for("s3://b/g") == {}
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert storage_options_for("s3://b/g") == {"allow_http": "true"}


def test_a_graph_shares_its_options_with_stores_of_its_scheme_only() -> None:
    options = storage_options_for("s3://b/g", {"region": "r", "allow_http": "true"})
    assert options_shared_with("s3a://other/file.jsonl", options) == options
    for elsewhere in ("az://c/file.jsonl", "gs://b/file.jsonl", "/a/file.jsonl"):
        assert options_shared_with(elsewhere, options) == {}


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
    program = "import sys, omnigraph.storage.options as s; s.open_store('/tmp/x'); sys.exit('obstore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("aws_secret_access_key", True),
        ("SECRET_ACCESS_KEY", True),
        ("token", True),
        ("access_key", True),
        ("sas_key", True),
        ("service_account_key", True),
        ("aws_access_key_id", False),
        ("region", False),
        ("endpoint_url", False),
        ("timeout", False),
        ("nonsense", False),
    ],
)
def test_which_options_are_secret_in_any_spelling(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
