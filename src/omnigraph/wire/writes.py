"""What writes change: receipts, loads, merges, schemas, results of algorithms."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from omnigraph.language.schema.migration_steps import step_json
from omnigraph.wire.history import commit_json
from omnigraph.wire.members import JsonObject, present

if TYPE_CHECKING:
    from omnigraph.algorithms.result import AlgorithmResult
    from omnigraph.evolve.apply import SchemaReceipt
    from omnigraph.evolve.migrating import BrokenQuery
    from omnigraph.language.catalog import Catalog
    from omnigraph.language.schema.migration import MigrationPlan
    from omnigraph.load.explaining import LoadExplanation
    from omnigraph.load.receipt import LoadReceipt
    from omnigraph.merge.three_way import MergeResult
    from omnigraph.tasks.progress import Stage
    from omnigraph.write.receipt import Receipt


def receipt_json(receipt: Receipt) -> JsonObject:
    """{branch, query_name?, affected_nodes, affected_edges, types: {key: {inserted, updated, deleted, replaced}}, actor_id?, commit?,
    repeated?}."""
    changed = {key: counts for key, counts in sorted(receipt.types.items()) if counts.total}
    return present(
        {
            "branch": receipt.branch,
            "query_name": receipt.query_name,
            "affected_nodes": receipt.affected_nodes,
            "affected_edges": receipt.affected_edges,
            "types": {key: dataclasses.asdict(counts) for key, counts in changed.items()},
            "actor_id": receipt.actor,
            "commit": receipt.commit and commit_json(receipt.commit),
            "repeated": receipt.repeated or None,
        }
    )


def load_json(uri: str, receipt: LoadReceipt) -> JsonObject:
    """{uri, branch, base_branch?, branch_created, mode, nodes: [{name, entities_loaded, inserted, updated, unchanged,
    deleted, duplicates?, skipped?, stubs?, without_adjacency?}], edges: [...], total_entities, inserted, updated, unchanged, deleted,
    rejected?, missing?: [{edge, end, node, edges, nodes, examples}], actor_id?, commit?,
    repeated?, engine?, seconds?, stages?: [{stage, tasks, rows, seconds, rejected, shuffled_bytes, spilled_bytes, failed_tasks}],
    dry_run?, refusals?: [{code, message, count, type_name?, property?, places, can_be_set_aside}]}."""
    return present(
        {
            "uri": uri,
            "branch": receipt.branch,
            "base_branch": receipt.base_branch,
            "branch_created": receipt.branch_created,
            "mode": receipt.mode,
            "nodes": _counts_of(receipt, "node:"),
            "edges": _counts_of(receipt, "edge:"),
            "total_entities": receipt.total_entities,
            **dataclasses.asdict(receipt.total),
            "rejected": receipt.rejected or None,
            "missing": [dataclasses.asdict(gap) for gap in receipt.missing] or None,
            "actor_id": receipt.actor,
            "commit": receipt.commit and commit_json(receipt.commit),
            "repeated": receipt.repeated or None,
            "engine": receipt.engine,
            "seconds": None if receipt.engine is None else round(receipt.seconds, 3),
            "stages": [_stage(stage) for stage in receipt.stages] or None,
            "dry_run": receipt.is_dry_run or None,
            "refusals": [present(dataclasses.asdict(refusal)) for refusal in receipt.refusals]
            if receipt.is_dry_run
            else None,
        }
    )


def explanation_json(explained: LoadExplanation) -> JsonObject:
    """{engine, reason, input_bytes, max_in_process_bytes, files, parallelism?, tasks?, task_bytes?}."""
    return present(dataclasses.asdict(explained))


def _stage(stage: Stage) -> JsonObject:
    return {**dataclasses.asdict(stage), "seconds": round(stage.seconds, 3)}


def _counts_of(receipt: LoadReceipt, prefix: str) -> list[JsonObject]:
    return [
        present(
            {
                "name": key.removeprefix(prefix),
                "entities_loaded": counts.loaded,
                **dataclasses.asdict(counts),
                "duplicates": receipt.duplicates.get(key),
                "skipped": receipt.skipped.get(key),
                "stubs": receipt.stubs.get(key),
                "without_adjacency": receipt.without_adjacency.get(key),
            }
        )
        for key, counts in sorted(receipt.types.items())
        if key.startswith(prefix)
    ]


def merge_json(result: MergeResult) -> JsonObject:
    """{source, target, outcome, bases, source_commit, target_commit, changes: {key: {way, inserted?, updated?, deleted?}},
    conflicts, schema_conflicts?, schema_steps?, actor_id?, commit?, dry_run?, hint?, branch_deleted?, branch_delete_error?}."""
    return present(
        {
            "source": result.source,
            "target": result.target,
            "outcome": result.outcome,
            "bases": list(result.bases),
            "source_commit": result.source_commit,
            "target_commit": result.target_commit,
            "changes": {key: present(dataclasses.asdict(changes)) for key, changes in sorted(result.types.items())},
            "conflicts": [conflict.to_json() for conflict in result.conflicts],
            "schema_conflicts": [conflict.to_json() for conflict in result.schema_conflicts] or None,
            "schema_steps": [step_json(step) for step in result.schema_steps] or None,
            "actor_id": result.commit and result.commit.actor,
            "commit": result.commit and commit_json(result.commit),
            "dry_run": result.dry_run or None,
            "hint": result.hint,
            "branch_deleted": result.branch_deleted,
            "branch_delete_error": result.branch_delete_error,
        }
    )


# What `run` computed and wrote.


def run_json(uri: str, into: str, result: AlgorithmResult, receipt: LoadReceipt) -> JsonObject:
    """{algorithm, into, nodes, steps, engine, seconds, snapshot, load}."""
    return {
        "algorithm": result.algorithm,
        "into": into,
        "nodes": result.num_rows,
        "steps": result.steps,
        "engine": result.engine,
        "seconds": result.seconds,
        "snapshot": result.commit.id,
        "load": load_json(uri, receipt),
    }


# Schemas: their text, and the plan of a change.


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
