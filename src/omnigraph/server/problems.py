"""Errors as answers: the status, the contract's code, and the member that says more. One table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from omnigraph import errors
from omnigraph.api.structs import JsonObject, present
from omnigraph.errors import OmnigraphError, RequestRefused

# Refusals that only a Blob's headers can meet.


class BlobChanged(RequestRefused):
    """A Blob is not the one that If-Match names."""


class RangeNotSatisfiable(RequestRefused):
    """The range begins beyond the end of the Blob."""

    def __init__(self, start: int, end: int, length: int) -> None:
        super().__init__(f"the Blob has {length} bytes, and the range begins at {start}")
        self.start = start
        self.end = end
        self.length = length


Members = Callable[[Any], JsonObject]
"""From an error to what is said of it."""


def _no_members(_error: OmnigraphError) -> JsonObject:
    return {}


@dataclass(frozen=True)
class Row:
    """How one kind of error is answered. No code is no member."""

    status: int
    code: str | None
    members: Members = _no_members
    headers: Members = _no_members
    is_generic: bool = False
    """The text says nothing of what happened: the log does, under the request's id."""


def _version_conflict(error: errors.ExpectedVersionMismatch) -> JsonObject:
    kind, _, name = error.table_key.partition(":")
    versions = {"table_key": error.table_key, "expected": error.expected, "actual": error.actual}
    manifest_conflict = {"manifest_conflict": present({**versions, "entity_id": error.entity_id})}
    if not name:
        member = {"member": error.table_key, "expected": str(error.expected), "actual": str(error.actual)}
        return {"read_set_conflict": member, **manifest_conflict}
    return {
        "published_dataset_version_conflict": {
            "entity_kind": kind,
            "type_name": name,
            "expected_published_dataset_version": error.expected,
            "actual_published_dataset_version": error.actual,
        },
        **manifest_conflict,
    }


def _key_conflict(error: errors.KeyConflict) -> JsonObject:
    return {
        "key_conflict": {"entity_kind": error.entity_kind, "type_name": error.type_name, "entity_id": error.entity_id}
    }


def _merge_conflicts(error: errors.MergeConflicts) -> JsonObject:
    named = ("entity_kind", "type_name", "entity_id", "kind", "message")
    conflicts = [{name: getattr(conflict, name) for name in named} for conflict in error.conflicts]
    return {"merge_conflicts": conflicts} if conflicts else {}


def _gap(error: errors.HistoryGap) -> JsonObject:
    return {} if error.commit_id is None else {"change_feed_gap": {"first_unreadable_commit_id": error.commit_id}}


def _parentless(error: errors.ParentlessCommit) -> JsonObject:
    return {"change_diff_refusal": {"reason": "parentless_commit", "graph_commit_id": error.commit_id}}


def _limit(error: errors.LimitExceeded) -> JsonObject:
    return {"resource_limit": error.details()}


def _query_time(error: errors.QueryTimeout) -> JsonObject:
    ms = int(error.timeout_s * 1000)
    return {"resource_limit": {"resource": "query_milliseconds", "limit": ms, "actual": ms}}


_BAD = Row(400, "bad_request")
_CONFLICT = Row(409, "conflict")
_LATER = Row(503, "internal", headers=lambda _: {"Retry-After": "5"})
_DEFECT = Row(500, "internal", is_generic=True)

TABLE: dict[type[OmnigraphError], Row] = {
    errors.LanguageError: _BAD,
    errors.ParameterError: _BAD,
    errors.InputError: _BAD,
    errors.UsageError: _BAD,
    errors.ArithmeticOverflow: _BAD,
    errors.EmbeddingRefused: _BAD,
    errors.SchemaChangeRefused: _BAD,
    errors.ConfigurationError: _BAD,
    errors.Unauthorized: Row(401, "unauthorized", headers=lambda _: {"WWW-Authenticate": 'Bearer realm="omnigraph"'}),
    errors.PolicyDenied: Row(403, "forbidden"),
    errors.OriginRefused: Row(403, "forbidden"),
    errors.NotFound: Row(404, "not_found"),
    errors.MethodNotAllowed: Row(405, "method_not_allowed", headers=lambda error: {"Allow": ", ".join(error.allowed)}),
    errors.AlreadyExists: _CONFLICT,
    errors.BranchNotMerged: _CONFLICT,
    errors.Conflict: _CONFLICT,
    errors.ExpectedVersionMismatch: Row(
        409, "conflict", _version_conflict, lambda error: {"Retry-After": "1"} if error.retry else {}
    ),
    errors.KeyConflict: Row(409, "conflict", _key_conflict),
    errors.BranchReplaced: Row(
        409,
        "conflict",
        lambda _: {"read_set_conflict": {"member": "branch_identity", "expected": None, "actual": None}},
    ),
    errors.Contention: Row(409, "conflict", headers=lambda _: {"Retry-After": "1"}),
    errors.MergeConflicts: Row(409, "conflict", _merge_conflicts),
    errors.ParentlessCommit: Row(409, "conflict", _parentless),
    errors.HistoryGap: Row(410, None, _gap),
    errors.PreconditionFailed: Row(
        412, None, lambda error: {"precondition_failure": present({"expected": error.expected, "actual": error.actual})}
    ),
    errors.LimitExceeded: Row(413, "bad_request", _limit),
    errors.HeadTooLarge: Row(431, "bad_request", _limit),
    errors.QueryTimeout: Row(413, "bad_request", _query_time),
    errors.ResourceExhausted: Row(
        413, "bad_request", lambda _: {"resource_limit": {"resource": "memory", "limit": 0, "actual": 0}}
    ),
    BlobChanged: Row(412, "conflict"),
    RangeNotSatisfiable: Row(
        416,
        "bad_request",
        lambda error: {"blob_range": {"start": error.start, "end": error.end, "length": error.length}},
        lambda error: {"Content-Range": f"bytes */{error.length}"},
    ),
    errors.UnsupportedMediaType: Row(415, "bad_request"),
    errors.WriteKeyReused: Row(422, "bad_request"),
    errors.SequencePassed: Row(422, "bad_request"),
    errors.TooManyRequests: Row(429, "too_many_requests", headers=lambda _: {"Retry-After": "60"}),
    errors.OutcomeUnknown: Row(
        503,
        None,
        lambda error: {"recovery_required": {"operation_id": error.commit_id}},
        lambda _: {"Retry-After": "5"},
    ),
    errors.ServerStopping: _LATER,
    errors.StorageTransient: _LATER,
    errors.PipelineFailed: _LATER,
    errors.EmbeddingUnavailable: _LATER,
    errors.StorageError: _DEFECT,
    errors.Damaged: _DEFECT,
    errors.UnsupportedFormat: _DEFECT,
    errors.RequestRefused: _BAD,
    OmnigraphError: _DEFECT,
}
"""By class; a class without a row is answered as the nearest one above it."""

GENERIC = "something went wrong on the server"


def row_of(error: OmnigraphError) -> Row:
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def error_json(error: OmnigraphError, *, text: str | None = None) -> JsonObject:
    """{error, code?, one member?, problem}."""
    row = row_of(error)
    message = text or (GENERIC if row.is_generic else _without_place(error))
    members = {} if row.is_generic else row.members(error)
    return {"error": message, **present({"code": row.code}), **members, "problem": _problem(error, row)}


def _without_place(error: OmnigraphError) -> str:
    """The message of an error; of one of the store, without what the store said, which names files of the server."""
    if isinstance(error, errors.StorageError):
        return "the store did not answer, or this server may open no more files"
    return error.message.partition(": ")[0] if isinstance(error, errors.OutcomeUnknown) else error.message


def _problem(error: OmnigraphError, row: Row) -> JsonObject:
    problem: JsonObject = {"code": error.code, "retry": error.retry, "outcome": error.outcome}
    if row.is_generic:
        return problem
    value = error.to_json()
    details = dict(value.get("details", {}))
    if isinstance(error, errors.LanguageError):
        problem |= {name: details.pop(name) for name in ("rule", "file", "line", "column") if details.get(name)}
        details = {}
    if isinstance(error, errors.StorageError):
        details = {}  # keys of files
    for member in ("limit", "resource", "actual", "expected"):
        details.pop(member, None)  # these have members of their own
    return present({**problem, "hint": error.hint, "details": details or None})


DEFECT: JsonObject = {
    "error": GENERIC,
    "code": "internal",
    "problem": {"code": "internal", "retry": False, "outcome": "unknown"},
}
"""For what is no error of the library: a defect."""
