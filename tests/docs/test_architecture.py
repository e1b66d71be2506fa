"""What docs/architecture.md says of the code is true: packages, files, functions, the order of imports."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "omnigraph"
TEXT = (ROOT / "docs" / "architecture.md").read_text()
_STEP = re.compile(r"^ *(?P<names>[\w., ()]+?) {2,}(?P<file>[\w/]+\.py) ", re.MULTILINE)


def test_every_package_is_in_the_table_and_only_those() -> None:
    table = TEXT[TEXT.index("## The packages") : TEXT.index("## How a write works")]
    described = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")} | {"snapshot"}
    assert described == packages


def test_every_step_names_a_function_or_a_list_of_them_in_its_file() -> None:
    steps = [(match["names"], match["file"]) for match in _STEP.finditer(TEXT)]
    assert len(steps) > 12
    for names, file in steps:
        text = (SOURCE / file).read_text()
        for name in names.split(","):
            last = name.strip().removesuffix("()").rsplit(".", 1)[-1]
            name_of = re.escape(last)
            assert re.search(rf"\b(def|class) {name_of}\b|^{name_of} = \(", text, re.M), f"{name} is not in {file}"


def test_the_layers_name_packages_that_exist() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for contract in settings["tool"]["importlinter"]["contracts"]:
        for layer in contract.get("layers", ()):
            for name in layer.split("|"):
                path = SOURCE.joinpath(*name.strip().split(".")[1:])
                assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_the_glossary_fits_a_page() -> None:
    assert len(TEXT[TEXT.index("## Glossary") :].splitlines()) <= 60
