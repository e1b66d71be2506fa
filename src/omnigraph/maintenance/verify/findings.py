"""What verification found: values that name the object, what is wrong with it, what that takes away, and what to do; and what a
repair did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote

from omnigraph.errors import Damaged
from omnigraph.history.values import KEYS_SUFFIX, Commit
from omnigraph.tables.verifying import MISSING

FindingKind = Literal[
    "missing",
    "size",
    "content",
    "unreadable",
    "row_count",
    "duplicate_id",
    "missing_end",
    "broken_rule",
    "stale_index",
    "lost_values",
    "foreign",
]
ObjectKind = Literal[
    "identity",
    "entry",
    "schema",
    "segment",
    "ancestry",
    "write_keys",
    "tag",
    "plan",
    "watermark",
    "lease",
    "manifest",
    "data",
    "deletions",
    "index",
    "adjacency",
    "type",
    "other",
]

MAX_COMMITS = 20
"""Commits that a finding names; `total_commits` counts all of them."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `object` is a file of the graph, or a type of it; `kind` says what is wrong with it.

    `commits` are the newest of `total_commits` that cannot be read in full, or whose content is wrong. `types` and `rows`
    are what is lost at the newest of them, `ids` some of the entities, where they are known.

    >>> for finding in g.maintenance.verify().findings:
    ...     print(finding.object, finding.problem, finding.action)
    """

    kind: FindingKind
    object_kind: ObjectKind
    object: str
    problem: str
    action: str
    commits: tuple[str, ...] = ()
    total_commits: int = 0
    types: tuple[str, ...] = ()
    rows: int | None = None
    ids: tuple[str, ...] = ()

    @property
    def is_damage(self) -> bool:
        """False for a file that is in the graph's folders and not part of the graph: it harms no commit."""
        return self.kind != "foreign"

    def __str__(self) -> str:
        return f"{self.object}: {self.problem}"


@dataclass(frozen=True)
class VerifyReport:
    """What was looked at, and everything that is wrong.

    >>> report = g.maintenance.verify(all=True)
    >>> assert report.is_whole
    """

    commits: int
    objects: int
    files: int
    bytes: int
    rows: int
    is_deep: bool
    findings: tuple[Finding, ...] = field(repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged. Files of other tools are findings too, but no damage."""
        return not any(finding.is_damage for finding in self.findings)

    def raise_damage(self) -> None:
        """Damaged for the first thing that is damaged, if something is.

        >>> g.maintenance.verify().raise_damage()
        """
        for finding in self.findings:
            if finding.is_damage:
                raise Damaged(finding.object, finding.problem, commits=finding.commits, hint=finding.action)

    def __repr__(self) -> str:
        state = "whole" if self.is_whole else f"{len(self.findings)} findings"
        return f"<VerifyReport: {state}; {self.commits} commits, {self.files} files>"


# ---------------------------------------------------------------- from damage to findings

_FOLDERS: dict[str, ObjectKind] = {
    "graph.json": "identity",
    "branches": "entry",
    "schemas": "schema",
    "history": "segment",
    "tags": "tag",
    "recovery": "plan",
    "retention": "watermark",
    "cutoffs": "watermark",
    "leases": "lease",
}
_TABLE_FOLDERS: dict[str, ObjectKind] = {
    "_versions": "manifest",
    "data": "data",
    "_deletions": "deletions",
    "_indices": "index",
    "_adjacency": "adjacency",
}
RESTORE = "restore this file from a backup"
LOST_DATA = (
    f"{RESTORE}, or 'omnigraph repair --branch BRANCH --lost reset' (to the newest intact commit) "
    "or '--lost drop' (without the lost rows)"
)


def object_kind(file: str) -> ObjectKind:
    """What kind of object a file of the graph is, by its place."""
    parts = file.split("/")
    if parts[0] in ("nodes", "edges") and len(parts) > 3:
        return _TABLE_FOLDERS.get(parts[2], "other")
    if file.endswith(".ancestry.json"):
        return "ancestry"
    if file.endswith(KEYS_SUFFIX):
        return "write_keys"
    return _FOLDERS.get(parts[0], "other")


def action_for(file: str) -> str:
    """What to do about a damaged file."""
    name = unquote(file.rsplit("/", 1)[-1].removesuffix(".json"))
    match object_kind(file):
        case "segment" | "ancestry" | "write_keys" | "watermark" | "index":
            return "'omnigraph repair --yes' rebuilds it"
        case "adjacency":
            return "nothing is lost, and reads do without it: 'omnigraph optimize' writes it again"
        case "tag":
            return f"{RESTORE}, or 'omnigraph tag delete {name}' and tag the commit again"
        case "plan":
            return f"{RESTORE}, or 'omnigraph recovery {name} --discard' and load again"
        case "lease":
            return "it counts for an hour after it was last written, and until then no cleanup runs; its writer writes it again"
        case "manifest" | "data" | "deletions":
            return LOST_DATA
        case "entry":
            branch = unquote(file.split("/")[1])
            return f"{RESTORE}, or 'omnigraph repair --branch {branch} --lost reset' if the branch cannot be read"
    return RESTORE


def damaged_object(damage: Damaged) -> Finding:
    """A finding about an object of history or a schema."""
    in_the_way = damage.hint is not None and damage.hint.startswith("move it")
    kind: FindingKind = "unreadable" if in_the_way else "missing" if damage.what == MISSING else "content"
    return Finding(
        kind=kind,
        object_kind=object_kind(damage.file),
        object=damage.file,
        problem=damage.what if damage.affected is None else f"{damage.what}; {damage.affected}",
        action=str(damage.hint) if in_the_way else action_for(damage.file),
        commits=damage.commits,
        total_commits=len(damage.commits),
    )


def newest_of(commits: Sequence[str]) -> tuple[str, ...]:
    """The newest commits: ids begin with their time."""
    return tuple(sorted(commits, reverse=True)[:MAX_COMMITS])


# What a repair did, or would do.


StepKind = Literal["rebuild_object", "rebuild_indexes", "renumber_rows", "restore_values", "reset_branch", "drop_rows"]


@dataclass(frozen=True)
class RepairStep:
    """One thing that a repair does: `object` is a file or a branch, `commit` what was published for it.

    >>> for step in g.maintenance.repair().steps:
    ...     print(step.object, step.action)
    """

    kind: StepKind
    object: str
    action: str
    commit: Commit | None = None


@dataclass(frozen=True)
class RepairReport:
    """The steps of a repair, and what was found. `remaining` is what is still wrong after it; before it is done, what no
    step is about.

    >>> report = g.maintenance.repair()
    >>> assert not report.is_done and report.findings == report.remaining == ()
    """

    is_done: bool
    steps: tuple[RepairStep, ...]
    findings: tuple[Finding, ...] = field(repr=False)
    remaining: tuple[Finding, ...] = field(repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether nothing damaged remains."""
        return not any(finding.is_damage for finding in self.remaining)
