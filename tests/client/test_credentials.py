"""Tokens: where they are kept, who can read them, and to which server they go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnigraph.client.credentials import check_url, forget_token, is_within, store_token, stored_tokens, token_for
from omnigraph.errors import UsageError

SERVERS = {"production": "https://graphs.example.com", "trial": "http://127.0.0.1:8080/team"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("OMNIGRAPH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_token_is_kept_in_a_file_that_only_its_owner_reads(folder: Path) -> None:
    path = store_token("production", "%(x)s=#;tok[en]")
    assert (path, path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (folder / "credentials", 0o600, 0o700)
    store_token("DEFAULT", "other")
    assert stored_tokens() == {"production": "%(x)s=#;tok[en]", "DEFAULT": "other"}
    assert forget_token("production")
    assert not forget_token("production")
    assert stored_tokens() == {"DEFAULT": "other"}
    assert [each.name for each in folder.iterdir()] == ["credentials"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(mode: int) -> None:
    path = store_token("production", "secret-token")
    path.chmod(mode)
    for call in (stored_tokens, lambda: store_token("trial", "x"), lambda: token_for(SERVERS["production"], SERVERS)):
        with pytest.raises(UsageError, match="can be read by others") as refused:
            call()
        assert refused.value.hint == f"chmod 600 {path}"


@pytest.mark.parametrize(
    "text", ["secret-token", "[production\ntoken = secret-token", "[a]\ntoken=1\n[a]\ntoken=secret-token"]
)
def test_a_file_that_cannot_be_read_is_refused_without_its_tokens(folder: Path, text: str) -> None:
    folder.mkdir()
    path = folder / "credentials"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(UsageError, match="must hold") as refused:
        stored_tokens()
    assert "secret-token" not in str(refused.value)


def test_a_write_that_fails_leaves_the_file_before_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_token("production", "first")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        store_token("production", "second")
    assert stored_tokens() == {"production": "first"}
    assert [each.name for each in folder.iterdir()] == ["credentials"]


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://graphs.example.com", "of-production"),
        ("https://GRAPHS.example.com:443/graphs/people", "of-production"),
        ("http://graphs.example.com", None),
        ("https://graphs.example.com:444", None),
        ("https://graphs.example.com.evil.example", None),
        ("https://evil.example/graphs.example.com", None),
        ("http://127.0.0.1:8080/team/graphs/people", "of-trial"),
        ("http://127.0.0.1:8080/teams", None),
        ("http://127.0.0.1:8080", None),
    ],
)
def test_a_token_goes_to_its_own_server_only(url: str, sent: str | None) -> None:
    store_token("production", "of-production")
    store_token("trial", "of-trial")
    assert token_for(url, SERVERS) == sent


def test_the_environment_comes_before_the_file_and_the_shared_token_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", "shared")
    assert token_for(SERVERS["production"], SERVERS) == "shared"
    store_token("production", "stored")
    assert token_for(SERVERS["production"], SERVERS) == "stored"
    monkeypatch.setenv("OMNIGRAPH_TOKEN_PRODUCTION", "set")
    assert token_for(SERVERS["production"], SERVERS) == "set"
    assert token_for("https://elsewhere.example", SERVERS) == "shared"


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "ü", "x" * 4097])
def test_what_cannot_stand_in_a_header_is_no_token(token: str) -> None:
    with pytest.raises(UsageError) as refused:
        store_token("production", token)
    assert not token or token not in str(refused.value)


def test_addresses_of_servers() -> None:
    assert check_url("http://localhost:8080/") == "http://localhost:8080"
    assert is_within("http://localhost:8080/a/b", "http://localhost:8080/a")
    for wrong in ("localhost", "ftp://x", "http://", "http://x:port", "http://x?token=secret", "http://x#secret"):
        with pytest.raises(UsageError) as refused:
            check_url(wrong)
        assert "secret" not in str(refused.value)
    with pytest.raises(UsageError, match="holds a password"):
        check_url("https://me:secret@example.com")
