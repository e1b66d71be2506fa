"""The rules about more than one row, run as tasks over the staged tables: keys, uniqueness, endpoints, cardinality.

Every rule looks at one key (an id, a unique value, an endpoint, a source) and names the columns it needs; the shared rule
then runs over them with DuckDB. What fits in memory is one task that reads the columns. What does not is cut by key into
buckets: each fragment is read once, whatever the number of buckets and of rules, and its columns travel as Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sqlglot import exp

from omnigraph.language.catalog import Constraint, EdgeType
from omnigraph.pipeline.load.keyed_rows import (
    MAX_BUCKETS,
    Cut,
    InBucket,
    Rows,
    Source,
    Stored,
    are_few,
    cut,
    fragment_groups,
    unpacked,
)
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import Target
from omnigraph.relational import duck, rules
from omnigraph.tables import in_list
from omnigraph.tables.table import ROW_ADDRESS

if TYPE_CHECKING:
    import pyarrow as pa

BUCKET_ROWS = 12_000_000
"""Rows that one task holds in memory."""
MAX_VIOLATIONS = 20

CheckKind = Literal["ids", "unique", "endpoint", "cardinality", "inbound"]


@dataclass(frozen=True)
class Check:
    """One rule over the rows of one load."""

    target: Target
    kind: CheckKind
    key: str
    new: Source
    """The rows that must keep the rule: new ones, or edges that stay while nodes are replaced."""
    old: Source | None = None
    """Rows they are compared with: committed ones that have ids, or that stay; the edges of the result."""
    lost: Source | None = None
    """Edges before the load, for sources that may have lost some."""
    nodes: tuple[Source, ...] = ()
    """Where the nodes of an edge's end are."""
    constraint: Constraint | None = None
    upsert: bool = False
    new_rows: int = 0
    rows: int = 0
    """About how many rows the check looks at, `new_rows` among them."""

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(source for source in (self.new, self.old, self.lost, *self.nodes) if source is not None)

    @property
    def is_large(self) -> bool:
        """Whether its rows must not be read by one task."""
        return self.rows > BUCKET_ROWS and not are_few(self.new_rows, self.rows)


@dataclass(frozen=True)
class Finding:
    """One broken rule. `locate` is the id (or, for cardinality, the source) by which its record is found again."""

    key: str
    violation: dict[str, Any]
    kind: CheckKind


@dataclass
class CheckReport:
    findings: list[Finding] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    addresses: list[Any] = field(default_factory=list)
    """Addresses of the committed rows that new rows replace: NumPy, unsigned 64 bit."""

    def add(self, other: CheckReport) -> None:
        self.findings += other.findings
        self.taken += other.taken
        self.addresses += other.addresses


def run_checks(stage: str, checks: Sequence[Check], runner: Runner) -> list[CheckReport]:
    """What each check found."""
    reports = [CheckReport() for _ in checks]
    whole = [number for number, check in enumerate(checks) if not check.is_large]
    large = [number for number, check in enumerate(checks) if check.is_large]
    found = runner.map(stage, run_check, [checks[number] for number in whole])
    for number, report in zip(whole, found, strict=True):
        reports[number].add(report)
    for bucket in _in_buckets(stage, [checks[number] for number in large], runner):
        for number, report in zip(large, bucket, strict=True):
            reports[number].add(report)
    return reports


def run_check(check: Check) -> CheckReport:
    return _judge(check, Stored(check.target))


def _judge(check: Check, rows: Rows) -> CheckReport:
    return {"ids": _ids, "unique": _unique, "endpoint": _ends, "inbound": _ends, "cardinality": _cardinality}[
        check.kind
    ](check, rows)


# ---------------------------------------------------------------- rules


def _ids(check: Check, rows: Rows) -> CheckReport:
    """Ids twice in the batch; ids that are there already: a conflict for an insert, the rows to replace for an upsert."""
    new = rows.of(check.new)
    report = CheckReport(_findings(check, rules.duplicate_ids("new"), {"new": new}))
    if check.old is None or report.findings:
        return report
    old = rows.matching(check.old, new.column("id"))
    if not check.upsert:
        found = duck.run(_first(rules.ids_taken("new", "old")), {"new": new, "old": old})
        report.taken = found.column("id").to_pylist()
        return report
    query = exp.select(f'"o"."{ROW_ADDRESS}"').from_('"old" AS "o"').join('"new" AS "n"', on='"n"."id" = "o"."id"')
    report.addresses = [duck.run(query, {"new": new, "old": old}).column(0).to_numpy()]
    return report


def _unique(check: Check, rows: Rows) -> CheckReport:
    """Values twice in the batch, or held by a row that stays."""
    assert check.constraint is not None
    fields = check.constraint.fields
    new = _valid(rows.of(check.new), fields)
    findings = _findings(check, rules.unique_in_batch(check.constraint, "new"), {"new": new})
    if not findings and check.old is not None and new.num_rows:
        old = rows.matching(check.old, new.column(fields[0]))
        findings = _findings(check, rules.unique_against(check.constraint, "new", "old"), {"new": new, "old": old})
    return CheckReport(findings)


def _valid(rows: pa.Table, fields: Sequence[str]) -> pa.Table:
    import pyarrow.compute as pc

    for name in fields:
        if rows.column(name).null_count:
            rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


def _ends(check: Check, rows: Rows) -> CheckReport:
    """Edges whose end is no node of the result. Ids of edges are read only when there is something to report."""
    import pyarrow as pa

    end: Any = check.new.by
    ends = _distinct(rows.of(check.new), end)
    found = [rows.matching(source, ends.column(end)) for source in check.nodes]
    nodes = pa.concat_tables(found) if found else pa.table({"id": pa.array([], pa.string())})
    query = rules.missing_endpoints(end, "new", "nodes")
    lost = duck.run(_first(query), {"new": ends, "nodes": nodes}).column("text").to_pylist()
    if not lost:
        return CheckReport()
    edges = check.target.open(check.new.place).read(["id", end], in_list(end, lost))
    return CheckReport(_findings(check, query, {"new": edges, "nodes": nodes}))


def _cardinality(check: Check, rows: Rows) -> CheckReport:
    """Sources that gained or lost an edge, with the edges they have in the result."""
    import pyarrow as pa

    edge = check.target.catalog.tables[check.key]
    assert isinstance(edge, EdgeType)
    query = rules.cardinality(edge, "sources", "edges")
    assert query is not None, "planned only for edges with bounds"
    assert check.old is not None, "the edges of the result"
    touched = [rows.of(source) for source in (check.new, check.lost) if source is not None]
    sources = _distinct(pa.concat_tables(touched), "src")
    if check.lost is not None:
        sources = _still_there(check, rows, sources)
    edges = rows.matching(check.old, sources.column("src"))
    edges = edges.append_column("id", edges.column("src"))
    return CheckReport(_findings(check, query, {"sources": sources, "edges": edges}))


def _still_there(check: Check, rows: Rows, sources: pa.Table) -> pa.Table:
    """A node that is gone owes no edges."""
    import pyarrow.compute as pc

    kept = None
    for source in check.nodes:
        nodes = rows.matching(source, sources.column("src"))
        here = pc.is_in(sources.column("src"), value_set=nodes.column("id").combine_chunks())
        kept = here if kept is None else pc.or_(kept, here)
    return sources.slice(0, 0) if kept is None else sources.filter(kept)


def _distinct(rows: pa.Table, name: str) -> pa.Table:
    """Each value once, under its own name and as `id`, so that a rule over edges can run without their ids."""
    import pyarrow as pa

    unique = rows.column(name).unique()
    return pa.table({name: unique, "id": unique})


def _first(query: exp.Query) -> exp.Select:
    """A few violations, the same ones on every engine."""
    return exp.select("*").from_(query.subquery("violations")).order_by('"id"', '"text"').limit(MAX_VIOLATIONS)


def _findings(check: Check, query: exp.Query, relations: dict[str, pa.Table]) -> list[Finding]:
    found = duck.run(_first(query), relations).to_pylist()
    return [Finding(check.key, violation, check.kind) for violation in found]


# ---------------------------------------------------------------- buckets


@dataclass(frozen=True)
class _Judge:
    """What is done with a bucket: each check, over its own rows in it."""

    checks: tuple[Check, ...]
    sources: tuple[Source, ...]

    def __call__(self, pieces: Iterable[tuple[int, Any]]) -> list[CheckReport]:
        held: dict[Source, list[pa.Table]] = {}
        for number, data in pieces:
            held.setdefault(self.sources[number], []).append(unpacked(data))
        return [_judge(check, InBucket(check.target, held)) for check in self.checks]


def _in_buckets(stage: str, checks: Sequence[Check], runner: Runner) -> list[list[CheckReport]]:
    """For each bucket, what each check found in it."""
    if not checks:
        return []
    target = checks[0].target
    sources = tuple(dict.fromkeys(source for check in checks for source in check.sources))
    groups = [fragment_groups(target.open(source.place), source.fragments) for source in sources]
    rows = sum(rows for group in groups for rows, _ in group)
    buckets = min(-(-rows // BUCKET_ROWS), MAX_BUCKETS)
    tasks = [
        Cut(target, number, source, fragments, buckets)
        for number, (source, group) in enumerate(zip(sources, groups, strict=True))
        for _, fragments in group
    ]
    return runner.exchange(stage, cut, tasks, buckets, _Judge(tuple(checks), sources))
