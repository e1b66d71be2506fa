"""The three-way merge of branches, with typed conflicts."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.language.schema.merging import SchemaConflict, SchemaLine, Strategy
    from omnigraph.merge.conflicts import NO_VALUE, ConflictKind, MergeConflict, NoValue, PropertyConflict
    from omnigraph.merge.merge import MergeOptions, merge_branches
    from omnigraph.merge.resolutions import Resolution, Take
    from omnigraph.merge.revert import reset_branch, revert_commit
    from omnigraph.merge.three_way import By, MergeResult, TypeSummary

_EXPORTS = {
    "omnigraph.language.schema.merging": (
        "SchemaConflict",
        "SchemaLine",
        "Strategy",
    ),
    "omnigraph.merge.conflicts": (
        "NO_VALUE",
        "ConflictKind",
        "MergeConflict",
        "NoValue",
        "PropertyConflict",
    ),
    "omnigraph.merge.merge": (
        "MergeOptions",
        "merge_branches",
    ),
    "omnigraph.merge.resolutions": (
        "Resolution",
        "Take",
    ),
    "omnigraph.merge.three_way": (
        "MergeResult",
        "TypeSummary",
        "By",
    ),
    "omnigraph.merge.revert": (
        "reset_branch",
        "revert_commit",
    ),
}

__all__ = [
    "NO_VALUE",
    "By",
    "ConflictKind",
    "MergeConflict",
    "MergeOptions",
    "MergeResult",
    "NoValue",
    "PropertyConflict",
    "Resolution",
    "SchemaConflict",
    "SchemaLine",
    "Strategy",
    "Take",
    "TypeSummary",
    "merge_branches",
    "reset_branch",
    "revert_commit",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
