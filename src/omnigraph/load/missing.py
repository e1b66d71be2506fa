"""Edges that name nodes which there are not: found before the rules are checked, and left out, or given these nodes.

It is decided once, on the state that the load stands on. If another writer removes a node before the load is published, the load is
refused like any other; if one creates a node that the load creates too, the keys clash, and the load can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import EndpointMissing, UsageError
from omnigraph.language.catalog import EdgeType, NodeType
from omnigraph.load.checks import CheckTask, committed_table, run_checks
from omnigraph.load.fragments import FragmentWriter, TypeReport
from omnigraph.load.keyed_rows import Source, fragment_groups
from omnigraph.load.receipt import MissingNodes, StagedRows
from omnigraph.load.written import WrittenFiles
from omnigraph.records.encoding import record_lines
from omnigraph.records.ids import FreshIds
from omnigraph.records.rows import NamedRows, Reject
from omnigraph.records.tabular import TabularReader
from omnigraph.rules.check import Need, Record, RowSource, Violation, absent
from omnigraph.rules.endpoints import End, EndpointCheck, ends_of
from omnigraph.snapshot import View
from omnigraph.tasks.engines import LoadMode
from omnigraph.tasks.runner import Runner
from omnigraph.tasks.target import TableVersion, TableVersions, Target
from omnigraph.values.arrow import OUTSIDE_NAMES

MAX_NAMED = 5
"""Missing ids that a receipt lists."""

MissingIds = Mapping[End, Mapping[str, int]]
"""By the end of an edge: the ids that no node has, and how many edges name each."""


class _MissingEnds(EndpointCheck):
    """Finds every missing id once, with the number of edges that name it."""

    @property
    def own(self) -> tuple[Need, ...]:
        return (replace(super().own[0], are_values=False),)

    def find(self, rows: RowSource, *, complete: bool = False) -> list[Violation]:
        ends = rows.all(self.own[0]).column(self.end)
        ids = ends.unique()
        missing = absent(ids, rows.matching(self.others[0], ids).column("id")) if len(ids) else ids
        counts = pc.value_counts(ends.filter(pc.is_in(ends, value_set=missing))).to_pylist() if len(missing) else []
        return [Violation("endpoint", self.end, entry["values"], entry["values"], entry["counts"]) for entry in counts]

    def records(self, violation: Violation) -> tuple[Record, ...]:
        return ((self.table, self.end, violation.id),)

    def excess(self, violation: Violation) -> int | None:
        return int(violation.number or 0)


def find_missing(
    view: View, incoming: Mapping[str, StagedRows], mode: LoadMode, runner: Runner
) -> dict[str, dict[End, dict[str, int]]]:
    """By the table of edges. Nodes are those of the branch and of the load; an overwrite replaces the former."""

    def sources(need: Need) -> tuple[Source, ...]:
        new, old = incoming.get(need.table), committed_table(view, need.table)
        places = [] if new is None or not new.rows else [(new.place, new.rows)]
        is_edge = need.table.startswith("edge:")
        if old is not None and not is_edge and not (mode == "overwrite" and new is not None):
            places.append((TableVersion.of(old), old.rows))
        return tuple(Source.of(need, place, rows) for place, rows in places)

    checks = [
        _MissingEnds(edge, end, node)
        for key, rows in incoming.items()
        if rows.rows and isinstance(edge := view.entity(key), EdgeType)
        for end, node in ends_of(edge)
    ]
    target = Target.of(view.repository, view)
    tasks = [
        CheckTask(target, check, {need: sources(need) for need in (*check.own, *check.others)}, counts=True)
        for check in checks
    ]
    missing: dict[str, dict[End, dict[str, int]]] = {}
    for check, report in zip(checks, run_checks("find missing nodes", tasks, runner) if tasks else (), strict=True):
        if report.blamed:
            missing.setdefault(check.table, {})[check.end] = {
                id: count or 0 for (_, _, id), count in sorted(report.blamed)
            }
    return missing


def described(view: View, missing: Mapping[str, MissingIds]) -> tuple[MissingNodes, ...]:
    """What is missing, for the receipt."""
    return tuple(
        MissingNodes(edge.name, OUTSIDE_NAMES[end], node, sum(ids.values()), len(ids), tuple(ids)[:MAX_NAMED])
        for key, ends in missing.items()
        if isinstance(edge := view.entity(key), EdgeType)
        for end, node in ends_of(edge)
        if (ids := ends.get(end))
    )


# ---------------------------------------------------------------- edges that are left out


@dataclass(frozen=True)
class SkipTask:
    """Some fragments of new edges, to be written again without those that name a missing node."""

    target: Target
    place: TableVersion
    fragments: tuple[int, ...] | None
    missing: Mapping[End, Sequence[str]]
    with_rows: bool
    written: WrittenFiles | None


@dataclass(frozen=True)
class SkippedEdges:
    """`fragments` hold the edges that are kept, `rows` those that are not, if they were asked for."""

    fragments: tuple[str, ...] = ()
    count: int = 0
    rows: pa.Table | None = None


def skip_edges(task: SkipTask) -> SkippedEdges:
    table = task.target.open(task.place)
    rows = table.read(fragments=task.fragments)
    mask = pa.chunked_array([pa.repeat(False, rows.num_rows)])
    for end, ids in task.missing.items():
        mask = pc.or_(mask, pc.is_in(rows.column(end), value_set=pa.array(ids, pa.string())))
    kept = rows.filter(pc.invert(mask))
    fragments = task.target.tables.write_fragments(table, kept) if kept.num_rows else ()
    if task.written is not None:
        task.written.note_fragments(table.path, fragments)
    skipped = rows.filter(mask) if task.with_rows else None
    return SkippedEdges(tuple(fragments), rows.num_rows - kept.num_rows, skipped)


def without_missing(
    target: Target,
    incoming: StagedRows,
    missing: MissingIds,
    runner: Runner,
    written: WrittenFiles | None,
    *,
    with_rows: bool,
) -> list[SkippedEdges]:
    """New edges without those whose nodes are missing, written by tasks."""
    ids = {end: tuple(counts) for end, counts in missing.items()}
    source = Source(incoming.place, ("id",), ("id",), incoming.rows)
    tasks = [
        SkipTask(target, incoming.place, fragments, ids, with_rows, written)
        for _, fragments in fragment_groups(target, source)
    ]
    return runner.map("leave edges out", skip_edges, tasks)


def rejects_of(edge: EdgeType, rows: pa.Table, missing: MissingIds) -> list[tuple[str, Reject]]:
    """Edges that were left out, by their ids, as rejected records whose place is not known yet."""
    nodes = dict(ends_of(edge))
    texts = [text for batch in rows.to_batches() for text in record_lines(edge, batch).to_pylist()]
    columns = {name: rows.column(name).to_pylist() for name in ("id", "src", "dst")}
    rejects = []
    for row, text in enumerate(texts):
        end = next(end for end in ends_of_missing(missing) if columns[end][row] in missing[end])
        error = EndpointMissing(
            f"{OUTSIDE_NAMES[end]} '{columns[end][row]}' not found in {nodes[end]}",
            type_name=edge.name,
            property=end,
            entity_id=columns["id"][row],
            value=columns[end][row],
        )
        rejects.append((columns["id"][row], Reject.of(0, error, text.rstrip("\n"))))
    return rejects


def ends_of_missing(missing: MissingIds) -> list[End]:
    order: tuple[End, End] = ("src", "dst")
    return [end for end in order if end in missing]


# ---------------------------------------------------------------- nodes that are created


def write_stubs(
    target: Target,
    versions: TableVersions,
    node: NodeType,
    ids: Collection[str],
    fresh: FreshIds,
    written: WrittenFiles,
) -> TypeReport:
    """Nodes with these ids, their key and nothing else, as fragments. Ids that cannot be a key of the type are left missing.

    Raises UsageError if the type needs other properties.
    """
    needed = [
        name
        for name, property in node.properties.items()
        if name not in node.key and not property.type.nullable and property.default is None
    ]
    if needed:
        raise UsageError(
            f"missing='stub' cannot create {node.name} '{next(iter(ids))}': '{needed[0]}' needs a value",
            hint=f"make it optional in the schema ('{needed[0]}: {node.properties[needed[0]].type}?'), give it a default, or use "
            "missing='skip'",
        )
    members = {id: members for id in ids if (members := _key_members(node, id)) is not None}
    names = list(node.key) or ["id"]
    cells = [pa.array([texts[place] for texts in members.values()], pa.string()) for place in range(len(names))]
    table = pa.Table.from_arrays(cells, names=names)
    writer = FragmentWriter(target, versions, written)
    reader = TabularReader(target.catalog, node.table_key, names, fresh, text=True)
    wanted = pa.array(members, pa.string())
    for typed in reader.read(table, pa.array(np.arange(1, table.num_rows + 1, dtype=np.int64))):
        assert not isinstance(typed, NamedRows), "whole rows were given"
        mask = pc.is_in(typed.rows.column("id"), value_set=wanted)
        kept = replace(typed, rows=typed.rows.filter(mask), lines=typed.lines.filter(mask.combine_chunks()))
        writer.add(0, kept)
    writer.finish()
    return writer.types.get(node.table_key, TypeReport())


def _key_members(node: NodeType, id: str) -> list[str] | None:
    """The texts that the members of a key have in an id."""
    if len(node.key) < 2:
        return [id]
    try:
        members = json.loads(id)
    except (ValueError, RecursionError):
        return None
    is_key = isinstance(members, list) and len(members) == len(node.key) and all(isinstance(m, str) for m in members)
    return members if is_key else None
