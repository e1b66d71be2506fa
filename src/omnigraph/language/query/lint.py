"""Lint of a query file: every mistake of every query, and advice with stable codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog, NodeType
from omnigraph.language.query import plan, syntax
from omnigraph.language.query.mutations import check_query
from omnigraph.language.query.parser import parse_queries, refusal

# Conditions that no row can satisfy, found in a plan alone: contradictory bounds, values, and tests for null.

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass
class _Wanted:
    """What the conditions say about one column. A bound is a value and whether it is excluded."""

    low: tuple[Any, bool] | None = None
    high: tuple[Any, bool] | None = None
    among: set[Any] | None = None
    excluded: set[Any] = field(default_factory=set)
    is_null: bool = False
    is_present: bool = False

    @property
    def is_possible(self) -> bool:
        if self.is_null and (self.is_present or self.low or self.high or self.among is not None):
            return False
        if self.among is not None:
            return any(self._holds(value) for value in self.among)
        if self.low is None or self.high is None:
            return True
        (low, without_low), (high, without_high) = self.low, self.high
        return bool(low < high or (low == high and not without_low and not without_high))

    def _holds(self, value: Any) -> bool:
        if value in self.excluded:
            return False
        if self.low is not None and not (value > self.low[0] or (value == self.low[0] and not self.low[1])):
            return False
        return self.high is None or value < self.high[0] or (value == self.high[0] and not self.high[1])

    def compare(self, op: str, value: Any) -> None:
        self.is_present = True
        match op:
            case "=":
                self.among = {value} if self.among is None else self.among & {value}
            case "!=":
                self.excluded.add(value)
            case ">" | ">=":
                bound = (value, op == ">")
                self.low = bound if self.low is None else max(self.low, bound)
            case "<" | "<=":
                bound = (value, op == "<")
                if self.high is None or value < self.high[0] or (value == self.high[0] and op == "<"):
                    self.high = bound


def impossible(conditions: Iterable[plan.Expression]) -> Iterator[str]:
    """The columns for which the conditions of a pattern can never hold, alone or together."""
    columns: dict[tuple[str, str], _Wanted] = {}
    for condition in conditions:
        match condition:
            case plan.Constant(False, _):
                yield "`false`"
            case plan.Unary("is_null", plan.PropertyRef() as ref, _):
                wanted = columns.setdefault((ref.variable, ref.column), _Wanted())
                wanted.is_null = True
                wanted.is_present = wanted.is_present or not ref.type.nullable
            case plan.Unary("is_not_null", plan.PropertyRef() as ref, _):
                columns.setdefault((ref.variable, ref.column), _Wanted()).is_present = True
            case plan.Binary("in", plan.PropertyRef() as ref, plan.Constant(tuple() as values, _), _):
                wanted = columns.setdefault((ref.variable, ref.column), _Wanted())
                wanted.is_present = True
                known = {value for value in values if value is not None}
                wanted.among = known if wanted.among is None else wanted.among & known
            case plan.Binary(op, plan.PropertyRef() as ref, plan.Constant(value, _), _) if _is_bound(op, ref, value):
                columns.setdefault((ref.variable, ref.column), _Wanted()).compare(op, value)
            case plan.Binary(op, plan.Constant(value, _), plan.PropertyRef() as ref, _) if _is_bound(op, ref, value):
                columns.setdefault((ref.variable, ref.column), _Wanted()).compare(_MIRRORED[op], value)
            case plan.Binary("!=" | "<" | ">", left, right, _) if left == right and not isinstance(left, plan.Constant):
                yield f"'{condition.op}' of a value and itself"
            case plan.Binary(op, plan.Constant(left, _), plan.Constant(right, _), _) if op in _MIRRORED:
                if None not in (left, right) and not _compared(op, left, right):
                    yield f"'{op}' of these two literals"
    for (variable, name), wanted in columns.items():
        if not wanted.is_possible:
            yield f"what is asked of ${variable}.{name}"


def _is_bound(op: str, ref: plan.PropertyRef, value: object) -> bool:
    return op in _MIRRORED and value is not None and not isinstance(value, tuple) and not ref.type.is_list


def _compared(op: str, left: Any, right: Any) -> bool:
    order = (left > right) - (left < right)
    held: dict[str, bool] = {
        "=": order == 0,
        "!=": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }
    return held[op]


# Every rule a query can break, by its stable code: the one table behind messages, docs and tests.

RULES: dict[str, str] = {
    "Q000": "the text does not follow the grammar",
    "Q001": "a file with several queries needs the name of one",
    "Q002": "no query of that name in the file",
    "T1": "unknown node type in a binding",
    "T2": "a property that the type of a binding does not have",
    "T3": "a value that does not fit its property: wrong type, not in the enum, out of range, null for a required one",
    "T4": "unknown edge",
    "T5": "the ends of a traversal do not fit the edge",
    "T6": "an unbound variable, an unknown name, or a property the entity does not have, in an expression",
    "T7": "operands that cannot be compared, or a condition that is not true or false",
    "T8": "an aggregate over a type that it does not support",
    "T9": "a block that mentions no outer variable; or a column next to an aggregate that depends on no property and no variable",
    "T10": "mutation: unknown type, or nothing assigned",
    "T11": "mutation: unknown property, or a Blob in a condition",
    "T12": "insert: a required property, `from` or `to` is missing",
    "T13": "the same property assigned twice",
    "T14": "mutation: a variable that is not a declared parameter",
    "T15": "hop bounds that cannot be followed; or arguments of `nearest` that do not fit",
    "T16": "`update` of an edge type",
    "T17": "ordering by `nearest` without `limit`",
    "T18": "ordering by an alias together with `nearest`",
    "T19": "arguments of `search`, `all_words`, `phrase` or `fuzzy` that do not fit",
    "T20": "arguments of `match_text` or `bm25` that do not fit",
    "T21": "`rrf` without `limit` or with arguments that do not fit",
    "T22": "an undirected traversal of an edge between different types",
    "T23": "an edge variable where only a node or a property is allowed, or of several hops without a condition on each",
    "T24": "a Blob read as a value",
    "T25": "two result columns of the same name",
    "T26": "unknown type of a parameter",
    "T27": "two queries of the same name in one file",
    "T28": "the same parameter declared twice",
    "T29": "a parameter used as the variable of a pattern",
    "T30": "an interface that no node type implements",
    "T31": "a variable bound to types that have nothing in common",
    "T32": "a block that narrows the type of an outer variable",
    "T33": "arithmetic on something that is not a number",
    "T34": "a ranking where none is allowed: only the first key of `order`, and columns of a query without aggregates",
    "T35": "a ranking ordered worst first",
    "T36": "an order key that may differ within a group, or that is not a column of a query with `distinct`",
    "T37": "an aggregate where none is allowed",
    "T38": "`limit` or `offset` that is not a whole number of at least zero",
    "T39": "`update` of a member of the key",
    "T40": "the id of an entity with a key, which follows from the key, assigned by hand",
    "T41": "a block outside `match`, `return` and `order`, or a text search outside `match`",
    "T42": "an order key that has no order",
    "T43": "an unknown function, or arguments that it does not take",
    "T44": "values of `coalesce` or `case` that have no common type",
    "T45": "a duration that is not added to a date or an instant",
    "T46": "`having` without an aggregate",
    "T47": "`optional` or `unnest` where it is not allowed, or a search of a variable that it introduces",
    "T48": "parts of a union whose columns differ, or an order that is not by its columns",
    "T49": "`upsert` of a type without a key, and without an id",
    "T50": "a stage that carries on what has no name, or an entity of several types or under another name; or no `match` and no stage",
    "T51": "a record whose values are not single values, or have the same name",
}


Severity = Literal["error", "warning", "info"]

LINT_CODES: dict[str, str] = {
    "L201": "a nullable property that no update of the file ever sets, of a type the file updates",
    "L202": "a mutation without parameters: it does the same each time",
    "L203": "a declared parameter that is never used",
    "L204": "a variable that nothing refers to: it only multiplies rows, or tests that something exists",
    "L205": "parts of a pattern that are not connected: every row of one meets every row of the other",
    "L206": "a cut without an order: which rows remain is decided by ids alone",
    "L207": "a comparison with null, which is never true; `is null` tests for null",
    "L208": "text search or ranking on a property without @index: every row is read",
    "L209": "a count over a hop that binds no edge: nodes are counted once, however many edges lead to them",
    "L210": "conditions that no value satisfies together, so that nothing is ever found",
}


@dataclass(frozen=True)
class QueryFinding:
    """A mistake, or a piece of advice, with a stable code.

    >>> assert [finding.code for finding in report.findings] == ["L206"]
    """

    severity: Severity
    code: str
    message: str
    query_names: tuple[str, ...]
    type_name: str | None = None
    property: str | None = None

    def __str__(self) -> str:
        return f"{self.severity}[{self.code}] {', '.join(self.query_names)}: {self.message}"


@dataclass(frozen=True)
class LintedQuery:
    """One query: what it returns, reads and writes, or the error that prevents it.

    >>> (query,) = report.queries
    >>> assert (query.name, query.kind, query.reads) == ("all", "read", ("node:Person",))
    """

    name: str
    kind: Literal["read", "mutation"]
    error: QueryError | None
    warnings: tuple[str, ...] = ()
    columns: tuple[plan.ResultColumn, ...] = ()
    reads: tuple[str, ...] = ()
    """The table keys of the types it may inspect."""
    writes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LintReport:
    """What lint found in a text of queries; `print` shows it as readable text.

    >>> report = g.lint("query all() { match { $p: Person } return { $p.name } limit 3 }")
    >>> assert (report.status, report.count("error")) == ("ok", 0)
    """

    file: str | None
    queries: tuple[LintedQuery, ...]
    findings: tuple[QueryFinding, ...]

    def __repr__(self) -> str:
        return f"<LintReport of {len(self.queries)} queries: {len(self.findings)} findings, {self.status}>"

    @property
    def status(self) -> Literal["ok", "error"]:
        """ "error" if a query does not compile; advice is not an error."""
        return "error" if self.count("error") else "ok"

    def count(self, severity: Severity) -> int:
        """How many findings have this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def __str__(self) -> str:
        errors = [result.error.render() for result in self.queries if result.error is not None]
        advice = [str(finding) for finding in self.findings if finding.severity != "error" or not self.queries]
        counts = (f"{len(self.queries)} queries", f"{self.count('error')} errors", f"{self.count('warning')} warnings")
        summary = f"{self.file or '<text>'}: {', '.join(counts)}, {self.count('info')} infos"
        return "\n".join([*errors, *advice, summary])


def lint_queries(text: str, catalog: Catalog, file: str | None = None) -> LintReport:
    """Check every query of a file against a schema. Never raises for what the text says."""
    try:
        parsed = parse_queries(text, file)
    except QueryError as error:
        finding = QueryFinding("error", error.rule, error.render(), ())
        return LintReport(file, (), (finding,))
    linter = _Linter(text, catalog, file)
    for query in parsed.queries:
        linter.lint(query)
    findings = (*linter.findings, *_never_updated(linter.plans, catalog))
    return LintReport(file, tuple(linter.queries), findings)


class _Linter:
    """Checks a file query by query, so that a broken query does not hide the next one."""

    def __init__(self, text: str, catalog: Catalog, file: str | None) -> None:
        self._text = text
        self._catalog = catalog
        self._file = file
        self._names: set[str] = set()
        self.queries: list[LintedQuery] = []
        self.findings: list[QueryFinding] = []
        self.plans: list[plan.QueryPlan] = []

    def lint(self, query: syntax.QueryDecl) -> None:
        kind: Literal["read", "mutation"] = "read" if isinstance(query.body, syntax.ReadBody) else "mutation"
        try:
            compiled = self._compile(query)
        except QueryError as error:
            self.findings.append(QueryFinding("error", error.rule, error.message, (query.name,)))
            self.queries.append(LintedQuery(query.name, kind, error))
            return
        advice = list(_advice(query, compiled, self._catalog))
        warnings = tuple(remark.message for remark in advice if remark.severity == "warning")
        self.plans.append(compiled)
        self.findings += advice
        columns = compiled.columns if isinstance(compiled, plan.ReadPlan) else ()
        writes = compiled.writes if isinstance(compiled, plan.MutationPlan) else ()
        self.queries.append(LintedQuery(query.name, kind, None, warnings, columns, compiled.reads, writes))

    def _compile(self, query: syntax.QueryDecl) -> plan.QueryPlan:
        if query.name in self._names:
            raise refusal("T27", f"two queries are called '{query.name}'", query.at, self._text, self._file)
        self._names.add(query.name)
        return check_query(query, self._text, self._catalog, self._file)


# ---------------------------------------------------------------- advice


def _advice(query: syntax.QueryDecl, compiled: plan.QueryPlan, catalog: Catalog) -> Iterator[QueryFinding]:
    names = (query.name,)
    if isinstance(compiled, plan.MutationPlan) and not compiled.parameters:
        yield QueryFinding("warning", "L202", "the mutation takes no parameters", names)
    used = {node.name for node, _ in syntax.walk(query.body) if isinstance(node, syntax.Variable)}
    for parameter in compiled.parameters:
        if parameter.name not in used:
            yield QueryFinding("warning", "L203", f"parameter ${parameter.name} is never used", names)
    for node, _ in syntax.walk(query.body):
        if isinstance(node, syntax.Comparison) and _has_null(node):
            place = f"line {node.at.line}"
            yield QueryFinding("warning", "L207", f"{place}: '{node.op}' with null is never true; use `is null`", names)
    for statement in compiled.statements if isinstance(compiled, plan.MutationPlan) else ():
        if isinstance(statement, plan.InsertMatches):
            yield from _connection_advice(statement.rows.pattern, names)
    if isinstance(query.body, syntax.ReadBody) and isinstance(compiled, plan.ReadPlan):
        for body, part in _parts(query.body, compiled):
            yield from _read_advice(body, part, names)
            yield from _count_advice(part, catalog, names)
            yield from _never_advice(part.pattern, names)
            yield from _search_advice(query.name, body, part, catalog)


def _parts(body: syntax.ReadBody, compiled: plan.ReadPlan) -> Iterator[tuple[syntax.ReadBody, plan.ReadPlan]]:
    """The parts of a read and of the stages before it, each as it is written and as it is planned."""
    parts = (compiled,) if compiled.union is None else compiled.union.parts
    if body.before is not None and (start_rows := parts[0].pattern.start_rows) is not None:
        yield from _parts(body.before, start_rows.read)
    yield from zip((replace(body, before=None), *body.others), parts, strict=True)


def _has_null(comparison: syntax.Comparison) -> bool:
    return any(isinstance(side, syntax.Literal) and side.kind == "null" for side in (comparison.left, comparison.right))


def _read_advice(body: syntax.ReadBody, compiled: plan.ReadPlan, names: tuple[str, ...]) -> Iterator[QueryFinding]:
    mentions = _mentions(body)
    start_rows = () if compiled.pattern.start_rows is None else compiled.pattern.start_rows.entities
    for binding in (binding for part in (compiled.pattern, *compiled.pattern.optionals) for binding in part.bindings):
        if mentions.get(binding.variable) == 1 and binding.variable not in start_rows:
            yield QueryFinding(
                "info", "L204", f"nothing refers to ${binding.variable}; write $_ if that is meant", names
            )
    yield from _connection_advice(compiled.pattern, names)
    if (body.limit is not None or body.offset is not None) and not body.order:
        yield QueryFinding(
            "info", "L206", "limit without order: the rows that remain are those with the smallest ids", names
        )


def _connection_advice(pattern: plan.Pattern, names: tuple[str, ...]) -> Iterator[QueryFinding]:
    parts = _components(pattern)
    if parts > 1:
        yield QueryFinding("warning", "L205", f"the pattern has {parts} parts that are not connected", names)


def _count_advice(compiled: plan.ReadPlan, catalog: Catalog, names: tuple[str, ...]) -> Iterator[QueryFinding]:
    expressions = [projection.expression for projection in compiled.projections]
    counted = [
        hop
        for expression in expressions
        for inner in plan.walk(expression)
        if isinstance(inner, plan.Aggregate) and inner.function == "count" and isinstance(inner.operand, plan.EntityRef)
        for pattern in (compiled.pattern, *compiled.pattern.optionals)
        for hop in pattern.expansions
        if inner.operand.variable in (hop.source, hop.target)
    ]
    inside = [*expressions, *compiled.pattern.filters]
    blocks = [inner for expression in inside for inner in plan.walk(expression) if isinstance(inner, plan.CountOf)]
    counted += [hop for block in blocks for hop in block.block.expansions]
    for edges in dict.fromkeys(hop.edges for hop in counted if hop.edge_variable is None):
        rules = [rule for rule in catalog.edges[edges[0]].constraints if rule.kind in ("key", "unique")]
        if len(edges) > 1 or not any({*rule.fields} <= {"src", "dst"} for rule in rules):
            word = "|".join(edge[0].lower() + edge[1:] for edge in edges)
            message = (
                f"several {' or '.join(edges)} edges between two nodes count once; "
                f"bind the edge ($e:{word}) to count edges"
            )
            yield QueryFinding("info", "L209", message, names, "|".join(edges))


def _never_advice(pattern: plan.Pattern, names: tuple[str, ...]) -> Iterator[QueryFinding]:
    blocks = [
        inner.block
        for condition in pattern.filters
        for inner in plan.walk(condition)
        if isinstance(inner, plan.Exists | plan.CountOf)
    ]
    for inside in (*pattern.optionals, *blocks):
        yield from _never_advice(inside, names)
    for what in impossible(pattern.filters):
        yield QueryFinding("warning", "L210", f"{what} can never hold", names)


def _mentions(body: syntax.ReadBody) -> dict[str, int]:
    counts: dict[str, int] = {}

    def mention(name: str | None) -> None:
        if name is not None:
            counts[name] = counts.get(name, 0) + 1

    for node, _ in syntax.walk(body):
        if isinstance(node, syntax.Variable):
            mention(node.name)
        elif isinstance(node, syntax.PropertyAccess):
            mention(node.variable)
        elif isinstance(node, syntax.BindingClause):
            mention(node.variable)
            for _one in node.properties:
                mention(node.variable)
        elif isinstance(node, syntax.TraversalClause):
            for name in (node.source, node.target, node.edge_variable):
                mention(name)
    return counts


def _components(pattern: plan.Pattern) -> int:
    """How many parts a pattern has that no expansion and no comparison of two variables connects."""
    parent = {binding.variable: binding.variable for binding in pattern.bindings}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    def join(names: list[str]) -> None:
        for name in names[1:]:
            parent[root(name)] = root(names[0])

    owner: dict[str, str] = {}
    if pattern.start_rows is not None:
        join(list(pattern.start_rows.entities))
    for expansion in pattern.expansions:
        join([expansion.source, expansion.target])
        if expansion.edge_variable is not None:
            owner[expansion.edge_variable] = expansion.source
    for condition in pattern.filters:
        variables = [owner.get(name, name) for name in _variables(condition)]
        join([name for name in variables if name in parent])
    return len({root(name) for name in parent})


def _variables(expression: plan.Expression) -> list[str]:
    names: list[str] = []
    for inner in plan.walk(expression):
        if isinstance(inner, plan.PropertyRef | plan.EntityRef):
            names.append(inner.variable)
        elif isinstance(inner, plan.Exists | plan.CountOf):
            names += inner.block.outer
    return names


def _search_advice(
    query_name: str, body: syntax.ReadBody, compiled: plan.ReadPlan, catalog: Catalog
) -> Iterator[QueryFinding]:
    types = {binding.variable: binding.types for binding in compiled.pattern.bindings}
    reported: set[tuple[str, str]] = set()
    for node, _ in syntax.walk(body):
        if not isinstance(node, syntax.Call) or not isinstance(node.arguments[0], syntax.PropertyAccess):
            continue
        access = node.arguments[0]
        for type_name in types.get(access.variable, ()):
            indexed = _indexed(catalog.nodes[type_name])
            if access.name not in indexed and (type_name, access.name) not in reported:
                reported.add((type_name, access.name))
                message = f"{node.function} on {type_name}.{access.name}, which has no @index, reads every row"
                yield QueryFinding("warning", "L208", message, (query_name,), type_name, access.name)


def _indexed(node: NodeType) -> set[str]:
    declared = [*node.constraints_of("index"), *node.constraints_of("key")]
    return {name for constraint in declared for name in constraint.fields}


def _never_updated(plans: list[plan.QueryPlan], catalog: Catalog) -> Iterator[QueryFinding]:
    updates: dict[str, dict[str, set[str]]] = {}
    for compiled in plans:
        if isinstance(compiled, plan.MutationPlan):
            for statement in compiled.statements:
                if isinstance(statement, plan.UpdateNodes):
                    by_query = updates.setdefault(statement.type_name, {})
                    by_query.setdefault(compiled.name, set()).update(name for name, _ in statement.values)
    for type_name, by_query in sorted(updates.items()):
        node = catalog.nodes[type_name]
        assigned = {name for names in by_query.values() for name in names}
        for name, property_ in node.properties.items():
            if property_.type.nullable and name not in assigned and name not in node.key and property_.embed is None:
                message = f"{type_name}.{name} is nullable and no update sets it"
                yield QueryFinding("warning", "L201", message, tuple(sorted(by_query)), type_name, name)
