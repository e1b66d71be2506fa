"""What a repair did, or would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from omnigraph.history import Commit
from omnigraph.maintenance.verify.findings import Finding

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
