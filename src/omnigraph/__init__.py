"""OmniGraph: a typed property-graph database that works like Git, with its data pipeline on Spark.

    import omnigraph as og

    g = og.init("./people", schema="node Person { name: String @key }")
    g.mutate("query add($n: String) { insert Person { name: $n } }", {"n": "Ada"})
    g.query("query all() { match { $p: Person } return { $p.name } }").rows

Importing the package is cheap: the engines load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.lazy_names import names_of
from omnigraph.version import VERSION as __version__

if TYPE_CHECKING:
    from omnigraph import errors, spark
    from omnigraph.changes import Baseline, CommitChanges, CommitPage, EntityChange, FeedPage, TypeChanges
    from omnigraph.client.branches import RemoteBranches, RemoteTags
    from omnigraph.client.graph import RemoteGraph, connect
    from omnigraph.client.stored_queries import RemoteStoredQueries, ServedQuery
    from omnigraph.client.upkeep import RemoteRecovery
    from omnigraph.deadlines import Cancellation
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
    from omnigraph.graph.algorithms import GraphAlgorithms
    from omnigraph.graph.frames import GraphTables
    from omnigraph.history import Commit, CommitRef
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
    from omnigraph.maintenance.cleanup import Totals
    from omnigraph.maintenance.health import PendingIndex, TableShape
    from omnigraph.maintenance.indexes import IndexState
    from omnigraph.maintenance.optimize import OptimizeReport, TableReport
    from omnigraph.maintenance.replication import CopyReport
    from omnigraph.maintenance.reports import CleanupReport, KeptBy, StorageReport, TypeStorage
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
    from omnigraph.pipeline.algorithms.result import AlgorithmResult
    from omnigraph.pipeline.embed import EmbeddedProperty, EmbedReport
    from omnigraph.pipeline.engines import Engine
    from omnigraph.pipeline.evolve.apply import SchemaReceipt
    from omnigraph.pipeline.evolve.queries import BrokenQuery
    from omnigraph.pipeline.infer.inferring import InferredSchema
    from omnigraph.pipeline.load.explaining import LoadExplanation
    from omnigraph.pipeline.load.receipt import LoadCounts, LoadReceipt, LoadRefusal, MissingNodes
    from omnigraph.pipeline.progress import Status
    from omnigraph.pipeline.repair.report import RepairReport, RepairStep
    from omnigraph.pipeline.stages import Stage
    from omnigraph.pipeline.verify.findings import Finding, VerifyReport
    from omnigraph.policy import Ask, Decision, Gate, Policy, load_policy
    from omnigraph.read import (
        Blob,
        EntityVersion,
        Explanation,
        InputChoice,
        InputColumns,
        Picture,
        PictureEdge,
        PictureNode,
        Result,
        SqlColumn,
        SqlResult,
        Step,
        Timing,
    )
    from omnigraph.runtime import Runtime
    from omnigraph.values.entities import Entity, JsonValue, Value
    from omnigraph.values.types import PropertyType, Scalar
    from omnigraph.write import Receipt, TypeCounts

_HOMES = {
    "omnigraph": ("errors", "spark"),
    "omnigraph.changes": ("Baseline", "CommitChanges", "CommitPage", "EntityChange", "FeedPage", "TypeChanges"),
    "omnigraph.deadlines": ("Cancellation",),
    "omnigraph.client.branches": ("RemoteBranches", "RemoteTags"),
    "omnigraph.client.graph": ("RemoteGraph", "connect"),
    "omnigraph.client.stored_queries": ("RemoteStoredQueries", "ServedQuery"),
    "omnigraph.client.upkeep": ("RemoteRecovery",),
    "omnigraph.graph": (
        *("Branch", "Distance", "Graph", "GraphBranches", "GraphRecovery", "GraphSnapshot", "GraphTags", "Imported"),
        *("PreparedWrite", "Tag", "Transaction", "TypeState", "clone", "import_data", "infer_schema", "init"),
        *("lint", "lint_schema", "open"),
    ),
    "omnigraph.history": ("Commit", "CommitRef"),
    "omnigraph.language.catalog": (
        *("Annotation", "Catalog", "Constraint", "EdgeType", "Embed", "EntityType"),
        *("InterfaceType", "LiteralValue", "NodeType", "Property", "StoredColumn"),
    ),
    "omnigraph.language.query.plan": ("ResultColumn",),
    "omnigraph.language.query.lint": ("LintReport", "LintedQuery", "QueryFinding"),
    "omnigraph.language.schema.lint": ("SchemaFinding",),
    "omnigraph.language.schema.migration": ("MigrationPlan",),
    "omnigraph.language.schema.migration_steps": ("MigrationStep",),
    "omnigraph.maintenance.health": ("PendingIndex", "TableShape"),
    "omnigraph.maintenance.optimize": ("OptimizeReport", "TableReport"),
    "omnigraph.pipeline.embed": ("EmbedReport", "EmbeddedProperty"),
    "omnigraph.pipeline.evolve.apply": ("SchemaReceipt",),
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
    "omnigraph.pipeline.evolve.queries": ("BrokenQuery",),
    "omnigraph.pipeline.engines": ("Engine",),
    "omnigraph.pipeline.infer.inferring": ("InferredSchema",),
    "omnigraph.pipeline.load.explaining": ("LoadExplanation",),
    "omnigraph.pipeline.load.receipt": ("LoadCounts", "LoadReceipt", "LoadRefusal", "MissingNodes"),
    "omnigraph.pipeline.progress": ("Status",),
    "omnigraph.pipeline.repair.report": ("RepairReport", "RepairStep"),
    "omnigraph.graph.algorithms": ("GraphAlgorithms",),
    "omnigraph.graph.frames": ("GraphTables",),
    "omnigraph.pipeline.algorithms.result": ("AlgorithmResult",),
    "omnigraph.maintenance.cleanup": ("Totals",),
    "omnigraph.maintenance.indexes": ("IndexState",),
    "omnigraph.maintenance.reports": ("CleanupReport", "KeptBy", "StorageReport", "TypeStorage"),
    "omnigraph.pipeline.stages": ("Stage",),
    "omnigraph.pipeline.verify.findings": ("Finding", "VerifyReport"),
    "omnigraph.policy": ("Ask", "Decision", "Gate", "Policy", "load_policy"),
    "omnigraph.read": (
        *("Blob", "InputChoice", "EntityVersion", "Explanation", "InputColumns", "Result", "SqlColumn", "SqlResult"),
        *("Picture", "PictureEdge", "PictureNode", "Step", "Timing"),
    ),
    "omnigraph.runtime": ("Runtime",),
    "omnigraph.values.entities": ("Entity", "JsonValue", "Value"),
    "omnigraph.values.types": ("PropertyType", "Scalar"),
    "omnigraph.write": ("Receipt", "TypeCounts"),
}

__all__ = [
    "NO_VALUE",
    "AlgorithmResult",
    "Annotation",
    "Ask",
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
    "Gate",
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


__getattr__ = names_of("omnigraph", _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
