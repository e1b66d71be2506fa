"""Large reads: whole tables in compact form. Keys are ordinals, edges integer pairs, columns come from the cache."""

from __future__ import annotations

from typing import Literal

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.errors import ResourceExhausted
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.predicates import Predicate
from omnigraph.language.query.plan import UNBOUNDED, Expansion
from omnigraph.read.inputs import sources
from omnigraph.read.inputs.adjacency import GraphArrays, has_ordinals, reachable
from omnigraph.read.inputs.scans import read_table
from omnigraph.read.sql.shapes import KEY, SOURCE, TARGET, HopInput, NodeInput, RelationalQuery
from omnigraph.read.strategies.strategy import InputChoice, Read, Strategy, TreeAnswer, hop_name
from omnigraph.snapshot import View
from omnigraph.tables.adjacency.nodes import Nodes
from omnigraph.tables.ascending import distinct

MAX_PAIRS = 50_000_000
"""More pairs than this are not built here: the tree's own SQL computes them over integer edges, and may spill."""


def _answer(read: Read) -> TreeAnswer | None:
    if not read.prepared().form(has_ordinals):
        return None
    prepared = read.prepared("ordinal")
    is_worth = bool(prepared.query.hops) and GraphArrays(read.view).fits_query(prepared.query)
    if read.mode != "csr" and not is_worth:
        return None
    dense = _Dense(read.view, prepared.query, read.arguments)
    dense.run()
    return TreeAnswer(tuple(dense.choices), prepared, dense.relations)


DENSE = Strategy("dense", frozenset({"auto", "index", "csr"}), _answer)


class _Dense:
    """After `run`, `relations` has the `n` relations over ordinals, and for each expansion its `x` or its `e` relation."""

    def __init__(self, view: View, query: RelationalQuery, arguments: Arguments) -> None:
        self.view = view
        self.query = query
        self.arguments = arguments
        self.compact = GraphArrays(view, arguments.deadline)
        self.relations: dict[str, pa.Table] = {}
        self.choices: list[InputChoice] = []
        self._nodes = {node.name: node for node in query.inputs}

    def run(self) -> None:
        for node in self.query.inputs:
            rows = self.relations[node.name] = self._node(node)
            held = sum(self.view.rows(f"node:{type_name}") for type_name in node.types)
            self.choices.append(InputChoice(f"${node.variable}", "scan", rows.num_rows, "compact", held))
        for hop in self.query.hops:
            self.arguments.deadline.check()
            self._hop(hop)

    def _node(self, node: NodeInput) -> pa.Table:
        type_name = node.types[0]
        nodes = self.compact.nodes(type_name)
        if node.computed:
            # Search looks only at the rows that the conditions leave.
            rows = sources.read_nodes(self.view, node, self.arguments)
            numbers = nodes.numbers(rows.column(KEY).combine_chunks())
            return rows.set_column(0, KEY, pa.array(nodes.ordinals(numbers)))
        living = nodes.living
        columns = {column.alias: self._cells(type_name, nodes, column.stored, living) for column in node.columns}
        return pa.table({KEY: pa.array(np.arange(len(living), dtype=np.int32)), **columns})

    def _cells(self, type_name: str, nodes: Nodes, name: str, living: np.ndarray) -> pa.Array:
        """A column in the order of ordinals."""
        if name == "id":
            return nodes.ids(living)
        column = self.compact.column(type_name, name)
        return column.whole if nodes.is_plain else column.take(living)

    def _hop(self, hop: HopInput) -> None:
        expansion = hop.expansion
        if expansion.edge_variable is not None:
            self.relations[hop.edges] = self._edges(hop)
            self.choices.append(
                InputChoice(hop_name(hop.expansion), "scan", self.relations[hop.edges].num_rows, "compact")
            )
            return
        if expansion.is_step:
            numbers = self.compact.pairs(expansion.edge, expansion.direction)
            pairs = self._ordinals(expansion, numbers.src, numbers.dst)
        else:
            reached = self._reach(hop)
            if reached is None and expansion.max_hops == UNBOUNDED:
                message = f"{hop_name(hop.expansion)} may reach more than {MAX_PAIRS:,} pairs of nodes"
                hint = f"bind one end by a condition, or give an upper end: {{{expansion.min_hops},6}}"
                raise ResourceExhausted(message, hint=hint)
            if reached is None:
                src, dst = self.compact.ordinal_ends(expansion.edge)
                self.relations[hop.edges] = pa.table({"src": pa.array(src), "dst": pa.array(dst)})
                self.choices.append(InputChoice(hop_name(hop.expansion), "sql", None, f"more than {MAX_PAIRS} pairs"))
                return
            pairs = self._ordinals(expansion, *reached)
        self.relations[hop.name] = pa.table({SOURCE: pa.array(pairs[0]), TARGET: pa.array(pairs[1])})
        self.choices.append(
            InputChoice(hop_name(hop.expansion), "csr", len(pairs[0]), f"{self.view.rows(hop.table_key)} edges")
        )

    def _ordinals(self, expansion: Expansion, near: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of node numbers, as the expansion sees them, as ordinals."""
        type_ = self.view.catalog.edges[expansion.edge]
        ends = (type_.target, type_.source) if expansion.direction == "in" else (type_.source, type_.target)
        first, second = (self.compact.nodes(name) for name in ends)
        return first.ordinals(near), second.ordinals(far)

    def _reach(self, hop: HopInput) -> tuple[np.ndarray, np.ndarray] | None:
        """Breadth first from the end with fewer nodes; None if there would be too many pairs."""
        expansion = hop.expansion
        type_ = self.view.catalog.edges[expansion.edge]
        nodes = self.compact.nodes(type_.source)
        frontiers = [self._frontier(name, type_.source) for name in (hop.source, hop.target)]
        sizes = [nodes.rows if frontier is None else len(frontier) for frontier in frontiers]
        end = 0 if sizes[0] <= sizes[1] else 1
        if sizes[end] * self._reached(hop, nodes.rows) > MAX_PAIRS:
            return None
        frontier = frontiers[end]
        start = np.sort(nodes.living) if frontier is None else frontier
        flipped: dict[str, Literal["out", "in", "both"]] = {"out": "in", "in": "out", "both": "both"}
        direction = expansion.direction if end == 0 else flipped[expansion.direction]
        adjacency = self.compact.neighbours(expansion.edge, direction)
        first, second = reachable(
            adjacency, start, expansion.min_hops, expansion.max_hops, max(nodes.size, 1), self.arguments
        )
        return (first, second) if end == 0 else (second, first)

    def _reached(self, hop: HopInput, nodes: int) -> float:
        """How many nodes one source is likely to reach: the mean degree per hop, at most all nodes."""
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
        """The node numbers that an end can have, by its own conditions; None for all."""

        node = self._nodes.get(name or "")
        filter_text = None if node is None else Predicate(node.filters, self.arguments).filter
        table = self.view.table(f"node:{type_name}")
        if filter_text is None or table is None:
            return None
        numbers = self.compact.nodes(type_name).numbers(
            read_table(table, ["id"], filter_text, self.arguments.deadline).column("id").combine_chunks()
        )
        return distinct(numbers)

    def _edges(self, hop: HopInput) -> pa.Table:
        """Every edge, with its ends as ordinals."""
        src, dst = self.compact.ordinal_ends(hop.expansion.edge)
        table = self.view.table(hop.table_key)
        names = list(dict.fromkeys(["id", *(column.stored for column in hop.columns)]))
        rows = (
            self.view.schema(hop.table_key).empty_table()
            if table is None
            else read_table(table, names, None, self.arguments.deadline)
        )
        arrays = {"src": pa.array(src), "dst": pa.array(dst), "id": rows.column("id")}
        arrays |= {column.alias: rows.column(column.stored) for column in hop.columns}
        return pa.table(arrays)
