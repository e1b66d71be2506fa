"""The rules about more than one row, run as tasks over the staged tables: keys, uniqueness, endpoints, cardinality.

Every rule looks at one key (an id, a unique value, an endpoint, a source), so a table can be checked in buckets: a task
reads only the columns of its rule, keeps the keys of its bucket, and runs the shared rule over them with DuckDB. The
staged tables are columns already, so nothing is shuffled; a bucket is small enough for memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from sqlglot import exp

from omnigraph.language.catalog import Constraint, EdgeType
from omnigraph.pipeline.target import Place, Target
from omnigraph.relational import duck, rules
from omnigraph.tables import Table, in_list
from omnigraph.tables.table import ROW_ADDRESS

if TYPE_CHECKING:
    import pyarrow as pa

BUCKET_ROWS = 12_000_000
BUCKETS_MOST = 64
LOOKUP_MOST = 20_000
"""Keys that are looked up through an index instead of reading a whole column, when the other table is much larger."""
LOOKUP_FACTOR = 8
VIOLATIONS_MOST = 20

CheckKind = Literal["ids", "unique", "endpoint", "cardinality", "inbound"]


@dataclass(frozen=True)
class Check:
    """One rule over one bucket. `incoming` holds exactly the new rows, `existing` what was there, `final` the result."""

    target: Target
    kind: CheckKind
    key: str
    incoming: Place | None
    existing: Place | None = None
    final: Place | None = None
    nodes: tuple[Place, ...] = ()
    """Where the nodes of an edge's end are."""
    end: Literal["src", "dst"] = "src"
    constraint: Constraint | None = None
    given: bool = True
    """Whether ids may clash: some came from outside."""
    upsert: bool = False
    bucket: int = 0
    buckets: int = 1
    rows: int = 0
    """About how many rows the check looks at."""


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
    addresses: Any = None
    """Addresses of the committed rows that new rows replace (Arrow, unsigned 64 bit)."""


def bucketed(check: Check, rows: int) -> list[Check]:
    """The check, cut so that each piece fits in memory."""
    buckets = min(BUCKETS_MOST, max(1, -(-rows // BUCKET_ROWS)))
    return [replace(check, bucket=bucket, buckets=buckets, rows=rows // buckets) for bucket in range(buckets)]


def run_check(check: Check) -> CheckReport:
    return {
        "ids": _ids,
        "unique": _unique,
        "endpoint": _endpoint,
        "cardinality": _cardinality,
        "inbound": _inbound,
    }[check.kind](check)


# ---------------------------------------------------------------- keys


def _ids(check: Check) -> CheckReport:
    """Ids twice in the batch; ids that are there already: a conflict for an insert, the rows to replace for an upsert."""
    incoming = _open(check, check.incoming)
    new = _bucket(check, incoming, ["id"], "id")
    report = CheckReport(_findings(check, rules.duplicate_ids("new"), {"new": new}))
    if check.existing is None or report.findings:
        return report
    existing = _open(check, check.existing)
    old = _matching(check, existing, "id", new, ["id"], with_address=True)
    if not check.upsert:
        found = duck.run(_first(rules.ids_taken("new", "old")), {"new": new, "old": old})
        report.taken = found.column("id").to_pylist()
        return report
    query = exp.select(f'"o"."{ROW_ADDRESS}"').from_('"old" AS "o"').join('"new" AS "n"', on='"n"."id" = "o"."id"')
    report.addresses = duck.run(query, {"new": new, "old": old}).column(0)
    return report


def _unique(check: Check) -> CheckReport:
    """Values twice in the batch, or held by a row that stays."""
    assert check.constraint is not None
    fields = check.constraint.fields
    columns = list(dict.fromkeys(["id", *fields]))
    new = _valid(_bucket(check, _open(check, check.incoming), columns, fields[0]), fields)
    findings = _findings(check, rules.unique_in_batch(check.constraint, "new"), {"new": new})
    if not findings and check.existing is not None and check.final is not None and new.num_rows:
        old = _staying(check, new, columns)
        findings = _findings(check, rules.unique_against(check.constraint, "new", "old"), {"new": new, "old": old})
    return CheckReport(findings)


def _staying(check: Check, new: pa.Table, columns: list[str]) -> pa.Table:
    """Rows that were there and stay: the parts of the result that are not new."""
    assert check.constraint is not None
    incoming, final = _open(check, check.incoming), _open(check, check.final)
    added = {file for part in incoming.parts for file in part.files}
    old = [part.id for part in final.parts if not added & set(part.files)]
    return _matching(check, final, check.constraint.fields[0], new, columns, parts=old)


def _valid(rows: pa.Table, fields: Sequence[str]) -> pa.Table:
    import pyarrow.compute as pc

    for name in fields:
        if rows.column(name).null_count:
            rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


# ---------------------------------------------------------------- endpoints


def _endpoint(check: Check) -> CheckReport:
    """New edges whose end is no node of the result. Ids of edges are read only when there is something to report."""
    edges = _open(check, check.incoming)
    ends = _distinct(_bucket(check, edges, [check.end], check.end), check.end)
    return CheckReport(_missing(check, edges, ends))


def _inbound(check: Check) -> CheckReport:
    """Edges that stay while their type's nodes are replaced."""
    edges = _open(check, check.existing)
    ends = _distinct(_bucket(check, edges, [check.end], check.end), check.end)
    return CheckReport(_missing(check, edges, ends))


def _missing(check: Check, edges: Table, ends: pa.Table) -> list[Finding]:
    import pyarrow as pa

    found = [_matching(check, _open(check, place), "id", ends, ["id"], by=check.end) for place in check.nodes]
    nodes = pa.concat_tables(found) if found else pa.table({"id": pa.array([], pa.string())})
    query = rules.missing_endpoints(check.end, "new", "nodes")
    lost = duck.run(_first(query), {"new": ends, "nodes": nodes}).column("text").to_pylist()
    if not lost:
        return []
    rows = edges.read(["id", check.end], in_list(check.end, lost))
    return _findings(check, query, {"new": rows, "nodes": nodes})


def _distinct(rows: pa.Table, name: str) -> pa.Table:
    """Each value once, under its own name and as `id`, so that a rule over edges can run without their ids."""
    import pyarrow as pa

    unique = rows.column(name).unique()
    return pa.table({name: unique, "id": unique})


# ---------------------------------------------------------------- cardinality


def _cardinality(check: Check) -> CheckReport:
    """Sources that gained or lost an edge, with the edges they have in the result."""
    import pyarrow as pa

    edge = check.target.catalog.tables[check.key]
    assert isinstance(edge, EdgeType)
    query = rules.cardinality(edge, "sources", "edges")
    assert query is not None, "planned only for edges with bounds"
    touched = [
        _bucket(check, _open(check, place), ["src"], "src") for place in (check.incoming, check.existing) if place
    ]
    sources = _distinct(pa.concat_tables(touched), "src")
    if check.existing is not None:
        sources = _still_there(check, sources)
    edges = _matching(check, _open(check, check.final), "src", sources, ["src"])
    edges = edges.append_column("id", edges.column("src"))
    return CheckReport(_findings(check, query, {"sources": sources, "edges": edges}))


def _still_there(check: Check, sources: pa.Table) -> pa.Table:
    """A node that is gone owes no edges."""
    import pyarrow.compute as pc

    kept = None
    for place in check.nodes:
        nodes = _matching(check, _open(check, place), "id", sources, ["id"])
        here = pc.is_in(sources.column("src"), value_set=nodes.column("id").combine_chunks())
        kept = here if kept is None else pc.or_(kept, here)
    return sources.slice(0, 0) if kept is None else sources.filter(kept)


# ---------------------------------------------------------------- relations


def _open(check: Check, place: Place | None) -> Table:
    assert place is not None, "a check names the tables it reads"
    return check.target.open(place)


def _bucket(
    check: Check,
    table: Table,
    columns: list[str],
    by: str,
    *,
    parts: Iterable[int] | None = None,
    with_address: bool = False,
) -> pa.Table:
    """The rows whose key falls into the check's bucket."""
    chosen = None if parts is None else list(parts)
    if check.buckets == 1 or chosen == []:
        return table.read(columns, parts=chosen, with_address=with_address)
    reader = table.scan(columns, parts=chosen, with_address=with_address)
    query = exp.select("*").from_('"stream"').where(f'hash(CAST("{by}" AS TEXT)) % {check.buckets} = {check.bucket}')
    return duck.run(query, {"stream": reader})


def _matching(
    check: Check,
    table: Table,
    name: str,
    wanted: pa.Table,
    columns: list[str],
    *,
    by: str | None = None,
    parts: list[int] | None = None,
    with_address: bool = False,
) -> pa.Table:
    """Rows of a table that may have one of the wanted keys: looked up when these are few, else the bucket's part of all."""
    few = wanted.num_rows <= LOOKUP_MOST and table.rows > LOOKUP_FACTOR * wanted.num_rows
    if few and _has_filter_text(table.schema.field(name).type):
        values = wanted.column(by or name).to_pylist()
        found = table.lookup(name, values, columns, with_address=with_address or parts is not None)
        return found if parts is None else _of_parts(found, parts, with_address)
    return _bucket(check, table, columns, name, parts=parts, with_address=with_address)


def _has_filter_text(type: pa.DataType) -> bool:
    """Whether any value of the type can be written into a scan's filter."""
    import pyarrow.types as pt

    return bool(pt.is_string(type) or pt.is_signed_integer(type) or pt.is_date(type))


def _of_parts(rows: pa.Table, parts: list[int], with_address: bool) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    part = pc.shift_right(rows.column(ROW_ADDRESS), pa.scalar(32, pa.uint64()))
    kept = rows.filter(pc.is_in(part, value_set=pa.array(parts, pa.uint64())))
    return kept if with_address else kept.drop_columns([ROW_ADDRESS])


def _first(query: exp.Query) -> exp.Select:
    """A few violations, the same ones on every engine."""
    return exp.select("*").from_(query.subquery("violations")).order_by('"id"', '"text"').limit(VIOLATIONS_MOST)


def _findings(check: Check, query: exp.Query, relations: dict[str, pa.Table]) -> list[Finding]:
    found = duck.run(_first(query), relations).to_pylist()
    return [Finding(check.key, violation, check.kind) for violation in found]
