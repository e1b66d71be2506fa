"""Print what happens in the schedule of a seed: python tests/simulation/replay.py <seed> [<name of a broken rule>]"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from simulation.broken_rules import RULES, broken
from simulation.schedule import run


def main() -> None:
    rules = {rule.__name__: rule for rule in RULES}
    trace: list[str] = []
    with broken(rules[sys.argv[2]]) if len(sys.argv) > 2 else contextlib.nullcontext():
        try:
            run(int(sys.argv[1]), trace=trace)
        finally:
            print("\n".join(trace))


if __name__ == "__main__":
    main()
