"""A file that lets Spark's JVM start in half the time: Java 25's cache of classes that an earlier run has loaded and linked.

The JVM checks the file and its own classpath against each other and starts without it when anything differs, so the
file may be missing, foreign or damaged. `omnigraph warm-up` makes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from omnigraph._internal.user_folders import is_own_file, user_cache
from omnigraph.errors import PipelineFailed, UsageError
from omnigraph.spark import java

MIN_JAVA = 25
MAX_FILES = 2
"""How many are kept: two environments on one machine do not remove each other's."""
TRAINING_TIMEOUT_S = 900

_CHECKED = ("-XX:+VerifySharedSpaces",)
"""A damaged file is refused before it is used; checking it takes a tenth of a second."""
_PORTABLE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-AOTAdapterCaching")
"""No machine code in the file: a home folder may be shared between processors."""
_QUIET = ("-Xlog:aot*=off", "-Xlog:cds*=off")
"""No message on the terminal about a file that Java does not use."""


@dataclass(frozen=True)
class StartCache:
    """The file for this Java, this Spark and these options."""

    path: Path

    def options(self) -> tuple[str, ...]:
        """What the JVM needs to use the file; nothing when there is none that this user made."""
        if not is_own_file(self.path):
            return ()
        with contextlib.suppress(OSError):
            os.utime(self.path)  # files that are in use are removed last
        return options_for(self.path)

    def make(self, say: Callable[[str], None]) -> bool:
        """Record one run, try the result in another, and only then give it its name. False when it is there already."""
        if self.path.exists():
            return False
        with _exclusive(self.path.parent):
            fresh = self.path.with_suffix(f".{os.getpid()}.part")
            try:
                say("recording a session")
                recorded = _trained(f"-XX:AOTCacheOutput={fresh}", *_PORTABLE) and fresh.exists()
                say("trying what was recorded")
                if not (recorded and _trained("-XX:AOTMode=on", *options_for(fresh))):
                    raise PipelineFailed(
                        "Spark's start could not be recorded",
                        hint="Spark works without it; see that there is a gigabyte of memory and of disk, then try again",
                    )
                fresh.replace(self.path)
            finally:
                self._remove_old()
        return True

    def _remove_old(self) -> None:
        """All but those used last; and what failed attempts left, or makers that were killed."""
        folder = self.path.parent
        files = sorted(folder.glob("spark-*.aot"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in (*files[MAX_FILES:], *folder.glob("spark-*.part*")):
            path.unlink(missing_ok=True)


def find() -> StartCache | None:
    """The cache that fits this process; None when there is no place for it, or Java is not the packaged one."""
    home, folder = java.packaged_java(), user_cache()
    if home is None or folder is None or java.java_version(home) < MIN_JAVA:
        return None
    import pyspark

    spark = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    try:
        # The JVM compares times of files too: what is installed again is another Spark, or another Java.
        times = [(home / "lib" / "modules").stat().st_mtime_ns, (spark / "jars").stat().st_mtime_ns]
        facts = [home, (home / "release").read_text(), spark, pyspark.__version__, *times, *options_for(Path())]
    except OSError:
        return None
    name = hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:16]
    return StartCache(folder / f"spark-{name}.aot")


def options_for(path: Path) -> tuple[str, ...]:
    """The JVM options that use such a file."""
    return (f"-XX:AOTCache={path}", *_CHECKED, *_PORTABLE, *_QUIET)


def _trained(*java_options: str) -> bool:
    """Whether a session with these options could be started, used and ended."""
    command = [sys.executable, "-P", "-m", "omnigraph.spark.start_training", *java_options]
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    try:
        # Java prints messages about its recording that no option turns off.
        ran = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TRAINING_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return ran.returncode == 0


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """One process at a time; the lock of a process that was killed is released by the system."""
    with (folder / "spark.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("another process is recording Spark's start already", hint="wait for it") from None
        yield
