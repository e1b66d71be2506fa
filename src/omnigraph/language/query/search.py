"""The search functions: conditions on text (search, match_text, fuzzy) and rankings (nearest, bm25, rrf)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from omnigraph.language.catalog import Language, Metric, Property
from omnigraph.language.parsing.cursor import Position
from omnigraph.language.query import plan, syntax
from omnigraph.values.json_values import Unfit
from omnigraph.values.literals import fitted
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    from omnigraph.language.query.expressions import ExpressionChecker

_RULES = {
    "search": "T19",
    "all_words": "T19",
    "phrase": "T19",
    "fuzzy": "T19",
    "match_text": "T20",
    "bm25": "T20",
    "nearest": "T15",
    "rrf": "T21",
}
_SHAPES = {
    "search": "search($variable.property, text)",
    "match_text": "match_text($variable.property, text)",
    "all_words": "all_words($variable.property, text)",
    "phrase": "phrase($variable.property, text)",
    "fuzzy": "fuzzy($variable.property, text, max_edits)",
    "bm25": "bm25($variable.property, text)",
    "nearest": "nearest($variable.property, vector or text)",
    "rrf": "rrf(ranking, ranking, k)",
}
_CONDITIONS: dict[str, plan.TextKind] = {
    "search": "search",
    "match_text": "match_text",
    "all_words": "all_words",
    "phrase": "phrase",
    "fuzzy": "fuzzy",
}
_DEFAULT_RRF_K = 60
MAX_EDITS = 2
T = TypeVar("T")
DEFAULT_EDITS = 2


def check_text_match(checker: ExpressionChecker, call: syntax.Call) -> plan.TextMatch:
    property_ = _text_property(checker, call)
    query = _text_query(checker, call)
    kind = _CONDITIONS[call.function]
    edits = _max_edits(checker, call) if kind == "fuzzy" else None
    return plan.TextMatch(kind, property_, query, edits, _language(checker, call, property_))


def check_ranking(checker: ExpressionChecker, call: syntax.Call) -> plan.Ranking:
    if call.function == "bm25":
        property_ = _text_property(checker, call)
        return plan.Bm25(property_, _text_query(checker, call), _language(checker, call, property_))
    if call.function == "nearest":
        return _nearest(checker, call)
    return _rrf(checker, call)


def _wrong(checker: ExpressionChecker, call: syntax.Call, message: str, at: Position) -> Exception:
    return checker.checking.refuse(_RULES[call.function], message, at, f"write {_SHAPES[call.function]}")


def _arity(checker: ExpressionChecker, call: syntax.Call, least: int, most: int) -> None:
    if not least <= len(call.arguments) <= most:
        counts = str(least) if least == most else f"{least} or {most}"
        count = len(call.arguments)
        raise _wrong(checker, call, f"{call.function} takes {counts} arguments, not {count}", call.at)


def _node_property(checker: ExpressionChecker, call: syntax.Call) -> plan.PropertyRef:
    written = call.arguments[0]
    if isinstance(written, syntax.PropertyAccess):
        checked = checker.check(written)
        if checker.scope.is_optional(written.variable):
            hint = f"move it into the block that binds ${written.variable}"
            message = f"${written.variable} is optional here, and {call.function} needs a node"
            raise checker.checking.refuse("T47", message, written.at, hint)
        if isinstance(checked, plan.PropertyRef) and checker.scope.edge(written.variable) is None:
            return checked
    raise _wrong(checker, call, f"the first argument of {call.function} is a property of a node", written.at)


def _text_property(checker: ExpressionChecker, call: syntax.Call) -> plan.PropertyRef:
    _arity(checker, call, 2, 3 if call.function == "fuzzy" else 2)
    property_ = _node_property(checker, call)
    type_ = property_.type
    if type_.scalar is not Scalar.STRING or type_.is_list or type_.enum or property_.column == "id":
        raise _wrong(checker, call, f"{call.function} needs a free String property, not {type_}", call.arguments[0].at)
    return property_


def _text_query(checker: ExpressionChecker, call: syntax.Call) -> plan.Expression:
    query = checker.check(call.arguments[1])
    if not isinstance(query, plan.Constant | plan.Parameter) or query.type.scalar is not Scalar.STRING:
        raise _wrong(checker, call, "the words to look for are a String or a parameter", call.arguments[1].at)
    if query.type.is_list or (isinstance(query, plan.Constant) and query.value is None):
        raise _wrong(checker, call, "the words to look for are a String or a parameter", call.arguments[1].at)
    return query


def _max_edits(checker: ExpressionChecker, call: syntax.Call) -> plan.Expression:
    if len(call.arguments) == 2:
        return plan.Constant(DEFAULT_EDITS, PropertyType(Scalar.I64))
    edits = checker.check(call.arguments[2])
    if isinstance(edits, plan.Constant) and type(edits.value) is int and 0 <= edits.value <= MAX_EDITS:
        return edits
    if isinstance(edits, plan.Parameter) and edits.type.scalar.is_integer and not edits.type.is_list:
        return edits
    raise _wrong(checker, call, "the number of edits is 0, 1 or 2, or an integer parameter", call.arguments[2].at)


def _language(checker: ExpressionChecker, call: syntax.Call, property_: plan.PropertyRef) -> Language:
    """The language of the property. Refuses if the types of an interface declare different ones: their words cannot be compared."""
    languages = _of_types(checker, property_, lambda declared: declared.language)
    if len(languages) > 1:
        named = ", ".join(f"{name} has {language}" for language, name in sorted(languages.items()))
        message = f"the types of ${property_.variable} differ in the language of @index: {named}"
        raise _wrong(checker, call, message, call.at)
    return next(iter(languages), "english")


def _of_types(checker: ExpressionChecker, property_: plan.PropertyRef, read: Callable[[Property], T]) -> dict[T, str]:
    """The declared values among the types of the property's variable, each with a type that declares it."""
    variable = checker.scope.node(property_.variable)
    assert variable is not None, "the property of a node was checked"
    nodes = checker.checking.catalog.nodes
    return {read(nodes[name].properties[property_.column]): name for name in variable.types}


def _nearest(checker: ExpressionChecker, call: syntax.Call) -> plan.Nearest:
    _arity(checker, call, 2, 2)
    property_ = _node_property(checker, call)
    if property_.type.scalar is not Scalar.VECTOR:
        message = f"nearest needs a Vector property, not {property_.type}"
        raise _wrong(checker, call, message, call.arguments[0].at)
    metric = _metric(checker, call, property_)
    query = checker.check(call.arguments[1])
    wanted = PropertyType(Scalar.VECTOR, dimension=property_.type.dimension)
    if isinstance(query, plan.Constant) and query.type.is_list:
        try:
            return plan.Nearest(property_, fitted(query, wanted), metric)
        except Unfit as unfit:
            raise _wrong(checker, call, str(unfit), call.arguments[1].at) from None
    if isinstance(query, plan.Constant | plan.Parameter) and not query.type.is_list:
        if query.type.scalar is Scalar.STRING and not (isinstance(query, plan.Constant) and query.value is None):
            return plan.Nearest(property_, _embedded(checker, call, property_, query), metric)
        if query.type.dimension == wanted.dimension:
            return plan.Nearest(property_, query, metric)
        if query.type.dimension is not None:
            message = f"{property_.type} is compared with {query.type}: the dimensions differ"
            raise _wrong(checker, call, message, call.arguments[1].at)
    raise _wrong(checker, call, f"nearest searches for {wanted}, a list of numbers or a text", call.arguments[1].at)


def _embedded(
    checker: ExpressionChecker,
    call: syntax.Call,
    property_: plan.PropertyRef,
    text: plan.Constant | plan.Parameter,
) -> plan.Parameter:
    """The vector of a text, as a parameter that is filled in before the query is run."""
    models: dict[str | None, str] = {}
    for embed, owner in _of_types(checker, property_, lambda declared: declared.embed).items():
        if embed is None:
            message = f"nearest is given a text, but {owner}.{property_.column} is not computed from a text"
            hint = f'pass a {property_.type}, or declare the property with @embed("source")'
            raise checker.checking.refuse("T15", message, call.arguments[1].at, hint)
        models[embed.model] = owner
    if len(models) > 1:
        named = ", ".join(f"{name} has {model or 'none'}" for model, name in sorted(models.items(), key=str))
        raise _wrong(
            checker, call, f"the types of ${property_.variable} differ in the model of @embed: {named}", call.at
        )
    ((model, owner),) = models.items()
    dimension = property_.type.dimension
    assert dimension is not None, "a vector has one"
    texts = checker.checking.texts
    query = texts.setdefault(
        (text, dimension, model),
        plan.TextQuery(f"embedded {len(texts)}", text, owner, property_.column, dimension, model),
    )
    return plan.Parameter(query.name, PropertyType(Scalar.VECTOR, text.type.nullable, dimension=dimension))


def _metric(checker: ExpressionChecker, call: syntax.Call, property_: plan.PropertyRef) -> Metric:
    """The metric of the property. Refuses if the types of an interface declare different ones: their distances cannot be
    compared."""
    metrics = _of_types(checker, property_, lambda declared: declared.metric)
    if len(metrics) > 1:
        named = ", ".join(f"{name} has {metric}" for metric, name in sorted(metrics.items()))
        raise _wrong(checker, call, f"the types of ${property_.variable} differ in @metric: {named}", call.at)
    return next(iter(metrics), "cosine")


def _rrf(checker: ExpressionChecker, call: syntax.Call) -> plan.Rrf:
    _arity(checker, call, 2, 3)
    arms: list[plan.Nearest | plan.Bm25] = []
    for argument in call.arguments[:2]:
        arm = checker.check(argument) if isinstance(argument, syntax.Call) else None
        if not isinstance(arm, plan.Nearest | plan.Bm25):
            raise _wrong(checker, call, "the arguments of rrf are nearest(…) and bm25(…)", argument.at)
        arms.append(arm)
    k: plan.Expression = plan.Constant(_DEFAULT_RRF_K, PropertyType(Scalar.I64))
    if len(call.arguments) == 3:
        k = checker.check(call.arguments[2])
        is_number = isinstance(k, plan.Constant | plan.Parameter) and k.type.scalar.is_numeric and not k.type.is_list
        if not is_number or (isinstance(k, plan.Constant) and isinstance(k.value, int | float) and k.value <= 0):
            raise _wrong(checker, call, "k must be a number above zero", call.arguments[2].at)
    if arms[0].property.variable != arms[1].property.variable:
        raise _wrong(checker, call, "both rankings of rrf must rank the same variable", call.arguments[1].at)
    return plan.Rrf(arms[0], arms[1], k)
