"""What a stored object may require of its reader and writer, by name.

Every object lists the features that are needed to read it; a chain entry also lists those that are needed to add to what it
describes. Whoever lacks one refuses, and says which. What an old reader may safely ignore is an optional field, not a feature.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.errors import UnsupportedFormat

FORMAT = 1
BASE = f"format-{FORMAT}"
"""The layout of `docs/format.md`, as far as no other feature is named there."""

WRITE_KEYS = "write-keys"
"""Commits may carry write keys: a writer that does not look for them would commit a repeated write again."""
EVOLVED = "evolved-schema"
"""A schema that was changed: it says where the values of a property are stored, and tables may have other columns too."""

HARD_DROPS = "hard-drops"
"""A schema that says what was dropped for good: whoever does not know that would read it, or forget to say it."""

FENCES = "fences"
"""Entries without commits in the middle of a chain (`history.retention`): whoever looks for a commit by counting entries would
look in the wrong place."""

PROVISIONAL_PLANS = "provisional-plans"
"""Prepared plans whose writer has not made sure yet that what they name is there: whoever published one might publish nothing."""

INLINE_ROWS = "inline-rows"
"""Tables whose newest rows stand in the commit object itself, on top of a stored version: whoever reads the version alone lacks
them."""

KNOWN = frozenset({BASE, WRITE_KEYS, EVOLVED, HARD_DROPS, FENCES, PROVISIONAL_PLANS, INLINE_ROWS})


def check_readable(features: Iterable[str], what: str) -> None:
    """UnsupportedFormat when reading `what` needs a feature that this version does not have."""
    if missing := _missing(features):
        raise UnsupportedFormat(f"{what} needs {_named(missing)}", features=missing, hint="upgrade omnigraph")


def check_writable(features: Iterable[str], what: str) -> None:
    """UnsupportedFormat when writing to `what` needs a feature that this version does not have."""
    if missing := _missing(features):
        message = f"writing to {what} needs {_named(missing)}; it can still be read"
        raise UnsupportedFormat(message, features=missing, hint="upgrade omnigraph")


def _missing(features: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(features) - KNOWN))


def _named(missing: tuple[str, ...]) -> str:
    names = ", ".join(f"'{name}'" for name in missing)
    return f"the feature{'s' if len(missing) > 1 else ''} {names}, which this omnigraph does not have"
