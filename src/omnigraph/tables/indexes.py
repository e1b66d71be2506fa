"""Indexes of a table: derived, versioned with it, extended by segments. Reads are right whatever the indexes cover."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.metering import Threads
from omnigraph.tables.addresses import Fragment
from omnigraph.tables.adjacency.zones import COLUMNS
from omnigraph.tables.digests import local_folder, name_index, version_file
from omnigraph.tables.searching import PARTITION_ROWS
from omnigraph.tables.table import Table

IndexKind = Literal["BTREE", "INVERTED", "IVF_FLAT"]

MAX_BUILDERS = 2
"""How many indexes of a table are built at the same time; each sorts its column in memory, on one core."""
WORDS: dict[str, Any] = {
    "base_tokenizer": "simple",
    "lower_case": True,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
}
"""How a text index finds words: runs of letters and digits in lower case, none left out; stemmed for "english".

Any word of a text (see `omnigraph.read.search.text`) consists of such runs, and a word that we stem is one run, so the index
finds every text that has the word or another with the same stem.
"""
MAX_SEGMENTS = 8
"""An index with this many segments more than its size needs is rebuilt when it has to grow."""
SEGMENT_ROWS = 16_000_000
"""Rows per segment of one build: what one task sorts in memory. Each may be built on another machine."""


@dataclass(frozen=True)
class IndexSpec:
    column: str
    kind: IndexKind
    variant: str | None = None
    """The metric of a vector index, or the language of a text index."""

    @property
    def name(self) -> str:
        """Names the whole spec: an index for another metric or language is another index."""
        return f"{self.column}.{self.kind.lower()}" + (f".{self.variant}" if self.variant else "")


@dataclass(frozen=True)
class IndexCoverage:
    """Which fragments an index covers; rows of other fragments are found by scan."""

    spec: IndexSpec
    fragments: frozenset[int]
    covered_rows: int
    pending_rows: int
    segments: int


def coverage(table: Table, specs: Iterable[IndexSpec]) -> dict[str, IndexCoverage]:
    """The state of each wanted index, by name. A column without a single stored column has no index: it is scanned."""
    described = {entry.name: entry for entry in table.stored.dataset.describe_indices()}
    rows = {fragment.id: fragment.rows for fragment in table.fragments}
    result = {}
    for spec in specs:
        stored = _stored(table, spec)
        entry = None if stored is None else described.get(stored.name)
        segments = [] if entry is None else entry.segments
        fragments = frozenset(fragment for segment in segments for fragment in segment.fragment_ids if fragment in rows)
        if may_have_zones(table, spec) and (zones := table.stored.zones) is not None:
            fragments |= zones.covered(table.stored, spec.column) & rows.keys()
        covered = sum(rows[fragment] for fragment in fragments)
        result[spec.name] = IndexCoverage(spec, fragments, covered, table.rows - covered, len(segments))
    return result


def may_have_zones(table: Table, spec: IndexSpec) -> bool:
    """Whether fragments in which the column ascends need no index."""
    return spec.column in COLUMNS and "src" in table.schema.names


def _stored(table: Table, spec: IndexSpec) -> IndexSpec | None:
    """The index by the name of the stored column, as the table knows it; None if there is no such single column."""
    column = table.stored_column(spec.column)
    return None if column is None else dataclasses.replace(spec, column=column)


@dataclass(frozen=True)
class SegmentPlan:
    """A segment to build: an index of a stored column over these fragments, next to the segments that cover others."""

    spec: IndexSpec
    fragments: tuple[int, ...]


def plan_segments(
    table: Table, specs: Iterable[IndexSpec], *, rebuild: bool = True, purge: bool = False
) -> list[SegmentPlan]:
    """The segments that are missing for every index to cover every fragment. With `rebuild`, an index of many segments is rebuilt
    with few; with `purge`, segments that hold values of removed fragments are rebuilt without them."""
    plans = []
    impure = _impure_fragments(table) if purge else {}
    for state in coverage(table, specs).values():
        known = state.fragments - impure.get(state.spec.name, frozenset())
        missing = [fragment for fragment in table.fragments if fragment.id not in known]
        whole = rebuild and state.segments >= MAX_SEGMENTS + table.rows // SEGMENT_ROWS
        if missing and (spec := _stored(table, state.spec)) is not None:
            plans += [SegmentPlan(spec, group) for group in _groups(table.fragments if whole else missing)]
    return [plan for plan in plans if _is_buildable(table, plan)]


def unneeded_segments(table: Table, specs: Iterable[IndexSpec], *, purge: bool = False) -> frozenset[str]:
    """The segments (by UUID) that cover no fragment of the table. With `purge`, also those that hold values of removed fragments,
    which `plan_segments` plans again, and those of undeclared indexes."""
    live = {fragment.id for fragment in table.fragments}
    declared = {stored.name for spec in specs if (stored := _stored(table, spec)) is not None}
    return frozenset(
        segment.uuid
        for segment in index_segments(table)
        if live.isdisjoint(segment.fragment_ids)
        or (purge and (segment.name not in declared or not live.issuperset(segment.fragment_ids)))
    )


def _impure_fragments(table: Table) -> dict[str, frozenset[int]]:
    """By index: the fragments of segments that also cover removed fragments."""
    live = {fragment.id for fragment in table.fragments}
    impure: dict[str, frozenset[int]] = {}
    for segment in index_segments(table):
        if not set(segment.fragment_ids) <= live:
            impure[segment.name] = impure.get(segment.name, frozenset()) | frozenset(segment.fragment_ids)
    return impure


def _groups(fragments: Sequence[Fragment]) -> list[tuple[int, ...]]:
    """The fragments in order, cut into runs of about `SEGMENT_ROWS` rows."""
    groups: list[list[int]] = [[]]
    held = 0
    for fragment in fragments:
        if held >= SEGMENT_ROWS:
            groups.append([])
            held = 0
        groups[-1].append(fragment.id)
        held += fragment.rows
    return [tuple(group) for group in groups]


def build_segments(plans: Sequence[SegmentPlan], build: Callable[[SegmentPlan], Any]) -> list[Any]:
    """Build segments concurrently in this process."""
    with Threads(max_workers=MAX_BUILDERS) as pool:
        return list(pool.map(build, plans))


def stage_segments(
    table: Table, plans: Sequence[SegmentPlan], built: Sequence[Any], unneeded: Collection[str] = ()
) -> tuple[Table, list[str]]:
    """One version with these segments and without the unneeded ones (by UUID), and the files that must be durable. An item of
    `built` is None where no segment was needed."""
    segments = [(plan, segment) for plan, segment in zip(plans, built, strict=True) if segment is not None]
    return _commit(table, segments, unneeded)


def stage_segments_on(
    head: Table, built_on: Table, plans: Sequence[SegmentPlan], built: Sequence[Any], unneeded: Collection[str] = ()
) -> tuple[Table, list[str]]:
    """Like `stage_segments`, with segments that were built on another version of the table: they cover the fragments that both
    versions have.

    A segment refers to rows by address and by row id, so a fragment is the same only if both are.
    """
    wanted = {fragment for plan in plans for fragment in plan.fragments}
    shared = _described(head, wanted).items() & _described(built_on, wanted).items()
    same = {fragment for fragment, _ in shared}
    segments = [
        (plan, dataclasses.replace(segment, fragment_ids=same.intersection(segment.fragment_ids)))
        for plan, segment in zip(plans, built, strict=True)
        if segment is not None
        and same.intersection(segment.fragment_ids)
        and list(segment.fields) == _fields(head, plan)
    ]
    return _commit(head, segments, unneeded)


def _fields(table: Table, plan: SegmentPlan) -> list[int]:
    """The id of the indexed field in this version."""
    return [field.id() for field in table.dataset.lance_schema.fields() if field.name() == plan.spec.column]


def _described(table: Table, wanted: set[int]) -> dict[int, tuple[tuple[str, ...], str]]:
    """Files and row ids of those wanted fragments that the table has."""
    return {
        fragment.id: (fragment.files, str(table.dataset.get_fragment(fragment.id).metadata.to_json()["row_id_meta"]))
        for fragment in table.fragments
        if fragment.id in wanted
    }


def cover_again(table: Table, base: Table, folded: set[int]) -> tuple[Table, list[str]]:
    """After folding: each index that covered one of the folded fragments also covers the new fragments, in the same change."""
    known = {fragment.id for fragment in base.fragments}
    fresh = tuple(fragment.id for fragment in table.fragments if fragment.id not in known)
    written = table.dataset.schema.names if table.layout is None else table.layout.written_schema.names
    plans = [
        SegmentPlan(spec_of(entry.name), fresh)
        for entry in base.dataset.describe_indices()
        if any(fragment in folded for segment in entry.segments for fragment in segment.fragment_ids)
        and spec_of(entry.name).column in written
    ]
    return _commit(table, [(plan, build_segment(table, plan)) for plan in plans if _is_buildable(table, plan)])


def spec_of(name: str) -> IndexSpec:
    column, kind, *variant = name.split(".")  # column names have no dots
    return IndexSpec(column, kind.upper(), *variant)  # type: ignore[arg-type]  # we made the name, so the kind is known


def build_segment(table: Table, plan: SegmentPlan) -> Any:
    """Build a segment that no version names yet; it can be sent to another process.

    The table's handle must not be shared: Lance blocks reads through a handle while an index is built through it.
    """
    spec, table = plan.spec, Table(table.path, table.dataset)
    options: dict[str, Any] = {}
    if spec.kind == "IVF_FLAT":
        rows = sum(fragment.rows for fragment in table.fragments if fragment.id in set(plan.fragments))
        options = {"num_partitions": max(1, rows // PARTITION_ROWS), "metric": spec.variant}
    elif spec.kind == "INVERTED":
        options = WORDS | {"stem": spec.variant == "english"}
    built = table.dataset.create_index_uncommitted(
        spec.column, spec.kind, name=f"{spec.name}.next", fragment_ids=list(plan.fragments), **options
    )
    if spec.kind == "INVERTED":
        # Text segments are written in two steps; the second makes them readable and leaves the files of the first behind.
        staged = f"{local_folder(table.dataset)}/_indices/{built.uuid}/staging"
        built = table.dataset.merge_existing_index_segments([built])
        shutil.rmtree(staged, ignore_errors=True)
    built = name_index(table.dataset, built)
    reach(Failpoint.TABLE_STAGED_DATA)
    return built


def _commit(
    table: Table, segments: Sequence[tuple[SegmentPlan, Any]], unneeded: Collection[str] = ()
) -> tuple[Table, list[str]]:
    """One version that names the new segments and drops those that they replace or that are not needed."""
    from lance import LanceDataset, LanceOperation

    live = {fragment.id for fragment in table.fragments}
    covered: dict[str, set[int]] = {}
    for plan, built in segments:
        covered.setdefault(plan.spec.name, set()).update(built.fragment_ids)
    stale = [
        old
        for old in index_segments(table)
        if old.uuid in unneeded or (old.name in covered and live.intersection(old.fragment_ids) <= covered[old.name])
    ]
    if not (segments or stale):
        return table, []
    new = [dataclasses.replace(built, name=plan.spec.name) for plan, built in segments]
    operation = LanceOperation.CreateIndex(new, stale)
    committed = LanceDataset.commit(table.dataset, operation, read_version=table.version, detached=True)
    result = Table(table.path, committed, table.layout)
    reach(Failpoint.TABLE_STAGED_VERSION)
    files = [f"_indices/{built.uuid}/{file.path}" for _, built in segments for file in built.files or []]
    return result, [*files, version_file(result.version)]


def _is_buildable(table: Table, plan: SegmentPlan) -> bool:
    """Whether there is data to build from: a vector index is trained, so it needs at least one vector."""
    if plan.spec.kind != "IVF_FLAT":
        return True
    stored, column = Table(table.path, table.dataset), plan.spec.column
    reader = stored.scan([column], f"`{column}` IS NOT NULL", fragments=plan.fragments, limit=1)
    return any(batch.num_rows for batch in reader)


def index_segments(table: Table) -> list[Any]:
    """Every segment of every index, as Lance's own objects."""
    from lance import Index

    return [
        Index(
            uuid=str(segment.uuid),
            name=entry.name,
            fields=list(entry.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
        )
        for entry in table.dataset.describe_indices()
        for segment in entry.segments
    ]
