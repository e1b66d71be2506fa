"""Values of parameters: JSON or Python in, values as columns hold them out, by the rules for every other value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.errors import ParameterError
from omnigraph.language.query.plan import DeclaredParameter, Parameter, ReadPlan
from omnigraph.values.json_values import Unfit, typed_value
from omnigraph.values.types import INTEGER_RANGES, Scalar


def bind_parameters(declared: Iterable[DeclaredParameter], values: Mapping[str, object]) -> dict[str, object]:
    """One typed value per declared parameter. Raises ParameterError, which names the parameter.

    A nullable parameter may be left out or null. A value for an undeclared parameter is ignored, unless it is an object.
    """
    bound = {parameter.name: _value(parameter, values) for parameter in declared}
    for name, value in values.items():
        if name not in bound and isinstance(value, Mapping):
            raise ParameterError(f"${name}: an object is not a parameter value", parameter=name)
    return bound


def check_cuts(plan: ReadPlan, bound: Mapping[str, object]) -> None:
    """A limit or offset that is a parameter counts rows, whatever integer it was declared as. Raises ParameterError."""
    _, largest = INTEGER_RANGES[Scalar.I64]
    for word, cut in (("limit", plan.limit), ("offset", plan.offset)):
        if isinstance(cut, Parameter):
            number = bound[cut.name]
            assert isinstance(number, int)
            if not 0 <= number <= largest:
                raise ParameterError(f"${cut.name}: `{word}` is 0 to {largest}, got {number}", parameter=cut.name)


def _value(parameter: DeclaredParameter, values: Mapping[str, object]) -> object:
    name, type = parameter.name, parameter.type
    value = values.get(name)
    if value is None and not type.nullable:
        problem = "null is not allowed" if name in values else "a value is required"
        raise ParameterError(f"${name}: {problem}", parameter=name, hint=f"declared as {type}")
    try:
        return typed_value(value, type)
    except Unfit as unfit:
        raise ParameterError(unfit.about(f"${name}"), parameter=name, hint=f"declared as {type}") from None
