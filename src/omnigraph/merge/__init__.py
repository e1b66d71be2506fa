"""The three-way merge of branches, with typed conflicts."""

from omnigraph.merge.conflicts import ConflictKind, MergeConflict
from omnigraph.merge.merge import MergeResult, Strategy, TypeSummary, merge_branches
from omnigraph.merge.rule import By

__all__ = ["By", "ConflictKind", "MergeConflict", "MergeResult", "Strategy", "TypeSummary", "merge_branches"]
