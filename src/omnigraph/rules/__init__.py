"""The rules of a schema: which checks a change needs, the rows that each check needs, how it finds violations, and the message of
the error. Transactions, loads and merges only supply the rows."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.rules.check import Check, FewRows, Need, RowSource, RowState, Violation
    from omnigraph.rules.planning import Change, CheckPlan, plan_checks, tables_read

_EXPORTS = {
    "omnigraph.rules.check": ("Check", "FewRows", "Need", "RowSource", "RowState", "Violation"),
    "omnigraph.rules.planning": ("Change", "CheckPlan", "plan_checks", "tables_read"),
}

__all__ = [
    "Change",
    "Check",
    "CheckPlan",
    "FewRows",
    "Need",
    "RowSource",
    "RowState",
    "Violation",
    "plan_checks",
    "tables_read",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
