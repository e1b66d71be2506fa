"""The features of the format, by name, that a stored object may require of its readers and writers.

Every object lists the features that are needed to read it; a chain entry also lists those that are needed to add to what it
describes. A program that lacks one refuses, and says which. What an old reader may safely ignore is an optional field, not a
feature.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.errors import UnsupportedFormat

FORMAT = 1
BASE = f"format-{FORMAT}"
"""Everything in `docs/format.md` for which no other feature is named there."""

WRITE_KEYS = "write-keys"
"""Commits may carry write keys: a writer without this feature would commit a repeated write again."""
EVOLVED = "evolved-schema"
"""A schema that was changed: it says where the values of a property are stored, and tables may have more columns than it names."""

HARD_DROPS = "hard-drops"
"""A schema that lists what was dropped for good: a program without this feature would read those values, or lose the list."""

FENCES = "fences"
"""Entries without commits in the middle of a chain (`history.retention`): a reader that finds commits by counting entries would
find the wrong ones."""

PROVISIONAL_PLANS = "provisional-plans"
"""Prepared plans whose writer has not checked yet that the files they name exist: a program without this feature might publish
one without its data."""

INLINE_ROWS = "inline-rows"
"""Tables whose newest rows are in the entry itself, on top of a stored version: a reader of the version alone would miss them."""

NULLABLE_FILLS = "nullable-fills"
"""A schema with a nullable property that has a value in all older rows: a program without this feature would take every null for
that value, or lose it."""

EDGE_KEYS = "edge-keys"
"""A schema in which an edge type has a key: a program without this feature would give its edges other ids."""

EDGE_FAMILIES = "edge-families"
"""A schema with edges between interfaces: a program without this feature would not know which edge types belong together."""

KNOWN = frozenset(
    {
        *(BASE, WRITE_KEYS, EVOLVED, HARD_DROPS, FENCES, PROVISIONAL_PLANS, INLINE_ROWS, NULLABLE_FILLS),
        *(EDGE_KEYS, EDGE_FAMILIES),
    }
)


def check_readable(features: Iterable[str], what: str) -> None:
    """UnsupportedFormat when reading `what` needs a feature that this version does not have."""
    if missing := tuple(sorted(set(features) - KNOWN)):
        raise UnsupportedFormat(f"{what} needs {_named(missing)}", features=missing, hint="upgrade omnigraph")


def check_writable(features: Iterable[str], what: str) -> None:
    """UnsupportedFormat when writing to `what` needs a feature that this version does not have."""
    if missing := tuple(sorted(set(features) - KNOWN)):
        message = f"writing to {what} needs {_named(missing)}; it can still be read"
        raise UnsupportedFormat(message, features=missing, hint="upgrade omnigraph")


def _named(missing: tuple[str, ...]) -> str:
    names = ", ".join(f"'{name}'" for name in missing)
    return f"the feature{'s' if len(missing) > 1 else ''} {names}, which this omnigraph does not have"
