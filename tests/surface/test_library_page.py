"""docs/reference/library.md has every public name, with its signature and an example. The docs tests run it and hold it to the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import omnigraph as og
from omnigraph.cli.library_reference import ON_SPARK, SECTIONS, example_of, library_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "library.md"
VERBS = (
    og.Graph,
    og.types.GraphBranches,
    og.types.GraphTags,
    og.types.GraphRecovery,
    og.types.GraphSchema,
    og.types.GraphMaintenance,
    og.types.GraphTables,
    og.Transaction,
)

SPOKEN_OF = {"errors": "its own page", "spark": "docs/spark.md", "types": "its names are on this page"}
NAMES = {**dict.fromkeys(og.__all__, og), **dict.fromkeys(og.types.__all__, og.types)}
"""Where each public name is."""

"""Public names that are not on this page, and why."""


def test_every_public_name_is_on_the_page() -> None:
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted([*named, *SPOKEN_OF]) == sorted(NAMES)
    headings = re.findall(r"^### (?:types\.)?(\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings == named


def test_every_class_and_function_has_an_example() -> None:
    values = {name: getattr(home, name) for name, home in NAMES.items() if name not in SPOKEN_OF}
    lacking = [
        name
        for name, value in values.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and not list(example_of(inspect.getdoc(value) or ""))
    ]
    assert lacking == []


def test_everything_one_can_do_has_an_example() -> None:
    lacking = [
        f"{kind.__name__}.{name}"
        for kind in VERBS
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_")
        if not list(example_of(inspect.getdoc(member) or ""))
    ]
    assert lacking == []


def test_a_signature_says_which_words_there_are() -> None:
    page = library_reference()
    assert 'mode: "append" | "merge" | "patch" | "delete" | "overwrite",' in page
    assert 'strategy: "fail" | "ours" | "theirs" = "fail",' in page


def test_only_spark_is_left_out_of_the_examples_that_run_everywhere() -> None:
    blocks = re.findall(r"```python spark\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == len(ON_SPARK)
    assert all("spark" in block or "tables" in block for block in blocks)
