"""From written fragments to table changes: check every rule against a snapshot, and stage one version per table.

Works from values that a prepared plan keeps, so a load that lost a race, or died before its publish, goes through the
same function again on the newer snapshot; no row is read from its source or written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.errors import EndpointMissing, InputError, KeyConflict
from omnigraph.failpoints import Failpoint, reach
from omnigraph.history import ChangeMode, PublishPlan, TableChange, TableState
from omnigraph.language.catalog import EdgeType, EntityType, NodeType
from omnigraph.maintenance.indexes import index_specs
from omnigraph.pipeline.load.checks import Check, CheckKind, CheckReport, Finding, run_checks
from omnigraph.pipeline.load.keyed_rows import Source
from omnigraph.pipeline.runner import LocalRunner, Runner
from omnigraph.pipeline.target import Place, Target
from omnigraph.relational import rules
from omnigraph.tables import Staged, Table
from omnigraph.tables.indexes import SegmentPlan, plan_segments
from omnigraph.tables.staging import Earlier, TrimmedFragment, by_fragment
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np

LoadMode = Literal["append", "merge", "overwrite"]

MIN_INDEX_ROWS = 50_000
"""Smaller loads leave their indexes to whoever next has a reason to build them."""

IN_PROCESS_ROWS = 200_000
"""Checks and removals of fewer rows than this are done at once in this process: sooner than a job could start."""

_MODES: dict[LoadMode, ChangeMode] = {"append": "insert", "merge": "upsert", "overwrite": "strict"}
_ORDER: tuple[CheckKind, ...] = ("ids", "unique", "endpoint", "inbound", "cardinality")


@dataclass(frozen=True)
class Incoming:
    """The new rows of one table, written as fragments. `place` is a version that holds exactly these rows."""

    key: str
    rows: int
    given: bool
    fragments: tuple[str, ...]
    place: Place

    def may_clash(self, entity: EntityType) -> bool:
        """Whether an id can be one that was there before: it was given, or made from a key. Fresh ids cannot."""
        return self.given or (isinstance(entity, NodeType) and bool(entity.key))

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "given": self.given,
            "fragments": list(self.fragments),
            "path": self.place.path,
            "version": self.place.version,
        }

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any]) -> Incoming:
        place = Place(value["path"], value["version"])
        return cls(key, value["rows"], value["given"], tuple(value["fragments"]), place)


Addresses = Mapping[str, "np.ndarray[Any, Any]"]
"""Table key -> addresses of the rows that new rows replace; there may be many millions."""

Locate = Callable[[list[Finding]], list[tuple[str | None, int | None]]]
"""Where the record of each finding stands: file and line, or nothing when the source has no lines."""


def stage_incoming(view: View, key: str, rows: int, given: bool, fragments: tuple[str, ...]) -> tuple[Incoming, Staged]:
    staged = view.repository.tables.stage(view.table_or_new(key), fragments=fragments, clear=True, fold=False)
    return Incoming(key, rows, given, fragments, Place(staged.path, staged.version)), staged


@dataclass(frozen=True)
class Segment:
    """A task: a segment of an index to build."""

    target: Target
    place: Place
    plan: SegmentPlan


def build_segment(task: Segment) -> Any:
    return task.target.tables.build_segment(task.place.path, task.place.version, task.plan)


@dataclass(frozen=True)
class Removal:
    """A task: rows of one fragment to remove."""

    target: Target
    place: Place
    fragment: int
    offsets: Any


def remove_rows(task: Removal) -> TrimmedFragment:
    return task.target.tables.delete_rows(task.target.open(task.place), task.fragment, task.offsets)


class Assembly:
    """One load on one snapshot. `changes()` raises the first broken rule, or gives a change per table."""

    def __init__(
        self,
        view: View,
        incoming: Mapping[str, Incoming],
        mode: LoadMode,
        runner: Runner,
        locate: Locate | None = None,
        *,
        index: bool = True,
    ) -> None:
        self.view = view
        self.incoming = incoming
        self.mode = mode
        self.runner = runner
        self.locate = locate
        self.index = index
        """Whether many new rows get their indexes now."""
        self.target = Target.of(view.repository, view)
        self.staged: list[Staged] = []
        self.addresses: Addresses = {}
        """Known when the keys were checked."""

    def changes(self, done: Mapping[str, TableChange] | None = None) -> tuple[TableChange, ...]:
        """`done`: changes made before whose table has not moved; they are checked again with the rest, not staged again."""
        self.addresses = self._check_ids()
        changes = {
            key: (done or {}).get(key) or self._stage(one, self.addresses.get(key))
            for key, one in self.incoming.items()
        }
        reach(Failpoint.LOAD_AFTER_STAGE)
        finals = {
            key: Place(change.state.path, change.state.version) for key, change in changes.items() if change.state
        }
        self._check_rest(finals)
        reach(Failpoint.LOAD_AFTER_CHECKS)
        indexed = self._index_all(changes, done)
        reach(Failpoint.LOAD_AFTER_INDEXES)
        return indexed

    def restaged(
        self,
        addresses: Addresses,
        done: Mapping[str, TableChange],
        earlier: Mapping[str, Earlier],
    ) -> tuple[dict[str, TableChange], tuple[TableChange, ...]]:
        """The same changes for a load that is known to keep every rule on this view, and to replace these rows; before
        and after their indexes were built. `earlier`: attempts whose deletions hold here too, beside the addresses."""
        staged = {
            key: done.get(key) or self._stage(one, addresses.get(key), fold=False, like=earlier.get(key))
            for key, one in self.incoming.items()
        }
        return staged, self._index_all(staged, done)

    def _index_all(
        self, changes: Mapping[str, TableChange], done: Mapping[str, TableChange] | None
    ) -> tuple[TableChange, ...]:
        """Indexes in the same commit where many rows came; otherwise they stay pending, and reads scan the new fragments."""
        tables = self.view.repository.tables
        wanted: dict[str, tuple[Table, list[SegmentPlan]]] = {}
        for key, change in changes.items():
            is_worth_it = self.index and self.incoming[key].rows >= MIN_INDEX_ROWS
            if is_worth_it and change.state is not None and not (done and key in done):
                table = tables.open(change.state.path, change.state.version)
                wanted[key] = (table, plan_segments(table, index_specs(self.view.entity(key))))
        tasks = [Segment(self.target, Place.of(table), plan) for table, plans in wanted.values() for plan in plans]
        built = iter(self.runner.map("indexes", build_segment, tasks) if tasks else [])
        indexed = dict(changes)
        for key, (table, plans) in wanted.items():
            staged = tables.stage_segments(table, plans, [next(built) for _ in plans])
            state = changes[key].state
            if staged is not None and state is not None:
                self.staged.append(staged)
                indexed[key] = replace(changes[key], state=replace(state, version=staged.version))
        return tuple(indexed[key] for key in sorted(indexed))

    def reads(self) -> tuple[str, ...]:
        """Tables the checks relied on beside those that change: ends of new edges, edges of replaced nodes."""
        reads: set[str] = set()
        for key in self.incoming:
            entity = self.view.entity(key)
            if isinstance(entity, EdgeType):
                reads |= {f"node:{entity.source}", f"node:{entity.target}"}
            elif self.mode == "overwrite":
                reads |= {edge.table_key for edge in self.view.catalog.edges_of(entity.name)}
        return tuple(sorted(reads))

    # ------------------------------------------------------------ staging

    def _stage(
        self,
        one: Incoming,
        addresses: np.ndarray[Any, Any] | None,
        *,
        fold: bool = True,
        like: Earlier | None = None,
    ) -> TableChange:
        before = self.view.state(one.key)
        version, rows = one.place.version, one.rows
        if self.mode != "overwrite" and before is not None and before.rows:
            base = self.view.table_or_new(one.key)
            trimmed = [] if addresses is None else self._remove(base, addresses)
            staged = self.view.repository.tables.stage(
                base, fragments=one.fragments, trimmed=trimmed, fold=fold, like=like
            )
            self.staged.append(staged)
            version, rows = staged.version, staged.rows
        state = TableState(one.place.path, version, (before.generation if before else 0) + 1, rows)
        return TableChange(one.key, _MODES[self.mode], before, state, one.to_json())

    def _remove(self, base: Table, addresses: np.ndarray[Any, Any]) -> list[TrimmedFragment]:
        """The fragments that lose rows, each made by one task when there are many."""
        found = by_fragment(addresses)
        if len(addresses) <= IN_PROCESS_ROWS:
            return [self.view.repository.tables.delete_rows(base, fragment, offsets) for fragment, offsets in found]
        tasks = [Removal(self.target, Place.of(base), fragment, offsets) for fragment, offsets in found]
        return self.runner.map("remove", remove_rows, tasks)

    # ------------------------------------------------------------ rules

    def _run(self, stage: str, checks: list[Check]) -> list[CheckReport]:
        runner = self.runner if sum(check.rows for check in checks) > IN_PROCESS_ROWS else LocalRunner()
        return run_checks(stage, checks, runner)

    def _check_ids(self) -> Addresses:
        import numpy as np

        checks: list[Check] = []
        for key, one in self.incoming.items():
            if one.rows and one.may_clash(self.view.entity(key)):
                checks.append(self._id_check(one))
        reports = self._run("check keys", checks)
        self._raise([finding for report in reports for finding in report.findings])
        self._raise_taken(
            [(check.key, id) for check, report in zip(checks, reports, strict=True) for id in report.taken]
        )
        return {
            check.key: np.concatenate(report.addresses)
            for check, report in zip(checks, reports, strict=True)
            if report.addresses
        }

    def _check_rest(self, finals: Mapping[str, Place]) -> None:
        checks: list[Check] = []
        for key, one in self.incoming.items():
            entity = self.view.entity(key)
            if one.rows:
                checks += self._unique_checks(one, finals[key])
            if isinstance(entity, EdgeType):
                if one.rows:
                    checks += self._endpoint_checks(entity, one)
                checks += self._cardinality_checks(entity, one, finals[key])
            elif self.mode == "overwrite":
                checks += self._inbound_checks(entity)
        reports = self._run("check rules", checks)
        self._raise([finding for report in reports for finding in report.findings])

    def _id_check(self, one: Incoming) -> Check:
        existing = self._existing(one.key)
        return Check(
            self.target,
            "ids",
            one.key,
            Source(one.place, ("id",), "id"),
            None if existing is None else Source(Place.of(existing), ("id",), "id", with_address=True),
            upsert=self.mode == "merge",
            new_rows=one.rows,
            rows=one.rows + (existing.rows if existing else 0),
        )

    def _unique_checks(self, one: Incoming, final: Place) -> list[Check]:
        existing = self._existing(one.key)
        staying = None if existing is None else self._staying(one, final)
        checks: list[Check] = []
        for constraint in rules.unique_constraints(self.view.entity(one.key)):
            columns, by = tuple(dict.fromkeys(["id", *constraint.fields])), constraint.fields[0]
            check = Check(
                self.target,
                "unique",
                one.key,
                Source(one.place, columns, by),
                None if staying is None else Source(final, columns, by, staying),
                constraint=constraint,
                new_rows=one.rows,
                rows=one.rows + (existing.rows if existing else 0),
            )
            checks.append(check)
        return checks

    def _staying(self, one: Incoming, final: Place) -> tuple[int, ...]:
        """The fragments of the result that hold rows which were there before."""
        tables = self.view.repository.tables
        incoming = tables.open(one.place.path, one.place.version)
        added = {file for fragment in incoming.fragments for file in fragment.files}
        return tuple(
            fragment.id
            for fragment in tables.open(final.path, final.version).fragments
            if not added & set(fragment.files)
        )

    def _endpoint_checks(self, edge: EdgeType, one: Incoming) -> list[Check]:
        checks: list[Check] = []
        for end, node in (("src", edge.source), ("dst", edge.target)):
            nodes, rows = self._nodes(node)
            new = Source(one.place, (end,), end)
            checks.append(
                Check(self.target, "endpoint", one.key, new, nodes=nodes, new_rows=one.rows, rows=one.rows + rows)
            )
        return checks

    def _cardinality_checks(self, edge: EdgeType, one: Incoming, final: Place) -> list[Check]:
        if edge.min_out == 0 and edge.max_out is None:
            return []
        # An upsert or overwrite may take edges away from a source; that can break a lower bound only.
        before = self.view.table(one.key) if edge.min_out and self.mode != "append" else None
        lost = Place.of(before) if before is not None and before.rows else None
        nodes, rows = self._nodes(edge.source) if lost else ((), 0)
        check = Check(
            self.target,
            "cardinality",
            one.key,
            Source(one.place, ("src",), "src"),
            Source(final, ("src",), "src"),
            None if lost is None else Source(lost, ("src",), "src"),
            nodes,
            new_rows=one.rows + (before.rows if before is not None else 0),
            rows=one.rows + self.view.rows(one.key) + rows,
        )
        return [check]

    def _inbound_checks(self, node: NodeType) -> list[Check]:
        """Edges that stay must find their ends among the new nodes."""
        checks: list[Check] = []
        for edge in self.view.catalog.edges_of(node.name):
            table = self.view.table(edge.table_key)
            if edge.table_key in self.incoming or table is None or not table.rows:
                continue
            for end, name in (("src", edge.source), ("dst", edge.target)):
                if name == node.name:
                    nodes, rows = self._nodes(name)
                    stay = Source(Place.of(table), (end,), end)
                    checks.append(
                        Check(
                            self.target,
                            "inbound",
                            edge.table_key,
                            stay,
                            nodes=nodes,
                            new_rows=table.rows,
                            rows=table.rows + rows,
                        )
                    )
        return checks

    def _existing(self, key: str) -> Table | None:
        """The committed rows that stay beside the new ones; None when there are none."""
        table = self.view.table(key)
        return table if self.mode != "overwrite" and table is not None and table.rows else None

    def _nodes(self, name: str) -> tuple[tuple[Source, ...], int]:
        """Where the nodes of a type are after this load, and about how many."""
        key = f"node:{name}"
        one = self.incoming.get(key)
        places = [one.place] if one else []
        rows = one.rows if one else 0
        table = self.view.table(key)
        if table is not None and table.rows and not (one and self.mode == "overwrite"):
            places.append(Place.of(table))
            rows += table.rows
        return tuple(Source(place, ("id",), "id") for place in places), rows

    # ------------------------------------------------------------ errors

    def _raise(self, findings: list[Finding]) -> None:
        """The first finding in the order of the rules and then of the records, with the others in its hint."""
        if not findings:
            return
        first = min(_ORDER.index(finding.kind) for finding in findings)
        same = [finding for finding in findings if finding.kind == _ORDER[first]]
        placed = list(zip(self._places(same), same, strict=True))
        placed.sort(key=lambda pair: (pair[0][0] or "", pair[0][1] or 0, str(pair[1].violation["id"])))
        (file, line), finding = placed[0]
        error = self._error(finding, file, line)
        others = [self._said(finding, *place) for place, finding in placed[1:]]
        if others:
            shown = "; ".join(others[:5]) + ("; ..." if len(others) > 5 else "")
            error.hint = f"also: {shown}" if error.hint is None else f"{error.hint}; also: {shown}"
        raise error

    def _error(self, finding: Finding, file: str | None, line: int | None) -> InputError:
        entity = self.view.entity(finding.key)
        if finding.kind != "inbound":
            return rules.violation_error(entity, finding.violation, file=file, line=line)
        assert isinstance(entity, EdgeType)
        end, value, id = finding.violation["property"], finding.violation["text"], finding.violation["id"]
        node = entity.source if end == "src" else entity.target
        return EndpointMissing(
            f"{end} '{value}' not found in {node}: edge {entity.name} '{id}' still points to it",
            type_name=entity.name,
            property=end,
            entity_id=id,
            value=value,
            hint=f"load {entity.name} in the same overwrite, or keep that {node}",
        )

    def _said(self, finding: Finding, file: str | None, line: int | None) -> str:
        place = f"{file}:{line}: " if file else ""
        return place + self._error(finding, file, line).message

    def _places(self, findings: list[Finding]) -> list[tuple[str | None, int | None]]:
        if self.locate is None or findings[0].kind == "inbound":
            return [(None, None)] * len(findings)
        return self.locate(findings)

    def _raise_taken(self, taken: list[tuple[str, str]]) -> None:
        if not taken:
            return
        findings = [Finding(key, {"id": id, "property": "id"}, "ids") for key, id in taken]
        placed = sorted(
            zip(self._places(findings), findings, strict=True),
            key=lambda pair: (pair[0][0] or "", pair[0][1] or 0, pair[1].violation["id"]),
        )
        (file, line), finding = placed[0]
        hint = "use mode merge to replace it"
        raise KeyConflict(
            self.view.entity(finding.key).name,
            finding.violation["id"],
            hint=f"{file}:{line}; {hint}" if file else hint,
        )


def mode_of(plan: PublishPlan) -> LoadMode:
    """The mode a stored plan was made with."""
    found: ChangeMode = plan.changes[0].mode
    return next(mode for mode, change in _MODES.items() if change == found)
