"""What calls return: results, reports and the types of a schema, for annotations.

    import omnigraph as og

    def names(result: og.types.Result) -> list[str]: ...

What a program calls or makes itself is in `omnigraph`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.algorithms.result import AlgorithmResult
    from omnigraph.changes import Baseline, CommitChanges, CommitPage, EntityChange, FeedPage, TypeChanges
    from omnigraph.client.graph import RemoteBranches, RemoteStoredQueries, RemoteTags, ServedQuery
    from omnigraph.client.maintenance import RemoteMaintenance, RemoteRecovery
    from omnigraph.client.writing import RemoteSchema
    from omnigraph.evolve.apply import SchemaReceipt
    from omnigraph.evolve.migrating import BrokenQuery
    from omnigraph.graph import (
        Branch,
        Distance,
        GraphBranches,
        GraphMaintenance,
        GraphRecovery,
        GraphSchema,
        GraphTags,
        Imported,
        PreparedWrite,
        Tag,
        TypeState,
    )
    from omnigraph.graph.reading import GraphAlgorithms, GraphTables
    from omnigraph.history import Commit, CommitRef
    from omnigraph.indexing.indexes import IndexState
    from omnigraph.infer.inferring import InferredSchema
    from omnigraph.language.catalog import (
        Annotation,
        Catalog,
        Constraint,
        EdgeType,
        Embed,
        EntityType,
        Family,
        InterfaceType,
        LiteralValue,
        NodeType,
        Property,
        StoredColumn,
    )
    from omnigraph.language.query.lint import LintedQuery, LintReport, QueryFinding
    from omnigraph.language.query.plan import ResultColumn
    from omnigraph.language.schema.lint import SchemaFinding
    from omnigraph.language.schema.migration import MigrationPlan
    from omnigraph.language.schema.migration_steps import MigrationStep
    from omnigraph.load.explaining import LoadExplanation
    from omnigraph.load.receipt import LoadCounts, LoadReceipt, LoadRefusal, MissingNodes
    from omnigraph.maintenance.cleanup import Totals
    from omnigraph.maintenance.embed import EmbeddedProperty, EmbedReport
    from omnigraph.maintenance.optimize import OptimizeReport, TableReport
    from omnigraph.maintenance.replication import CopyReport
    from omnigraph.maintenance.reports import (
        CleanupReport,
        KeptBy,
        PendingIndex,
        StorageReport,
        TableShape,
        TypeStorage,
    )
    from omnigraph.maintenance.verify.findings import Finding, RepairReport, RepairStep, VerifyReport
    from omnigraph.merge import (
        MergeConflict,
        MergeResult,
        NoValue,
        PropertyConflict,
        SchemaConflict,
        SchemaLine,
        TypeSummary,
    )
    from omnigraph.pictures.picture import Picture, PictureEdge, PictureNode
    from omnigraph.read import (
        Blob,
        EntityVersion,
        Explanation,
        InputChoice,
        InputColumns,
        Result,
        SqlColumn,
        SqlResult,
        Step,
        Timing,
    )
    from omnigraph.tasks.engines import Engine
    from omnigraph.tasks.progress import Stage, Status
    from omnigraph.values.arrow import Entity, JsonValue, Value
    from omnigraph.values.types import PropertyType, Scalar
    from omnigraph.write import Receipt, TypeCounts

_EXPORTS = {
    "omnigraph.algorithms.result": ("AlgorithmResult",),
    "omnigraph.changes": (
        "Baseline",
        "CommitChanges",
        "CommitPage",
        "EntityChange",
        "FeedPage",
        "TypeChanges",
    ),
    "omnigraph.client.graph": (
        "RemoteBranches",
        "RemoteStoredQueries",
        "RemoteTags",
        "ServedQuery",
    ),
    "omnigraph.client.maintenance": (
        "RemoteMaintenance",
        "RemoteRecovery",
    ),
    "omnigraph.client.writing": ("RemoteSchema",),
    "omnigraph.evolve.apply": ("SchemaReceipt",),
    "omnigraph.evolve.migrating": ("BrokenQuery",),
    "omnigraph.graph": (
        "Branch",
        "Distance",
        "GraphBranches",
        "GraphMaintenance",
        "GraphRecovery",
        "GraphSchema",
        "GraphTags",
        "Imported",
        "PreparedWrite",
        "Tag",
        "TypeState",
    ),
    "omnigraph.graph.reading": (
        "GraphAlgorithms",
        "GraphTables",
    ),
    "omnigraph.history": (
        "Commit",
        "CommitRef",
    ),
    "omnigraph.indexing.indexes": ("IndexState",),
    "omnigraph.infer.inferring": ("InferredSchema",),
    "omnigraph.language.catalog": (
        "Annotation",
        "Catalog",
        "Constraint",
        "EdgeType",
        "Embed",
        "EntityType",
        "Family",
        "InterfaceType",
        "LiteralValue",
        "NodeType",
        "Property",
        "StoredColumn",
    ),
    "omnigraph.language.query.lint": (
        "LintReport",
        "LintedQuery",
        "QueryFinding",
    ),
    "omnigraph.language.query.plan": ("ResultColumn",),
    "omnigraph.language.schema.lint": ("SchemaFinding",),
    "omnigraph.language.schema.migration": ("MigrationPlan",),
    "omnigraph.language.schema.migration_steps": ("MigrationStep",),
    "omnigraph.load.explaining": ("LoadExplanation",),
    "omnigraph.load.receipt": (
        "LoadCounts",
        "LoadReceipt",
        "LoadRefusal",
        "MissingNodes",
    ),
    "omnigraph.maintenance.cleanup": ("Totals",),
    "omnigraph.maintenance.embed": (
        "EmbedReport",
        "EmbeddedProperty",
    ),
    "omnigraph.maintenance.optimize": (
        "OptimizeReport",
        "TableReport",
    ),
    "omnigraph.maintenance.verify.findings": (
        "Finding",
        "RepairReport",
        "RepairStep",
        "VerifyReport",
    ),
    "omnigraph.maintenance.replication": ("CopyReport",),
    "omnigraph.maintenance.reports": (
        "CleanupReport",
        "KeptBy",
        "PendingIndex",
        "StorageReport",
        "TableShape",
        "TypeStorage",
    ),
    "omnigraph.merge": (
        "MergeConflict",
        "MergeResult",
        "NoValue",
        "PropertyConflict",
        "SchemaConflict",
        "SchemaLine",
        "TypeSummary",
    ),
    "omnigraph.pictures.picture": (
        "Picture",
        "PictureEdge",
        "PictureNode",
    ),
    "omnigraph.read": (
        "Blob",
        "EntityVersion",
        "Explanation",
        "InputChoice",
        "InputColumns",
        "Result",
        "SqlColumn",
        "SqlResult",
        "Step",
        "Timing",
    ),
    "omnigraph.tasks.engines": ("Engine",),
    "omnigraph.tasks.progress": (
        "Stage",
        "Status",
    ),
    "omnigraph.values.arrow": (
        "Entity",
        "JsonValue",
        "Value",
    ),
    "omnigraph.values.types": (
        "PropertyType",
        "Scalar",
    ),
    "omnigraph.write": (
        "Receipt",
        "TypeCounts",
    ),
}

__all__ = [
    "AlgorithmResult",
    "Annotation",
    "Baseline",
    "Blob",
    "Branch",
    "BrokenQuery",
    "Catalog",
    "CleanupReport",
    "Commit",
    "CommitChanges",
    "CommitPage",
    "CommitRef",
    "Constraint",
    "CopyReport",
    "Distance",
    "EdgeType",
    "Embed",
    "EmbedReport",
    "EmbeddedProperty",
    "Engine",
    "Entity",
    "EntityChange",
    "EntityType",
    "EntityVersion",
    "Explanation",
    "Family",
    "FeedPage",
    "Finding",
    "GraphAlgorithms",
    "GraphBranches",
    "GraphMaintenance",
    "GraphRecovery",
    "GraphSchema",
    "GraphTables",
    "GraphTags",
    "Imported",
    "IndexState",
    "InferredSchema",
    "InputChoice",
    "InputColumns",
    "InterfaceType",
    "JsonValue",
    "KeptBy",
    "LintReport",
    "LintedQuery",
    "LiteralValue",
    "LoadCounts",
    "LoadExplanation",
    "LoadReceipt",
    "LoadRefusal",
    "MergeConflict",
    "MergeResult",
    "MigrationPlan",
    "MigrationStep",
    "MissingNodes",
    "NoValue",
    "NodeType",
    "OptimizeReport",
    "PendingIndex",
    "Picture",
    "PictureEdge",
    "PictureNode",
    "PreparedWrite",
    "Property",
    "PropertyConflict",
    "PropertyType",
    "QueryFinding",
    "Receipt",
    "RemoteBranches",
    "RemoteMaintenance",
    "RemoteRecovery",
    "RemoteSchema",
    "RemoteStoredQueries",
    "RemoteTags",
    "RepairReport",
    "RepairStep",
    "Result",
    "ResultColumn",
    "Scalar",
    "SchemaConflict",
    "SchemaFinding",
    "SchemaLine",
    "SchemaReceipt",
    "ServedQuery",
    "SqlColumn",
    "SqlResult",
    "Stage",
    "Status",
    "Step",
    "StorageReport",
    "StoredColumn",
    "TableReport",
    "TableShape",
    "Tag",
    "Timing",
    "Totals",
    "TypeChanges",
    "TypeCounts",
    "TypeState",
    "TypeStorage",
    "TypeSummary",
    "Value",
    "VerifyReport",
]


__getattr__ = lazy_attributes("omnigraph.types", _EXPORTS)


def __dir__() -> list[str]:
    return sorted(__all__)
