"""Both ends of an edge are nodes of the result: for edges that are added, and for edges that stay while nodes are removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import EndpointMissing, InputError
from omnigraph.language.catalog import EdgeType
from omnigraph.rules.check import (
    MAX_VIOLATIONS,
    Check,
    FewRows,
    Need,
    Record,
    Risk,
    RowSource,
    RowState,
    Violation,
    absent,
)
from omnigraph.values.arrow import OUTSIDE_NAMES

End = Literal["src", "dst"]


def ends_of(edge: EdgeType) -> tuple[tuple[End, str], ...]:
    """Each end's column, and the type of its nodes."""
    return (("src", edge.source), ("dst", edge.target))


@dataclass(frozen=True)
class _EndCheck(Check):
    """`node`: the type of the nodes at this end."""

    edge: EdgeType
    end: End
    node: str

    @property
    def table(self) -> str:
        return self.edge.table_key

    def _nodes(self, state: RowState, risk: Risk | None = None) -> Need:
        return Need(state, f"node:{self.node}", ("id",), ("id",), risk)

    def _edges(self, state: RowState, risk: Risk | None = None) -> Need:
        return Need(state, self.table, ("id", self.end), (self.end,), risk)

    def _violations(self, rule: str, edges: pa.Table, missing: pa.Array, complete: bool) -> list[Violation]:
        broken = edges.filter(pc.is_in(edges.column(self.end), value_set=missing)).sort_by("id")
        if not complete:
            broken = broken.slice(0, MAX_VIOLATIONS)
        ids, ends = broken.column("id").to_pylist(), broken.column(self.end).to_pylist()
        return [Violation(rule, self.end, id, end) for id, end in zip(ids, ends, strict=True)]

    def _missing(self, violation: Violation, more: str = "", **place: Any) -> InputError:
        return EndpointMissing(
            f"{OUTSIDE_NAMES[self.end]} '{violation.shown()}' not found in {self.node}{more}",
            type_name=self.edge.name,
            property=self.end,
            entity_id=violation.id,
            value=violation.shown(),
            **place,
        )


class EndpointCheck(_EndCheck):
    """A new edge needs its nodes. Ids of edges are read only if there is something to report."""

    rank = 3

    @property
    def own(self) -> tuple[Need, ...]:
        return (Need("new", self.table, (self.end,), (self.end,), are_values=True),)

    @property
    def others(self) -> tuple[Need, ...]:
        return (self._nodes("result", "fewer"),)

    @property
    def details(self) -> tuple[Need, ...]:
        return (self._edges("new"),)

    def is_kept(self, rows: FewRows) -> bool:
        edges = rows.new(self.table)
        return edges is not None and rows.has_all(f"node:{self.node}", {edge[self.end] for edge in edges})

    def find(self, rows: RowSource, *, complete: bool = False) -> list[Violation]:
        ends = rows.all(self.own[0]).column(self.end).unique()
        if not len(ends):
            return []
        missing = absent(ends, rows.matching(self.others[0], ends).column("id"))
        if not complete:
            missing = missing.sort().slice(0, MAX_VIOLATIONS)
        if not len(missing):
            return []
        return self._violations("endpoint", rows.matching(self.details[0], missing), missing, complete)

    def error(self, violation: Violation, *, file: str | None = None, line: int | None = None) -> InputError:
        return self._missing(violation, file=file, line=line)


class DanglingCheck(_EndCheck):
    """An edge that stays must not lose its node."""

    rank = 4

    @property
    def own(self) -> tuple[Need, ...]:
        return (self._nodes("lost"), self._nodes("result"))

    @property
    def others(self) -> tuple[Need, ...]:
        return (self._edges("staying", "more"),)

    def find(self, rows: RowSource, *, complete: bool = False) -> list[Violation]:
        lost, result = self.own
        ids = rows.all(lost).column("id").unique()
        gone = absent(ids, rows.matching(result, ids).column("id")) if len(ids) else ids
        if not len(gone):
            return []
        return self._violations("dangling", rows.matching(self.others[0], gone), gone, complete)

    def error(self, violation: Violation, *, file: str | None = None, line: int | None = None) -> InputError:
        edge = f"{self.edge.name} '{violation.id}'"
        return self._missing(
            violation,
            f": edge {edge} still points to it",
            hint=f"delete or replace {edge} in the same write, or keep {self.node} '{violation.shown()}'",
        )

    def records(self, violation: Violation) -> tuple[Record, ...]:
        """Empty: neither the edge nor the node is in the input."""
        return ()
