"""Commits: one chain of immutable entries per branch; a write becomes visible by creating the next entry, once."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.history.chain import MAIN, check_branch_name
    from omnigraph.history.genesis import Identity
    from omnigraph.history.history import History, new_ulid
    from omnigraph.history.plan import ChangeMode, PreparedPlan, PublishPlan, TableChange, check_attribution
    from omnigraph.history.publish import SCHEMA, Attempt
    from omnigraph.history.values import (
        Commit,
        CommitKind,
        CommitRef,
        Entry,
        Snapshot,
        TableState,
        WriteKey,
        from_microseconds,
        to_microseconds,
    )
    from omnigraph.history.write_keys import KeyName, KeyOfChange, Once

_EXPORTS = {
    "omnigraph.history.plan": (
        "check_attribution",
        "ChangeMode",
        "PublishPlan",
        "TableChange",
        "PreparedPlan",
    ),
    "omnigraph.history.chain": (
        "MAIN",
        "check_branch_name",
    ),
    "omnigraph.history.genesis": ("Identity",),
    "omnigraph.history.history": (
        "History",
        "new_ulid",
    ),
    "omnigraph.history.publish": (
        "SCHEMA",
        "Attempt",
    ),
    "omnigraph.history.values": (
        "from_microseconds",
        "to_microseconds",
        "Commit",
        "CommitKind",
        "CommitRef",
        "Entry",
        "Snapshot",
        "TableState",
        "WriteKey",
    ),
    "omnigraph.history.write_keys": (
        "KeyName",
        "KeyOfChange",
        "Once",
    ),
}

__all__ = [
    "MAIN",
    "SCHEMA",
    "Attempt",
    "ChangeMode",
    "Commit",
    "CommitKind",
    "CommitRef",
    "Entry",
    "History",
    "Identity",
    "KeyName",
    "KeyOfChange",
    "Once",
    "PreparedPlan",
    "PublishPlan",
    "Snapshot",
    "TableChange",
    "TableState",
    "WriteKey",
    "check_attribution",
    "check_branch_name",
    "from_microseconds",
    "new_ulid",
    "to_microseconds",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
