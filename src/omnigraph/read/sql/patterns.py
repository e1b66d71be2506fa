"""A pattern as joins; its blocks as separate relations, joined on the keys of the variables that they take from outside.

Nothing is correlated in the SQL: a block is computed once for all outer rows, as (outer keys, number of matches).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from omnigraph.expressions.sql import ExpressionCompiler
from omnigraph.expressions.usage import (
    blocks,
    endpoints,
    outer_references,
    outer_searches,
    plain_references,
    searches,
    variables,
)
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.plan import (
    Binding,
    Bm25,
    CountOf,
    Exists,
    Expansion,
    Expression,
    Nearest,
    Pattern,
    PropertyRef,
    TextMatch,
    Unary,
    Unnest,
    Walk,
)
from omnigraph.read.sql import hops
from omnigraph.read.sql.shapes import (
    EDGE,
    GIVEN,
    KEY,
    SOURCE,
    TARGET,
    TYPE,
    Along,
    Computed,
    Definition,
    HopInput,
    InputColumn,
    Keys,
    NodeInput,
    Ranked,
    common,
    marked,
)
from omnigraph.relational.sql import column, exp, named, table

ExpressionFactory = Callable[
    [Callable[[PropertyRef], exp.Expression], Callable[[Expression], exp.Expression]], ExpressionCompiler
]


@dataclass
class Context:
    """State that the patterns of one query share while it is compiled."""

    catalog: Catalog
    keys: Keys
    elide: bool
    """Leave out the table of a node if only its id is wanted and it has no condition of its own: an edge implies that its nodes
    exist."""
    expressions: ExpressionFactory
    ranked: tuple[str, Ranked] | None = None
    """The variable whose rows the query ranks; the outermost pattern binds it."""
    inputs: list[NodeInput] = field(default_factory=list)
    hops: list[HopInput] = field(default_factory=list)
    definitions: dict[str, Definition] = field(default_factory=dict)
    common: list[exp.CTE] = field(default_factory=list)
    names: int = 0

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names - 1}"


@dataclass
class Slot:
    """Where a variable's columns are in the current relation."""

    variable: str
    types: tuple[str, ...]
    is_edge: bool
    key: exp.Expression
    type: exp.Expression | None
    columns: dict[str, exp.Expression]
    """By stored name. Search columns are in `Relation.searched`."""

    @property
    def several(self) -> bool:
        return len(self.types) > 1


class Relation:
    """The rows of a pattern: FROM, joins, conditions, and where each variable's columns are."""

    def __init__(self, context: Context, pattern: Pattern, places: Mapping[str, str]) -> None:
        self.context = context
        self.pattern = pattern
        self.slots: dict[str, Slot] = {}
        self.select = exp.Select()
        self.conditions: list[exp.Expression] = []
        self.searched: dict[TextMatch | Nearest | Bm25, exp.Expression] = {}
        self.counts: dict[int, exp.Expression] = {}
        """The number of matches of a block, by the identity of its expression."""
        self.block = context.fresh("w")
        self.places = dict(places)
        self.is_outermost = not places
        self._needed: dict[str, set[str]] = {}
        self._started = False
        for binding in pattern.bindings:
            self.places[binding.variable] = f"{self.block}.{binding.variable}"

    # ------------------------------------------------------------ building

    def build(
        self,
        extra: Iterable[Expression],
        outer: dict[str, Slot] | None,
        domain: str | None,
        needed: Mapping[str, set[str]] | None = None,
    ) -> None:
        """Join everything. `extra`: expressions outside the pattern (columns, order) that use its variables. `needed`: columns of
        its variables that are used elsewhere."""
        uses = [*self.pattern.filters, *(unnest.items for unnest in self.pattern.unnests), *extra]
        for variable, names in (needed or {}).items():
            self._needed.setdefault(variable, set()).update(names)
        for optional in self.pattern.optionals:
            for variable, name in outer_references(optional):
                self._needed.setdefault(variable, set()).add(name)
        for expression in uses:
            for variable, name in plain_references(expression):
                self._needed.setdefault(variable, set()).add(name)
            for block in blocks(expression):
                for variable, name in outer_references(block.block):
                    self._needed.setdefault(variable, set()).add(name)
        computed: dict[str, list[TextMatch | Nearest | Bm25]] = {}
        for expression in uses:
            inside = [search for block in blocks(expression) for search in outer_searches(block.block)]
            for search in (*searches(expression), *inside):
                _note(computed, search)
        for optional in self.pattern.optionals:
            for search in outer_searches(optional):
                _note(computed, search)
        if domain is not None and outer is not None:
            self._from(table(domain))
            self.slots.update(outer)
        nodes = {binding.variable: self._node(binding, computed) for binding in self.pattern.bindings}
        for variable in () if self.pattern.start_rows is None else self.pattern.start_rows.entities:
            if isinstance(node := nodes[variable], NodeInput):
                self._add_node(node, self.slots[variable].key, "left" if self._may_lack(variable) else "inner")
        pairs = [(expansion, self._hop(expansion, nodes)) for expansion in self.pattern.expansions]
        self._join_all(nodes, pairs, {} if domain is not None else dict(outer or {}))
        self._filter()

    def _node(self, binding: Binding, computed: dict[str, list[TextMatch | Nearest | Bm25]]) -> NodeInput | Binding:
        """The variable's input; or the binding itself, if its key alone is enough and an edge provides that."""
        variable = binding.variable
        needs = self._needed.get(variable, set())
        bare = not needs or (needs <= {"id"} and self.context.keys == "id")
        own = tuple(f for f in self.pattern.filters if variables(f) == {variable} and not blocks(f))
        if self._may_lack(variable):
            own = ()
        start_rows = self.pattern.start_rows is not None and variable in self.pattern.start_rows.entities
        implied = start_rows or (
            variable in endpoints(self.pattern)
            and not any(
                expansion.min_hops == 0 and expansion.source == variable for expansion in self.pattern.expansions
            )
            and variable not in _mixed_ends(self.pattern)
        )
        if self.context.elide and bare and not own and variable not in computed and implied:
            return binding
        stored = sorted(needs - {"id"}) + (["id"] if "id" in needs and self.context.keys == "ordinal" else [])
        columns = tuple(InputColumn(f"c{index}", name) for index, name in enumerate(stored))
        extra = tuple(Computed(f"z{index}", expression) for index, expression in enumerate(computed.get(variable, ())))
        name, place = self.context.fresh("n"), self.places[variable]
        ranked = self.context.ranked
        mine = ranked[1] if ranked is not None and self.is_outermost and ranked[0] == variable else None
        node = NodeInput(name, variable, place, binding.types, columns, extra, own, mine)
        self.context.inputs.append(node)
        return node

    def _hop(self, expansion: Expansion, nodes: dict[str, NodeInput | Binding]) -> HopInput:
        variable = expansion.edge_variable
        needs = self._needed.get(variable, set()) if variable is not None else set()
        if expansion.path is not None and expansion.path.weight is not None:
            needs = {expansion.path.weight}
        if (walk := expansion.walk) is not None:
            used = [ref for condition in walk.conditions for ref in plain_references(condition)]
            needs = needs | {name for owner, name in used if owner != walk.node}
        columns = tuple(InputColumn(f"c{index}", name) for index, name in enumerate(sorted(needs - {"id"})))
        own = tuple(f for f in self.pattern.filters if variable and variables(f) == {variable} and not blocks(f))
        if walk is not None:
            own = tuple(condition for condition in walk.conditions if variables(condition) <= {walk.edge})
        ends = [nodes.get(expansion.source), nodes.get(expansion.target)]
        source, target = (end.name if isinstance(end, NodeInput) else None for end in ends)
        number = self.context.fresh("")
        if expansion.min_hops == 0 and source is None:
            source = self._every_node(expansion, f"{self.block}.{number}").name
        places = (self.places[expansion.source], self.places[expansion.target])
        along = None if walk is None else self._along(expansion, walk, columns, f"{self.block}.{number}v")
        hop = HopInput(f"x{number}", f"e{number}", expansion, columns, own, source, target, places, self.block, along)
        self.context.hops.append(hop)
        return hop

    def _along(self, expansion: Expansion, walk: Walk, columns: tuple[InputColumn, ...], place: str) -> Along:
        aliases, node = {"id": EDGE, **{column.stored: column.alias for column in columns}}, None
        of_node: dict[str, str] = {}
        if walk.node is not None:
            used = {ref for condition in walk.conditions for ref in plain_references(condition)}
            stored = sorted(name for owner, name in used if owner == walk.node and name != "id")
            wanted = tuple(InputColumn(f"c{index}", name) for index, name in enumerate(stored))
            own = tuple(condition for condition in walk.conditions if variables(condition) == {walk.node})
            ends = [self._ends(edge, expansion) for edge in expansion.edges]
            types = tuple(sorted({left for left, _ in ends} & {right for _, right in ends}))
            node = NodeInput(self.context.fresh("n"), walk.node, place, types, wanted, (), own)
            self.context.inputs.append(node)
            of_node = {"id": KEY, **{column.stored: column.alias for column in wanted}}

        def between(ref: PropertyRef) -> exp.Expression:
            if ref.variable == walk.node:
                return column(of_node[ref.column], "v")
            return column(aliases[ref.column], "l" if ref.variable == walk.before else "h")

        def per_hop(ref: PropertyRef) -> exp.Expression:
            return column("id" if ref.column == "id" else aliases[ref.column])

        own_edges = [condition for condition in walk.conditions if variables(condition) <= {walk.edge}]
        others = [condition for condition in walk.conditions if condition not in own_edges]
        mentioned = {name for condition in others for name in variables(condition)}
        return Along(
            tuple(map(self.context.expressions(per_hop, self.other).compile, own_edges)),
            tuple(map(self.context.expressions(between, self.other).compile, others)),
            node.name if node is not None and walk.node in mentioned else None,
            column(KEY, "v") if node is None else self._end_of(expansion, node, "v"),
            walk.before in mentioned,
        )

    def _every_node(self, expansion: Expansion, place: str) -> NodeInput:
        """All nodes at which a walk can start, if its start is a variable of the pattern around."""
        ends = [self._ends(edge, expansion) for edge in expansion.edges]
        types = tuple(sorted({name for pair in ends for name in pair}))
        node = NodeInput(self.context.fresh("n"), expansion.source, place, types, (), (), ())
        self.context.inputs.append(node)
        return node

    def define_hops(self) -> None:
        """Define the expansions of the whole query in SQL."""
        inputs = {input_.name: input_ for input_ in self.context.inputs}
        for hop in self.context.hops:
            self.context.definitions[hop.name] = partial(self._defined, hop, inputs.get(hop.source or ""))

    def _defined(self, hop: HopInput, node: NodeInput | None) -> Sequence[tuple[str, exp.Query]]:
        start_rows = self.pattern.start_rows
        if start_rows is not None and hop.block == self.block and hop.expansion.source in start_rows.entities:
            place = start_rows.entities.index(hop.expansion.source)
            key: exp.Expression = column(f"v{place}")
            if hop.expansion.is_mixed:
                types = {binding.variable: binding.types for binding in self.pattern.bindings}
                key = marked(key, exp.Literal.string(types[hop.expansion.source][0]))
            start = exp.select(named(key, KEY)).distinct().from_(table(GIVEN))
            return hops.define(hop, start.where(exp.Not(this=exp.Is(this=column(f"v{place}"), expression=exp.null()))))
        return hops.define(hop, None if node is None else self._sources(node, hop.expansion))

    def _sources(self, node: NodeInput, expansion: Expansion) -> exp.Query:
        query = exp.select(named(self._end_of(expansion, node, None), KEY)).from_(table(node.name))
        compiler = self.context.expressions(
            lambda ref: (
                column(next(c.alias for c in node.columns if c.stored == ref.column))
                if ref.column != "id" or self.context.keys == "ordinal"
                else column(KEY)
            ),
            lambda search: column(next(c.alias for c in node.computed if c.expression == search)),
        )
        return query.where(*(compiler.compile(condition) for condition in node.filters), copy=False)

    # ------------------------------------------------------------ joins

    def _from(self, source: exp.Table) -> None:
        if self._started:
            self.select = self.select.join(source, join_type="cross", copy=False)
        else:
            self.select = self.select.from_(source, copy=False)
            self._started = True

    def _join_all(
        self,
        nodes: dict[str, NodeInput | Binding],
        pairs: list[tuple[Expansion, HopInput]],
        implied: dict[str, Slot],
    ) -> None:
        """Follow expansions from what is joined already; start again at the next binding if nothing is connected."""
        pending = list(pairs)
        waiting = [name for name, node in nodes.items() if isinstance(node, NodeInput)]
        while pending or waiting:
            following = next((p for p in pending if p[0].source in self.slots or p[0].target in self.slots), None)
            if following is None:
                start = next((name for name in waiting if name not in self.slots), None)
                touched = start is not None and any(start in (e.source, e.target) for e, _ in pending)
                if start is not None and (touched or not pending):
                    waiting.remove(start)
                    self._add_node(nodes[start], None)
                    continue
                if not pending:
                    break
                following = pending[0]
            pending.remove(following)
            self._add_hop(*following, nodes, implied)
            waiting = [name for name in waiting if name not in self.slots]

    def _may_lack(self, variable: str) -> bool:
        """Whether a stage carries on an entity that may be null."""
        return self.pattern.start_rows is not None and variable in self.pattern.start_rows.optional

    def _ends(self, edge: str, expansion: Expansion) -> tuple[str, str]:
        """The types of the nodes that an edge joins, as the expansion sees them."""
        type_ = self.context.catalog.edges[edge]
        return (type_.target, type_.source) if expansion.direction == "in" else (type_.source, type_.target)

    def _end_of(self, expansion: Expansion, node: NodeInput, relation: str | None) -> exp.Expression:
        """What the ends of an expansion say of a node, from the columns of its relation."""
        if not expansion.is_mixed:
            return column(KEY, relation)
        kind = column(TYPE, relation) if len(node.types) > 1 else exp.Literal.string(node.types[0])
        return marked(column(KEY, relation), kind)

    def _add_node(
        self,
        node: NodeInput | Binding,
        on: exp.Expression | None,
        join_type: str = "inner",
        expansion: Expansion | None = None,
    ) -> None:
        assert isinstance(node, NodeInput)
        relation = node.name
        if on is None:
            self._from(table(relation))
        else:
            key = column(KEY, relation) if expansion is None else self._end_of(expansion, node, relation)
            condition = exp.EQ(this=key, expression=on)
            self.select = self.select.join(table(relation), on=condition, join_type=join_type, copy=False)
        kind = column(TYPE, relation) if len(node.types) > 1 else None
        columns: dict[str, exp.Expression] = {c.stored: column(c.alias, relation) for c in node.columns}
        self.slots[node.variable] = Slot(node.variable, node.types, False, column(KEY, relation), kind, columns)
        for computed in node.computed:
            self.searched[computed.expression] = column(computed.alias, relation)

    def _add_hop(
        self,
        expansion: Expansion,
        hop: HopInput,
        nodes: dict[str, NodeInput | Binding],
        implied: dict[str, Slot],
    ) -> None:
        relation = hop.name
        types = self._ends(expansion.edge, expansion)
        ends = [(expansion.source, SOURCE, types[0]), (expansion.target, TARGET, types[1])]
        conditions: list[exp.Expression] = []
        for variable, end, type_name in ends:
            if (slot := self.slots.get(variable)) is not None and expansion.is_mixed:
                kind = exp.Literal.string(slot.types[0]) if slot.type is None else slot.type.copy()
                conditions.append(exp.EQ(this=column(end, relation), expression=marked(slot.key.copy(), kind)))
            elif slot is not None:
                conditions.append(exp.EQ(this=column(end, relation), expression=slot.key.copy()))
                if slot.type is not None:
                    conditions.append(exp.EQ(this=slot.type.copy(), expression=exp.Literal.string(type_name)))
        if self._started and conditions:
            self.select = self.select.join(table(relation), on=exp.and_(*conditions), join_type="inner", copy=False)
        else:
            self._from(table(relation))
        if expansion.edge_variable is not None:
            columns: dict[str, exp.Expression] = {c.stored: column(c.alias, relation) for c in hop.columns}
            edge_type = column(TYPE, relation) if expansion.others else None
            slot = Slot(expansion.edge_variable, expansion.edges, True, column(EDGE, relation), edge_type, columns)
            self.slots[expansion.edge_variable] = slot
        if expansion.path is not None:
            values: dict[str, exp.Expression] = {
                name: column(alias, relation) for name, alias in hops.PATH_COLUMNS.items()
            }
            name = expansion.path.variable
            key = column(hops.EDGES if expansion.path.is_every else TARGET, relation)
            # Edges of several types may have the same ids: then only the nodes tell two paths apart.
            nodes_too = column(hops.NODES, relation) if expansion.path.is_every and expansion.others else None
            self.slots[name] = Slot(name, (), True, key, nodes_too, values)
        for variable, end, type_name in ends:
            self._reach(variable, column(end, relation), type_name, nodes, implied, expansion)
        if expansion.source == expansion.target and not conditions:
            self.conditions.append(exp.EQ(this=column(SOURCE, relation), expression=column(TARGET, relation)))

    def _reach(
        self,
        variable: str,
        key: exp.Expression,
        type_name: str,
        nodes: dict[str, NodeInput | Binding],
        implied: dict[str, Slot],
        expansion: Expansion,
    ) -> None:
        if variable in self.slots:
            return
        node = nodes.get(variable)
        if isinstance(node, NodeInput):
            self._add_node(node, key, expansion=expansion)
            return
        assert not expansion.is_mixed, "both ends of such a hop have inputs"
        several = variable in implied and implied[variable].several
        types = implied[variable].types if variable in implied else (type_name,)
        kind = exp.Literal.string(type_name) if several else None
        self.slots[variable] = Slot(variable, types, False, key, kind, {})

    # ------------------------------------------------------------ conditions and blocks

    def compiler(self) -> ExpressionCompiler:
        return self.context.expressions(self.column, self.other)

    def column(self, ref: PropertyRef) -> exp.Expression:
        slot = self.slots[ref.variable]
        if ref.column == "id" and "id" not in slot.columns:
            return slot.key.copy()
        return slot.columns[ref.column].copy()

    def other(self, expression: Expression) -> exp.Expression:
        match expression:
            case TextMatch() | Nearest() | Bm25():
                return self.searched[expression].copy()
            case Exists():
                matches = self.counts[id(expression)].copy()
                return exp.Not(this=exp.Is(this=matches, expression=exp.null()))
            case CountOf():
                return exp.Coalesce(this=self.counts[id(expression)].copy(), expressions=[exp.Literal.number(0)])
        raise TypeError(f"{expression!r} is not allowed in a condition")

    def _filter(self) -> None:
        pattern = self.pattern
        later = {unnest.variable for unnest in pattern.unnests}
        for optional in pattern.optionals:
            later |= {binding.variable for binding in optional.bindings}
            later |= {
                expansion.edge_variable for expansion in optional.expansions if expansion.edge_variable is not None
            }
            later |= {expansion.path.variable for expansion in optional.expansions if expansion.path is not None}
        plain = [f for f in pattern.filters if not blocks(f)]
        with_blocks = [f for f in pattern.filters if blocks(f)]
        self._require([f for f in plain if not variables(f) & later])
        for unnest in pattern.unnests:
            self._unnest(unnest)
        for optional in pattern.optionals:
            self._join_optional(optional)
        self._require([f for f in plain if variables(f) & later])
        if with_blocks:
            self.materialise()
            for condition in with_blocks:
                self._filter_by_blocks(condition)

    def join_blocks(self, expressions: Iterable[Expression]) -> None:
        """The number of matches of each block in expressions outside the pattern."""
        inside = [block for expression in expressions for block in blocks(expression)]
        if inside:
            self.materialise()
        for block in inside:
            self._join_block(block)

    def _join_block(self, block: Exists | CountOf) -> None:
        relation, on = self._block(block.block)
        self.select = self.select.join(table(relation), on=on, join_type="left", copy=False)
        self.counts[id(block)] = column("n", relation)

    def _require(self, conditions: Sequence[Expression]) -> None:
        compiler = self.compiler()
        self.conditions += [compiler.compile(condition) for condition in conditions]
        if self.conditions:
            self.select = self.select.where(*self.conditions, copy=False)
            self.conditions = []

    def _unnest(self, unnest: Unnest) -> None:
        items = exp.Explode(this=self.compiler().compile(unnest.items))
        name = self.materialise(named(items, "u"))
        item = column("u", name)
        self.slots[unnest.variable] = Slot(unnest.variable, (), True, item, None, {"item": item.copy()})

    def _join_optional(self, pattern: Pattern) -> None:
        """Left join the block's matches to the current rows."""
        self.materialise()
        outer = {name: self.slots[name] for name in pattern.outer}
        relation = Relation(self.context, pattern, self.places)
        domain, inside = self._domain(outer, outer_references(pattern), relation.searched, outer_searches(pattern))
        relation.build((), inside, domain, self._needed)
        self.places.update({binding.variable: relation.places[binding.variable] for binding in pattern.bindings})
        name = self.context.fresh("l")
        projections: list[exp.Expression] = []
        conditions: list[exp.Expr] = []
        for index, (variable, slot) in enumerate(relation.slots.items()):
            key = self._renamed(projections, slot.key, f"v{index}k", name)
            kind = None if slot.type is None else self._renamed(projections, slot.type, f"v{index}t", name)
            if variable in outer:
                conditions.append(exp.EQ(this=key, expression=outer[variable].key.copy()))
                if kind is not None and (known := outer[variable].type) is not None:
                    conditions.append(exp.EQ(this=kind, expression=known.copy()))
                continue
            columns = {
                stored: self._renamed(projections, slot.columns[stored], f"v{index}c{place}", name)
                for place, stored in enumerate(sorted(slot.columns))
            }
            self.slots[variable] = Slot(variable, slot.types, slot.is_edge, key, kind, columns)
        self.context.common.append(common(name, relation.select.select(*projections, copy=False)))
        self.select = self.select.join(table(name), on=exp.and_(*conditions, copy=False), join_type="left", copy=False)

    def materialise(self, *extra: exp.Expression) -> str:
        """Name the current rows and the extra values as a common table expression, and continue from its columns."""
        name = self.context.fresh("m")
        projections: list[exp.Expression] = list(extra)
        for index, slot in enumerate(self.slots.values()):
            slot.key = self._renamed(projections, slot.key, f"v{index}k", name)
            if slot.type is not None:
                slot.type = self._renamed(projections, slot.type, f"v{index}t", name)
            for place, stored in enumerate(sorted(slot.columns)):
                slot.columns[stored] = self._renamed(projections, slot.columns[stored], f"v{index}c{place}", name)
        for index, search in enumerate(self.searched):
            self.searched[search] = self._renamed(projections, self.searched[search], f"z{index}", name)
        for index, block in enumerate(self.counts):
            self.counts[block] = self._renamed(projections, self.counts[block], f"b{index}", name)
        self.context.common.append(common(name, self.select.select(*projections, copy=False)))
        self.select = exp.select().from_(table(name))
        return name

    @staticmethod
    def _renamed(projections: list[exp.Expression], old: exp.Expression, alias: str, relation: str) -> exp.Expression:
        projections.append(named(old.copy(), alias))
        return column(alias, relation)

    def _filter_by_blocks(self, condition: Expression) -> None:
        negated = isinstance(condition, Unary) and condition.op == "not" and isinstance(condition.operand, Exists)
        test = condition.operand if negated and isinstance(condition, Unary) else condition
        if isinstance(test, Exists):
            relation, on = self._block(test.block)
            match = exp.Exists(this=exp.select(exp.Literal.number(1)).from_(table(relation)).where(on))
            self.select = self.select.where(exp.Not(this=match) if negated else match, copy=False)
            return
        for block in blocks(condition):
            self._join_block(block)
        self.select = self.select.where(self.compiler().compile(condition), copy=False)

    def _block(self, pattern: Pattern) -> tuple[str, exp.Expr]:
        """A relation of the block's matches per combination of outer keys, and the condition that joins it to the current
        rows."""
        needed = outer_references(pattern)
        outer = {name: self.slots[name] for name in pattern.outer}
        enough = {"id"} if self.context.keys == "id" else set()
        searched = outer_searches(pattern)
        alone = len(outer) == 1 and {name for _, name in needed} <= enough and set(outer) <= endpoints(pattern)
        alone = alone and not set(outer) & _mixed_ends(pattern)
        if alone and not searched and not any(slot.is_edge for slot in outer.values()):
            implied = {name: Slot(name, slot.types, False, exp.null(), None, {}) for name, slot in outer.items()}
            relation = Relation(self.context, pattern, self.places)
            relation.build((), implied, None)
        else:
            relation = Relation(self.context, pattern, self.places)
            domain, inside = self._domain(outer, needed, relation.searched, searched)
            relation.build((), inside, domain)
        return self._counted(relation, outer)

    def _domain(
        self,
        outer: dict[str, Slot],
        needed: set[tuple[str, str]],
        inner: dict[TextMatch | Nearest | Bm25, exp.Expression],
        searched: Sequence[TextMatch | Nearest | Bm25],
    ) -> tuple[str, dict[str, Slot]]:
        """The distinct values that the block needs from the current rows. Sets in `inner` where the searches are."""
        name = self.context.fresh("o")
        projections: list[exp.Expression] = []
        inside: dict[str, Slot] = {}
        for index, (variable, slot) in enumerate(outer.items()):
            key = self._renamed(projections, slot.key, f"v{index}k", name)
            kind = None if slot.type is None else self._renamed(projections, slot.type, f"v{index}t", name)
            wanted = sorted(column_name for owner, column_name in needed if owner == variable)
            columns = {
                stored: self._renamed(projections, slot.columns[stored], f"v{index}c{place}", name)
                for place, stored in enumerate(wanted)
                if stored in slot.columns
            }
            inside[variable] = Slot(variable, slot.types, slot.is_edge, key, kind, columns)
        for index, search in enumerate(searched):
            inner[search] = self._renamed(projections, self.searched[search], f"z{index}", name)
        self.context.common.append(common(name, self.select.select(*projections).distinct()))
        return name, inside

    def _counted(self, relation: Relation, outer: dict[str, Slot]) -> tuple[str, exp.Expr]:
        name = self.context.fresh("b")
        projections: list[exp.Expression] = []
        conditions: list[exp.Expr] = []
        keys: list[exp.Expression] = []
        for index, (variable, slot) in enumerate(outer.items()):
            inner = relation.slots[variable]
            pairs = [(inner.key, slot.key, f"g{index}k")]
            if inner.type is not None and slot.type is not None:
                pairs.append((inner.type, slot.type, f"g{index}t"))
            for inside, outside, alias in pairs:
                keys.append(inside.copy())
                renamed = self._renamed(projections, inside, alias, name)
                conditions.append(exp.EQ(this=renamed, expression=outside.copy()))
        projections.append(named(exp.Count(this=exp.Star()), "n"))
        grouped = relation.select.select(*projections, copy=False).group_by(*keys, copy=False)
        self.context.common.append(common(name, grouped))
        return name, exp.and_(*conditions, copy=False)


def _mixed_ends(pattern: Pattern) -> set[str]:
    return {end for hop in pattern.expansions if hop.is_mixed for end in (hop.source, hop.target)}


def _note(computed: dict[str, list[TextMatch | Nearest | Bm25]], search: TextMatch | Nearest | Bm25) -> None:
    searches = computed.setdefault(search.property.variable, [])
    if search not in searches:
        searches.append(search)
