"""Every error a caller can catch.

    OmnigraphError
    ├── LanguageError
    │   ├── SchemaError
    │   └── QueryError
    ├── ParameterError
    ├── InputError
    │   ├── RecordError
    │   ├── ValueViolation
    │   ├── UniqueViolation
    │   ├── EndpointMissing
    │   ├── CardinalityViolation
    │   ├── RejectedRecords
    │   └── UnreadableInput
    ├── UsageError
    │   ├── AmbiguousRevision
    │   ├── CursorRejected
    │   ├── MissingExtra
    │   └── SqlRefused
    ├── EmbeddingRefused
    ├── EmbeddingUnavailable
    ├── ArithmeticOverflow
    ├── QueryTimeout
    ├── Cancelled
    ├── NotFound
    │   ├── GraphNotFound
    │   ├── BranchNotFound
    │   ├── CommitNotFound
    │   ├── TagNotFound
    │   └── RouteNotFound
    ├── AlreadyExists
    ├── BranchNotMerged
    ├── PolicyDenied
    ├── PolicyFailed
    ├── ConfigurationError
    ├── Conflict
    │   ├── ExpectedVersionMismatch
    │   ├── KeyConflict
    │   ├── PreconditionFailed
    │   ├── BranchReplaced
    │   ├── Contention
    │   ├── NotFastForward
    │   ├── WriteKeyReused
    │   ├── SequencePassed
    │   ├── StagedTooLongAgo
    │   ├── StaleResolution
    │   ├── ClusterConflict
    │   └── MergeConflicts
    ├── HistoryGap
    ├── SchemaChangeRefused
    ├── ParentlessCommit
    ├── UnsupportedFormat
    ├── Damaged
    ├── ValuesLost
    ├── OutcomeUnknown
    ├── ResourceExhausted
    ├── PipelineFailed
    ├── RequestRefused
    │   ├── Unauthorized
    │   ├── OriginRefused
    │   ├── MethodNotAllowed
    │   ├── UnsupportedMediaType
    │   ├── LimitExceeded
    │   │   └── HeadTooLarge
    │   ├── TooManyRequests
    │   └── ServerStopping
    ├── ServerUnavailable
    └── StorageError
        ├── ObjectMissing
        ├── ObjectExists
        ├── StorageDenied
        ├── StorageTransient
        └── StoragePermanent

Each class says in its first sentence what happened. Each error has a stable `code` (its class's name in snake case; `forbidden` for PolicyDenied), says
whether an unchanged retry can help (`retry`), and whether anything may have been committed (`outcome`: "not_committed" or
"unknown").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Outcome = Literal["not_committed", "unknown"]

MAX_MESSAGE = 2_000
"""In characters. A message quotes what the caller passed, which may be megabytes long."""
MAX_SOURCE_LINE = 200


class OmnigraphError(Exception):
    """The root of every error that the library raises."""

    code: ClassVar[str] = "omnigraph_error"
    retry: bool = False
    outcome: Outcome = "not_committed"
    _detail_names: ClassVar[tuple[str, ...]] = ()
    """Attributes that are its details, under their own names."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = printable(message)
        self.hint = None if hint is None else printable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        """What happened, where if that is known, and what to do."""
        return self.message if self.hint is None else f"{self.message} ({self.hint})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors are pickled with all of their state (for pools and Spark workers), whatever their constructor takes."""
        return (_rebuilt, (type(self), self.args, self.__dict__))

    def details(self) -> dict[str, Any]:
        """The machine-readable part, in addition to code and message."""
        return {name: getattr(self, name) for name in self._detail_names}

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"code": self.code, "message": self.message, "retry": self.retry}
        if self.outcome == "unknown":
            value["outcome"] = self.outcome
        if self.hint:
            value["hint"] = self.hint
        if details := self.details():
            value["details"] = _json(details)
        return value


def printable(text: str) -> str:
    """The text, safe to print: what UTF-8 cannot encode is escaped, and a long text is shortened in the middle."""
    if len(text) > MAX_MESSAGE:
        text = f"{text[: MAX_MESSAGE - 500]} … {text[-500:]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _json(value: object) -> Any:
    """Details as JSON values, whatever the caller passed."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return printable(value)
        case Mapping():
            return {_json(str(name)): _json(item) for name, item in value.items()}
        case list() | tuple():
            return [_json(item) for item in value]
    return f"a value of type {type(value).__name__}"


def _rebuilt(kind: type[OmnigraphError], args: tuple[object, ...], state: dict[str, Any]) -> OmnigraphError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


# ---------------------------------------------------------------- language


class LanguageError(OmnigraphError):
    """The text of a schema or a query is wrong. `rule` is the stable code of the rule (T5, S112, Q000 ...)."""

    _detail_names = ("rule", "file", "line", "column")

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

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """The error with its position: `file:line:column: [rule] message`, the source line, a caret, the hint."""
        lines = [f"{self.file or '<text>'}:{self.line}:{self.column}: [{self.rule}] {self.message}"]
        if self.source_line:
            # Only the part of a long line around the column.
            start = max(0, self.column - MAX_SOURCE_LINE // 2) if len(self.source_line) > MAX_SOURCE_LINE else 0
            lines.append(f"  | {printable(self.source_line[start : start + MAX_SOURCE_LINE])}")
            lines.append(f"  | {' ' * max(self.column - 1 - start, 0)}^")
        if self.hint:
            lines.append(f"  = {self.hint}")
        return "\n".join(lines)


class SchemaError(LanguageError):
    """The text of a schema (`.pg`) is wrong; the rules are below."""


class QueryError(LanguageError):
    """The text of a query (`.gq`) is wrong; the rules are below."""


class ParameterError(OmnigraphError):
    """A parameter of a query is missing, unknown, or does not fit its declared type."""

    _detail_names = ("parameter",)

    def __init__(self, message: str, *, parameter: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.parameter = parameter


# ---------------------------------------------------------------- input


class InputError(OmnigraphError):
    """Data that may not be written. Gives what is known of type, property, entity id, value, file and line."""

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

    def __str__(self) -> str:
        position = f"{self.file}:{self.line}: " if self.file and self.line else ""
        return position + super().__str__()

    def details(self) -> dict[str, Any]:
        named = {
            "type": self.type_name,
            "property": self.property,
            "id": self.entity_id,
            "value": None if self.value is None else _shown_value(self.value),
            "file": self.file,
            "line": self.line,
        }
        return {name: value for name, value in named.items() if value is not None}


def _shown_value(value: object) -> str:
    """A value as text, or its type if it cannot be converted."""
    try:
        return printable(str(value))
    except Exception:  # A caller's own class may raise anything.
        return f"a value of type {type(value).__name__}"


class RecordError(InputError):
    """A record cannot be read as its type: an unknown property, a value of another type, a missing end."""


class ValueViolation(InputError):
    """A value breaks its property's rule: required, enum, @range, @check."""


class UniqueViolation(InputError):
    """@key or @unique is broken by the data itself or by the branch."""


class EndpointMissing(InputError):
    """An edge names a node that does not exist."""


class CardinalityViolation(InputError):
    """@card is broken."""


class RejectedRecords(InputError):
    """A load refused records. `rejects` is a bounded sample, `total` the number of all of them."""

    def __init__(
        self, message: str, *, rejects: Sequence[Mapping[str, Any]], total: int, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.rejects = tuple(rejects)
        self.total = total

    def details(self) -> dict[str, Any]:
        return {"total": self.total, "rejects": [dict(reject) for reject in self.rejects]}


class UnreadableInput(InputError):
    """A file or data frame cannot be read at all. `problems` is a bounded list of those found in the load, `total` the number of
    all of them."""

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
    """The call itself is wrong: an option, a name, a combination of them."""


class EmbeddingRefused(OmnigraphError):
    """A text cannot be embedded with this configuration: no key, a model or size other than the schema's, or the provider refused."""


class EmbeddingUnavailable(OmnigraphError):
    """The provider of embeddings did not answer in time, or asked to try again later."""

    retry = True


class ArithmeticOverflow(OmnigraphError):
    """A query computes a number beyond the range of its type."""

    def __init__(self) -> None:
        super().__init__(
            "the query computes a number beyond the range of its type",
            hint="whole numbers have 64 bits; write 1.0 * x to compute with fractions",
        )


class QueryTimeout(OmnigraphError):
    """A read took longer than its timeout and was stopped."""

    _detail_names = ("timeout_s",)

    def __init__(self, timeout_s: float) -> None:
        super().__init__(
            f"the query did not end within {timeout_s:g} seconds",
            hint='ask for less, give it a longer timeout, or run it on a cluster (engine="spark")',
        )
        self.timeout_s = timeout_s


class Cancelled(OmnigraphError):
    """The caller cancelled it (`Cancellation.cancel`) before it was done."""

    def __init__(self) -> None:
        super().__init__("cancelled by the caller", hint="ask again if the answer is still wanted")


class AmbiguousRevision(UsageError):
    """A revision names more than one commit."""


class CursorRejected(UsageError):
    """A change cursor or page token does not belong to this graph, branch or filter."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"change cursor rejected: {reason}", hint="poll with the same branch and filters, or take a new baseline"
        )


class MissingExtra(UsageError):
    """A required package is not installed; the hint names the extra to install."""


class SqlRefused(UsageError):
    """The text of an SQL query is wrong, or is not one read of this graph."""


# ---------------------------------------------------------------- names


class NotFound(OmnigraphError):
    """There is no such thing."""


class GraphNotFound(NotFound):
    """There is no graph at the address."""


class BranchNotFound(NotFound):
    """There is no branch with that name."""


class CommitNotFound(NotFound):
    """There is no commit that the revision names."""


class TagNotFound(NotFound):
    """There is no tag with that name."""


class RouteNotFound(NotFound):
    """A server has nothing at the path."""


class AlreadyExists(OmnigraphError):
    """The graph, branch, tag or file exists already."""


class BranchNotMerged(OmnigraphError):
    """Deleting the branch would leave commits that no other branch or tag reaches. `commits` says how many."""

    _detail_names = ("branch", "commits")

    def __init__(self, branch: str, commits: int, head: str) -> None:
        count = "1 commit" if commits == 1 else f"{commits} commits"
        super().__init__(
            f"branch '{branch}' has {count} that no other branch or tag reaches",
            hint=f"merge it, tag its head ({head}), or delete it all the same with force=True",
        )
        self.branch = branch
        self.commits = commits


class PolicyDenied(OmnigraphError):
    """The policy does not let this actor do this. `branch` and `target_branch` are the ones that were asked for.

    `why` is the rule that decided, or that comes closest. It is for those who may know the policy, and is not part of the message.
    """

    code = "forbidden"

    def __init__(
        self,
        message: str,
        *,
        action: str,
        branch: str | None = None,
        target_branch: str | None = None,
        why: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.why = why
        self.action = action
        self.branch = branch
        self.target_branch = target_branch

    def details(self) -> dict[str, Any]:
        named = {"action": self.action, "branch": self.branch, "target_branch": self.target_branch}
        return {name: value for name, value in named.items() if value is not None}


class PolicyFailed(OmnigraphError):
    """The policy has an error and could not be evaluated for this request, which was therefore denied."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a configuration: a stable code, and the position if it is known."""

    code: str
    message: str
    file: str | None = None
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = self.file or ""
        if self.line:
            place += f":{self.line}:{self.column}"
        return f"{place}: {self.message}" if place else self.message

    def to_json(self) -> dict[str, Any]:
        named = {
            "code": self.code,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "column": self.column,
        }
        return {name: value for name, value in named.items() if value}


class ConfigurationError(OmnigraphError):
    """A policy or a cluster file is wrong, or asks for something impossible. `problems` has everything that was found."""

    def __init__(self, problems: Sequence[Problem], *, hint: str | None = None) -> None:
        super().__init__("\n".join(str(problem) for problem in problems), hint=hint)
        self.problems = tuple(problems)

    def details(self) -> dict[str, Any]:
        return {"problems": [problem.to_json() for problem in self.problems]}


# ---------------------------------------------------------------- conflicts


class Conflict(OmnigraphError):
    """Somebody else was first. Nothing of this write is visible."""


class ExpectedVersionMismatch(Conflict):
    """What a write has read, or the schema, has changed since, so that the write might have been decided differently. Versions are
    generations of the table. `entity_id` is the entity that was read, if it was a single one.

    For `schema`, `reason` says what the new schema does not allow, and the versions are numbers of commits on the branch.
    """

    def __init__(
        self,
        table_key: str,
        expected: int,
        actual: int,
        *,
        reason: str | None = None,
        entity_id: str | None = None,
    ) -> None:
        what = f"expected version {expected}, found {actual}" if reason is None else reason
        whose = table_key if entity_id is None else f"'{entity_id}' of {table_key}"
        super().__init__(
            f"{whose} changed while this write was prepared: {what}",
            hint="read the current state and apply the change again",
        )
        self.reason = reason
        self.entity_id = entity_id
        self.table_key = table_key
        self.expected = expected
        self.actual = actual

    @property
    def retry(self) -> bool:  # type: ignore[override]  # what the new schema does not allow is refused again
        return self.reason is None

    def details(self) -> dict[str, Any]:
        known = {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}
        more = {"reason": self.reason, "entity_id": self.entity_id}
        return known | {name: value for name, value in more.items() if value is not None}


class KeyConflict(Conflict):
    """The id exists already (append), or another writer inserted it in the meantime."""

    def __init__(self, type_name: str, entity_id: str, *, entity_kind: str = "node", hint: str | None = None) -> None:
        super().__init__(
            f"{type_name} '{entity_id}' already exists",
            hint=hint or "use an upsert (`upsert`, or load mode merge) to replace it",
        )
        self.entity_kind = entity_kind
        self.type_name = type_name
        self.entity_id = entity_id

    def details(self) -> dict[str, Any]:
        return {"type": self.type_name, "id": self.entity_id}


class PreconditionFailed(Conflict):
    """The branch is not at the expected commit."""

    _detail_names = ("expected", "actual")

    def __init__(self, branch: str, expected: str, actual: str) -> None:
        super().__init__(
            f"branch '{branch}' is at commit {actual}, not at the expected {expected}",
            hint="read the branch again, decide, and retry with the new commit id",
        )
        self.expected = expected
        self.actual = actual


class BranchReplaced(Conflict):
    """The branch was deleted, and perhaps created again, while the write was under way."""


class Contention(Conflict):
    """The race for the next commit was lost too often: retry."""

    retry = True


class NotFastForward(Conflict):
    """The branches of the two graphs have diverged, or one lacks commits that the other builds on: nothing was copied to the branch."""


class WriteKeyReused(Conflict):
    """The write key was used for another write. `commit_id` is that write's commit,
    if it has one."""

    def __init__(self, commit_id: str | None) -> None:
        what = "another write" if commit_id is None else f"commit {commit_id}"
        super().__init__(
            f"{what} was made under this write key, and asked for something else",
            hint="give every write a key of its own; a repeated write must ask for exactly the same",
        )
        self.commit_id = commit_id

    def details(self) -> dict[str, Any]:
        return {} if self.commit_id is None else {"commit_id": self.commit_id}


class SequencePassed(Conflict):
    """The sequence of write keys has a higher number, and this one was never written."""

    _detail_names = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__(
            f"the sequence has passed number {number}, which was never written",
            hint="the numbers of a sequence grow; what comes in any order takes a key of its own for each write",
        )
        self.number = number


class StagedTooLongAgo(Conflict):
    """The write took so long that cleanup may have removed the data it had staged: write again."""

    retry = True
    _detail_names = ("branch",)

    def __init__(self, branch: str, why: str) -> None:
        super().__init__(
            f"the write to branch '{branch}' came too late: {why}, and cleanup has removed older unpublished data since",
            hint="nothing was committed; write again from the start",
        )
        self.branch = branch


class StaleResolution(Conflict):
    """A resolution of a merge was made for values that the entity no longer has, or for an entity that is not in conflict."""

    def __init__(self, type_name: str, entity_id: str) -> None:
        super().__init__(
            f"the resolution of {type_name} '{entity_id}' was decided about other values",
            hint="nothing was published; look at the conflicts again (dry_run=True) and decide again",
        )
        self.type_name = type_name
        self.entity_id = entity_id

    def details(self) -> dict[str, Any]:
        return {"type": self.type_name, "id": self.entity_id}


class ClusterConflict(Conflict):
    """Another process is changing the cluster, or has changed it in the meantime. `reason` is a stable code."""

    _detail_names = ("reason",)

    def __init__(self, reason: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class MergeConflicts(Conflict):
    """A merge found conflicts. `conflicts` has one value per conflicting entity, `schema_conflicts` one per declaration in which
    the branches' schemas contradict each other; if there are any, entities were not compared."""

    def __init__(
        self, message: str, *, conflicts: Sequence[Any], schema_conflicts: Sequence[Any] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.conflicts = tuple(conflicts)
        self.schema_conflicts = tuple(schema_conflicts)

    def details(self) -> dict[str, Any]:
        if self.schema_conflicts:
            return {"schema_conflicts": [conflict.to_json() for conflict in self.schema_conflicts]}
        return {"merge_conflicts": [conflict.to_json() for conflict in self.conflicts]}


class HistoryGap(OmnigraphError):
    """The commits asked for were removed by cleanup.

    `watermark`, where it is known, is the position in the chain of `branch` below which cleanup keeps only what tags and other
    branches need. `commit_id`, where it is known, is the first commit that cannot be read.
    """

    def __init__(
        self,
        message: str,
        *,
        branch: str | None = None,
        watermark: int | None = None,
        commit_id: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.commit_id = commit_id
        self.branch = branch
        self.watermark = watermark

    def details(self) -> dict[str, Any]:
        return {} if self.watermark is None else {"branch": self.branch, "watermark": self.watermark}


Violations = Sequence[tuple[str, int, Sequence[tuple[str, str]]]]
"""A step in words, the number of entities that break it, and the first of them with id and reason."""


class SchemaChangeRefused(OmnigraphError):
    """The schema cannot be changed like this: a step is not possible, or entities of the branch would break it.

    `steps` are the steps that are never possible, `violations` those that entities of the branch prevent, with these entities.
    """

    def __init__(self, steps: Sequence[str], violations: Violations = ()) -> None:
        self.steps = tuple(steps)
        self.violations = tuple(violations)
        lines = list(self.steps)
        for step, count, first in self.violations:
            lines.append(f"{step}: {count} {'entity is' if count == 1 else 'entities are'} in the way")
            lines += [f"  {message} (id '{id}')" for id, message in first]
        hint = "nothing was changed; 'omnigraph schema plan' shows every step"
        if self.violations:
            hint = "nothing was changed; correct these entities first, or in the same commit, with_='FILE'"
        super().__init__("\n".join(lines), hint=hint)

    def details(self) -> dict[str, Any]:
        return {
            "steps": list(self.steps),
            "violations": [
                {"step": step, "count": count, "first": [{"id": id, "message": message} for id, message in first]}
                for step, count, first in self.violations
            ],
        }


class ParentlessCommit(OmnigraphError):
    """The first commit of a graph has no changes: there is nothing before it."""

    _detail_names = ("commit_id",)

    def __init__(self, commit_id: str) -> None:
        super().__init__(f"commit {commit_id} is the first of the graph", hint="ask for a later commit")
        self.commit_id = commit_id


class UnsupportedFormat(OmnigraphError):
    """The graph needs `features` that this omnigraph does not have: upgrade."""

    def __init__(self, message: str, *, features: Sequence[str], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.features = tuple(features)

    def details(self) -> dict[str, Any]:
        return {"features": list(self.features)}


class Damaged(OmnigraphError):
    """A stored file does not have the content that was written. `commits` are the ids of commits that are known to need it."""

    def __init__(
        self,
        file: str,
        what: str,
        *,
        affected: str | None = None,
        commits: Sequence[str] = (),
        hint: str = "restore this file from a backup; 'omnigraph verify --all' says what else is damaged, 'omnigraph repair' what can be done",
    ) -> None:
        super().__init__(f"{file} is damaged: {what}" + (f"; {affected}" if affected else ""), hint=hint)
        self.file = file
        self.what = what
        self.affected = affected
        self.commits = tuple(commits)

    def details(self) -> dict[str, Any]:
        named = {"file": self.file, "what": self.what, "affected": self.affected, "commits": list(self.commits)}
        return {name: value for name, value in named.items() if value}


class ValuesLost(OmnigraphError):
    """A write would have handed on rows without values that they have, which is a defect of omnigraph: nothing was published."""

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        super().__init__(
            f"values in {table} would be lost: {', '.join(columns)}",
            hint="the graph is as it was; report this with the schemas of both sides, and try again after 'omnigraph optimize'",
        )


class OutcomeUnknown(OmnigraphError):
    """The store stopped answering in the middle of a publish: the commit may or may not exist.

    Look for the commit id once the store answers again.
    """

    outcome = "unknown"
    _detail_names = ("commit_id",)

    def __init__(self, message: str, *, commit_id: str) -> None:
        super().__init__(message, hint=f"when the store answers again, look for commit {commit_id} before you retry")
        self.commit_id = commit_id


class ResourceExhausted(OmnigraphError):
    """The work does not fit in this process: use Spark (engine="spark")."""


class PipelineFailed(OmnigraphError):
    """Spark itself stopped: workers lost, cluster gone. Nothing was committed."""

    retry = True


# ---------------------------------------------------------------- requests to a server


class RequestRefused(OmnigraphError):
    """A server refused a request before it reached a graph."""


class Unauthorized(RequestRefused):
    """The request has no bearer token, or one that the server does not know."""


class OriginRefused(RequestRefused):
    """The request names a host that is not the server's, or was sent by a page of another site."""


class MethodNotAllowed(RequestRefused):
    """The path exists, but not for this method."""

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not allowed here", hint=f"allowed: {', '.join(allowed)}")
        self.allowed = tuple(allowed)


class UnsupportedMediaType(RequestRefused):
    """The body has a content type that the route does not accept."""


class LimitExceeded(RequestRefused):
    """The request, or its answer, is larger than the server allows. `resource` says in which respect."""

    _detail_names = ("resource", "limit", "actual")

    def __init__(self, message: str, *, resource: str, limit: int, actual: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.resource = resource
        self.limit = limit
        self.actual = actual


class HeadTooLarge(LimitExceeded):
    """The target and the headers of a request are more than the server reads."""


class TooManyRequests(RequestRefused):
    """The actor has reached the limit of concurrent reads or writes."""

    retry = True


class ServerStopping(RequestRefused):
    """The server takes no new requests: it is shutting down."""

    retry = True


class ServerUnavailable(OmnigraphError):
    """A server did not answer, or not as an OmniGraph server does. If the request was sent, it may have been carried out."""

    retry = True
    _detail_names = ("is_sent",)
    outcome = "unknown"

    def __init__(self, message: str, *, is_sent: bool = True) -> None:
        super().__init__(message, hint="check the address, and that the server is running")
        self.is_sent = is_sent


# ---------------------------------------------------------------- storage


class StorageError(OmnigraphError):
    """The store answered with an error. `key` is relative to the graph's root."""

    _detail_names = ("key",)

    def __init__(self, message: str, *, key: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.key = key


class ObjectMissing(StorageError):
    """A file of the graph does not exist."""


class ObjectExists(StorageError):
    """A file that was to be created exists already."""


class StorageDenied(StorageError):
    """The credentials or permissions are not sufficient."""


class StorageTransient(StorageError):
    """No answer, or an answer that says "later". A write may or may not have been applied."""

    retry = True
    outcome: Outcome = "unknown"


class StoragePermanent(StorageError):
    """The store refused for good."""
