"""The steps of a schema change as JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from omnigraph.language.catalog import Constraint
from omnigraph.language.catalog_json import constraint_json
from omnigraph.language.schema.migration_steps import MigrationStep
from omnigraph.values.types import PropertyType


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
