"""The program's version and the storage format it writes."""

from __future__ import annotations

from omnigraph.features import FORMAT
from omnigraph.version import VERSION
from omnigraph.wire.members import JsonObject


def version_json() -> JsonObject:
    """{omnigraph, format}."""
    return {"omnigraph": VERSION, "format": FORMAT}
