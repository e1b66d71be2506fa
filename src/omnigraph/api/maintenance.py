"""What maintenance did: copies, compaction, cleanup, verification, repair, vectors of texts."""

from __future__ import annotations

from typing import Annotated

from omnigraph.api.history import CommitJson, ServedCommit
from omnigraph.api.structs import ANY_OBJECT, As, Count, Struct, at, maybe


class CopyJson(Struct):
    """What a clone, a push or a pull copied: `commits` by branch."""

    source: str
    target: str
    commits: dict[str, int]
    tags: list[str]
    objects: Count
    bytes: Count
    present: Count


class PendingIndexJson(Struct, of="PendingIndex"):
    column: str
    kind: str
    rows: Count
    reason: str


class TableShapeJson(Struct, of="TableShape"):
    rows: Count
    fragments: Count
    deleted_rows: Count
    bytes: Count
    indexes: Count
    pending: list[PendingIndexJson]


class TableReportJson(Struct, of="TableReport", in_full=False):
    table: str = at("table_key")
    actions: list[str]
    before: TableShapeJson
    after: TableShapeJson
    worthwhile: bool = at("is_worthwhile")


class OptimizeJson(Struct):
    uri: str
    branch: str
    dry_run: bool
    commit: CommitJson = maybe()
    tables: list[TableReportJson]


class ServedOptimize(OptimizeJson, of="OptimizeReport", component="Optimized"):
    commit: ServedCommit = maybe()


class FindingJson(Struct):
    kind: str
    object_kind: str
    object: str
    problem: str
    action: str
    commits: list[str]
    total_commits: Count
    types: list[str]
    rows: Count = maybe()
    ids: list[str]


class VerifyJson(Struct):
    whole: bool = at("is_whole")
    deep: bool = at("is_deep")
    commits: Count
    objects: Count
    files: Count
    bytes: Count
    rows: Count = maybe(lambda report: report.rows if report.is_deep else None)
    findings: list[FindingJson]


class RepairStepJson(Struct):
    kind: str
    object: str
    action: str
    commit: CommitJson = maybe()


class RepairJson(Struct):
    done: bool = at("is_done")
    whole: bool = at("is_whole")
    steps: list[RepairStepJson]
    findings: list[FindingJson]
    remaining: list[FindingJson]


class TotalsJson(Struct, of="Totals"):
    files: Count
    bytes: Count


class KeptByJson(Struct, of="KeptBy", in_full=False):
    name: str
    commits: Count
    files_alone: Count
    bytes_alone: Count


class CleanupJson(Struct, of="CleanupReport", component="Cleaned"):
    dry_run: bool = at("is_dry_run")
    files: Count
    bytes: Count
    removed: dict[str, TotalsJson] = at(lambda report: dict(sorted(report.removed.items())))
    waiting: Annotated[TotalsJson, As(ANY_OBJECT)] = maybe()
    watermarks: Annotated[dict[str, int], As(ANY_OBJECT)] = maybe()
    kept: list[KeptByJson] = maybe()
    foreign: list[str] = maybe()


class IndexJson(Struct, of="IndexState"):
    table: str = at("table_key")
    column: str
    kind: str
    covered_rows: Count
    pending_rows: Count
    reason: str = maybe()


class TypeStorageJson(Struct, of="TypeStorage", in_full=False):
    type: str
    rows: Count
    fragments: Count
    deleted_rows: Count
    live_bytes: Count
    history_bytes: Count
    adjacency_bytes: Count
    reclaimable_bytes: Count
    indexes: list[IndexJson]


class StorageJson(Struct, of="StorageReport"):
    branch: str
    reclaimable_bytes: Count
    types: list[TypeStorageJson]
    kept: list[KeptByJson]
    history: TotalsJson = at("history_objects")
    held_bytes: Count


class ServedStorage(StorageJson, of="StorageReport", component="Storage"):
    branches: Count
    tags: Count
    commits: Count


class EmbeddedPropertyJson(Struct):
    type: str
    property: str
    model: str
    rows: Count


class EmbedJson(Struct):
    uri: str
    branch: str
    dry_run: bool
    rows: Count
    commits: list[CommitJson]
    properties: list[EmbeddedPropertyJson]
