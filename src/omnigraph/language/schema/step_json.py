"""The steps of a schema change as JSON, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from omnigraph.language.catalog import Constraint
from omnigraph.language.catalog_json import constraint_from_json, constraint_json
from omnigraph.language.schema.migration_steps import STEP_ORDER, MigrationStep
from omnigraph.values.types import PropertyType, Scalar

_STEPS = {step.kind: step for step in STEP_ORDER}
_CORE = re.compile(
    r"(?P<open>\[)?(?:enum\((?P<enum>[^)]*)\)|Vector\((?P<dimension>\d+)\)|(?P<scalar>\w+))\]?(?P<nullable>\?)?"
)


def step_json(step: MigrationStep) -> dict[str, Any]:
    """Every field of a step that is set, and its kind, effect, tier and code."""
    value: dict[str, Any] = {"kind": step.kind}
    for field in fields(step):
        content = getattr(step, field.name)
        if content is not None and field.name not in ("effect", "code"):
            value[field.name.rstrip("_")] = _content(content)
    value |= {"effect": step.effect, "tier": step.tier}
    return value if step.code is None else value | {"code": step.code}


def _content(content: Any) -> Any:
    if isinstance(content, PropertyType):
        return str(content)
    if isinstance(content, Constraint):
        return constraint_json(content)
    return list(content) if isinstance(content, tuple) else content


def step_from_json(value: Mapping[str, Any]) -> MigrationStep:
    """The step that `step_json` wrote."""
    kind = _STEPS[value["kind"]]
    arguments = {}
    for field in fields(kind):
        name = field.name.rstrip("_")
        if name in value:
            arguments[field.name] = _from_content(value[name], str(field.type))
    return cast(MigrationStep, kind(**arguments))


def _from_content(content: Any, annotation: str) -> Any:
    if annotation == "PropertyType":
        return property_type(content)
    if annotation == "Constraint":
        return constraint_from_json(content)
    return tuple(content) if isinstance(content, list) else content


def property_type(text: str) -> PropertyType:
    """The type that a text like `str(type)` denotes. ValueError for any other text."""
    parsed = _CORE.fullmatch(text)
    if parsed is None:
        raise ValueError(f"{text!r} is not the type of a property")
    scalar = Scalar.VECTOR if parsed["dimension"] else Scalar.STRING if parsed["enum"] else Scalar(parsed["scalar"])
    return PropertyType(
        scalar,
        nullable=parsed["nullable"] is not None,
        is_list=parsed["open"] is not None,
        enum=tuple(parsed["enum"].split(", ")) if parsed["enum"] else (),
        dimension=int(parsed["dimension"]) if parsed["dimension"] else None,
    )
