"""The limits of a server are those that the guide lists."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import omnigraph.server
from omnigraph.server import settings
from omnigraph.server.settings import Limits

GUIDE = Path(__file__).parents[2] / "docs" / "security.md"
SOURCES = Path(omnigraph.server.__file__).parent
NOT_OF_REQUESTS = {"MAX_HEAPS", "MAX_NAME", "MAX_BATCH_ROWS", "MAX_DISCARDED_BYTES", "MAX_AHEAD_S"}
"""How the process works inside: nothing is refused for them."""


def listed() -> dict[str, tuple[str, str]]:
    """Each row of the guide's table: the name of the limit, its value, and what it is of."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", GUIDE.read_text(), re.MULTILINE)
    return {name: (value.strip(), of) for name, value, of in rows}


def shown(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        unit, size = next((unit, size) for unit, size in _UNITS if value % size == 0)
        return f"{int(value // size)} {unit}"
    return f"{value:,.0f}"


_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def constants() -> dict[str, int]:
    """Every MAX_… of the server's modules."""
    found: dict[str, int] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name.startswith("MAX_") and name not in NOT_OF_REQUESTS:
                    assert name not in found, f"{name} is defined twice"
                    found[name] = ast.literal_eval(node.value)
    return found


def test_the_guide_lists_every_limit_with_its_value() -> None:
    limits = {**dataclasses.asdict(Limits()), **constants()}
    assert {name: value for name, (value, _) in listed().items()} == {
        name: shown(name, value) for name, value in limits.items()
    }


def test_the_guide_names_the_variable_of_each_limit_that_has_one() -> None:
    named = {name: set(re.findall(r"OMNIGRAPH_\w+", of)) for name, (_, of) in listed().items()}
    assert {name: variables for name, variables in named.items() if variables} == {
        name: {variable} for name, variable in settings._VARIABLES.items()
    }
