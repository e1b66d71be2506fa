"""A stranger's folder: the commands of docs/own-data.md for five data sets, from files to answers, with their times.

    python bench/own_data_walk.py

Each command is a process of its own, as at a terminal. Two times are printed: seconds on the clock, which depend on what else the
machine does, and seconds of processor time.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETS = {"shipping": "data/shipping", "movies": "data/movies", "shop": "data/shop.sqlite", "issues": "data/issues.json"}
SETS["events"] = "data/events"
_QUERIES = re.compile(r"^```gq file=(\w+)\.gq[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: list[str], folder: Path) -> tuple[float, float, str]:
    start, used = time.monotonic(), processor_seconds()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{ran.stderr}")
    return time.monotonic() - start, processor_seconds() - used, ran.stdout


def main() -> None:
    page = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")
    queries = dict(_QUERIES.findall(page))
    with tempfile.TemporaryDirectory(prefix="omnigraph-own-data-") as place:
        folder = Path(place)
        run(["omnigraph", "examples", "own-data", "."], folder)
        for name, source in SETS.items():
            seconds, used, said = run(["omnigraph", "import", source, f"./{name}"], folder)
            loaded = said.splitlines()[0].split(" into ")[0]
            print(f"\n{seconds:6.1f} {used:6.1f}  omnigraph import {source} ./{name}    ({loaded})", flush=True)
            total, total_used = seconds, used
            for question in re.findall(r"^query (\w+)", queries[name], re.MULTILINE):
                command = ["omnigraph", "query", question, "--store", f"./{name}", "--query", f"{name}.gq"]
                seconds, used, answer = run([*command, "--format", "csv"], folder)
                total, total_used = total + seconds, total_used + used
                rows = answer.count("\n") - 1
                print(f"{seconds:6.1f} {used:6.1f}  {' '.join(command)} --format csv    (rows: {rows})", flush=True)
            print(f"{total:6.1f} {total_used:6.1f}  from the files to the answers: {name}", flush=True)


if __name__ == "__main__":
    main()
