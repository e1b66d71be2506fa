"""Recording Spark's start on this machine, so that it takes half the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from omnigraph.errors import UsageError


def record_spark_start(say: Callable[[str], None]) -> tuple[Path, bool]:
    """Where the record is, and whether it was made now. `say` is called with each step."""
    from omnigraph.pipeline.spark.session import require_pyspark
    from omnigraph.pipeline.spark.start_cache import find

    require_pyspark()

    cache = find()
    if cache is None:
        raise UsageError(
            "Spark's start can be recorded only for the Java that comes with OmniGraph, and in a cache folder of the user's own",
            hint="unset JAVA_HOME, and set XDG_CACHE_HOME to a folder of yours if there is no home folder",
        )
    return cache.path, cache.make(say)
