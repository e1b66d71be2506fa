"""What a load says of broken rules: the error with the first violation, its file and line, and the others in its hint; in a dry
run, how often each rule is broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from omnigraph.errors import InputError
from omnigraph.load.checks import CheckReport
from omnigraph.load.receipt import LoadRefusal
from omnigraph.records.rows import Reject
from omnigraph.rules.check import Check, Violation
from omnigraph.rules.endpoints import EndpointCheck

# Rejected records, counted by their reason.

MAX_EXAMPLES = 3
_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9][^ ,;]*")
"""What differs between messages that say the same of different values."""


@dataclass
class RejectsOfReason:
    """How many records were rejected for the same reason, with the first of them."""

    count: int
    examples: list[Reject]

    @property
    def reason(self) -> tuple[object, ...]:
        return _reason(self.examples[0])


def by_reason(rejects: Iterable[Reject]) -> list[RejectsOfReason]:
    by_key: dict[tuple[object, ...], RejectsOfReason] = {}
    for reject in rejects:
        same = by_key.setdefault(_reason(reject), RejectsOfReason(0, []))
        same.count += 1
        if len(same.examples) < MAX_EXAMPLES:
            same.examples.append(reject)
    return list(by_key.values())


def _reason(reject: Reject) -> tuple[object, ...]:
    return (reject.code, reject.type_name, reject.property, _VALUE.sub("...", reject.reason))


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
        first.hint = "missing='skip' sets such edges aside, missing='stub' creates the nodes"
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
