"""The error tree: stable codes, one root, and errors that cross process borders whole."""

from __future__ import annotations

import inspect
import json
import pickle
import re

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
    errors.PolicyDenied("no", action="change", branch="main"),
    errors.ConfigurationError([errors.Problem("invalid_policy", "no such group", "policy.yaml", 3, 7)]),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: errors.OmnigraphError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert copy.__dict__ == error.__dict__
    assert str(copy) == str(error)
    assert copy.to_json() == error.to_json()


def test_an_error_as_text_has_its_position_and_its_hint() -> None:
    assert [str(error) for error in EXAMPLES[:4]] == [
        "no such object (look)",
        "q.gq:3:2: [T5] bad\n  | x y\n  |  ^\n  = fix",
        "bad",
        "f:7: bad",
    ]


def test_the_tree_at_the_top_is_the_tree_of_classes() -> None:
    drawn: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.fullmatch(r"    (?P<bars>(?:[│ ] {3})*)(?:[├└]── )?(?P<name>[A-Z]\w+)", line)
        if found is not None:
            depth = 0 if found["name"] == "OmnigraphError" else 1 + len(found["bars"]) // 4
            above[depth:] = [found["name"]]
            drawn[found["name"]] = above[depth - 1] if depth else None
    assert drawn == {
        kind.__name__: None if kind is errors.OmnigraphError else kind.__bases__[0].__name__ for kind in KINDS
    }


def test_a_code_is_the_name_of_its_class() -> None:
    assert errors.ExpectedVersionMismatch.code == "expected_version_mismatch"
    assert errors.NotFound.code == "not_found"
    assert errors.PolicyDenied.code == "forbidden"  # what HTTP calls it
    for kind in set(KINDS) - {errors.PolicyDenied}:
        assert "".join(word.capitalize() for word in kind.code.split("_")) == kind.__name__


def test_every_class_says_what_happened_in_one_sentence() -> None:
    for kind in KINDS:
        assert re.match(r"[A-Z@][^.]*\.", kind.__doc__ or ""), kind.__name__


def test_only_silence_leaves_the_outcome_unknown() -> None:
    unknown = {kind.__name__ for kind in KINDS if kind.outcome == "unknown"}
    assert unknown == {"OutcomeUnknown", "ServerUnavailable", "StorageTransient"}


def test_an_error_repeats_little_of_what_was_given_and_every_stream_takes_it() -> None:
    error = errors.UsageError(f"'{'x' * 10_000_000}' is not a name", hint="\ud800")
    assert len(error.message) < 2_100
    assert error.message.endswith("x' is not a name")
    assert error.hint == "\\ud800"
    query = errors.QueryError("bad", rule="T5", line=1, column=5_000_001, source_line="y" * 10_000_000)
    _, line, caret = query.render().splitlines()
    assert len(line) < 220
    assert line[caret.index("^")] == "y"


def test_details_are_json_whatever_was_given() -> None:
    class Silent:
        def __str__(self) -> str:
            raise ValueError("no text")

    error = errors.RecordError("bad", property=b"name", entity_id=7, value=Silent())  # type: ignore[arg-type]
    assert json.loads(json.dumps(error.to_json()))["details"] == {
        "property": "a value of type bytes",
        "id": 7,
        "value": "a value of type Silent",
    }


def test_json_says_when_the_outcome_is_not_known() -> None:
    """A scheduler must not take "failed" for "not written"."""
    assert errors.OutcomeUnknown("no answer", commit_id="x").to_json()["outcome"] == "unknown"
    assert "outcome" not in errors.Contention("too often").to_json()
