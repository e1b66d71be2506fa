"""A process that writes when it is told to: one JSON order per line in, one JSON answer per line out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from processes.writing import Writer

from omnigraph.errors import OmnigraphError


def obey(order: dict[str, Any], writers: dict[str, Writer]) -> list[Any]:
    """Each action's outcome: the commit's position and what was written, or the code of the error."""
    writer = writers[order["uri"]]
    outcomes: list[Any] = []
    for number in range(order["times"]):
        try:
            if order["what"] == "append":
                value = order["first"] + number
                commit = writer.append(order["table"], [value])
            else:
                value, commit = writer.increment(order["table"], order["entity"])
            outcomes.append({"position": commit.ref.position, "value": value, "commit": commit.id})
        except OmnigraphError as error:
            outcomes.append({"error": error.code, "outcome": error.outcome})
    return outcomes


def main() -> None:
    writers: dict[str, Writer] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if order["what"] == "open":
            writers[order["uri"]] = Writer(order["uri"], order["options"])
            writers[order["uri"]].tables  # noqa: B018 # loads what a first write would have to load
            import lance  # noqa: F401 # the same

            answer: Any = "ready"
        else:
            answer = obey(order, writers)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
