"""Logic cases in plain files, and the engines that must all give the same rows in the same order.

A file is a list of sections, each opened by a line that starts with `==`:

    == schema            the .pg text of the graph
    == data              one record a line, as in a batch file
    == case <name>       a query body (or a whole query), then optional lines
    -- params {json}
    -- rows              followed by one JSON object a line; the order counts
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from omnigraph.language.query.mutations import bind_parameters, compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read import strategies
from omnigraph.read.execution import run_read
from omnigraph.read.executor import counting, matching, paths, sources, walks
from omnigraph.read.result import Result
from omnigraph.read.strategies.arrays import ARRAYS
from omnigraph.read.strategies.dense import DENSE
from omnigraph.read.strategies.scan import SCAN
from omnigraph.read.strategies.strategy import Mode
from omnigraph.snapshot import View

FOLDER = Path(__file__).parent
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)

Engine = Callable[[View, ReadPlan, Mapping[str, object]], Result]


@dataclass(frozen=True)
class Case:
    name: str
    query: str
    params: Mapping[str, Any]
    rows: list[Any]

    @property
    def text(self) -> str:
        return self.query if self.query.startswith("query ") else f"query q() {{ {self.query} }}"


@dataclass
class LogicFile:
    path: Path
    schema: str = ""
    records: list[Any] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)


def read_file(path: Path) -> LogicFile:
    found = LogicFile(path)
    for section in ("\n" + path.read_text()).split("\n== ")[1:]:
        head, _, body = section.partition("\n")
        if head == "schema":
            found.schema = body
        elif head == "data":
            found.records = [json.loads(line) for line in body.splitlines() if line.strip()]
        else:
            found.cases.append(_case(head.removeprefix("case "), body))
    return found


def _case(name: str, body: str) -> Case:
    before, _, rows = body.partition("-- rows")
    query, _, params = before.partition("-- params")
    expected = [json.loads(line) for line in rows.splitlines() if line.strip()]
    return Case(name, query.strip(), json.loads(params) if params.strip() else {}, expected)


def files() -> list[LogicFile]:
    return [read_file(path) for path in sorted(FOLDER.glob("*.logic"))]


def local(mode: Mode) -> Engine:
    return lambda view, plan, parameters: run_read(view, plan, parameters, mode=mode, now=NOW)


def few(view: View, plan: ReadPlan, parameters: Mapping[str, object]) -> Result:
    """Nothing is looked up, and whatever can be counted node by node is, of all nodes."""
    with (
        patch.object(strategies, "order", lambda: (ARRAYS, DENSE, SCAN)),
        patch.object(counting, "FOLLOWED_COST", 2**40),
        patch.object(matching, "FOLLOWED_COST", 2**40),
    ):
        return run_read(view, plan, parameters, now=NOW)


def arrays(view: View, plan: ReadPlan, parameters: Mapping[str, object]) -> Result:
    """Everything that the executor covers, as if every read had many rows: codes for values, many starts at once, what is
    counted is followed and grouped."""
    with (
        patch.object(strategies, "order", lambda: (ARRAYS, SCAN)),
        patch.object(counting, "FOLLOWED_COST", 0),
        patch.object(matching, "FOLLOWED_COST", 0),
        patch.object(matching, "MIN_GROUPED", 2**40),
        patch.object(sources, "MIN_CODED", 1),
        patch.object(walks, "FEW_SOURCES", 0),
        patch.object(paths, "FEW_TARGETS", 0),
    ):
        return run_read(view, plan, parameters, now=NOW)


engines: dict[str, Engine] = {mode: local(mode) for mode in ("auto", "scan", "index", "csr")}  # type: ignore[arg-type]  # the names are modes
engines["few"] = few
engines["arrays"] = arrays


def plan_of(view: View, case: Case) -> tuple[ReadPlan, dict[str, object]]:
    plan = compile_query(case.text, view.catalog, file=case.name)
    assert isinstance(plan, ReadPlan)
    return plan, bind_parameters(plan.parameters, case.params)


def run_case(view: View, case: Case, engine: Engine) -> list[dict[str, Any]]:
    plan, parameters = plan_of(view, case)
    return engine(view, plan, parameters).to_json()
