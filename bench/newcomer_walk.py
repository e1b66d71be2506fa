"""A newcomer's first minutes: a fresh clone, a fresh environment, then the README and the quickstart, each command as written.

    python3 bench/newcomer_walk.py [--python python3.12]

Prints every command with its output, the time to the first query result, and the time of everything. Packages come from
wherever pip finds them; the numbers mean something when its cache is warm.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("README.md", "docs/quickstart.md")


class Walk:
    def __init__(self) -> None:
        self.start = time.monotonic()
        self.first_result: float | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def shell(self, script: str, folder: Path, environment: dict[str, str]) -> None:
        """Run a script line by line as a terminal would show it. Ends the walk when a command fails."""
        print("\n".join(f"$ {line}" for line in script.strip().splitlines()), flush=True)
        ran = subprocess.run(
            ["bash", "-euc", script], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        print(ran.stdout, flush=True)
        if ran.returncode != 0:
            sys.exit(f"the walk ended after {self.seconds:.0f} s: exit code {ran.returncode}")
        if self.first_result is None and re.search(r"^\d+ rows? from ", ran.stdout, re.MULTILINE):
            self.first_result = self.seconds

    def page(self, page: Path, folder: Path, environment: dict[str, str]) -> None:
        print(f"\n=== {page.name}", flush=True)
        folder.mkdir()
        exported: dict[str, str] = {}
        for language, words, text in FENCE.findall(page.read_text(encoding="utf-8")):
            named = re.search(r"file=(\S+)", words)
            if named:
                (folder / named[1]).write_text(text, encoding="utf-8")
                print(f"(wrote {named[1]})")
            elif language == "sh":
                self.shell(text, folder, {**environment, **exported})
                exported.update(re.findall(r"^export (\w+)=(\S+)$", text, re.MULTILINE))
            elif language == "python":
                (folder / "page.py").write_text(text, encoding="utf-8")
                self.shell("python page.py", folder, {**environment, **exported})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default="python3", help="the Python that makes the environment")
    arguments = parser.parse_args()
    walk = Walk()
    with tempfile.TemporaryDirectory(prefix="omnigraph-newcomer-") as place:
        clone = Path(place) / "omnigraph"
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("OMNIGRAPH", "PYTHON"))
        }
        environment.pop("VIRTUAL_ENV", None)
        walk.shell(f"git clone --quiet {ROOT} omnigraph", Path(place), environment)
        walk.shell(f"make --no-print-directory setup PYTHON={arguments.python}", clone, environment)
        installed = walk.seconds
        environment["PATH"] = f"{clone / '.venv' / 'bin'}:{environment['PATH']}"
        environment["OMNIGRAPH_HOME"] = str(Path(place) / "no-config")
        walk.shell("omnigraph demo --small", Path(place), environment)
        for number, page in enumerate(PAGES):
            walk.page(clone / page, Path(place) / f"walk-{number}", environment)
    print(f"installed after     {installed:6.1f} s")
    print(f"first query result  {walk.first_result or 0:6.1f} s")
    print(f"all of it           {walk.seconds:6.1f} s")


if __name__ == "__main__":
    main()
