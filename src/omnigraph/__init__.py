"""OmniGraph: a typed property-graph database that works like Git, with its data pipeline on Spark.

    import omnigraph as og

    g = og.init("./people", schema="node Person { name: String @key }")
    g.mutate("query add($n: String) { insert Person { name: $n } }", {"n": "Ada"})
    g.query("query all() { match { $p: Person } return { $p.name } }").rows

Importing the package is cheap: the engines load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes
from omnigraph.version import VERSION as __version__

if TYPE_CHECKING:
    from omnigraph import errors, spark
    from omnigraph._internal.deadlines import Cancellation
    from omnigraph._internal.runtime import Runtime
    from omnigraph.algorithms.result import AlgorithmResult
    from omnigraph.changes import Baseline, CommitChanges, CommitPage, EntityChange, FeedPage, TypeChanges
    from omnigraph.client.graph import (
        RemoteBranches,
        RemoteGraph,
        RemoteStoredQueries,
        RemoteTags,
        ServedQuery,
        connect,
    )
    from omnigraph.client.maintenance import RemoteRecovery
    from omnigraph.evolve.apply import SchemaReceipt
    from omnigraph.evolve.migrating import BrokenQuery
    from omnigraph.graph import (
        Branch,
        Distance,
        Graph,
        GraphBranches,
        GraphRecovery,
        GraphSnapshot,
        GraphTags,
        Imported,
        PreparedWrite,
        Tag,
        Transaction,
        TypeState,
        clone,
        import_data,
        infer_schema,
        init,
        lint,
        lint_schema,
        open,
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
    from omnigraph.maintenance.repair.report import RepairReport, RepairStep
    from omnigraph.maintenance.replication import CopyReport
    from omnigraph.maintenance.reports import (
        CleanupReport,
        KeptBy,
        PendingIndex,
        StorageReport,
        TableShape,
        TypeStorage,
    )
    from omnigraph.maintenance.verify.findings import Finding, VerifyReport
    from omnigraph.merge import (
        NO_VALUE,
        MergeConflict,
        MergeResult,
        NoValue,
        PropertyConflict,
        Resolution,
        SchemaConflict,
        SchemaLine,
        TypeSummary,
    )
    from omnigraph.pictures.picture import Picture, PictureEdge, PictureNode
    from omnigraph.policy import AccessRequest, Authorizer, Decision, Policy, load_policy
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
    "omnigraph.pictures.picture": ("Picture", "PictureEdge", "PictureNode"),
    "omnigraph": (
        "errors",
        "spark",
    ),
    "omnigraph.changes": (
        "Baseline",
        "CommitChanges",
        "CommitPage",
        "EntityChange",
        "FeedPage",
        "TypeChanges",
    ),
    "omnigraph._internal.deadlines": ("Cancellation",),
    "omnigraph.client.graph": (
        "RemoteBranches",
        "RemoteTags",
        "RemoteGraph",
        "connect",
        "RemoteStoredQueries",
        "ServedQuery",
    ),
    "omnigraph.client.maintenance": ("RemoteRecovery",),
    "omnigraph.graph": (
        *("Branch", "Distance", "Graph", "GraphBranches", "GraphRecovery", "GraphSnapshot", "GraphTags", "Imported"),
        *("PreparedWrite", "Tag", "Transaction", "TypeState", "clone", "import_data", "infer_schema", "init"),
        *("lint", "lint_schema", "open"),
    ),
    "omnigraph.history": (
        "Commit",
        "CommitRef",
    ),
    "omnigraph.language.catalog": (
        *("Annotation", "Catalog", "Constraint", "EdgeType", "Embed", "EntityType"),
        *("InterfaceType", "LiteralValue", "NodeType", "Property", "StoredColumn"),
    ),
    "omnigraph.language.query.plan": ("ResultColumn",),
    "omnigraph.language.query.lint": (
        "LintReport",
        "LintedQuery",
        "QueryFinding",
    ),
    "omnigraph.language.schema.lint": ("SchemaFinding",),
    "omnigraph.language.schema.migration": ("MigrationPlan",),
    "omnigraph.language.schema.migration_steps": ("MigrationStep",),
    "omnigraph.maintenance.reports": (
        "PendingIndex",
        "TableShape",
        "CleanupReport",
        "KeptBy",
        "StorageReport",
        "TypeStorage",
    ),
    "omnigraph.maintenance.optimize": (
        "OptimizeReport",
        "TableReport",
    ),
    "omnigraph.maintenance.embed": (
        "EmbedReport",
        "EmbeddedProperty",
    ),
    "omnigraph.evolve.apply": ("SchemaReceipt",),
    "omnigraph.maintenance.replication": ("CopyReport",),
    "omnigraph.merge": (
        "NO_VALUE",
        "MergeConflict",
        "MergeResult",
        "NoValue",
        "PropertyConflict",
        "Resolution",
        "SchemaConflict",
        "SchemaLine",
        "TypeSummary",
    ),
    "omnigraph.evolve.migrating": ("BrokenQuery",),
    "omnigraph.tasks.engines": ("Engine",),
    "omnigraph.infer.inferring": ("InferredSchema",),
    "omnigraph.load.explaining": ("LoadExplanation",),
    "omnigraph.load.receipt": (
        "LoadCounts",
        "LoadReceipt",
        "LoadRefusal",
        "MissingNodes",
    ),
    "omnigraph.tasks.progress": (
        "Status",
        "Stage",
    ),
    "omnigraph.maintenance.repair.report": (
        "RepairReport",
        "RepairStep",
    ),
    "omnigraph.graph.reading": (
        "GraphAlgorithms",
        "GraphTables",
    ),
    "omnigraph.algorithms.result": ("AlgorithmResult",),
    "omnigraph.maintenance.cleanup": ("Totals",),
    "omnigraph.indexing.indexes": ("IndexState",),
    "omnigraph.maintenance.verify.findings": (
        "Finding",
        "VerifyReport",
    ),
    "omnigraph.policy": (
        "AccessRequest",
        "Decision",
        "Authorizer",
        "Policy",
        "load_policy",
    ),
    "omnigraph.read": (
        *("Blob", "InputChoice", "EntityVersion", "Explanation", "InputColumns", "Result", "SqlColumn", "SqlResult"),
        *("Step", "Timing"),
    ),
    "omnigraph._internal.runtime": ("Runtime",),
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
    "NO_VALUE",
    "AccessRequest",
    "AlgorithmResult",
    "Annotation",
    "Authorizer",
    "Baseline",
    "Blob",
    "Branch",
    "BrokenQuery",
    "Cancellation",
    "Catalog",
    "CleanupReport",
    "Commit",
    "CommitChanges",
    "CommitPage",
    "CommitRef",
    "Constraint",
    "CopyReport",
    "Decision",
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
    "FeedPage",
    "Finding",
    "Graph",
    "GraphAlgorithms",
    "GraphBranches",
    "GraphRecovery",
    "GraphSnapshot",
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
    "Policy",
    "PreparedWrite",
    "Property",
    "PropertyConflict",
    "PropertyType",
    "QueryFinding",
    "Receipt",
    "RemoteBranches",
    "RemoteGraph",
    "RemoteRecovery",
    "RemoteStoredQueries",
    "RemoteTags",
    "RepairReport",
    "RepairStep",
    "Resolution",
    "Result",
    "ResultColumn",
    "Runtime",
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
    "Transaction",
    "TypeChanges",
    "TypeCounts",
    "TypeState",
    "TypeStorage",
    "TypeSummary",
    "Value",
    "VerifyReport",
    "__version__",
    "clone",
    "connect",
    "errors",
    "import_data",
    "infer_schema",
    "init",
    "lint",
    "lint_schema",
    "load_policy",
    "open",
    "spark",
]


__getattr__ = lazy_attributes("omnigraph", _EXPORTS)


def __dir__() -> list[str]:
    return sorted(__all__)
