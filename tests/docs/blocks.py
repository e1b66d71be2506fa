"""The code blocks of a Markdown page, and running them as the page says.

```pg file=x.pg        written to a file; must compile. Also ```gq file=, ```jsonl file=
```gq                  compiled against the last schema of the page; with graph=NAME against that of the graph in this folder
```sh                  run with bash -eu
```text output         what the commands before it print
```python              run in one namespace per page
```sh spark            the same, in the tests that have Spark
```text                for the reader only
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph import open as open_graph
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.lint import lint_queries
from omnigraph.language.schema.compiler import compile_schema

_FENCE = re.compile(r"^```(\w+)?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"pg", "gq", "jsonl", "sh", "python", "text", None}


@dataclass(frozen=True)
class Block:
    language: str | None
    words: tuple[str, ...]
    text: str
    line: int

    @property
    def file(self) -> str | None:
        return next((word.removeprefix("file=") for word in self.words if word.startswith("file=")), None)

    @property
    def graph(self) -> str | None:
        return next((word.removeprefix("graph=") for word in self.words if word.startswith("graph=")), None)

    @property
    def on_spark(self) -> bool:
        return "spark" in self.words


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        yield Block(match[1], tuple(match[2].split()), match[3], text.count("\n", 0, match.start()) + 1)


@dataclass
class Runner:
    """Follows one page from top to bottom in a folder of its own, in which the examples of the repository are at hand."""

    page: Path
    folder: Path
    programs: Path
    catalog: Catalog | None = None
    namespace: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    printed: str = ""

    def __post_init__(self) -> None:
        (self.folder / "examples").symlink_to(Path(__file__).parents[2] / "examples")

    def run(self, block: Block) -> None:
        if block.file is not None:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
        match block.language:
            case "pg":
                self.catalog = compile_schema(block.text, f"{self.page.name}:{block.line}")
            case "gq":
                if block.graph is not None:
                    self.catalog = open_graph(self.folder / block.graph).schema.catalog
                self._check(block)
            case "text" if "output" in block.words:
                assert self.printed.rstrip() == block.text.rstrip(), f"{self.page.name}:{block.line}"
            case "sh":
                self._shell(block)
            case "python":
                code = compile("\n" * block.line + block.text, str(self.page), "exec")
                exec(code, self.namespace)

    def _check(self, block: Block) -> None:
        assert self.catalog is not None, "no schema before this query"
        report = lint_queries(block.text, self.catalog, f"{self.page.name}:{block.line}")
        assert report.status == "ok", str(report)

    def _shell(self, block: Block) -> None:
        """What a block exports holds for the blocks after it, as in a terminal."""
        saved = self.folder / ".environment"
        script = f"set -eu\n{block.text}\nenv -0 > {saved}\n"
        start = self.environment or {
            **{name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH_")},
            "PATH": f"{self.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMNIGRAPH_HOME": str(self.folder / ".no-config"),
        }
        ran = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=start, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{self.page.name}:{block.line}\n{ran.stdout}\n{ran.stderr}"
        self.printed = ran.stdout
        pairs = saved.read_bytes().decode().split("\0")
        self.environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
