"""A mutation -> MutationPlan: statements in order, each with its values typed and its condition checked. The queries of a text as
plans, and their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from omnigraph._internal.caches import LruCache
from omnigraph.errors import ParameterError, QueryError, UsageError
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, Property
from omnigraph.language.parsing.cursor import Position
from omnigraph.language.query import plan, syntax
from omnigraph.language.query.expressions import ExpressionChecker, suggestion
from omnigraph.language.query.parser import parse_queries, refusal
from omnigraph.language.query.plan import DeclaredParameter, Parameter, QueryPlan, ReadPlan
from omnigraph.language.query.reads import check_matched, check_read, with_columns
from omnigraph.language.query.scope import ENDPOINTS, ID, Checking, Scope, type_of
from omnigraph.values.arrow import OUTSIDE_NAMES
from omnigraph.values.json_values import Unfit, typed_value
from omnigraph.values.literals import Constant
from omnigraph.values.types import INTEGER_RANGES, PROPERTY_SCALARS, PropertyType, Scalar

_END_TYPES = ("from_type", "to_type")


def check_mutation(
    query: syntax.QueryDecl, body: syntax.MutationBody, checking: Checking, declared: tuple[plan.DeclaredParameter, ...]
) -> plan.MutationPlan:
    checker = _MutationChecker(query.name, checking, declared)
    statements = tuple(
        checker.statement(single) for statement in body.statements for single in checker.of_members(statement)
    )
    return plan.MutationPlan(
        name=query.name,
        parameters=declared,
        statements=statements,
        reads=tuple(sorted(checking.reads)),
        writes=tuple(sorted(checker.writes)),
        description=query.description,
        instruction=query.instruction,
    )


class _MutationChecker:
    def __init__(self, name: str, checking: Checking, declared: tuple[plan.DeclaredParameter, ...]) -> None:
        self._name = name
        self._checking = checking
        self._declared = declared
        self._scope = Scope(checking)
        self.writes: set[str] = set()

    def of_members(self, statement: syntax.StatementSyntax) -> Iterable[syntax.StatementSyntax]:
        """A delete from an edge between interfaces, as one from each of its members."""
        catalog, name = self._checking.catalog, statement.type_name
        if not isinstance(statement, syntax.DeleteStatement) or name not in catalog.families:
            return (statement,)
        words = {node.name for node, _ in syntax.walk(statement.where) if isinstance(node, syntax.Word)}
        if name in catalog.nodes and not words & {*ENDPOINTS}:
            return (statement,)
        return (replace(statement, type_name=member.name) for member in catalog.families[name])

    def statement(self, statement: syntax.StatementSyntax) -> plan.Statement:
        match statement:
            case syntax.InsertStatement():
                return self._insert_matches(statement) if statement.clauses else self._insert(statement, self._scope)
            case syntax.UpdateStatement():
                return self._update(statement)
            case syntax.DeleteStatement():
                return self._delete(statement)

    def _entity(self, name: str, at: Position, *, prefer_edge: bool) -> EntityType:
        """The type of an insert. A node type and an edge type may share a name; then `from` and `to` decide which is meant."""
        catalog = self._checking.catalog
        node, edge = catalog.nodes.get(name), catalog.edges.get(name)
        entity = (edge or node) if prefer_edge else (node or edge)
        if entity is None:
            what = "is an interface, not a type" if name in catalog.interfaces else "is not a type of this graph"
            known = [*catalog.nodes, *catalog.declared_edges]
            if name in catalog.families:
                members = ", ".join(member.name for member in catalog.families[name])
                what, known = f"is an edge between interfaces, of the types {members}", []
            raise self._checking.refuse("T10", f"{name} {what}", at, suggestion(name, known))
        self._checking.reads.add(entity.table_key)
        self.writes.add(entity.table_key)
        return entity

    # ------------------------------------------------------------ insert

    def _insert_matches(self, statement: syntax.InsertStatement) -> plan.InsertMatches:
        """Values that depend on a matched row become columns of a read, from which the insert takes them."""
        scope = Scope(self._checking)
        rows = check_matched(self._name, statement.clauses, scope, self._declared)
        if not rows.pattern.bindings:
            raise self._checking.refuse("T9", "the `match` of an insert binds no node", statement.at)
        columns: dict[str, plan.Expression] = {}

        def taken(name: str, value: plan.Expression) -> plan.Expression:
            if isinstance(value, plan.Constant | plan.Parameter | plan.Now):
                return value
            type_ = type_of(value)
            if type_.scalar is Scalar.BLOB:
                hint = "read the Blob with g.entity(type, id), and insert it from there"
                raise self._checking.refuse("T24", f"'{name}' is a Blob and cannot be matched", statement.at, hint)
            columns[name] = value
            return plan.PropertyRef("", name, type_)

        insert = self._insert(statement, scope)
        insert = replace(insert, values=tuple((name, taken(name, value)) for name, value in insert.values))
        if isinstance(insert, plan.InsertEdge):
            insert = replace(insert, source=taken("from", insert.source), target=taken("to", insert.target))
        first = plan.PropertyRef(rows.pattern.bindings[0].variable, "id", ID)
        return plan.InsertMatches(insert, with_columns(rows, columns or {"id": first}))

    def _insert(self, statement: syntax.InsertStatement, scope: Scope) -> plan.InsertNode | plan.InsertEdge:
        names = {assignment.name for assignment in statement.assignments}
        if statement.type_name in self._checking.catalog.families and not (
            statement.type_name in self._checking.catalog.nodes and not names & {*ENDPOINTS}
        ):
            statement = self._of_member(statement, scope)
        entity = self._entity(statement.type_name, statement.type_at, prefer_edge=bool(names & {*ENDPOINTS}))
        self._check_assigned(statement.assignments, statement.at)
        strict = self._is_strict(statement, entity)
        values = self._assigned(statement.assignments, entity, ExpressionChecker(scope, "insert"))
        if isinstance(entity, EdgeType):
            for end in ENDPOINTS:
                if end not in values:
                    hint = f"`{end}` is the id of a {entity.source if end == 'from' else entity.target}"
                    raise self._checking.refuse(
                        "T12", f"{statement.verb} {entity.name} needs '{end}'", statement.at, hint
                    )
            self._checking.reads.update((f"node:{entity.source}", f"node:{entity.target}"))
            source, target = values.pop("from"), values.pop("to")
            return plan.InsertEdge(entity.name, source, target, self._complete(values, entity, statement), strict)
        return plan.InsertNode(entity.name, self._complete(values, entity, statement), strict)

    def _of_member(self, statement: syntax.InsertStatement, scope: Scope) -> syntax.InsertStatement:
        """An insert of an edge between interfaces, as one of the member that joins the types of its ends: as `from_type` and `to_type`
        say, or as the types of the variables whose ids are given."""
        types: dict[str, str] = {}
        for assignment in statement.assignments:
            value = assignment.value
            if assignment.name in _END_TYPES:
                if not isinstance(value, syntax.Literal) or not isinstance(value.value, str):
                    message = f"'{assignment.name}' is the name of a node type, as a text"
                    raise self._checking.refuse("T11", message, assignment.at)
                types[assignment.name] = value.value
            elif assignment.name in ENDPOINTS and isinstance(value, syntax.PropertyAccess) and value.name == "id":
                node = scope.node(value.variable)
                if node is not None and len(node.types) == 1:
                    types.setdefault(f"{assignment.name}_type", node.types[0])
        try:
            member = self._checking.catalog.member(statement.type_name, types.get("from_type"), types.get("to_type"))
        except UsageError as error:
            raise self._checking.refuse("T11", str(error), statement.type_at, error.hint) from None
        kept = tuple(change for change in statement.assignments if change.name not in _END_TYPES)
        return replace(statement, type_name=member.name, assignments=kept)

    def _is_strict(self, statement: syntax.InsertStatement, entity: EntityType) -> bool:
        """Whether the statement refuses an id that exists."""
        has_id = any(assignment.name == "id" for assignment in statement.assignments)
        if statement.verb == "upsert" and not entity.key and not has_id:
            message = f"{entity.name} has no @key, so nothing says which one to replace"
            raise self._checking.refuse("T49", message, statement.type_at, "give its `id`, or write `create`")
        return statement.verb == "create" or (statement.verb == "insert" and not entity.key)

    def _complete(
        self, values: dict[str, plan.Expression], entity: EntityType, statement: syntax.InsertStatement
    ) -> tuple[tuple[str, plan.Expression], ...]:
        """The values with defaults filled in. Refuses if a required property is missing."""
        for name, property_ in entity.properties.items():
            if name in values:
                continue
            if property_.default is not None:
                values[name] = plan.Constant(property_.default, property_.type)
            elif property_.is_required and not _embedded(property_, values):
                message = f"{statement.verb} {entity.name} needs '{name}': {property_.type}"
                raise self._checking.refuse("T12", message, statement.at)
        return tuple(values.items())

    # ------------------------------------------------------------ update and delete

    def _update(self, statement: syntax.UpdateStatement) -> plan.UpdateNodes:
        entity = self._entity(statement.type_name, statement.type_at, prefer_edge=False)
        if isinstance(entity, EdgeType):
            hint = "delete the edge and insert it again; one mutation can do both"
            raise self._checking.refuse(
                "T16", f"{entity.name} is an edge and cannot be updated", statement.type_at, hint
            )
        self._check_assigned(statement.assignments, statement.at)
        for assignment in statement.assignments:
            if assignment.name in entity.key:
                hint = "delete the node and insert it again; one mutation can do both"
                message = f"'{assignment.name}' is part of the key of {entity.name} and cannot be updated"
                raise self._checking.refuse("T39", message, assignment.at, hint)
            if assignment.name == "id":
                raise self._checking.refuse("T11", "the id of a node cannot be updated", assignment.at)
        values = self._assigned(statement.assignments, entity, ExpressionChecker(self._scope, "where", entity=entity))
        return plan.UpdateNodes(entity.name, tuple(values.items()), self._where(statement.where, entity))

    def _delete(self, statement: syntax.DeleteStatement) -> plan.DeleteNodes | plan.DeleteEdges:
        words = {node.name for node, _ in syntax.walk(statement.where) if isinstance(node, syntax.Word)}
        entity = self._entity(statement.type_name, statement.type_at, prefer_edge=bool(words & {*ENDPOINTS}))
        where = self._where(statement.where, entity)
        if isinstance(entity, EdgeType):
            return plan.DeleteEdges(entity.name, where)
        incident = [edge.table_key for edge in self._checking.catalog.edges_of(entity.name)]
        self._checking.reads.update(incident)
        self.writes.update(incident)
        return plan.DeleteNodes(entity.name, where)

    def _where(self, where: syntax.Expr, entity: EntityType) -> plan.Expression:
        return ExpressionChecker(Scope(self._checking), "where", entity=entity).condition(where)

    # ------------------------------------------------------------ assignments

    def _check_assigned(self, assignments: tuple[syntax.Assignment, ...], at: Position) -> None:
        if not assignments:
            raise self._checking.refuse("T10", "nothing is assigned", at)
        seen: set[str] = set()
        for assignment in assignments:
            if assignment.name in seen:
                raise self._checking.refuse("T13", f"'{assignment.name}' is assigned twice", assignment.at)
            seen.add(assignment.name)

    def _assigned(
        self, assignments: tuple[syntax.Assignment, ...], entity: EntityType, checker: ExpressionChecker
    ) -> dict[str, plan.Expression]:
        """`checker` knows the row, if there is one: that of an update, or of an insert's `match`."""
        targets = self._targets(entity)
        values: dict[str, plan.Expression] = {}
        for assignment in assignments:
            if assignment.name == "id" and entity.key:
                members = ", ".join(OUTSIDE_NAMES.get(name, name) for name in entity.key)
                message = f"the id of a {entity.name} follows from its key ({members})"
                raise self._checking.refuse("T40", message, assignment.at)
            if assignment.name not in targets:
                hint = suggestion(assignment.name, list(targets))
                raise self._checking.refuse(
                    "T11", f"{entity.name} has no property '{assignment.name}'", assignment.at, hint
                )
            key = self._integer_key(entity, assignment.name)
            if key is not None and type_of(checker.check(assignment.value)).scalar.is_integer:
                # The id of a node with such a key is its digits.
                number = checker.stored(assignment.value, key, where=f"'{assignment.name}'")
                values[assignment.name] = plan.FunctionCall("text", (number,), ID)
                continue
            values[assignment.name] = checker.stored(
                assignment.value, targets[assignment.name], where=f"'{assignment.name}'"
            )
        return values

    def _integer_key(self, entity: EntityType, end: str) -> PropertyType | None:
        """The type of the key of the nodes at an end of an edge, if it is a whole number."""
        if not isinstance(entity, EdgeType) or end not in ENDPOINTS:
            return None
        node = self._checking.catalog.nodes[entity.source if end == "from" else entity.target]
        type_ = node.properties[node.key[0]].type if len(node.key) == 1 else ID
        return type_ if type_.scalar.is_integer else None

    def _targets(self, entity: EntityType) -> Mapping[str, PropertyType]:
        targets = {name: property_.type for name, property_ in entity.properties.items()}
        targets["id"] = ID
        if isinstance(entity, EdgeType):
            targets |= dict.fromkeys(ENDPOINTS, ID)
        return targets


def _embedded(property_: Property, values: Mapping[str, plan.Expression]) -> bool:
    """A vector that is computed from a text need not be given if the text is."""
    return property_.type.scalar is Scalar.VECTOR and property_.embed is not None and property_.embed.source in values


# Text of `.gq` -> typed plans, cached by text and schema.

_REMEMBERED = 256

_files: LruCache[syntax.QueryFile] = LruCache(_REMEMBERED)
_plans: LruCache[QueryPlan] = LruCache(_REMEMBERED)


def compile_queries(text: str, catalog: Catalog, file: str | None = None) -> dict[str, QueryPlan]:
    """Every query of a file, by name. Raises QueryError for the first mistake."""
    queries = _parsed(text, file).queries
    return {query.name: _compiled(query, text, catalog, file) for query in queries}


def compile_query(text: str, catalog: Catalog, name: str | None = None, file: str | None = None) -> QueryPlan:
    """One query of a file; the name may be left out if there is only one. Other queries are parsed, not checked."""
    return _compiled(_chosen(text, name, file), text, catalog, file)


def query_names(text: str, file: str | None = None) -> list[str]:
    """The names of the queries of a text, in order. Raises QueryError if the text does not parse."""
    return [query.name for query in _parsed(text, file).queries]


def parameter_types(text: str, name: str | None = None, file: str | None = None) -> dict[str, PropertyType]:
    """The types of the parameters that one query of a text declares; the query itself is not checked."""
    query = _chosen(text, name, file)
    return {parameter.name: _parameter(parameter, text, file).type for parameter in query.parameters}


def _chosen(text: str, name: str | None, file: str | None) -> syntax.QueryDecl:
    queries = {query.name: query for query in _parsed(text, file).queries}
    if name is None and len(queries) == 1:
        (name,) = queries
    known = ", ".join(queries) or None
    if name is None:
        if not queries:
            raise QueryError("query file contains no query", rule="Q002", line=1, column=1, file=file)
        message = "query file contains multiple queries; pass --name"
        raise QueryError(message, rule="Q001", line=1, column=1, file=file, hint=f"queries: {known}")
    if name not in queries:
        hint = f"queries: {known}" if known else None
        raise QueryError(f"query '{name}' not found", rule="Q002", line=1, column=1, file=file, hint=hint)
    return queries[name]


def _parsed(text: str, file: str | None) -> syntax.QueryFile:
    def parse() -> syntax.QueryFile:
        parsed = parse_queries(text, file)
        seen: set[str] = set()
        for query in parsed.queries:
            if query.name in seen:
                raise refusal("T27", f"two queries are called '{query.name}'", query.at, text, file)
            seen.add(query.name)
        return parsed

    return _files.get(text, parse)


def _compiled(query: syntax.QueryDecl, text: str, catalog: Catalog, file: str | None) -> QueryPlan:
    return _plans.get((text, catalog.hash, query.name), lambda: check_query(query, text, catalog, file))


def check_query(query: syntax.QueryDecl, text: str, catalog: Catalog, file: str | None = None) -> QueryPlan:
    """Check one parsed query; `text` is the text it was parsed from, shown in errors. Not cached."""
    declared = tuple(_parameter(parameter, text, file) for parameter in query.parameters)
    parameters: dict[str, PropertyType] = {}
    for parameter, syntax_ in zip(declared, query.parameters, strict=True):
        if parameter.name in parameters:
            raise refusal("T28", f"parameter ${parameter.name} is declared twice", syntax_.at, text, file)
        parameters[parameter.name] = parameter.type
    checking = Checking(catalog, text, file, parameters)
    declared = tuple(map(partial(_with_default, checking), declared, query.parameters))
    if isinstance(query.body, syntax.ReadBody):
        return check_read(query, query.body, checking, declared)
    return check_mutation(query, query.body, checking, declared)


def _with_default(checking: Checking, declared: DeclaredParameter, written: syntax.ParameterDecl) -> DeclaredParameter:
    if written.default is None:
        return declared
    where = f"the default of ${declared.name}"
    for node, _ in syntax.walk(written.default):
        if not isinstance(node, syntax.Literal | syntax.ListLiteral):
            raise checking.refuse(
                "T7", f"{where} is not a literal", written.at, "defaults are literals and lists of them"
            )
    default = ExpressionChecker(Scope(checking), "where").stored(written.default, declared.type, where=where)
    assert isinstance(default, Constant), "the grammar allows literals only"
    return replace(declared, default=default)


def _parameter(declaration: syntax.ParameterDecl, text: str, file: str | None) -> DeclaredParameter:
    written = declaration.type
    known = {scalar.value: scalar for scalar in PROPERTY_SCALARS}
    scalar = known.get(written.name)
    if scalar is None:
        hint = f"known: {', '.join(sorted(known))}"
        raise refusal("T26", f"unknown parameter type {written.name}", written.at, text, file, hint)
    if (scalar is Scalar.VECTOR) != (written.dimension is not None) or written.dimension == 0:
        raise refusal("T26", "a vector is written Vector(n), and nothing else has a dimension", written.at, text, file)
    if written.is_list and scalar is Scalar.BLOB:
        raise refusal("T26", "a list of Blob is not supported", written.at, text, file)
    if declaration.name == "_":
        raise refusal("T26", "a parameter needs a name", declaration.at, text, file)
    return DeclaredParameter(
        declaration.name, PropertyType(scalar, written.nullable, written.is_list, (), written.dimension)
    )


# Parameters: converts JSON or Python values to values of columns, by the same rules as all other values.


def bind_parameters(declared: Iterable[DeclaredParameter], values: Mapping[str, object]) -> dict[str, object]:
    """One typed value per declared parameter. Raises ParameterError, which names the parameter.

    A parameter that is left out has its default, or null if it may be null; otherwise it is an error, and so is a name that is not
    declared.
    """
    parameters = {parameter.name: parameter for parameter in declared}
    for name in values:
        if name not in parameters:
            hint = suggestion(str(name), list(parameters)) or "the query takes no parameters"
            raise ParameterError(f"the query has no parameter ${name}", parameter=str(name), hint=hint)
    return {name: _value(parameter, values) for name, parameter in parameters.items()}


def check_cuts(plan: ReadPlan, bound: Mapping[str, object]) -> None:
    """Raises ParameterError if a parameter that is used as limit or offset is not a valid number of rows."""
    _, largest = INTEGER_RANGES[Scalar.I64]
    for word, cut in (("limit", plan.limit), ("offset", plan.offset)):
        if isinstance(cut, Parameter):
            number = bound[cut.name]
            assert isinstance(number, int)
            if not 0 <= number <= largest:
                raise ParameterError(f"${cut.name}: `{word}` is 0 to {largest}, got {number}", parameter=cut.name)


def _value(parameter: DeclaredParameter, values: Mapping[str, object]) -> object:
    name, type = parameter.name, parameter.type
    if name in values:
        value = values[name]
        if value is None and not type.nullable:
            raise ParameterError(f"${name}: null is not allowed", parameter=name, hint=f"declared as {type}")
    elif parameter.default is not None:
        value = parameter.default.value
    elif type.nullable:
        value = None
    else:
        raise ParameterError(f"${name}: a value is required", parameter=name, hint=f"declared as {type}")
    try:
        return typed_value(value, type)
    except Unfit as unfit:
        raise ParameterError(unfit.about(f"${name}"), parameter=name, hint=f"declared as {type}") from None
