"""Syntax tree of `.gq` -> canonical text. Parsing the printed text gives the same tree again."""

from __future__ import annotations

from omnigraph.language.query import syntax

# How tightly each kind of expression binds; an operand that binds less tightly than required gets parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(8)

_ESCAPED = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def format_queries(file: syntax.QueryFile) -> str:
    """The canonical text of a file."""
    return "\n".join(_query(query) for query in file.queries)


def quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPED)}"'


def column_name(expression: syntax.Expr) -> str:
    """The name of an unaliased result column: the expression's own text without `$`; `literal` for a literal."""
    if isinstance(expression, syntax.Literal | syntax.ListLiteral | syntax.RecordLiteral):
        return "literal"
    if isinstance(expression, syntax.Call):
        return expression.function
    return format_expression(expression, sigil="")


def format_expression(expression: syntax.Expr, sigil: str = "$") -> str:
    return _ExpressionText(sigil).text(expression)


def _query(query: syntax.QueryDecl) -> str:
    head = f"query {query.name}({', '.join(map(_parameter, query.parameters))})"
    for word, text in (("@description", query.description), ("@instruction", query.instruction)):
        if text is not None:
            head += f" {word}({quoted(text)})"
    body = _read(query.body) if isinstance(query.body, syntax.ReadBody) else _mutation(query.body)
    return f"{head} {{\n{body}}}\n"


def _parameter(parameter: syntax.ParameterDecl) -> str:
    default = "" if parameter.default is None else f" = {format_expression(parameter.default)}"
    return f"${parameter.name}: {format_type(parameter.type)}{default}"


def format_type(type_: syntax.TypeExpr) -> str:
    core = type_.name if type_.dimension is None else f"{type_.name}({type_.dimension})"
    return (f"[{core}]" if type_.is_list else core) + ("?" if type_.nullable else "")


def _read(body: syntax.ReadBody, word: str = "return") -> str:
    expressions = _ExpressionText("$")
    lines = _part(body, expressions, word)
    for other in body.others:
        lines += ["  union all" if body.keeps_all else "  union", *_part(other, expressions, word)]
    if body.order:
        keys = [
            expressions.text(key.expression) + ("" if key.direction is None else f" {key.direction}")
            for key in body.order
        ]
        lines.append(f"  order {{ {', '.join(keys)} }}")
    for cut, count in (("limit", body.limit), ("offset", body.offset)):
        if count is not None:
            lines.append(f"  {cut} {expressions.text(count)}")
    before = "" if body.before is None else _read(body.before, "with")
    return before + "\n".join(lines) + "\n"


def _part(body: syntax.ReadBody, expressions: _ExpressionText, word: str) -> list[str]:
    lines = ["  match {", *expressions.clauses(body.clauses, "    "), "  }"] if body.clauses else []
    lines.append(f"  {word} distinct {{" if body.distinct else f"  {word} {{")
    for item in body.items:
        alias = "" if item.alias is None else f" as {item.alias}"
        lines.append(f"    {expressions.text(item.expression)}{alias},")
    lines.append("  }")
    if body.having:
        lines.append(f"  having {{ {', '.join(map(expressions.text, body.having))} }}")
    return lines


def _mutation(body: syntax.MutationBody) -> str:
    return "".join(f"  {_statement(statement)}\n" for statement in body.statements)


def _statement(statement: syntax.StatementSyntax) -> str:
    expressions = _ExpressionText("$")
    match statement:
        case syntax.InsertStatement():
            text = f"{statement.verb} {statement.type_name} {expressions.assignments(statement.assignments)}"
            if not statement.clauses:
                return text
            return "\n".join([f"{text} match {{", *expressions.clauses(statement.clauses, "    "), "  }"])
        case syntax.UpdateStatement():
            assigned = expressions.assignments(statement.assignments)
            return f"update {statement.type_name} set {assigned} where {expressions.text(statement.where)}"
        case syntax.DeleteStatement():
            return f"delete {statement.type_name} where {expressions.text(statement.where)}"


class _ExpressionText:
    """Prints expressions and clauses, with `sigil` before variables. Clauses follow each other without a comma. With
    `beside_clauses` a bare name is put in parentheses, so that it cannot become a call together with the parentheses that start
    the next clause.
    """

    def __init__(self, sigil: str, *, beside_clauses: bool = False) -> None:
        self._sigil = sigil
        self._beside_clauses = beside_clauses

    def clauses(self, clauses: tuple[syntax.Clause, ...], indent: str) -> list[str]:
        return [indent + self.clause(clause) for clause in clauses]

    def clause(self, clause: syntax.Clause) -> str:
        match clause:
            case syntax.BindingClause():
                shorthand = f" {self.assignments(clause.properties)}" if clause.properties else ""
                return f"{self._sigil}{clause.variable}: {clause.type_name}{shorthand}"
            case syntax.TraversalClause():
                return self._traversal(clause)
            case syntax.PathClause():
                return self._path(clause)
            case syntax.OptionalClause():
                return f"optional {{ {' '.join(self.clauses(clause.clauses, ''))} }}"
            case syntax.UnnestClause():
                return f"unnest {self._inside(clause.items, _SUM)} as {self._sigil}{clause.variable}"
            case syntax.FilterClause():
                text = _ExpressionText(self._sigil, beside_clauses=True).text(clause.condition)
                # Beside another clause, a leading minus would be taken as subtraction and a bare variable as a traversal.
                if text.startswith("-") or isinstance(clause.condition, syntax.Variable):
                    return f"({text})"
                return text

    def _path(self, clause: syntax.PathClause) -> str:
        name = "" if clause.variable is None else f" {self._sigil}{clause.variable}"
        ends = f"from {self._sigil}{clause.traversal.source} to {self._sigil}{clause.traversal.target}"
        weight = "" if clause.weight is None else f" by {clause.weight}"
        number = "paths" if clause.is_every else "path"
        return (
            f"shortest {number}{name} {ends} along {self._edge(clause.traversal)}{weight}{self._each(clause.traversal)}"
        )

    def _traversal(self, clause: syntax.TraversalClause) -> str:
        return f"{self._sigil}{clause.source} {self._edge(clause)} {self._sigil}{clause.target}{self._each(clause)}"

    def _each(self, clause: syntax.TraversalClause) -> str:
        if (per_hop := clause.per_hop) is None:
            return ""
        via = "" if per_hop.node is None else f" via {self._sigil}{per_hop.node}"
        after = "" if per_hop.before is None else f" after {self._sigil}{per_hop.before}"
        condition = _ExpressionText(self._sigil, beside_clauses=True).text(per_hop.condition)
        return f"{via}{after} where {condition}"

    def _edge(self, clause: syntax.TraversalClause) -> str:
        edge = f"<{clause.words}>" if clause.undirected else clause.words
        if clause.edge_variable is not None:
            edge = f"{self._sigil}{clause.edge_variable}:{edge}"
        if clause.hops is not None:
            maximum = "" if clause.hops.maximum is None else clause.hops.maximum
            edge += f"{{{clause.hops.minimum},{maximum}}}"
        return edge

    def assignments(self, assignments: tuple[syntax.Assignment, ...]) -> str:
        if not assignments:
            return "{ }"
        return (
            "{ " + ", ".join(f"{assignment.name}: {self.text(assignment.value)}" for assignment in assignments) + " }"
        )

    def text(self, expression: syntax.Expr) -> str:
        return self._print(expression)[0]

    def _inside(self, expression: syntax.Expr, at_least: int) -> str:
        text, strength = self._print(expression)
        return text if strength >= at_least else f"({text})"

    def _print(self, expression: syntax.Expr) -> tuple[str, int]:
        match expression:
            case syntax.Literal():
                return self._literal(expression), _PRIMARY
            case syntax.ListLiteral():
                return f"[{', '.join(self.text(item) for item in expression.items)}]", _PRIMARY
            case syntax.RecordLiteral():
                fields = (f"{value.name}: {self.text(value.value)}" for value in expression.fields)
                return f"{{{', '.join(fields)}}}", _PRIMARY
            case syntax.Variable():
                return f"{self._sigil}{expression.name}", _PRIMARY
            case syntax.PropertyAccess():
                return f"{self._sigil}{expression.variable}.{expression.name}", _PRIMARY
            case syntax.Word():
                return f"({expression.name})" if self._beside_clauses else expression.name, _PRIMARY
            case syntax.NowCall():
                return "now()", _PRIMARY
            case syntax.Call():
                return f"{expression.function}({', '.join(self.text(a) for a in expression.arguments)})", _PRIMARY
            case syntax.FunctionCall():
                return f"{expression.function}({', '.join(self.text(a) for a in expression.arguments)})", _PRIMARY
            case syntax.Duration():
                return f"{expression.count} {expression.unit}{'' if expression.count == 1 else 's'}", _PRIMARY
            case syntax.CaseExpression():
                return self._case(expression), _PRIMARY
            case syntax.Quantifier():
                items, condition = self._inside(expression.items, _SUM), self.text(expression.condition)
                return f"{expression.kind}({self._sigil}{expression.variable} in {items} where {condition})", _PRIMARY
            case syntax.AggregateCall():
                return self._aggregate(expression), _PRIMARY
            case syntax.Block():
                return f"{expression.kind} {{ {' '.join(self.clauses(expression.clauses, ''))} }}", _PRIMARY
            case _:
                return self._print_operator(expression)

    def _aggregate(self, expression: syntax.AggregateCall) -> str:
        operand = ("distinct " if expression.distinct else "") + self.text(expression.operand)
        if expression.argument is not None:
            between = ", " if expression.function == "percentile" else " by "
            operand += between + self.text(expression.argument)
        return f"{expression.function}({operand})"

    def _case(self, expression: syntax.CaseExpression) -> str:
        parts = [f"when {self.text(branch.condition)} then {self.text(branch.value)}" for branch in expression.branches]
        if expression.otherwise is not None:
            parts.append(f"else {self.text(expression.otherwise)}")
        return f"case {' '.join(parts)} end"

    def _print_operator(
        self,
        expression: syntax.Minus
        | syntax.Not
        | syntax.Logical
        | syntax.Arithmetic
        | syntax.Comparison
        | syntax.NullTest,
    ) -> tuple[str, int]:
        match expression:
            case syntax.Minus():
                return f"-{self._inside(expression.operand, _UNARY)}", _UNARY
            case syntax.Not():
                return f"not {self._inside(expression.operand, _NOT)}", _NOT
            case syntax.Logical():
                own = _AND if expression.op == "and" else _OR
                parts = (self._inside(operand, own + 1) for operand in expression.operands)
                return f" {expression.op} ".join(parts), own
            case syntax.Arithmetic():
                own = _SUM if expression.op in "+-" else _PRODUCT
                left, right = self._inside(expression.left, own), self._inside(expression.right, own + 1)
                return f"{left} {expression.op} {right}", own
            case syntax.Comparison():
                return self._comparison(expression), _COMPARISON
            case syntax.NullTest():
                test = "is not null" if expression.negated else "is null"
                return f"{self._inside(expression.operand, _SUM)} {test}", _COMPARISON

    def _comparison(self, expression: syntax.Comparison) -> str:
        left, right = self._inside(expression.left, _SUM), self._inside(expression.right, _SUM)
        if expression.op in ("contains", "starts_with", "ends_with") and isinstance(expression.left, syntax.Variable):
            left = f"({left})"  # a bare variable before a word starts a traversal
        return f"{left} {expression.op} {right}"

    def _literal(self, literal: syntax.Literal) -> str:
        if literal.kind in ("date", "datetime"):
            return f"{literal.kind}({quoted(str(literal.value))})"
        if literal.value is None:
            return "null"
        if isinstance(literal.value, bool):
            return "true" if literal.value else "false"
        return quoted(literal.value) if isinstance(literal.value, str) else repr(literal.value)
