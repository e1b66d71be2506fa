"""What the program reads and writes outside a graph, in every state it can be found in. The table is in docs/install.md."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from children import Child
from cli.transcript import RunCli

import omnigraph as og
from omnigraph._internal.user_folders import config_folder, user_cache
from omnigraph.cli.config import Config
from omnigraph.cli.shell.prompt import history_in
from omnigraph.client.credentials import store_token, stored_tokens
from omnigraph.errors import StoragePermanent, UsageError
from omnigraph.load import lineage
from omnigraph.spark import java, start_cache
from omnigraph.tasks.runner import Exchange, LocalRunner

PAGE = Path(__file__).parents[2] / "docs" / "install.md"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home."""
    for name in ("OMNIGRAPH_HOME", "XDG_CACHE_HOME", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    java._temporary_folder.cache_clear()
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def no_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is not in the list of users, without HOME."""

    def missing() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", missing)


def config_file(home: Path) -> None:
    assert Config.load() == Config()
    file = home / ".omnigraph" / "config.yaml"
    file.parent.mkdir()
    for empty in ("", "# nothing\n"):
        file.write_text(empty)
        assert Config.load() == Config()
    file.write_text("operator: {actor: ada}\nfrom_a_newer_version: 1\n")
    assert Config.load().actor == "ada"
    assert "unknown key 'from_a_newer_version'" in Config.load().warnings[0]
    for damaged in (b"\xff\xfe", b"operator: [", b"just a text"):
        file.write_bytes(damaged)
        with pytest.raises(UsageError, match=re.escape(str(file))):
            Config.load()
    file.unlink()
    file.mkdir()
    with pytest.raises(UsageError, match=re.escape(str(file))):
        Config.load()


def credentials_file(home: Path) -> None:
    assert stored_tokens() == {}
    file = store_token("one", "secret")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    at_once([lambda: store_token("one", "secret")] * 4)
    assert stored_tokens() == {"one": "secret"}
    assert os.listdir(file.parent) == ["credentials"]
    file.write_text("")
    assert stored_tokens() == {}
    file.write_text("[one]\ntoken = secret\nfrom_a_newer_version = 1\n")
    assert stored_tokens() == {"one": "secret"}
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=re.escape(str(file))):
        stored_tokens()
    file.unlink()
    file.parent.rmdir()
    file.parent.write_text("no folder")
    with pytest.raises(UsageError, match=re.escape(str(file))):
        store_token("one", "secret")


def shell_history(home: Path) -> None:
    folder = config_folder()
    history = history_in(folder)
    history.append_string("query")
    file = home / ".omnigraph" / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    history_in(folder).append_string("another")
    assert [*history_in(folder).load_history_strings()] == ["another", "query"]
    file.write_bytes(b"\n# 2026\n+\xff\xfe\n")
    assert len([*history_in(folder).load_history_strings()]) == 1
    file.unlink()
    file.mkdir()
    assert [*history_in(folder).load_history_strings()] == []


def launcher_of_java(home: Path) -> None:
    launcher = Path(java.java_home()) / "bin" / "java"
    whole = launcher.read_bytes()
    assert launcher.is_relative_to(home / ".cache" / "omnigraph")
    for damaged in (b"", whole[:40], b"\xff" * 99):
        launcher.write_bytes(damaged)
        java.java_home()
        assert launcher.read_bytes() == whole
    launcher.write_bytes(b"older version")
    at_once([java.java_home] * 4)
    assert launcher.read_bytes() == whole
    assert os.listdir(launcher.parent) == ["java"]


def log_of_spark(home: Path) -> None:
    settings = java.logging_file()
    whole = settings.read_bytes()
    assert java.log_file() == home / ".cache" / "omnigraph" / "spark.log"
    for damaged in (b"", b"\xff"):
        settings.write_bytes(damaged)
        assert java.logging_file().read_bytes() == whole
    at_once([java.logging_file] * 4)
    assert settings.read_bytes() == whole


def start_of_spark(home: Path) -> None:
    """That a damaged one is passed over, and that two makers do not meet: tests/pipeline/test_start_cache.py."""
    found = start_cache.find()
    assert found is not None
    assert found.options() == ()
    found.path.mkdir()
    assert found.options() == ()


def temporary_files(home: Path) -> None:
    """The user's cache is a file, or its disk is full: what Spark needs is in a folder that is gone at the end."""
    assert user_cache() is not None
    (home / ".cache" / "omnigraph").rmdir()
    (home / ".cache" / "omnigraph").write_text("no folder")
    assert user_cache() is None
    assert start_cache.find() is None
    assert (Path(java.java_home()) / "bin" / "java").is_relative_to(java._temporary_folder())
    assert java.logging_file().parent == java.log_file().parent == java._temporary_folder()


def lineage_file(home: Path) -> None:
    assert not lineage.is_wanted()
    file = home / ".openlineage" / "openlineage.yml"
    file.parent.mkdir()
    file.write_text("")
    assert not lineage.is_wanted()
    for damaged in (b"transport: [", b"\xff\xfe", b"transport: {type: from_a_newer_version}"):
        file.write_bytes(damaged)
        graph = og.init("memory://", "node A { name: String @key }")
        with pytest.warns(RuntimeWarning, match="lineage"):
            graph.load({"A": pa.table({"name": ["a"]})}, mode="append", engine="local")
        assert graph.query("query q() { match { $a: A } return { count($a) as n } }").rows == [{"n": 1}]


ROWS: dict[str, Callable[[Path], None]] = {
    "`~/.omnigraph/config.yaml`": config_file,
    "`~/.omnigraph/credentials`": credentials_file,
    "`~/.omnigraph/history`": shell_history,
    "`~/.cache/omnigraph/java-*/bin/java`": launcher_of_java,
    "`~/.cache/omnigraph/log4j2.properties`, `spark.log`": log_of_spark,
    "`~/.cache/omnigraph/spark-*.aot`, `spark.lock`": start_of_spark,
    "`omnigraph-*` in the temporary folder": temporary_files,
    "`~/.openlineage/openlineage.yml`": lineage_file,
}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_outside_the_graph_may_be_in_any_state(row: str, home: Path) -> None:
    ROWS[row](home)


def test_the_page_lists_what_the_tests_try() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Files outside a graph")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert listed == list(ROWS)


@pytest.mark.usefixtures("no_home")
def test_a_user_without_a_home_has_defaults_and_keeps_nothing() -> None:
    assert Config.load() == Config()
    assert stored_tokens() == {}
    assert [*history_in(config_folder()).load_history_strings()] == []
    assert user_cache() is None
    with pytest.raises(UsageError, match="no home folder"):
        store_token("one", "secret")


def test_a_full_disk_is_no_place_for_a_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> object:
        return Path("/dev/full").open("wb", buffering=0)

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert user_cache() is None


class FullDisk(tempfile.TemporaryDirectory[str]):
    """A folder, in which every file is on a disk without room."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for bucket in range(64):
            (Path(self.name) / str(bucket)).symlink_to("/dev/full")


def no_room(**_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("full", [FullDisk, no_room])
def test_work_in_a_full_temporary_folder_fails_and_says_so(full: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    before = set(Path(tempfile.gettempdir()).glob("omnigraph-*"))
    with pytest.raises(StoragePermanent, match=f"a temporary file.*{os.strerror(errno.ENOSPC)}"):
        LocalRunner().exchange(Exchange("sort", lambda task: [(task, 0, b"rows" * 4_096)], [1], 2, lambda *_: None))
    assert set(Path(tempfile.gettempdir()).glob("omnigraph-*")) <= before


STARTING = """
import sys
from omnigraph.cli.config import Config
from omnigraph.cli.shell.prompt import history_in
from omnigraph.client.credentials import store_token
from omnigraph.spark import java, start_cache
from omnigraph._internal.user_folders import config_folder
print("ready", flush=True)
sys.stdin.readline()
assert Config.load() == Config()
for _ in range(20):
    store_token("server", "secret")
    java.java_home(), java.logging_file(), start_cache.find()
history_in(config_folder()).append_string("query")
"""


def test_two_processes_may_start_at_once(home: Path) -> None:
    starting = [Child(STARTING) for _ in range(2)]
    assert [child.stdout.readline() for child in starting] == ["ready\n"] * 2
    for child in starting:
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.wait() for child in starting] == [0, 0]
    for child in starting:
        child.close()
    written = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert stored_tokens() == {"server": "secret"}
    assert [*history_in(config_folder()).load_history_strings()] == ["query"] * 2
    java.java_home()
    java.logging_file()
    assert {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()} == written
    assert sorted(name for name in written if name.startswith(".omnigraph")) == [
        ".omnigraph/credentials",
        ".omnigraph/history",
    ]


@pytest.mark.parametrize("variable", ["OMNIGRAPH_ENGINE", "OMNIGRAPH_PROFILE", "OMNIGRAPH_INLINE_ROWS"])
@pytest.mark.parametrize("value", ["", "nonsense"])
def test_a_variable_that_is_empty_is_not_there_and_a_wrong_one_is_named(
    variable: str, value: str, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMNIGRAPH_STORE")
    ran = run_cli(["load", "people", "--data", "people.jsonl", "--mode", "overwrite"], {variable: value})
    if value == "":
        assert ran.code == 0, ran.err
    else:
        assert "unexpected" not in ran.err
        assert ran.code == 0 or value in ran.err


def at_once(calls: list[Callable[[], object]]) -> None:
    """Make calls in threads that begin at the same moment."""
    barrier = threading.Barrier(len(calls))
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
