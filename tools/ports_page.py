"""Writes docs/reference/queries-by-example.md from examples/ports/: every question with its query and the answer to it.

python tools/ports_page.py
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path

import omnigraph as og
from omnigraph.language.query.mutations import bind_parameters, compile_query
from omnigraph.read.execution import run_read

ROOT = Path(__file__).parents[1]
FOLDER, PAGE = ROOT / "examples" / "ports", ROOT / "docs" / "reference" / "queries-by-example.md"
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)
_DESCRIPTION = re.compile(r'\s+@description\("(.*?)"\)')


def page() -> str:
    """`page.md`, with the files that it names in the place of their names."""
    text = (FOLDER / "page.md").read_text(encoding="utf-8").rstrip()
    for file in ("ports.pg", "ports.jsonl"):
        content = (FOLDER / file).read_text(encoding="utf-8")
        text = text.replace(f"{{{{{file}}}}}", f"```{file.rpartition('.')[2]} file={file}\n{content}```")
    return text.replace("{{questions.gq}}", "\n\n".join(_questions())) + "\n"


def _questions() -> Iterator[str]:
    with og.init("memory://", schema=FOLDER / "ports.pg") as graph:
        graph.load(FOLDER / "ports.jsonl", mode="append")
        _, view = graph._repository.head()
        number = 0
        for part in (FOLDER / "questions.gq").read_text(encoding="utf-8").strip().split("\n\n"):
            if part.startswith("// "):
                yield f"## {part.removeprefix('// ')}"
                continue
            number += 1
            described = _DESCRIPTION.search(part)
            assert described is not None, part
            plan = compile_query(part, view.catalog)
            answer = run_read(view, plan, bind_parameters(plan.parameters, {}), now=NOW).to_json()
            rows = "\n".join(json.dumps(row, ensure_ascii=False) for row in answer)
            yield f"### {number}. {described[1]}"
            yield f"```gq\n{_DESCRIPTION.sub('', part)}\n```"
            yield f"```jsonl\n{rows}\n```"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
