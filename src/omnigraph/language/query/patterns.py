"""Clauses of `match` and of blocks -> a typed pattern.

The order of clauses carries no meaning: bindings are read first, then traversals in text order (so that a direction is
inferred from every type the block states), then conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.errors import QueryError
from omnigraph.language.catalog import EdgeType
from omnigraph.language.parsing.cursor import Position
from omnigraph.language.query import plan, syntax
from omnigraph.language.query.expressions import ExpressionChecker, suggestion
from omnigraph.language.query.scope import NodeVariable, Scope, common_properties
from omnigraph.values.types import PropertyType, Scalar

MAX_PATH_HOPS = 32
"""The maximum length of a path: its SQL has a step for each hop."""


def check_block(clauses: tuple[syntax.Clause, ...], around: Scope, at: Position) -> plan.Pattern:
    """The inside of `not { }`, `exists { }` or `count { }`: correlated with at least one variable around it."""
    for clause in clauses:
        if isinstance(clause, syntax.OptionalClause | syntax.UnnestClause):
            word = "optional" if isinstance(clause, syntax.OptionalClause) else "unnest"
            hint = "write it next to the other clauses of `match`"
            raise around.checking.refuse("T47", f"`{word}` is not allowed inside a block", clause.at, hint)
    scope = Scope(around.checking, parent=around)
    return _correlated(clauses, scope, at)


def _correlated(clauses: tuple[syntax.Clause, ...], scope: Scope, at: Position) -> plan.Pattern:
    pattern = check_pattern(clauses, scope)
    if not pattern.outer:
        hint = "use a variable of the pattern around it"
        raise scope.checking.refuse("T9", "the block mentions no variable from outside", at, hint)
    return pattern


def check_pattern(clauses: tuple[syntax.Clause, ...], scope: Scope) -> plan.Pattern:
    """Check the clauses of one block; its variables stay in `scope`."""
    return _PatternChecker(scope).check(_with_names(clauses, scope))


def _with_names(clauses: tuple[syntax.Clause, ...], scope: Scope) -> list[syntax.Clause]:
    """The clauses with a unique name for every `$_`, so that no two of them are the same variable."""
    named: list[syntax.Clause] = []
    for clause in clauses:
        if isinstance(clause, syntax.BindingClause) and clause.variable == "_":
            clause = replace(clause, variable=_anonymous(scope))
        elif isinstance(clause, syntax.TraversalClause):
            if clause.source == "_":
                clause = replace(clause, source=_anonymous(scope))
            if clause.edge_variable == "_":
                clause = replace(clause, edge_variable=_anonymous(scope))
            if clause.target == "_":
                clause = replace(clause, target=_anonymous(scope))
        elif isinstance(clause, syntax.PathClause):
            (traversal,) = _with_names((clause.traversal,), scope)
            assert isinstance(traversal, syntax.TraversalClause)
            clause = replace(clause, traversal=traversal, variable=clause.variable or _anonymous(scope))
        named.append(clause)
    return named


def _anonymous(scope: Scope) -> str:
    name = scope.checking.fresh_name()
    scope.anonymous.add(name)
    return name


class _PatternChecker:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._checking = scope.checking
        self._expressions = ExpressionChecker(scope, "match", blocks=check_block)

    def check(self, clauses: list[syntax.Clause]) -> plan.Pattern:
        for clause in clauses:
            if isinstance(clause, syntax.BindingClause):
                self._bind(clause)
        expansions = tuple(
            self._expand(clause) if isinstance(clause, syntax.TraversalClause) else self._path(clause)
            for clause in clauses
            if isinstance(clause, syntax.TraversalClause | syntax.PathClause)
        )
        bindings = self._bindings(clauses)
        unnests = tuple(self._unnest(c) for c in clauses if isinstance(c, syntax.UnnestClause))
        optionals = tuple(self._optional(c) for c in clauses if isinstance(c, syntax.OptionalClause))
        filters: list[plan.Expression] = []
        for clause in clauses:
            if isinstance(clause, syntax.BindingClause):
                filters += [self._shorthand(clause, assignment) for assignment in clause.properties]
            elif isinstance(clause, syntax.FilterClause):
                filters += self._conditions(clause.condition)
        return plan.Pattern(
            bindings=bindings,
            expansions=expansions,
            filters=tuple(filters),
            outer=tuple(sorted(self._scope.outer)),
            unnests=unnests,
            optionals=optionals,
            start_rows=self._scope.start_rows,
        )

    def _unnest(self, clause: syntax.UnnestClause) -> plan.Unnest:
        items, name = self._expressions.check(clause.items), clause.variable
        if isinstance(items, plan.EntityRef) or not items.type.is_list:
            what = "an entity" if isinstance(items, plan.EntityRef) else str(items.type)
            hint = "write unnest $variable.list as $item"
            raise self._checking.refuse("T43", f"unnest takes a list, this is {what}", clause.items.at, hint)
        taken = self._scope.owner(name) is not None or name in self._checking.parameters
        if taken or name == "_":
            message = f"${name} is already in use; an item needs a name of its own"
            raise self._checking.refuse("T29", message, clause.variable_at)
        is_written = isinstance(items, plan.Constant | plan.ListOf)
        self._scope.unnested[name] = PropertyType(items.type.scalar, is_written, fields=items.type.fields)
        return plan.Unnest(name, items)

    def _optional(self, clause: syntax.OptionalClause) -> plan.Pattern:
        """Checked like a block, but its variables are visible in the pattern around it, where they may be null."""
        inner = Scope(self._checking, parent=self._scope)
        for inside in clause.clauses:
            if isinstance(inside, syntax.OptionalClause | syntax.UnnestClause):
                hint = "write it next to the other clauses of `match`"
                raise self._checking.refuse("T47", "an optional block holds plain clauses only", inside.at, hint)
        pattern = _correlated(clause.clauses, inner, clause.at)
        self._scope.nodes |= inner.nodes
        self._scope.edges |= inner.edges
        self._scope.paths |= inner.paths
        self._scope.optional |= {*inner.nodes, *inner.edges, *inner.paths}
        self._scope.anonymous |= inner.anonymous
        return pattern

    def _bindings(self, clauses: list[syntax.Clause]) -> tuple[plan.Binding, ...]:
        start_rows = self._scope.start_rows
        mentioned: dict[str, None] = {} if start_rows is None else dict.fromkeys(start_rows.entities)
        for clause in clauses:
            if isinstance(clause, syntax.BindingClause):
                mentioned[clause.variable] = None
            elif isinstance(clause, syntax.TraversalClause | syntax.PathClause):
                traversal = clause.traversal if isinstance(clause, syntax.PathClause) else clause
                mentioned[traversal.source] = mentioned[traversal.target] = None
        bindings: list[plan.Binding] = []
        for name in mentioned:
            if name in self._scope.nodes:
                variable = self._scope.nodes[name]
                interface = variable.interfaces[0] if variable.interfaces else None
                bindings.append(plan.Binding(name, variable.types, interface))
                self._checking.reads.update(f"node:{type_}" for type_ in variable.types)
        return tuple(bindings)

    # ------------------------------------------------------------ bindings

    def _bind(self, clause: syntax.BindingClause) -> None:
        stated = self._stated_types(clause)
        self._refuse_taken(clause.variable, clause.at)
        known = self._scope.node(clause.variable)
        if known is None:
            self._scope.nodes[clause.variable] = stated
            return
        common = tuple(type_ for type_ in known.types if type_ in stated.types)
        if not common:
            message = f"${clause.variable} is {known.describe()} and cannot be {clause.type_name} too"
            raise self._checking.refuse("T31", message, clause.type_at)
        if clause.variable in self._scope.nodes:
            known.types = common
            known.interfaces += tuple(interface for interface in stated.interfaces if interface not in known.interfaces)
        elif common != known.types:
            message = (
                f"${clause.variable} is {known.describe()} outside and cannot be narrowed to {clause.type_name} here"
            )
            raise self._checking.refuse(
                "T32", message, clause.type_at, "state the type in the pattern around the block"
            )

    def _stated_types(self, clause: syntax.BindingClause) -> NodeVariable:
        catalog, name = self._checking.catalog, clause.type_name
        if name in catalog.nodes:
            return NodeVariable((name,))
        if name in catalog.interfaces:
            types = tuple(node.name for node in catalog.implementers(name))
            if not types:
                raise self._checking.refuse("T30", f"no node type implements {name}", clause.type_at)
            return NodeVariable(types, (name,))
        if name in catalog.edges:
            word = name[0].lower() + name[1:]
            message = f"{name} is an edge, not a node type"
            raise self._checking.refuse("T1", message, clause.type_at, f"write $a ${clause.variable}:{word} $b")
        hint = suggestion(name, [*catalog.nodes, *catalog.interfaces])
        raise self._checking.refuse("T1", f"unknown node type {name}", clause.type_at, hint)

    def _refuse_taken(self, name: str, at: Position) -> None:
        owner = self._scope.owner(name)
        if owner is not None and name in owner.paths:
            raise self._checking.refuse("T23", f"${name} is a path and cannot be used as a node", at)
        if owner is not None and name in owner.unnested:
            raise self._checking.refuse("T23", f"${name} is an item of a list and cannot be used as a node", at)
        if self._scope.edge(name) is not None:
            raise self._checking.refuse("T23", f"${name} is an edge and cannot be used as a node", at)
        if name in self._checking.parameters:
            hint = "give the variable another name; a parameter is compared: $variable.property = $parameter"
            raise self._checking.refuse("T29", f"${name} is a parameter and cannot be bound", at, hint)

    def _shorthand(self, clause: syntax.BindingClause, assignment: syntax.Assignment) -> plan.Expression:
        scope, variable = self._scope, self._scope.node(clause.variable)
        assert variable is not None, "bound by _bind"
        if assignment.name == "id":
            column = syntax.PropertyAccess(clause.variable, "id", assignment.at, assignment.at)
            return self._expressions.check(syntax.Comparison("=", column, assignment.value, assignment.at))
        properties = scope.node_properties(variable)
        if assignment.name not in properties:
            hint = suggestion(assignment.name, list(properties))
            raise self._checking.refuse(
                "T2", f"{variable.describe()} has no property '{assignment.name}'", assignment.at, hint
            )
        type_ = properties[assignment.name].type
        column_ref = plan.PropertyRef(clause.variable, assignment.name, type_)
        if isinstance(assignment.value, syntax.Literal) and assignment.value.kind == "null":
            value = self._expressions.stored(assignment.value, type_, where=f"'{assignment.name}'")
            return plan.Binary("=", column_ref, value, plan.NULLABLE_BOOL)
        if type_.scalar is Scalar.BLOB:
            hint = f"a pattern can only test whether there is one: ${clause.variable}.{assignment.name} is not null"
            raise self._checking.refuse(
                "T24", f"'{assignment.name}' is a Blob and cannot be matched", assignment.at, hint
            )
        if type_.is_list and isinstance(assignment.value, syntax.ListLiteral):
            message = f"'{assignment.name}' is a list, and a pattern takes one item of it, not a list"
            hint = f"write {{ {assignment.name}: item }}; for several, a condition each: ${clause.variable}.{assignment.name} contains item"
            raise self._checking.refuse("T7", message, assignment.at, hint)
        op: syntax.ComparisonOp = "contains" if type_.is_list else "="
        access = syntax.PropertyAccess(clause.variable, assignment.name, assignment.at, assignment.at)
        return self._expressions.check(syntax.Comparison(op, access, assignment.value, assignment.at))

    # ------------------------------------------------------------ traversals

    def _expand(self, clause: syntax.TraversalClause) -> plan.Expansion:
        named = self._members(clause)
        edges = tuple(member for members in named for member in members)
        is_mixed = _are_mixed(edges)
        if clause.undirected and is_mixed:
            message = f"{_in_common(edges).name} join different node types and cannot be followed both ways"
            raise self._checking.refuse("T22", message, clause.edge_at, f"write {clause.words} without < >")
        edge = _in_common(edges)
        if clause.undirected and edge.source != edge.target:
            message = f"{edge.name} goes from {edge.source} to {edge.target} and cannot be followed both ways"
            raise self._checking.refuse("T22", message, clause.edge_at, f"write {clause.words} without < >")
        minimum, maximum = self._hops(clause, edges)
        self._refuse_taken(clause.source, clause.at)
        self._refuse_taken(clause.target, clause.target_at)
        members: Sequence[EdgeType] = edges
        direction: plan.Direction
        if not is_mixed:
            direction = self._direction(clause, edge)
        elif (minimum, maximum) == (1, 1):
            direction, members = self._mixed_step(clause, named)
        else:
            direction = self._mixed_walk(clause, edges, minimum)
        edge, is_mixed = _in_common(members), _are_mixed(members)
        for member in members:
            self._checking.reads.update((member.table_key, f"node:{member.source}", f"node:{member.target}"))
        first, *others = (member.name for member in members)
        expansion = plan.Expansion(
            clause.source, clause.target, first, direction, minimum, maximum, others=tuple(others), is_mixed=is_mixed
        )
        if clause.per_hop is not None:
            return replace(expansion, walk=self._walk(clause, clause.per_hop, members))
        if clause.edge_variable is not None:
            self._bind_edge(clause, clause.edge_variable, edge)
        return replace(expansion, edge_variable=clause.edge_variable)

    def _members(self, clause: syntax.TraversalClause) -> list[tuple[EdgeType, ...]]:
        """The edge types that each word of a traversal names: one, or the members of an edge between interfaces."""
        catalog, named = self._checking.catalog, list[tuple[EdgeType, ...]]()
        for word in (syntax.Word(clause.edge, clause.edge_at), *clause.others):
            edge = catalog.edge_by_word(word.name)
            members = catalog.family_by_word(word.name) if edge is None else (edge,)
            if not members:
                hint = suggestion(word.name, [name[0].lower() + name[1:] for name in catalog.declared_edges])
                raise self._checking.refuse("T4", f"unknown edge '{word.name}'", word.at, hint)
            if any(member in others for others in named for member in members):
                raise self._checking.refuse("T4", f"'{word.name}' is named twice in one step", word.at)
            named.append(members)
        return named

    def _walk(self, clause: syntax.TraversalClause, per_hop: syntax.EachHop, members: Sequence[EdgeType]) -> plan.Walk:
        """The conditions along a walk; its variables are known in them only."""
        name, scope = clause.edge_variable, Scope(self._checking, parent=self._scope)
        assert name is not None, "only an edge with a name has conditions"
        own = [variable for variable in (name, per_hop.node, per_hop.before) if variable is not None]
        for place, variable in enumerate(own):
            taken = self._scope.owner(variable) is not None or variable in self._checking.parameters
            if taken or variable in own[:place] or variable == "_":
                message = f"${variable} is already in use; what stands for each hop needs a name of its own"
                raise self._checking.refuse("T23", message, clause.edge_variable_at)
        edge, ends = _in_common(members), {member.target for member in members}
        scope.edges = {variable: edge for variable in own if variable != per_hop.node}
        if per_hop.node is not None:
            between = sorted({member.source for member in members} & ends)
            scope.nodes = {per_hop.node: NodeVariable(tuple(between))}
        conditions = tuple(self._conditions(per_hop.condition, ExpressionChecker(scope, "match")))
        for condition in conditions:
            if any(isinstance(inner, plan.TextMatch) for inner in plan.walk(condition)):
                raise self._checking.refuse("T41", "a text search is not allowed along a walk", per_hop.condition.at)
        if scope.outer:
            message = f"the condition of a walk cannot mention ${min(scope.outer)}, which is outside of it"
            hint = f"it speaks of ${name}, of `via $node` and of `after $edge`, and of parameters"
            raise self._checking.refuse("T23", message, per_hop.condition.at, hint)
        return plan.Walk(name, per_hop.node, per_hop.before, conditions)

    def _path(self, clause: syntax.PathClause) -> plan.Expansion:
        traversal, name = clause.traversal, clause.variable
        assert name is not None, "named by _with_names"
        hops = traversal.hops
        if hops is None or hops.maximum is None or hops.maximum > MAX_PATH_HOPS:
            at = traversal.edge_at if hops is None else hops.at
            hint = f"write along {traversal.words}{{1,6}}"
            raise self._checking.refuse("T15", f"a path needs a maximum of at most {MAX_PATH_HOPS} hops", at, hint)
        if clause.is_every and clause.weight is not None:
            hint = f"write shortest path … by {clause.weight}"
            raise self._checking.refuse("T15", "`shortest paths` counts hops", clause.weight_at, hint)
        if clause.weight is not None and hops.minimum > 1:
            raise self._checking.refuse(
                "T15", "a path of smallest cost starts at one hop, or at none", hops.at, f"write {{1,{hops.maximum}}}"
            )
        if self._scope.owner(name) is not None or name in self._checking.parameters:
            message = f"${name} is already in use; a path needs a name of its own"
            raise self._checking.refuse("T23", message, clause.variable_at)
        members = tuple(member for named in self._members(traversal) for member in named)
        if _are_mixed(members):
            message = "a shortest path follows edges between nodes of one type; " + ", ".join(map(_goes, members))
            raise self._checking.refuse("T15", message, traversal.edge_at)
        expansion = self._expand(traversal)
        if clause.weight is not None:
            edge = _in_common(members)
            properties = edge.properties
            known = properties.get(clause.weight)
            if known is None or not known.type.scalar.is_numeric or known.type.is_list:
                numbers = [name for name, property_ in properties.items() if property_.type.scalar.is_numeric]
                message = f"{edge.name} has no number '{clause.weight}'"
                raise self._checking.refuse("T15", message, clause.weight_at, suggestion(clause.weight, numbers))
        self._scope.paths.add(name)
        return replace(expansion, path=plan.Path(name, clause.weight, clause.is_every))

    def _hops(self, clause: syntax.TraversalClause, members: Sequence[EdgeType]) -> tuple[int, int]:
        hops = clause.hops
        if hops is None:
            if clause.per_hop is not None:
                hint = (
                    f"write {clause.words}{{1,3}}, or the condition of one hop as a clause of its own, without `where`"
                )
                raise self._checking.refuse("T23", "`where` is for a walk of several hops", clause.per_hop.at, hint)
            return 1, 1
        if clause.edge_variable is not None and clause.per_hop is None:
            name = clause.edge_variable
            end, bounds = "" if hops.maximum is None else hops.maximum, hops.minimum
            written = f"${clause.source} ${name}:{clause.words}{{{bounds},{end}}} ${clause.target} where ${name}.…"
            hint = f"write {written}, or leave ${name} out"
            message = f"${name} stands for each edge of several hops, and needs a condition on each"
            raise self._checking.refuse("T23", message, hops.at, hint)
        maximum = plan.UNBOUNDED if hops.maximum is None else hops.maximum
        if not 0 <= hops.minimum <= maximum or maximum == 0:
            raise self._checking.refuse("T15", "hop bounds are {m,n} with 0 <= m <= n and n >= 1", hops.at)
        is_walk = not {member.source for member in members}.isdisjoint(member.target for member in members)
        if (hops.minimum, maximum) != (1, 1) and not is_walk:
            goes, is_one = ", ".join(map(_goes, members)), len(members) == 1
            message = f"{goes}, so {'it' if is_one else 'they'} cannot be followed twice in a row"
            if hops.minimum == 0:
                message = f"{goes}, so no hop does not reach {'its' if is_one else 'their'} end"
            raise self._checking.refuse("T15", message, hops.at, "leave the bounds out, or write one traversal per hop")
        return hops.minimum, maximum

    def _direction(self, clause: syntax.TraversalClause, edge: EdgeType) -> plan.Direction:
        """Outgoing if the types of the ends allow it, otherwise incoming; unbound ends allow both."""
        ways: tuple[tuple[plan.Direction, str, str], ...] = (
            ("both" if clause.undirected else "out", edge.source, edge.target),
            ("in", edge.target, edge.source),
        )
        source, target = self._scope.node(clause.source), self._scope.node(clause.target)
        for direction, left, right in ways:
            fits_left = source is None or left in source.types
            fits_right = target is None or right in target.types
            if fits_left and fits_right and (clause.source != clause.target or left == right):
                self._narrow(clause.source, (left,))
                self._narrow(clause.target, (right,))
                return direction
        ends = [(clause.source, source, clause.at), (clause.target, target, clause.target_at)]
        name, variable, at = next(
            (e for e in ends if e[1] and not {edge.source, edge.target} & {*e[1].types}), ends[-1]
        )
        described = f"; ${name} is {variable.describe()}" if variable else ""
        raise self._checking.refuse("T5", f"{edge.name} goes from {edge.source} to {edge.target}{described}", at)

    def _mixed_step(
        self, clause: syntax.TraversalClause, named: Sequence[tuple[EdgeType, ...]]
    ) -> tuple[plan.Direction, list[EdgeType]]:
        """The same for edges that join different node types, and those of them that can lie between the ends: at least one for each
        word."""
        source, target = self._scope.node(clause.source), self._scope.node(clause.target)
        misfit = named[0][0]
        for direction in _DIRECTIONS:
            fitting: list[EdgeType] = []
            missing: list[EdgeType] = []
            for members in named:
                fits = [
                    member
                    for member, (left, right) in ((member, _seen(member, direction)) for member in members)
                    if (source is None or left in source.types)
                    and (target is None or right in target.types)
                    and (clause.source != clause.target or left == right)
                ]
                fitting += fits
                missing += () if fits else members[:1]
            if not missing:
                ends = [_seen(member, direction) for member in fitting]
                self._narrow(clause.source, tuple(sorted({left for left, _ in ends})))
                self._narrow(clause.target, tuple(sorted({right for _, right in ends})))
                return direction, fitting
            misfit = missing[0] if fitting else misfit
        raise self._misfit(clause, misfit)

    def _mixed_walk(self, clause: syntax.TraversalClause, members: Sequence[EdgeType], min_hops: int) -> plan.Direction:
        """The same for several hops, which may pass other types than those of their ends."""
        source, target = self._scope.node(clause.source), self._scope.node(clause.target)
        for direction in _DIRECTIONS:
            ends = [_seen(member, direction) for member in members]
            starts, rights = {left for left, _ in ends}, {right for _, right in ends}
            lefts = starts | rights if min_hops == 0 else starts
            lefts = lefts if source is None else lefts & {*source.types}
            rights = rights | lefts if min_hops == 0 else rights
            rights = rights if target is None else rights & {*target.types}
            if clause.source == clause.target:
                lefts = rights = lefts & rights
            if lefts & starts and rights:
                self._narrow(clause.source, tuple(sorted(lefts)))
                self._narrow(clause.target, tuple(sorted(rights)))
                return direction
        raise self._misfit(clause, members[0])

    def _misfit(self, clause: syntax.TraversalClause, edge: EdgeType) -> QueryError:
        ends = {name: self._scope.node(name) for name in (clause.source, clause.target)}
        described = "".join(f"; ${name} is {end.describe()}" for name, end in ends.items() if end is not None)
        return self._checking.refuse("T5", f"{_goes(edge)}{described}", clause.edge_at)

    def _narrow(self, name: str, types: tuple[str, ...]) -> None:
        """Narrow a variable to the types that the edges have at this end. A variable of an outer pattern keeps its types: the block
        only tests it."""
        if self._scope.owner(name) is None:
            self._scope.nodes[name] = NodeVariable(types)
        elif name in self._scope.nodes:
            self._scope.nodes[name].types = types

    def _bind_edge(self, clause: syntax.TraversalClause, name: str, edge: EdgeType) -> None:
        if self._scope.owner(name) is not None or name in self._checking.parameters:
            message = f"${name} is already in use; an edge variable needs a name of its own"
            raise self._checking.refuse("T23", message, clause.edge_variable_at)
        self._scope.edges[name] = edge

    # ------------------------------------------------------------ conditions

    def _conditions(
        self, condition: syntax.Expr, expressions: ExpressionChecker | None = None
    ) -> list[plan.Expression]:
        """Each conjunct becomes a filter, so that it can be applied as early as possible."""
        if isinstance(condition, syntax.Logical) and condition.op == "and":
            return [part for operand in condition.operands for part in self._conditions(operand, expressions)]
        return [(expressions or self._expressions).condition(condition)]


def _in_common(members: Sequence[EdgeType]) -> EdgeType:
    """What an edge of any of these types has."""
    name = "|".join(dict.fromkeys((member.family or member).name for member in members))
    return replace(members[0], name=name, properties=common_properties(members))


def _are_mixed(members: Sequence[EdgeType]) -> bool:
    """Whether they join different node types."""
    return len({(member.source, member.target) for member in members}) > 1


_DIRECTIONS: tuple[plan.Direction, ...] = ("out", "in")


def _seen(edge: EdgeType, direction: plan.Direction) -> tuple[str, str]:
    """The types at the ends of an edge, from the end at which a step begins."""
    return (edge.source, edge.target) if direction == "out" else (edge.target, edge.source)


def _goes(edge: EdgeType) -> str:
    ends = edge.family or edge
    return f"{ends.name} goes from {ends.source} to {ends.target}"
