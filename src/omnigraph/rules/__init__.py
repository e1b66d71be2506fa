"""The rules of a schema: which checks a change needs, the rows each of them looks at, how it finds what breaks it, and
the words of the error. Transactions, loads and merges only supply the rows."""

from omnigraph.rules.check import Check, FewRows, Need, RowSource, RowState, Violation
from omnigraph.rules.planning import Change, CheckPlan, plan_checks, tables_read

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
