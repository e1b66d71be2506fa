"""Commits: one chain of immutable entries per branch; a write becomes visible by creating the next entry, once."""

from omnigraph.history.attribution import check_attribution
from omnigraph.history.chain import MAIN, check_branch_name
from omnigraph.history.genesis import Identity
from omnigraph.history.history import History, new_ulid
from omnigraph.history.plan import ChangeMode, PublishPlan, TableChange
from omnigraph.history.publish import SCHEMA, Attempt
from omnigraph.history.recovery import PreparedPlan
from omnigraph.history.times import from_microseconds, to_microseconds
from omnigraph.history.values import Commit, CommitKind, CommitRef, Entry, Snapshot, TableState, WriteKey
from omnigraph.history.write_keys import KeyName, KeyOfChange, Once

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
