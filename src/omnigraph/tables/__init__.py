"""Rows: Lance tables at pinned versions. Every write is staged as a version that is invisible until a commit names it.

The only package that imports Lance. A table's own latest version stays empty for ever; nothing here moves it.
"""

from typing import TYPE_CHECKING

from omnigraph.lazy_names import names_of

if TYPE_CHECKING:
    from omnigraph.tables.files import TableFiles
    from omnigraph.tables.filters import column, equals, in_list, literal
    from omnigraph.tables.fragment import Fragment
    from omnigraph.tables.indexes import IndexCoverage, IndexSpec
    from omnigraph.tables.inline import inline_change
    from omnigraph.tables.layout import Layout
    from omnigraph.tables.staging import Staged
    from omnigraph.tables.store import Tables
    from omnigraph.tables.table import Table

_HOMES = {
    "omnigraph.tables.files": ("TableFiles",),
    "omnigraph.tables.filters": ("column", "equals", "in_list", "literal"),
    "omnigraph.tables.fragment": ("Fragment",),
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

__getattr__ = names_of(__name__, _HOMES)
