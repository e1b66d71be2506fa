"""Rows: Lance tables at pinned versions. Every write is staged as a version that is invisible until a commit names it.

The only package that imports Lance. A table's own latest version stays empty for ever; nothing here moves it.
"""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.tables.addresses import Fragment
    from omnigraph.tables.filters import column, equals, in_list, literal
    from omnigraph.tables.indexes import IndexCoverage, IndexSpec
    from omnigraph.tables.inline import inline_change
    from omnigraph.tables.layout import Layout
    from omnigraph.tables.staging import Staged
    from omnigraph.tables.store import Tables
    from omnigraph.tables.table import Table
    from omnigraph.tables.verifying import TableFiles

_EXPORTS = {
    "omnigraph.tables.verifying": ("TableFiles",),
    "omnigraph.tables.filters": ("column", "equals", "in_list", "literal"),
    "omnigraph.tables.addresses": ("Fragment",),
    "omnigraph.tables.indexes": ("IndexCoverage", "IndexSpec"),
    "omnigraph.tables.inline": ("inline_change",),
    "omnigraph.tables.layout": ("Layout",),
    "omnigraph.tables.staging": ("Staged",),
    "omnigraph.tables.store": ("Tables",),
    "omnigraph.tables.table": ("Table",),
}

__all__ = [
    "Fragment",
    "IndexCoverage",
    "IndexSpec",
    "Layout",
    "Staged",
    "Table",
    "TableFiles",
    "Tables",
    "column",
    "equals",
    "in_list",
    "inline_change",
    "literal",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
