"""The three-way merge of branches, with typed conflicts."""

from omnigraph.language.schema.merging import SchemaConflict, SchemaLine, Strategy
from omnigraph.merge.conflicts import NO_VALUE, ConflictKind, MergeConflict, NoValue, PropertyConflict
from omnigraph.merge.merge import MergeOptions, merge_branches
from omnigraph.merge.resolutions import Resolution, Take
from omnigraph.merge.result import MergeResult, TypeSummary
from omnigraph.merge.three_way import By
from omnigraph.merge.undoing import reset_branch, revert_commit

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
