"""Schemas: their text, and the plan of a change."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from omnigraph.language.catalog import Catalog, Constraint
from omnigraph.language.catalog_json import constraint_json
from omnigraph.language.schema.migration import MigrationPlan
from omnigraph.language.schema.migration_steps import MigrationStep
from omnigraph.pipeline.evolve.apply import SchemaReceipt
from omnigraph.pipeline.evolve.queries import BrokenQuery
from omnigraph.values.types import PropertyType
from omnigraph.wire.history import commit_json
from omnigraph.wire.members import JsonObject


def schema_json(schema: Catalog) -> JsonObject:
    """{schema_source, hash}."""
    return {"schema_source": schema.source, "hash": schema.hash}


def migration_json(plan: MigrationPlan) -> JsonObject:
    """{supported, steps: [{kind, ..., effect, tier, code?}]}."""
    return {"supported": plan.supported, "steps": [step_json(step) for step in plan.steps]}


def schema_receipt_json(receipt: SchemaReceipt) -> JsonObject:
    """{applied, supported, steps, commit?}."""
    value = {"applied": receipt.commit is not None} | migration_json(receipt.plan)
    return value if receipt.commit is None else value | {"commit": commit_json(receipt.commit)}


def broken_query_json(broken: BrokenQuery) -> JsonObject:
    """{file, query, error}."""
    return {"file": broken.file, "query": broken.query, "error": broken.error}


def step_json(step: MigrationStep) -> JsonObject:
    """Every field of a step that is set, and its kind, effect, tier and code."""
    value: JsonObject = {"kind": step.kind}
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
