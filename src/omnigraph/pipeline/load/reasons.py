"""Rejected records, counted by their reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.records.typed import Reject

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
