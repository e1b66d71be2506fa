"""Schemas: their text, and the plan of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.catalog import Catalog
from omnigraph.language.schema.migration_steps import step_json
from omnigraph.wire.history import commit_json
from omnigraph.wire.members import JsonObject

if TYPE_CHECKING:
    from omnigraph.evolve.apply import SchemaReceipt
    from omnigraph.evolve.migrating import BrokenQuery
    from omnigraph.language.schema.migration import MigrationPlan


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
