"""Every error a caller can catch.

    OmnigraphError
    ├── LanguageError            text of a schema or query is wrong; carries file, line, column, marked source
    │   ├── SchemaError          .pg
    │   ├── QueryError           .gq
    │   └── ParameterError       a parameter's value does not fit its declared type
    ├── InputError               data that may not be written; nothing was written
    │   ├── RecordError          a record cannot be read as its type (unknown property, wrong JSON type ...)
    │   ├── ValueViolation       required, enum, @range, @check
    │   ├── UniqueViolation      @key / @unique broken by the batch or by the branch
    │   ├── EndpointMissing      an edge names a node that is not there
    │   ├── CardinalityViolation @card broken
    │   ├── RejectedRecords      a load refused records; carries all of them (or a bounded sample)
    │   └── UnreadableInput      a file or data frame cannot be read as its type: encoding, format, columns
    ├── UsageError               the call itself is wrong (bad option, main as a branch name ...)
    │   ├── AmbiguousRevision    a name that is both a branch and a tag
    │   └── CursorRejected       a change cursor or page token that does not belong to this graph, branch or filter
    ├── ArithmeticOverflow       a query computes a number beyond the range of its type
    ├── NotFound                 GraphNotFound, BranchNotFound, CommitNotFound, TagNotFound
    ├── AlreadyExists            the graph, branch, tag or file exists
    ├── BranchNotMerged          deleting the branch would leave commits that no other branch or tag reaches
    ├── Conflict                 somebody else was first; not committed
    │   ├── ExpectedVersionMismatch  a strict change lost the race for its table: read again and redo
    │   ├── KeyConflict          the key was inserted by somebody else meanwhile, or before (append)
    │   ├── PreconditionFailed   the branch is not at the expected commit (exit code 4, HTTP 412)
    │   ├── BranchReplaced       the branch was deleted (and perhaps made anew) under the writer
    │   ├── Contention           lost the race too often: simply retry
    │   └── MergeConflicts       a merge found conflicts; carries every one
    ├── HistoryGap               the commits asked for were swept by cleanup
    ├── SchemaBoundary           two snapshots whose schemas cannot be compared or merged
    ├── ParentlessCommit         the first commit of a graph has no changes: there is nothing before it
    ├── UnsupportedFormat        the graph needs features that this omnigraph does not have: upgrade
    ├── Damaged                  a stored file is missing or does not hold what was written; names it, and what it affects
    ├── OutcomeUnknown           the store stopped answering during publish; the commit may or may not be there
    ├── ResourceExhausted        the work does not fit in process; says to use engine="spark"
    ├── PipelineFailed           Spark itself stopped (workers lost, cluster gone); nothing was committed
    └── StorageError             the store: ObjectMissing, ObjectExists, StorageDenied, StorageTransient, StoragePermanent

Each error has a stable `code`, says whether an unchanged retry can help (`retry`), and whether anything
may have been committed (`outcome`: "not_committed" or "unknown").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

Outcome = Literal["not_committed", "unknown"]


class OmnigraphError(Exception):
    """Root of every error raised on purpose."""

    code: ClassVar[str] = "error"
    retry: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = "not_committed"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross process borders (pools, Spark workers) whole, whatever their constructor takes."""
        return (_rebuilt, (type(self), self.args, self.__dict__))

    def details(self) -> dict[str, Any]:
        """The machine-readable part, beside code and message."""
        return {}

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"code": self.code, "message": self.message, "retry": self.retry}
        if self.hint:
            value["hint"] = self.hint
        if details := self.details():
            value["details"] = details
        return value


def _rebuilt(kind: type[OmnigraphError], args: tuple[object, ...], state: dict[str, Any]) -> OmnigraphError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


# ---------------------------------------------------------------- language


class LanguageError(OmnigraphError):
    """A place in a source text that is wrong. `rule` is the stable code of the rule (T5, S12, Q000 ...)."""

    code = "language"

    def __init__(
        self,
        message: str,
        *,
        rule: str,
        line: int = 0,
        column: int = 0,
        source_line: str = "",
        file: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.rule = rule
        self.line = line
        self.column = column
        self.source_line = source_line
        self.file = file

    def render(self) -> str:
        """The error with its place: `file:line:column: [rule] message`, the source line, a caret, the hint."""
        lines = [f"{self.file or '<text>'}:{self.line}:{self.column}: [{self.rule}] {self.message}"]
        if self.source_line:
            lines.append(f"  | {self.source_line}")
            lines.append(f"  | {' ' * max(self.column - 1, 0)}^")
        if self.hint:
            lines.append(f"  = {self.hint}")
        return "\n".join(lines)

    def details(self) -> dict[str, Any]:
        return {"rule": self.rule, "file": self.file, "line": self.line, "column": self.column}


class SchemaError(LanguageError):
    code = "schema"


class QueryError(LanguageError):
    code = "query"


class ParameterError(OmnigraphError):
    code = "parameter"

    def __init__(self, message: str, *, parameter: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.parameter = parameter

    def details(self) -> dict[str, Any]:
        return {"parameter": self.parameter}


# ---------------------------------------------------------------- input


class InputError(OmnigraphError):
    """Data that may not be written. Names what it can: type, property, entity id, value, file and line."""

    code = "input"

    def __init__(
        self,
        message: str,
        *,
        type_name: str | None = None,
        property: str | None = None,
        entity_id: str | None = None,
        value: object = None,
        file: str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.type_name = type_name
        self.property = property
        self.entity_id = entity_id
        self.value = value
        self.file = file
        self.line = line

    def details(self) -> dict[str, Any]:
        named = {
            "type": self.type_name,
            "property": self.property,
            "id": self.entity_id,
            "value": None if self.value is None else str(self.value),
            "file": self.file,
            "line": self.line,
        }
        return {name: value for name, value in named.items() if value is not None}


class RecordError(InputError):
    code = "record"


class ValueViolation(InputError):
    code = "value_constraint_violation"


class UniqueViolation(InputError):
    code = "unique_violation"


class EndpointMissing(InputError):
    code = "endpoint_missing"


class CardinalityViolation(InputError):
    code = "cardinality_violation"


class RejectedRecords(InputError):
    """A load refused records. `rejects` is a bounded sample, `total` the whole number."""

    code = "rejected_records"

    def __init__(
        self, message: str, *, rejects: Sequence[Mapping[str, Any]], total: int, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.rejects = tuple(rejects)
        self.total = total

    def details(self) -> dict[str, Any]:
        return {"total": self.total, "rejects": [dict(reject) for reject in self.rejects]}


class UnreadableInput(InputError):
    """A file or data frame that cannot be read at all. `problems` is a bounded list of all of the load's, `total` their
    number."""

    code = "unreadable_input"

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        type_name: str | None = None,
        problems: Sequence[Mapping[str, Any]] = (),
        total: int = 1,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, type_name=type_name, file=file, line=line, hint=hint)
        self.problems = tuple(problems)
        self.total = total

    def details(self) -> dict[str, Any]:
        return {**super().details(), "total": self.total, "problems": [dict(problem) for problem in self.problems]}


class UsageError(OmnigraphError):
    code = "usage"


class ArithmeticOverflow(OmnigraphError):
    code = "arithmetic_overflow"

    def __init__(self) -> None:
        super().__init__(
            "the query computes a number beyond the range of its type",
            hint="whole numbers have 64 bits; write 1.0 * x to compute with fractions",
        )


class AmbiguousRevision(UsageError):
    code = "ambiguous_revision"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"'{name}' is a branch and a tag",
            hint=f"'{name}~0' is the branch; `omnigraph tag delete {name}` takes the tag away",
        )


class CursorRejected(UsageError):
    code = "change_cursor_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"change cursor rejected: {reason}", hint="poll with the same branch and filters, or take a new baseline"
        )


# ---------------------------------------------------------------- names


class NotFound(OmnigraphError):
    code = "not_found"


class GraphNotFound(NotFound):
    code = "graph_not_found"


class BranchNotFound(NotFound):
    code = "branch_not_found"


class CommitNotFound(NotFound):
    code = "commit_not_found"


class TagNotFound(NotFound):
    code = "tag_not_found"


class AlreadyExists(OmnigraphError):
    code = "already_exists"


class BranchNotMerged(OmnigraphError):
    """`commits`: how many would become unreachable. Nothing was deleted."""

    code = "branch_not_merged"

    def __init__(self, branch: str, commits: int, head: str) -> None:
        count = "1 commit" if commits == 1 else f"{commits} commits"
        super().__init__(
            f"branch '{branch}' has {count} that no other branch or tag reaches",
            hint=f"merge it, tag its head ({head}), or delete it all the same with --force (force=True)",
        )
        self.branch = branch
        self.commits = commits

    def details(self) -> dict[str, Any]:
        return {"branch": self.branch, "commits": self.commits}


# ---------------------------------------------------------------- conflicts


class Conflict(OmnigraphError):
    """Somebody else was first. Nothing of this write is visible."""

    code = "conflict"


class ExpectedVersionMismatch(Conflict):
    """A change that depends on the exact state of a table met a newer state. Versions are the small numbers."""

    code = "expected_version_mismatch"

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"{table_key} changed while this write was prepared: expected version {expected}, found {actual}",
            hint="read the current state and apply the change again",
        )
        self.table_key = table_key
        self.expected = expected
        self.actual = actual

    def details(self) -> dict[str, Any]:
        return {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}


class KeyConflict(Conflict):
    code = "key_conflict"

    def __init__(self, type_name: str, entity_id: str, *, hint: str | None = None) -> None:
        super().__init__(
            f"{type_name} '{entity_id}' already exists",
            hint=hint or "use an upsert (insert of a keyed node, or load mode merge) to replace it",
        )
        self.type_name = type_name
        self.entity_id = entity_id

    def details(self) -> dict[str, Any]:
        return {"type": self.type_name, "id": self.entity_id}


class PreconditionFailed(Conflict):
    code = "precondition_failure"

    def __init__(self, branch: str, expected: str, actual: str) -> None:
        super().__init__(
            f"branch '{branch}' is at commit {actual}, not at the expected {expected}",
            hint="read the branch again, decide, and retry with the new commit id",
        )
        self.expected = expected
        self.actual = actual

    def details(self) -> dict[str, Any]:
        return {"expected": self.expected, "actual": self.actual}


class BranchReplaced(Conflict):
    code = "branch_replaced"


class Contention(Conflict):
    code = "contention"
    retry = True


class MergeConflicts(Conflict):
    """`conflicts` holds one value per conflicting entity."""

    code = "merge_conflicts"

    def __init__(self, message: str, *, conflicts: Sequence[Any], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.conflicts = tuple(conflicts)

    def details(self) -> dict[str, Any]:
        return {"merge_conflicts": [conflict.to_json() for conflict in self.conflicts]}


class HistoryGap(OmnigraphError):
    code = "change_feed_gap"


class SchemaBoundary(OmnigraphError):
    code = "schema_boundary"


class ParentlessCommit(OmnigraphError):
    code = "parentless_commit"


class UnsupportedFormat(OmnigraphError):
    """A stored object needs `features` that this version does not have."""

    code = "unsupported_format"

    def __init__(self, message: str, *, features: Sequence[str], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.features = tuple(features)

    def details(self) -> dict[str, Any]:
        return {"features": list(self.features)}


class Damaged(OmnigraphError):
    """A stored file does not hold what was written. `commits` are the ids that are known to need it."""

    code = "damaged"

    def __init__(
        self,
        file: str,
        what: str,
        *,
        affected: str | None = None,
        commits: Sequence[str] = (),
        hint: str = "restore this file from a backup; 'omnigraph commit list' shows what can still be read",
    ) -> None:
        super().__init__(f"{file} is damaged: {what}" + (f"; {affected}" if affected else ""), hint=hint)
        self.file = file
        self.what = what
        self.affected = affected
        self.commits = tuple(commits)

    def details(self) -> dict[str, Any]:
        named = {"file": self.file, "what": self.what, "affected": self.affected, "commits": list(self.commits)}
        return {name: value for name, value in named.items() if value}


class OutcomeUnknown(OmnigraphError):
    """Only when the store stays unreachable: the commit id tells, once the store answers again."""

    code = "outcome_unknown"
    outcome = "unknown"

    def __init__(self, message: str, *, commit_id: str) -> None:
        super().__init__(message, hint=f"when the store answers again, look for commit {commit_id} before you retry")
        self.commit_id = commit_id

    def details(self) -> dict[str, Any]:
        return {"commit_id": self.commit_id}


class ResourceExhausted(OmnigraphError):
    code = "resource_exhausted"


class PipelineFailed(OmnigraphError):
    code = "pipeline_failed"
    retry = True


# ---------------------------------------------------------------- storage


class StorageError(OmnigraphError):
    """The store answered with an error. `key` is relative to the graph's root."""

    code = "storage"

    def __init__(self, message: str, *, key: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.key = key

    def details(self) -> dict[str, Any]:
        return {"key": self.key}


class ObjectMissing(StorageError):
    code = "object_missing"


class ObjectExists(StorageError):
    code = "object_exists"


class StorageDenied(StorageError):
    code = "storage_denied"


class StorageTransient(StorageError):
    """No answer, or an answer that says "later". A write may or may not have been applied."""

    code = "storage_transient"
    retry = True
    outcome = "unknown"


class StoragePermanent(StorageError):
    code = "storage_permanent"
