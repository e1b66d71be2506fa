"""Spark looks for modules of this kind of name: the data source "omnigraph" is there in every session whose Python has omnigraph."""

from omnigraph.spark.source import OmnigraphSource as DefaultSource

__all__ = ["DefaultSource"]
