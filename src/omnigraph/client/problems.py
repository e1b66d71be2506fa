"""Errors in a server's answers, as the errors that the library raises."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from omnigraph import errors
from omnigraph.errors import OmnigraphError, ServerUnavailable

_BY_STATUS: Mapping[int, type[OmnigraphError]] = {
    401: errors.Unauthorized,
    404: errors.NotFound,
    409: errors.Conflict,
    429: errors.TooManyRequests,
}
"""For answers that do not name an error of OmniGraph, such as those of a proxy."""

_INPUT = {
    "type_name": "type",
    "property": "property",
    "entity_id": "id",
    "value": "value",
    "file": "file",
    "line": "line",
}
_ENTITY = {"type_name": "type", "entity_id": "id"}

_ATTRIBUTES: Mapping[type[OmnigraphError], Mapping[str, str]] = {
    errors.LanguageError: {name: name for name in ("rule", "line", "column", "source_line", "file")},
    errors.ParameterError: {"parameter": "parameter"},
    errors.InputError: _INPUT,
    errors.RejectedRecords: {"rejects": "rejects", "total": "total"},
    errors.UnreadableInput: {**_INPUT, "problems": "problems", "total": "total"},
    errors.KeyConflict: {**_ENTITY, "entity_kind": "entity_kind"},
}
"""Attributes of errors and their names among the details, where these differ or some may be left out. For other errors the names
are the same."""

_DEFAULTS: Mapping[type[OmnigraphError], Mapping[str, Any]] = {
    errors.LanguageError: {"rule": "", "line": 0, "column": 0, "source_line": "", "file": None},
    errors.RejectedRecords: {**dict.fromkeys(_INPUT), "rejects": (), "total": 0},
    errors.InputError: dict.fromkeys(_INPUT),
    errors.UnreadableInput: {**dict.fromkeys(_INPUT), "problems": (), "total": 1},
    errors.ExpectedVersionMismatch: {"table_key": "", "expected": 0, "actual": 0, "reason": None, "entity_id": None},
    errors.HistoryGap: {"branch": None, "watermark": None, "commit_id": None},
    errors.KeyConflict: {"type_name": "", "entity_id": "", "entity_kind": "node"},
    errors.PolicyDenied: {"action": "", "branch": None, "target_branch": None, "why": None},
    errors.Damaged: {"file": "", "what": "", "affected": None, "commits": ()},
    errors.MergeConflicts: {"conflicts": (), "schema_conflicts": ()},
    errors.SchemaChangeRefused: {"steps": (), "violations": ()},
    errors.StorageError: {"key": ""},
    errors.OutcomeUnknown: {"commit_id": ""},
}
"""Attributes of an error that the server's answer did not give."""


@contextmanager
def placed_in(text: str, file: str | None) -> Iterator[None]:
    """Within the block, a LanguageError names the caller's file and shows the line of the text."""
    try:
        yield
    except errors.LanguageError as error:
        lines = text.splitlines()
        error.file = file
        error.source_line = lines[error.line - 1] if 0 < error.line <= len(lines) else ""
        raise


def _kinds(root: type[OmnigraphError] = OmnigraphError) -> Iterator[type[OmnigraphError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)


def error_of(status: int, data: bytes, headers: Mapping[str, str]) -> OmnigraphError:
    """The error of an answer, with the details in its body. ServerUnavailable if the answer is not that of an OmniGraph server."""
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("error"), str):
        error: OmnigraphError = _foreign(status)
    else:
        error = _rebuilt(status, body)
    after = headers.get("retry-after", "")
    if after.isdigit():
        vars(error)["retry_after_s"] = float(after)
    return error


def _foreign(status: int) -> OmnigraphError:
    kind = _BY_STATUS.get(status)
    message = f"the server answered with status {status}"
    return ServerUnavailable(message) if kind is None else _error_of(kind, message, None)


def _rebuilt(status: int, body: Mapping[str, Any]) -> OmnigraphError:
    problem = body.get("problem") or {}
    kind = next((known for known in _kinds() if known.code == problem.get("code")), None) or _BY_STATUS.get(status)
    if kind is None or kind is OmnigraphError:
        return ServerUnavailable(f"the server failed: {body['error']}")
    error = _error_of(kind, body["error"], problem.get("hint"))
    details = _details(body, problem)
    for name, value in _attributes(kind, details).items():
        setattr(error, name, value)
    return error


def _error_of(kind: type[OmnigraphError], message: str, hint: str | None) -> OmnigraphError:
    """An error of this class, whatever its constructor takes."""
    error = kind.__new__(kind, message)
    OmnigraphError.__init__(error, message, hint=hint)
    for parent in reversed(kind.__mro__):
        for name, value in _DEFAULTS.get(parent, {}).items():
            setattr(error, name, value)
    return error


_NAMED_IN_MEMBERS = (
    ("recovery_required", "commit_id", "operation_id"),
    ("change_feed_gap", "commit_id", "first_unreadable_commit_id"),
    ("change_diff_refusal", "commit_id", "graph_commit_id"),
    ("key_conflict", "entity_kind", "entity_kind"),
)
"""A member of the body, the name of a detail, and its name in that member."""


def _details(body: Mapping[str, Any], problem: Mapping[str, Any]) -> dict[str, Any]:
    """All details in the body, by the names that errors use for them."""
    details = {name: problem[name] for name in ("rule", "file", "line", "column") if name in problem}
    details |= problem.get("details") or {}
    for member in ("resource_limit", "precondition_failure"):
        details |= body.get(member) or {}
    version = body.get("published_dataset_version_conflict")
    if version is not None:
        details |= {
            "table_key": f"{version['entity_kind']}:{version['type_name']}",
            "expected": version["expected_published_dataset_version"],
            "actual": version["actual_published_dataset_version"],
        }
    for member, name, inner in _NAMED_IN_MEMBERS:
        if inner in (body.get(member) or {}):
            details[name] = body[member][inner]
    if "merge_conflicts" in body:
        details.setdefault("merge_conflicts", body["merge_conflicts"])
    return details


def _attributes(kind: type[OmnigraphError], details: Mapping[str, Any]) -> dict[str, Any]:
    special = next((_SPECIAL[parent] for parent in kind.__mro__ if parent in _SPECIAL), None)
    if special is not None:
        return special(details)
    named = next((_ATTRIBUTES[parent] for parent in kind.__mro__ if parent in _ATTRIBUTES), None)
    if named is None:
        return {name: _frozen(value) for name, value in details.items() if name.isidentifier()}
    return {attribute: _frozen(details[name]) for attribute, name in named.items() if name in details}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _merge_conflicts(details: Mapping[str, Any]) -> dict[str, Any]:
    from omnigraph.client.decoding import merge_conflict, schema_conflict

    return {
        "conflicts": tuple(merge_conflict(conflict) for conflict in details.get("merge_conflicts", ())),
        "schema_conflicts": tuple(schema_conflict(conflict) for conflict in details.get("schema_conflicts", ())),
    }


def _refused_steps(details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "steps": tuple(details.get("steps", ())),
        "violations": tuple(
            (violation["step"], violation["count"], [(first["id"], first["message"]) for first in violation["first"]])
            for violation in details.get("violations", ())
        ),
    }


_SPECIAL: Mapping[type[OmnigraphError], Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    errors.MergeConflicts: _merge_conflicts,
    errors.SchemaChangeRefused: _refused_steps,
}
