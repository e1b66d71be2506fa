"""Rows that a load removes: those that its records name, and with a node every edge at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.changes.stored_rows import rows_at
from omnigraph.pipeline.load.check_sources import Addresses, committed_table
from omnigraph.pipeline.load.keyed_rows import Source, StoredReader
from omnigraph.pipeline.runner import LocalRunner, Runner
from omnigraph.pipeline.target import TableVersion, Target
from omnigraph.rules.endpoints import End, ends_of
from omnigraph.tables.ascending import distinct
from omnigraph.tables.fragment import ROW_ADDRESS
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np

NODES_PER_TASK = 262_144


@dataclass(frozen=True)
class EdgesAt:
    """A task: the edges of a type that have one of these nodes at an end."""

    target: Target
    nodes: TableVersion
    addresses: Any
    edges: TableVersion
    end: End
    rows: int


def edges_at(task: EdgesAt) -> np.ndarray[Any, Any]:
    """Their addresses."""
    ids = rows_at(task.target.open(task.nodes), task.addresses, ["id"]).column("id").combine_chunks()
    source = Source(task.edges, (task.end,), task.end, task.rows, with_address=True)
    addresses: np.ndarray[Any, Any] = StoredReader(task.target).holding(source, ids).column(ROW_ADDRESS).to_numpy()
    return addresses


def with_edges(view: View, removed: Addresses, runner: Runner) -> dict[str, np.ndarray[Any, Any]]:
    """The rows that go, by table: these, and the edges at the nodes among them."""
    import numpy as np

    target = Target.of(view.repository, view)
    tasks: list[EdgesAt] = []
    keys: list[str] = []
    for key, addresses in removed.items():
        nodes = committed_table(view, key)
        if nodes is None or not key.startswith("node:"):
            continue
        entity = view.entity(key)
        for edge in view.catalog.edges_of(entity.name):
            edges = committed_table(view, edge.table_key)
            for end, node in ends_of(edge) if edges is not None else ():
                assert edges is not None
                for start in range(0, len(addresses) if node == entity.name else 0, NODES_PER_TASK):
                    part = addresses[start : start + NODES_PER_TASK]
                    places = TableVersion.of(nodes), part, TableVersion.of(edges)
                    tasks.append(EdgesAt(target, *places, end, edges.rows))
                    keys.append(edge.table_key)
    chosen = runner if len(tasks) > 1 and sum(map(len, removed.values())) > NODES_PER_TASK else LocalRunner()
    gone: dict[str, list[np.ndarray[Any, Any]]] = {key: [addresses] for key, addresses in removed.items()}
    for key, addresses in zip(keys, chosen.map("find edges of deleted nodes", edges_at, tasks), strict=True):
        if len(addresses):
            gone.setdefault(key, []).append(addresses)
    return {key: distinct(np.concatenate(parts)) for key, parts in gone.items()}


def joined(parts: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The addresses of several tasks, each once."""
    import numpy as np

    return distinct(np.concatenate([np.array([], np.uint64), *parts]))


def without(addresses: Addresses, others: Addresses) -> dict[str, np.ndarray[Any, Any]]:
    """Those that are not among the others, table by table."""
    import numpy as np

    return {key: rows[~np.isin(rows, others[key])] if key in others else rows for key, rows in addresses.items()}


def together(*several: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """All addresses of each table."""
    import numpy as np

    keys = dict.fromkeys(key for addresses in several for key in addresses)
    return {key: np.concatenate([removed[key] for removed in several if key in removed]) for key in keys}
