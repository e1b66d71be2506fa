"""Errors that go through a server's body come back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omnigraph import errors
from omnigraph.client.connection import error_of
from omnigraph.errors import OmnigraphError
from omnigraph.merge.conflicts import MergeConflict, PropertyConflict
from omnigraph.server.problems import error_json, row_of

CONFLICT = MergeConflict("node", "Person", "Ada", "divergent_update", "both", (PropertyConflict("age", 1, 2, 3),))

EXAMPLES: list[OmnigraphError] = [
    errors.QueryError("bad", rule="T5", line=3, column=2, file="q.gq", hint="fix"),
    errors.ParameterError("bad", parameter="who"),
    errors.ValueViolation("bad", type_name="Person", property="age", entity_id="ada", value="200", file="f", line=7),
    errors.EndpointMissing("bad", type_name="Knows", entity_id="e"),
    errors.RejectedRecords("bad", rejects=[{"file": "f", "line": 1, "reason": "r"}], total=9),
    errors.UnreadableInput("bad", file="f", problems=[{"file": "f"}], total=2),
    errors.UsageError("bad", hint="do it right"),
    errors.CursorRejected("of another branch"),
    errors.ArithmeticOverflow(),
    errors.QueryTimeout(1.5),
    errors.GraphNotFound("none"),
    errors.BranchNotFound("none"),
    errors.AlreadyExists("there"),
    errors.BranchNotMerged("review", 3, "01J"),
    errors.ExpectedVersionMismatch("node:Person", 3, 5),
    errors.KeyConflict("Person", "ada"),
    errors.PreconditionFailed("main", "A", "B"),
    errors.BranchReplaced("replaced"),
    errors.Contention("busy"),
    errors.MergeConflicts("bad", conflicts=[CONFLICT], hint="decide"),
    errors.HistoryGap("gone", branch="main", watermark=7),
    errors.SchemaChangeRefused(["drop it"], [("require it", 2, [("ada", "is null")])]),
    errors.OutcomeUnknown("silence", commit_id="C"),
    errors.StorageTransient("later", key=""),
    errors.LimitExceeded("too much", resource="rows", limit=1, actual=2),
    errors.TooManyRequests("wait"),
    errors.Unauthorized("who?"),
    errors.PolicyDenied("no", action="change", branch="main"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_rebuilt_from_its_body(error: OmnigraphError) -> None:
    body: Any = json.loads(json.dumps(error_json(error)))
    rebuilt = error_of(row_of(error).status, json.dumps(body).encode(), {})
    assert type(rebuilt) is type(error)
    there, here = rebuilt.to_json(), json.loads(json.dumps(error.to_json()))
    if isinstance(error, errors.StorageError):
        # Names of files stay on the server, and so does what the store said.
        here |= {"details": {}, "message": there["message"]}
        there["details"] = {}
    assert there == here
    assert (rebuilt.outcome, rebuilt.retry) == (error.outcome, error.retry)
    assert {name for name in vars(error) if not name.startswith("_")} <= vars(rebuilt).keys()


def test_a_defect_of_the_server_is_no_error_of_the_call() -> None:
    body = {"error": "something went wrong", "code": "internal", "problem": {"code": "internal", "retry": False}}
    assert isinstance(error_of(500, json.dumps(body).encode(), {}), errors.ServerUnavailable)
