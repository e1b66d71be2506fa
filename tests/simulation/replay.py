"""Print what happens in the schedule of a seed, or for each broken rule the first schedule of each bound that notices it.

python tests/simulation/replay.py <seed> [<name of a broken rule>]
python tests/simulation/replay.py --rules [<name of a broken rule> ...]
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from simulation.broken_rules import RULES, broken
from simulation.schedule import BOUNDS, SCHEMA_SEEDS, first_failure, run, seeds_like

BY_NAME = {rule.__name__: rule for rule in RULES}


def main(words: Sequence[str]) -> None:
    if words[0] == "--rules":
        find_rules(words[1:] or list(BY_NAME))
        return
    trace: list[str] = []
    with broken(BY_NAME[words[1]]) if len(words) > 1 else contextlib.nullcontext():
        try:
            run(int(words[0]), trace=trace)
        finally:
            print("\n".join(trace))


def find_rules(names: Sequence[str]) -> None:
    """As they stand in the table of rules."""
    for name in names:
        rule = BY_NAME[name]
        start = SCHEMA_SEEDS if RULES[rule][0] >= SCHEMA_SEEDS else 0
        with broken(rule):
            failures = [first_failure(seeds_like(start + turn)) for turn in range(len(BOUNDS))]
        about = "SCHEMA_SEEDS + " if start else ""
        seeds = ["not noticed" if failure is None else f"{about}{failure[0] - start:_}" for failure in failures]
        print(f"    {name}: ({', '.join(seeds)}),", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
