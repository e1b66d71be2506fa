"""Where the rows are that the checks of one load look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.history import TableState
from omnigraph.pipeline.choices import LoadMode
from omnigraph.pipeline.load.checks import CheckTask
from omnigraph.pipeline.load.incoming import REPLACING, Incoming
from omnigraph.pipeline.load.keyed_rows import MAX_LOOKUP, Source
from omnigraph.pipeline.target import TableVersion, Target
from omnigraph.rules import Check, Need
from omnigraph.tables import Table
from omnigraph.tables.ascending import distinct
from omnigraph.tables.fragment import OFFSET_BITS
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np

Addresses = Mapping[str, "np.ndarray[Any, Any]"]
"""Table key -> addresses of the rows that new rows replace; there may be many millions."""


class CheckSources:
    """`states`: the tables that the load changes, as they are after it. `replaced`: the rows that it replaces."""

    def __init__(
        self,
        view: View,
        incoming: Mapping[str, Incoming],
        mode: LoadMode,
        states: Mapping[str, TableState],
        replaced: Addresses,
    ) -> None:
        self._view = view
        self._incoming = incoming
        self._mode = mode
        self._states = states
        self._replaced = replaced

    def task(self, check: Check) -> CheckTask:
        needs = (*check.own, *check.others, *check.details)
        return CheckTask(
            Target.of(self._view.repository, self._view), check, {need: self._sources(need) for need in needs}
        )

    def _sources(self, need: Need) -> tuple[Source, ...]:
        committed = committed_table(self._view, need.table)
        match need.state:
            case "new" | "inserted":
                incoming = self._incoming[need.table]
                return _source(need, incoming.place, incoming.rows)
            case "lost":
                return () if committed is None else self._lost(need, committed)
            case "staying":
                return () if committed is None else self._staying(need, committed)
            case "result":
                state = self._states.get(need.table) or self._view.state(need.table)
                return () if state is None else _source(need, self._place(need.table, state), state.rows)

    def _lost(self, need: Need, committed: Table) -> tuple[Source, ...]:
        """Few rows are read by their addresses. Of many, all rows of the fragments that lose any are looked at: those that
        are not lost change nothing."""
        import numpy as np

        if self._mode == "overwrite":
            return _source(need, TableVersion.of(committed), committed.rows)
        addresses = self._replaced.get(need.table, np.array([], np.uint64))
        if len(addresses) <= MAX_LOOKUP:
            return _source(need, TableVersion.of(committed), len(addresses), addresses=tuple(addresses.tolist()))
        touched = set(distinct(addresses >> np.uint64(OFFSET_BITS)).tolist())
        fragments = [fragment for fragment in committed.fragments if fragment.id in touched]
        rows = sum(fragment.rows for fragment in fragments)
        return _source(need, TableVersion.of(committed), rows, fragments=tuple(fragment.id for fragment in fragments))

    def _staying(self, need: Need, committed: Table) -> tuple[Source, ...]:
        incoming = self._incoming.get(need.table)
        if incoming is None:
            return _source(need, TableVersion.of(committed), committed.rows)
        if self._mode == "overwrite":
            return ()
        state = self._states[need.table]
        fragments = self._fragments_staying(incoming, state)
        return _source(need, self._place(need.table, state), committed.rows, fragments=fragments)

    def _place(self, key: str, state: TableState) -> TableVersion:
        return TableVersion.of_state(state, self._view.layout(key))

    def _fragments_staying(self, incoming: Incoming, state: TableState) -> tuple[int, ...]:
        """The fragments of the result that hold rows which were there before."""
        new = self._view.staged(incoming.key, incoming.place.path, incoming.place.version)
        added = {file for fragment in new.fragments for file in fragment.files}
        layout = self._view.layout(incoming.key)
        result = self._view.repository.tables.open(state.path, state.version, layout=layout, inline=state.inline)
        return tuple(fragment.id for fragment in result.fragments if not added & set(fragment.files))


def key_task(view: View, incoming: Incoming, mode: LoadMode, check: Check) -> CheckTask:
    """The check of ids. Where rows are replaced it also finds which, and by which."""
    with_address = mode in REPLACING
    existing = None if mode == "overwrite" else committed_table(view, incoming.key)
    lost = Need("lost", incoming.key, ("id",), ("id",), "more")
    sources = {need: _source(need, incoming.place, incoming.rows, with_address=with_address) for need in check.own}
    sources[lost] = (
        () if existing is None else _source(lost, TableVersion.of(existing), existing.rows, with_address=with_address)
    )
    replaced = lost if with_address and existing is not None else None
    return CheckTask(Target.of(view.repository, view), check, sources, replaced)


def committed_table(view: View, key: str) -> Table | None:
    """The rows that the branch has; None when it has none."""
    table = view.table(key)
    return table if table is not None and table.rows else None


def _source(need: Need, place: TableVersion, rows: int, **chosen: Any) -> tuple[Source, ...]:
    return (Source(place, need.columns, need.by[0], rows, **chosen),) if rows else ()
