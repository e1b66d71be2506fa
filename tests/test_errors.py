"""The error tree: stable codes, one root, and errors that cross process borders whole."""

from __future__ import annotations

import inspect
import pickle

import pytest

from omnigraph import errors

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.OmnigraphError)]

EXAMPLES = [
    errors.ObjectMissing("no such object", key="a/b", hint="look"),
    errors.QueryError("bad", rule="T5", line=3, column=2, source_line="x y", file="q.gq", hint="fix"),
    errors.ParameterError("bad", parameter="who"),
    errors.ValueViolation("bad", type_name="Person", property="age", entity_id="ada", value=200, file="f", line=7),
    errors.RejectedRecords("bad", rejects=[{"file": "f", "line": 1, "reason": "r"}], total=9),
    errors.ExpectedVersionMismatch("node:Person", 3, 5),
    errors.KeyConflict("Person", "ada"),
    errors.PreconditionFailed("main", "A", "B"),
    errors.OutcomeUnknown("silence", commit_id="C"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: errors.OmnigraphError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert copy.__dict__ == error.__dict__
    assert str(copy) == str(error)
    assert copy.to_json() == error.to_json()


def test_every_kind_is_drawn_in_the_tree_at_the_top() -> None:
    assert errors.__doc__ is not None
    missing = [kind.__name__ for kind in KINDS if kind.__name__ not in errors.__doc__]
    assert missing == []


def test_codes_are_stable_words_of_their_own() -> None:
    codes = [kind.code for kind in KINDS if "code" in vars(kind)]
    assert len(codes) == len(set(codes))
    assert all("code" in vars(kind) for kind in KINDS)


def test_only_silence_of_the_store_leaves_the_outcome_unknown() -> None:
    unknown = {kind.__name__ for kind in KINDS if kind.outcome == "unknown"}
    assert unknown == {"OutcomeUnknown", "StorageTransient"}
