"""Parameters: converts JSON or Python values to values of columns, by the same rules as all other values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.errors import ParameterError
from omnigraph.language.query.expressions import suggestion
from omnigraph.language.query.plan import DeclaredParameter, Parameter, ReadPlan
from omnigraph.values.json_values import Unfit, typed_value
from omnigraph.values.types import INTEGER_RANGES, Scalar


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
