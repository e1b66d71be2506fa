"""Indexes of a table: derived, versioned with it, grown by segments. A read is right whatever they cover."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.storage.failpoints import Failpoint, reach
from omnigraph.tables.table import Table

IndexKind = Literal["BTREE", "INVERTED", "IVF_FLAT"]

SEGMENTS_MOST = 8
"""An index with more segments is rebuilt as one."""


@dataclass(frozen=True)
class IndexSpec:
    column: str
    kind: IndexKind
    metric: str | None = None

    @property
    def name(self) -> str:
        return f"{self.column}.{self.kind.lower()}"


@dataclass(frozen=True)
class IndexCoverage:
    """Which parts an index covers; rows elsewhere are found by scan."""

    spec: IndexSpec
    parts: frozenset[int]
    covered_rows: int
    pending_rows: int
    segments: int


def coverage(table: Table, specs: Iterable[IndexSpec]) -> dict[str, IndexCoverage]:
    """The state of each wanted index, by name."""
    described = {entry.name: entry for entry in table.dataset.describe_indices()}
    rows = {part.id: part.rows for part in table.parts}
    result = {}
    for spec in specs:
        entry = described.get(spec.name)
        segments = [] if entry is None else entry.segments
        parts = frozenset(part for segment in segments for part in segment.fragment_ids if part in rows)
        covered = sum(rows[part] for part in parts)
        result[spec.name] = IndexCoverage(spec, parts, covered, table.rows - covered, len(segments))
    return result


def stage_index(table: Table, spec: IndexSpec) -> tuple[Table, list[str]]:
    """A version whose index covers every part; the same table when it did already. Also the files that must be durable."""
    state = coverage(table, [spec])[spec.name]
    missing = [part.id for part in table.parts if part.id not in state.parts]
    if not missing:
        return table, []
    whole = state.segments == 0 or state.segments >= SEGMENTS_MOST
    targets = [part.id for part in table.parts] if whole else missing
    return _add_segment(table, spec, targets, replace=whole and state.segments > 0)


def cover_again(table: Table, base: Table, folded: set[int]) -> tuple[Table, list[str]]:
    """After parts were folded: each index that covered one of them covers the new parts too, in the same change."""
    files: list[str] = []
    known = {part.id for part in base.parts}
    fresh = [part.id for part in table.parts if part.id not in known]
    for entry in base.dataset.describe_indices():
        if any(part in folded for segment in entry.segments for part in segment.fragment_ids):
            spec = spec_of(base, entry.name)
            table, written = _add_segment(table, spec, fresh, replace=False)
            files += written
    return table, files


def spec_of(table: Table, name: str) -> IndexSpec:
    column, _, kind = name.rpartition(".")
    metric = None
    if kind == "ivf_flat":
        metric = str(table.dataset.stats.index_stats(name)["indices"][0]["metric_type"])
    return IndexSpec(column, kind.upper(), metric)  # type: ignore[arg-type]  # names are ours: always a known kind


def _add_segment(table: Table, spec: IndexSpec, parts: Sequence[int], *, replace: bool) -> tuple[Table, list[str]]:
    from lance import LanceDataset, LanceOperation

    if spec.kind == "IVF_FLAT" and not has_vectors(table, spec.column, parts):
        return table, []
    options: dict[str, Any] = {}
    if spec.kind == "IVF_FLAT":
        rows = sum(part.rows for part in table.parts if part.id in set(parts))
        options = {"num_partitions": max(1, rows // 4_096), "metric": spec.metric or "cosine"}
    dataset = table.dataset
    built = dataset.create_index_uncommitted(
        spec.column, spec.kind, name=f"{spec.name}.next", fragment_ids=list(parts), **options
    )
    if spec.kind != "IVF_FLAT":
        # Scalar and text segments are written in two steps; the second one makes them readable.
        built = dataset.merge_existing_index_segments([built])
    reach(Failpoint.TABLE_STAGED_DATA)
    live = {part.id for part in table.parts}
    stale = [
        old for old in _segments(table, spec.name) if replace or not any(part in live for part in old.fragment_ids)
    ]
    operation = LanceOperation.CreateIndex([dataclasses.replace(built, name=spec.name)], stale)
    committed = LanceDataset.commit(dataset, operation, read_version=dataset.version, detached=True)
    result = Table(table.path, committed)
    reach(Failpoint.TABLE_STAGED_VERSION)
    files = [f"_indices/{built.uuid}/{file.path}" for file in built.files or []]
    return result, [*files, f"_versions/d{result.version}.manifest"]


def has_vectors(table: Table, column: str, parts: Sequence[int]) -> bool:
    """Whether there is anything to train on: an index over no vector at all cannot be built."""
    reader = table.scan([column], f"`{column}` IS NOT NULL", parts=parts, limit=1)
    return any(batch.num_rows for batch in reader)


def _segments(table: Table, name: str) -> list[Any]:
    from lance.dataset import Index

    return [
        Index(
            uuid=str(segment.uuid),
            name=name,
            fields=list(entry.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
        )
        for entry in table.dataset.describe_indices()
        if entry.name == name
        for segment in entry.segments
    ]
