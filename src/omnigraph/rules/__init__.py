"""The rules of a schema: which checks a change needs, the rows that each check needs, how it finds violations, and the message of
the error. Transactions, loads and merges only supply the rows."""

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
