"""Large reads: whole tables in compact form. Keys are ordinals, edges integer pairs, columns come from the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.errors import ResourceExhausted
from omnigraph.expressions.arguments import Arguments
from omnigraph.expressions.predicates import Predicate
from omnigraph.language.query.plan import UNBOUNDED
from omnigraph.read.inputs import sources
from omnigraph.read.inputs.adjacency import Compact, has_ordinals, reachable
from omnigraph.read.inputs.scans import read_table
from omnigraph.read.sql.shapes import KEY, SOURCE, TARGET, HopInput, NodeInput, RelationalQuery
from omnigraph.read.strategies.strategy import Answer, InputChoice, Read, Strategy, hop_name
from omnigraph.tables.ascending import distinct
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_PAIRS = 50_000_000
"""More pairs than this are not made here: the tree's own SQL makes them over integer edges, and may spill."""


def _answer(read: Read) -> Answer | None:
    if not has_ordinals(read.plan):
        return None
    prepared = read.prepared("ordinal")
    is_worth = bool(prepared.query.hops) and Compact(read.view).fits(prepared.query)
    if read.mode != "csr" and not is_worth:
        return None
    dense = _Dense(read.view, prepared.query, read.arguments)
    dense.run()
    return Answer(tuple(dense.choices), prepared, dense.relations)


DENSE = Strategy("dense", frozenset({"auto", "index", "csr"}), _answer)


class _Dense:
    """`relations` after `run`: `n` relations over ordinals, and per expansion its `x` or its `e` relation."""

    def __init__(self, view: View, query: RelationalQuery, arguments: Arguments) -> None:
        self.view = view
        self.query = query
        self.arguments = arguments
        self.compact = Compact(view, arguments.deadline)
        self.relations: dict[str, pa.Table] = {}
        self.choices: list[InputChoice] = []
        self._nodes = {node.name: node for node in query.inputs}

    def run(self) -> None:
        for node in self.query.inputs:
            self.relations[node.name] = self._node(node)
            self.choices.append(InputChoice(f"${node.variable}", "scan", self.relations[node.name].num_rows, "compact"))
        for hop in self.query.hops:
            self.arguments.deadline.check()
            self._hop(hop)

    def _node(self, node: NodeInput) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        type_name = node.types[0]
        if node.computed:
            # Search looks at the rows that the conditions leave, and only at those.
            rows = sources.read_nodes(self.view, node, self.arguments)
            ordinals = self.compact.nodes(type_name).ordinals(rows.column(KEY))
            return rows.set_column(0, KEY, pa.array(ordinals))
        keys = pa.array(np.arange(len(self.compact.nodes(type_name)), dtype=np.int32))
        columns = {column.alias: self.compact.column(type_name, column.stored) for column in node.columns}
        return pa.table({KEY: keys, **columns})

    def _hop(self, hop: HopInput) -> None:
        import pyarrow as pa

        expansion = hop.expansion
        if expansion.edge_variable is not None:
            self.relations[hop.edges] = self._edges(hop)
            self.choices.append(InputChoice(hop_name(hop), "scan", self.relations[hop.edges].num_rows, "compact"))
            return
        if expansion.max_hops == 1:
            adjacency = self.compact.neighbours(expansion.edge, expansion.direction)
            pairs = (adjacency.sources, adjacency.targets)
        else:
            found = self._reach(hop)
            if found is None and expansion.max_hops == UNBOUNDED:
                message = f"{hop_name(hop)} may reach more than {MAX_PAIRS:,} pairs of nodes"
                hint = f"bind one end by a condition, or give an upper end: {{{expansion.min_hops},6}}"
                raise ResourceExhausted(message, hint=hint)
            if found is None:
                ends = self.compact.ends(expansion.edge)
                self.relations[hop.edges] = pa.table({"src": pa.array(ends.src), "dst": pa.array(ends.dst)})
                self.choices.append(InputChoice(hop_name(hop), "sql", None, f"more than {MAX_PAIRS} pairs"))
                return
            pairs = found
        self.relations[hop.name] = pa.table({SOURCE: pa.array(pairs[0]), TARGET: pa.array(pairs[1])})
        self.choices.append(InputChoice(hop_name(hop), "csr", len(pairs[0]), f"{self.view.rows(hop.table_key)} edges"))

    def _reach(self, hop: HopInput) -> tuple[np.ndarray, np.ndarray] | None:
        """Breadth first from the end with fewer nodes; None when there would be too many pairs."""
        import numpy as np

        expansion = hop.expansion
        type_ = self.view.catalog.edges[expansion.edge]
        nodes = self.compact.nodes(type_.source)
        frontiers = [self._frontier(name, type_.source) for name in (hop.source, hop.target)]
        sizes = [len(nodes) if frontier is None else len(frontier) for frontier in frontiers]
        end = 0 if sizes[0] <= sizes[1] else 1
        if sizes[end] * self._reached(hop, len(nodes)) > MAX_PAIRS:
            return None
        frontier = frontiers[end]
        start = np.arange(len(nodes), dtype=np.int32) if frontier is None else frontier
        flipped: dict[str, Literal["out", "in", "both"]] = {"out": "in", "in": "out", "both": "both"}
        direction = expansion.direction if end == 0 else flipped[expansion.direction]
        adjacency = self.compact.neighbours(expansion.edge, direction)
        first, second = reachable(
            adjacency, start, expansion.min_hops, expansion.max_hops, max(len(nodes), 1), self.arguments.deadline
        )
        return (first, second) if end == 0 else (second, first)

    def _reached(self, hop: HopInput, nodes: int) -> float:
        """How many nodes one source is likely to reach: the mean degree per hop, never more than there are."""
        degree = max(self.view.rows(hop.table_key) / max(nodes, 1), 1.0)
        if hop.expansion.max_hops == UNBOUNDED:
            return float(nodes)
        reached = degree
        for _ in range(1, hop.expansion.max_hops):
            if reached >= nodes:
                break
            reached *= degree
        return min(reached, float(nodes))

    def _frontier(self, name: str | None, type_name: str) -> np.ndarray | None:
        """The ordinals an end can have, from its own conditions; None for all."""

        node = self._nodes.get(name or "")
        filter_text = None if node is None else Predicate(node.filters, self.arguments).filter
        table = self.view.table(f"node:{type_name}")
        if filter_text is None or table is None:
            return None
        ordinals = self.compact.nodes(type_name).ordinals(
            read_table(table, ["id"], filter_text, self.arguments.deadline).column("id").combine_chunks()
        )
        return distinct(ordinals)

    def _edges(self, hop: HopInput) -> pa.Table:
        """Every edge, with its ends as ordinals."""
        import pyarrow as pa

        ends = self.compact.ends(hop.expansion.edge)
        table = self.view.table(hop.table_key)
        names = list(dict.fromkeys(["id", *(column.stored for column in hop.columns)]))
        rows = (
            self.view.schema(hop.table_key).empty_table()
            if table is None
            else read_table(table, names, None, self.arguments.deadline)
        )
        arrays = {"src": pa.array(ends.src), "dst": pa.array(ends.dst), "id": rows.column("id")}
        arrays |= {column.alias: rows.column(column.stored) for column in hop.columns}
        return pa.table(arrays)
