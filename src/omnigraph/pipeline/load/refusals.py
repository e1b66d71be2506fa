"""The error of a load that breaks rules: the first violation with its file and line, the others in its hint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omnigraph.pipeline.load.checks import CheckReport
from omnigraph.rules import Check, Violation

MAX_OTHERS = 5


@dataclass(frozen=True)
class Finding:
    check: Check
    violation: Violation


TableVersion = tuple[str | None, int | None]
Locate = Callable[[list[Finding]], list[TableVersion]]
"""Where the record of each finding stands: file and line, or nothing when the source has no lines."""


def raise_first(checks: Sequence[Check], reports: Sequence[CheckReport], locate: Locate | None) -> None:
    """Raise the first violation in the order of the checks, and of the ids in each of them."""
    findings = [
        Finding(check, violation)
        for check, report in zip(checks, reports, strict=True)
        for violation in sorted(report.violations, key=lambda each: (each.id, each.property, each.text or ""))
    ]
    same_rule = [finding for finding in findings if finding.check.rank == findings[0].check.rank]
    if not same_rule:
        return
    places = [(None, None)] * len(same_rule) if locate is None else locate(same_rule)
    first, *others = (
        finding.check.error(finding.violation, file=file, line=line)
        for finding, (file, line) in zip(same_rule, places, strict=True)
    )
    if others:
        said = [
            f"{file}:{line}: {error.message}" if file else error.message
            for error, (file, line) in zip(others, places[1:], strict=True)
        ]
        more = "; ".join(said[:MAX_OTHERS]) + ("; ..." if len(said) > MAX_OTHERS else "")
        first.hint = f"also: {more}" if first.hint is None else f"{first.hint}; also: {more}"
    raise first
