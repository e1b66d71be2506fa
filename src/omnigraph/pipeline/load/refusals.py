"""What a load says of broken rules: the error with the first violation, its file and line, and the others in its hint; in a dry
run, how often each rule is broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omnigraph.errors import InputError
from omnigraph.pipeline.load.checks import CheckReport
from omnigraph.pipeline.load.reasons import MAX_EXAMPLES
from omnigraph.pipeline.load.receipt import LoadRefusal
from omnigraph.rules import Check, Violation
from omnigraph.rules.endpoints import EndpointCheck

MAX_OTHERS = 5


@dataclass(frozen=True)
class BrokenRule:
    check: Check
    violation: Violation


RecordPosition = tuple[str | None, int | None]
Locate = Callable[[list[BrokenRule]], list[RecordPosition]]
"""Where the record of each finding stands: file and line, or nothing when the source has no lines."""


def raise_first(checks: Sequence[Check], reports: Sequence[CheckReport], locate: Locate | None) -> None:
    """Raise the first violation in the order of the checks, and of the ids in each of them."""
    findings = [
        BrokenRule(check, violation)
        for check, report in zip(checks, reports, strict=True)
        for violation in sorted(
            report.violations, key=lambda violation: (violation.id, violation.property, violation.text or "")
        )
    ]
    same_rule = [finding for finding in findings if finding.check.rank == findings[0].check.rank]
    if not same_rule:
        return
    places = [(None, None)] * len(same_rule) if locate is None else locate(same_rule)
    first, *others = (
        finding.check.error(finding.violation, file=file, line=line)
        for finding, (file, line) in zip(same_rule, places, strict=True)
    )
    if isinstance(same_rule[0].check, EndpointCheck):
        first.hint = "--missing skip sets such edges aside, --missing stub creates the nodes"
    if others:
        messages = [
            f"{file}:{line}: {error.message}" if file else error.message
            for error, (file, line) in zip(others, places[1:], strict=True)
        ]
        more = "; ".join(messages[:MAX_OTHERS]) + ("; ..." if len(messages) > MAX_OTHERS else "")
        first.hint = f"also: {more}" if first.hint is None else f"{first.hint}; also: {more}"
    raise first


def refusals(checks: Sequence[Check], reports: Sequence[CheckReport], locate: Locate | None) -> list[LoadRefusal]:
    """What each check has found, with the places of the first records."""
    refused = []
    for check, report in zip(checks, reports, strict=True):
        if not report.count:
            continue
        first = sorted(
            report.violations, key=lambda violation: (violation.id, violation.property, violation.text or "")
        )[:MAX_EXAMPLES]
        places = [] if locate is None else locate([BrokenRule(check, violation) for violation in first])
        error = check.error(first[0])
        refused.append(
            LoadRefusal(
                error.code,
                error.message,
                report.count,
                check.table.partition(":")[2],
                error.property if isinstance(error, InputError) else None,
                tuple(dict.fromkeys(f"{file}:{line}" if line else file for file, line in places if file)),
                can_be_set_aside=False,
            )
        )
    return refused
