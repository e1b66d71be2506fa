"""Compile the catalog for Spark (tools/spark_catalog) into the jar that the package ships, with the compiler that comes with Spark.

    .venv/bin/python tools/build_spark_catalog.py

The jar names the digest of its sources, which a test compares with the sources.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import omnigraph as og
from omnigraph.spark.graph_catalog import JAR

SOURCES = Path(__file__).parent / "spark_catalog"
SOURCES_ENTRY = "sources.sha256"
_NO_TIME = (1980, 1, 1, 0, 0, 0)
"""So that the same sources make the same jar."""


def sources_digest(files: Iterable[Path]) -> str:
    """Of the sources of the jar, whatever their line ends are."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()


def build() -> int:
    import pyspark

    session = og.spark.session()
    context = session.sparkContext
    files, java = sorted(SOURCES.glob("*.java")), session._jvm.java.io.File

    def array(paths: list[Path]) -> object:
        made = context._gateway.new_array(java, len(paths))
        for number, path in enumerate(paths):
            made[number] = java(str(path))
        return made

    with tempfile.TemporaryDirectory() as folder:
        compiler = session._jvm.org.codehaus.janino.Compiler()
        compiler.setClassPath(array(sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))))
        compiler.setSourceVersion(8)
        compiler.setTargetVersion(8)
        compiler.setDestinationDirectory(java(folder), False)
        compiler.compile(array(files))
        with zipfile.ZipFile(JAR, "w", zipfile.ZIP_DEFLATED) as jar:
            for path in sorted(Path(folder).rglob("*.class")):
                jar.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix(), _NO_TIME), path.read_bytes())
            jar.writestr(zipfile.ZipInfo(SOURCES_ENTRY, _NO_TIME), sources_digest(files))
    print(f"{JAR.name}: {JAR.stat().st_size:,} bytes from {len(files)} sources")
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(build())
