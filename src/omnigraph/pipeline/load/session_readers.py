"""Rows that the Spark session reads by itself: every format that it has a reader for (orc, jdbc, delta, iceberg, ...)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import OmnigraphError, UnreadableInput, UsageError
from omnigraph.language.catalog import Catalog
from omnigraph.pipeline.load.inputs import (
    FORMATS,
    Frame,
    Sources,
    is_type,
    paths_of,
    refuse_text_options,
    table_key,
)
from omnigraph.pipeline.load.options import LoadOptions
from omnigraph.storage.options import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PACKAGES = {
    "delta": "io.delta:delta-spark_2.13:VERSION, with spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:VERSION, with a catalog in spark.sql.catalog.NAME",
    "avro": "org.apache.spark:spark-avro_2.13:VERSION",
}
"""Where readers come from that Spark itself does not have."""


@dataclass(frozen=True)
class SessionReader:
    """A reader of Spark by its name, and what it is to read: paths, tables, or of `jdbc` addresses of databases."""

    format: str
    places: tuple[str, ...]
    options: Mapping[str, str]
    type: str | None
    names: Mapping[str, str]
    """Properties by the columns that are them."""

    @classmethod
    def of(cls, sources: Sources, options: LoadOptions) -> SessionReader | None:
        """None where this package reads the sources itself."""
        format, mapped = options.format, options.map
        if format is None or format in FORMATS or isinstance(sources, Mapping):
            if options.reader_options:
                raise UsageError(
                    "reader options are for a format that Spark reads", hint="--format orc, jdbc, delta, iceberg, ..."
                )
            return None
        refuse_text_options((), options.text.chosen)
        if mapped.sources:
            raise UsageError(
                f"a map file is for {', '.join(FORMATS)}", hint=f"give the columns of '{format}' with --map"
            )
        return cls(format, tuple(paths_of(sources)), dict(options.reader_options or {}), options.type, mapped.names)

    def frames(self, session: SparkSession, catalog: Catalog) -> tuple[Frame, ...]:
        """A DataFrame for each place."""
        return tuple(
            Frame(
                _key_of(place, self.format, catalog, self.type),
                _renamed(_read(session, place, self.format, self.options), self.names, place),
            )
            for place in self.places
        )


def _read(session: SparkSession, place: str, format: str, options: Mapping[str, str]) -> DataFrame:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes with PySpark, without types
    from pyspark.errors import PySparkException

    reader = session.read.format(format).options(**options)
    is_local = scheme_of(place) == "file" and os.path.exists(place)
    try:
        if format == "jdbc":
            return reader.option("url", place).load()
        return reader.load(os.path.abspath(place) if is_local else place)
    except (PySparkException, Py4JError) as error:
        raise _failure(error, place, format) from None


def _failure(error: Exception, place: str, format: str) -> OmnigraphError:
    """What Spark says about a source that it cannot read, in one sentence."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), error.__class__.__name__)
    if any(sign in str(error) for sign in ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException", "No suitable driver")):
        if format == "jdbc":
            return UsageError(
                f"the Spark session has no driver for '{place.split('?')[0]}'",
                hint="put its jar into the session: --conf spark.jars=driver.jar, and name its class with "
                "--reader-option driver=CLASS",
            )
        package = _PACKAGES.get(format, "the package of its reader")
        return UsageError(
            f"the Spark session cannot read '{format}'",
            hint=f"put its reader into the session: --conf spark.jars.packages={package}"
            if format in _PACKAGES
            else f"check its name, or put {package} into the session: --conf spark.jars.packages=GROUP:NAME:VERSION",
        )
    if "PATH_NOT_FOUND" in reason:
        return UsageError(f"there is nothing to load at '{place}'", hint="check the path or the pattern")
    return UnreadableInput(f"Spark cannot read it as {format}: {reason[:500]}", file=place)


def _key_of(place: str, format: str, catalog: Catalog, type: str | None) -> str:
    """The table of a type: as given, or as the last name of the place says, be it a file, a folder or a table."""
    if type is not None:
        return table_key(catalog, type)
    last = place.rstrip("/").replace("\\", "/").rpartition("/")[2]
    for name in (os.path.splitext(last)[0], last.rpartition(".")[2]):
        if format != "jdbc" and is_type(catalog, name):
            return table_key(catalog, name)
    raise UsageError(
        f"'{place}' does not say of which type its rows are",
        hint=f"pass --type; the schema has: {', '.join(sorted(catalog.tables))}",
    )


def _renamed(frame: DataFrame, names: Mapping[str, str], place: str) -> Any:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise UsageError(
            f"'{place}' has no column {', '.join(repr(name) for name in missing)}",
            hint=f"it has: {', '.join(frame.columns)}",
        )
    return frame.withColumnsRenamed(dict(names)) if names else frame
