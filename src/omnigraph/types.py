"""What calls return: results, reports and the types of a schema, for annotations.

    import omnigraph as og

    def names(result: og.types.Result) -> list[str]: ...

What a program calls or makes itself is in `omnigraph`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.algorithms.result import AlgorithmResult as AlgorithmResult
    from omnigraph.changes.entity_changes import EntityChange as EntityChange, TypeChanges as TypeChanges
    from omnigraph.changes.feed import (
        Baseline as Baseline,
        CommitChanges as CommitChanges,
        CommitPage as CommitPage,
        FeedPage as FeedPage,
    )
    from omnigraph.client.graph import (
        RemoteBranches as RemoteBranches,
        RemoteStoredQueries as RemoteStoredQueries,
        RemoteTags as RemoteTags,
        ServedQuery as ServedQuery,
    )
    from omnigraph.client.maintenance import RemoteMaintenance as RemoteMaintenance, RemoteRecovery as RemoteRecovery
    from omnigraph.client.writing import RemoteSchema as RemoteSchema
    from omnigraph.evolve.apply import BrokenQuery as BrokenQuery, SchemaReceipt as SchemaReceipt
    from omnigraph.graph.arguments import Distance as Distance
    from omnigraph.graph.branches import (
        Branch as Branch,
        GraphBranches as GraphBranches,
        GraphTags as GraphTags,
        Tag as Tag,
    )
    from omnigraph.graph.graph import GraphSchema as GraphSchema
    from omnigraph.graph.importing import Imported as Imported
    from omnigraph.graph.maintenance import (
        GraphMaintenance as GraphMaintenance,
        GraphRecovery as GraphRecovery,
        PreparedWrite as PreparedWrite,
    )
    from omnigraph.graph.reading import (
        GraphAlgorithms as GraphAlgorithms,
        GraphTables as GraphTables,
        TypeState as TypeState,
    )
    from omnigraph.history.values import Commit as Commit, CommitRef as CommitRef
    from omnigraph.indexing.indexes import IndexState as IndexState
    from omnigraph.infer.inferring import InferredSchema as InferredSchema
    from omnigraph.language.catalog import (
        Annotation as Annotation,
        Catalog as Catalog,
        Constraint as Constraint,
        EdgeType as EdgeType,
        Embed as Embed,
        EntityType as EntityType,
        Family as Family,
        InterfaceType as InterfaceType,
        LiteralValue as LiteralValue,
        NodeType as NodeType,
        Property as Property,
        StoredColumn as StoredColumn,
    )
    from omnigraph.language.query.lint import (
        LintedQuery as LintedQuery,
        LintReport as LintReport,
        QueryFinding as QueryFinding,
    )
    from omnigraph.language.query.plan import ResultColumn as ResultColumn
    from omnigraph.language.schema.lint import SchemaFinding as SchemaFinding
    from omnigraph.language.schema.merging import SchemaConflict as SchemaConflict, SchemaLine as SchemaLine
    from omnigraph.language.schema.migration import MigrationPlan as MigrationPlan
    from omnigraph.language.schema.migration_steps import MigrationStep as MigrationStep
    from omnigraph.load.explaining import LoadExplanation as LoadExplanation
    from omnigraph.load.receipt import (
        LoadCounts as LoadCounts,
        LoadReceipt as LoadReceipt,
        LoadRefusal as LoadRefusal,
        MissingNodes as MissingNodes,
    )
    from omnigraph.maintenance.cleanup import Totals as Totals
    from omnigraph.maintenance.embed import EmbeddedProperty as EmbeddedProperty, EmbedReport as EmbedReport
    from omnigraph.maintenance.optimize import OptimizeReport as OptimizeReport, TableReport as TableReport
    from omnigraph.maintenance.replication import CopyReport as CopyReport
    from omnigraph.maintenance.reports import (
        CleanupReport as CleanupReport,
        KeptBy as KeptBy,
        PendingIndex as PendingIndex,
        StorageReport as StorageReport,
        TableShape as TableShape,
        TypeStorage as TypeStorage,
    )
    from omnigraph.maintenance.verify.findings import (
        Finding as Finding,
        RepairReport as RepairReport,
        RepairStep as RepairStep,
        VerifyReport as VerifyReport,
    )
    from omnigraph.merge.conflicts import (
        MergeConflict as MergeConflict,
        NoValue as NoValue,
        PropertyConflict as PropertyConflict,
    )
    from omnigraph.merge.three_way import MergeResult as MergeResult, TypeSummary as TypeSummary
    from omnigraph.pictures.picture import Picture as Picture, PictureEdge as PictureEdge, PictureNode as PictureNode
    from omnigraph.read.entities import Blob as Blob
    from omnigraph.read.entity_history import EntityVersion as EntityVersion
    from omnigraph.read.explaining import Explanation as Explanation, InputColumns as InputColumns
    from omnigraph.read.result import Result as Result, Timing as Timing
    from omnigraph.read.sql_query import SqlColumn as SqlColumn, SqlResult as SqlResult
    from omnigraph.read.steps import Step as Step
    from omnigraph.read.strategies.strategy import InputChoice as InputChoice
    from omnigraph.tasks.engines import Engine as Engine
    from omnigraph.tasks.progress import Stage as Stage, Status as Status
    from omnigraph.values.arrow import Entity as Entity, JsonValue as JsonValue, Value as Value
    from omnigraph.values.types import PropertyType as PropertyType, Scalar as Scalar
    from omnigraph.write.receipt import Receipt as Receipt, TypeCounts as TypeCounts

_EXPORTS = {
    "omnigraph.algorithms.result": "AlgorithmResult",
    "omnigraph.changes.entity_changes": "EntityChange TypeChanges",
    "omnigraph.changes.feed": "Baseline CommitChanges CommitPage FeedPage",
    "omnigraph.client.graph": "RemoteBranches RemoteStoredQueries RemoteTags ServedQuery",
    "omnigraph.client.maintenance": "RemoteMaintenance RemoteRecovery",
    "omnigraph.client.writing": "RemoteSchema",
    "omnigraph.evolve.apply": "BrokenQuery SchemaReceipt",
    "omnigraph.graph.arguments": "Distance",
    "omnigraph.graph.branches": "Branch GraphBranches GraphTags Tag",
    "omnigraph.graph.graph": "GraphSchema",
    "omnigraph.graph.importing": "Imported",
    "omnigraph.graph.maintenance": "GraphMaintenance GraphRecovery PreparedWrite",
    "omnigraph.graph.reading": "TypeState GraphAlgorithms GraphTables",
    "omnigraph.history.values": "Commit CommitRef",
    "omnigraph.indexing.indexes": "IndexState",
    "omnigraph.infer.inferring": "InferredSchema",
    "omnigraph.language.catalog": "Annotation Catalog Constraint EdgeType Embed EntityType Family InterfaceType LiteralValue NodeType Property StoredColumn",
    "omnigraph.language.query.lint": "LintReport LintedQuery QueryFinding",
    "omnigraph.language.query.plan": "ResultColumn",
    "omnigraph.language.schema.lint": "SchemaFinding",
    "omnigraph.language.schema.merging": "SchemaConflict SchemaLine",
    "omnigraph.language.schema.migration": "MigrationPlan",
    "omnigraph.language.schema.migration_steps": "MigrationStep",
    "omnigraph.load.explaining": "LoadExplanation",
    "omnigraph.load.receipt": "LoadCounts LoadReceipt LoadRefusal MissingNodes",
    "omnigraph.maintenance.cleanup": "Totals",
    "omnigraph.maintenance.embed": "EmbedReport EmbeddedProperty",
    "omnigraph.maintenance.optimize": "OptimizeReport TableReport",
    "omnigraph.maintenance.replication": "CopyReport",
    "omnigraph.maintenance.reports": "CleanupReport KeptBy PendingIndex StorageReport TableShape TypeStorage",
    "omnigraph.maintenance.verify.findings": "Finding RepairReport RepairStep VerifyReport",
    "omnigraph.merge.conflicts": "MergeConflict NoValue PropertyConflict",
    "omnigraph.merge.three_way": "MergeResult TypeSummary",
    "omnigraph.pictures.picture": "Picture PictureEdge PictureNode",
    "omnigraph.read.entities": "Blob",
    "omnigraph.read.entity_history": "EntityVersion",
    "omnigraph.read.explaining": "Explanation InputColumns",
    "omnigraph.read.result": "Result Timing",
    "omnigraph.read.sql_query": "SqlColumn SqlResult",
    "omnigraph.read.steps": "Step",
    "omnigraph.read.strategies.strategy": "InputChoice",
    "omnigraph.tasks.engines": "Engine",
    "omnigraph.tasks.progress": "Stage Status",
    "omnigraph.values.arrow": "Entity JsonValue Value",
    "omnigraph.values.types": "PropertyType Scalar",
    "omnigraph.write.receipt": "Receipt TypeCounts",
}

__all__ = sorted(" ".join(_EXPORTS.values()).split())
__getattr__ = lazy_attributes("omnigraph.types", _EXPORTS)


def __dir__() -> list[str]:
    return __all__
