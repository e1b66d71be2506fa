"""The words of both languages for editors: what to highlight, what to complete, and descriptions."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from omnigraph.language.query.forms import FORMS
from omnigraph.language.query.functions import COALESCE, FUNCTIONS
from omnigraph.language.query.keywords import keywords
from omnigraph.values.types import Scalar

_SCHEMA_KEYWORD = re.compile(r"^[A-Z]+(?:\.\d+)?: /([a-z]+)\(\?!", re.MULTILINE)


@cache
def editor_tables() -> dict[str, Any]:
    """{queries: {keywords, functions: [{name, shape, meaning}], forms: [{title, shape, example}]},
    schemas: {keywords, types}}, from the tables and grammars that the languages are checked with."""
    grammar = (files("omnigraph.language") / "schema" / "schema.lark").read_text(encoding="utf-8")
    return {
        "queries": {
            "keywords": list(keywords()),
            "functions": [
                {"name": function.name, "shape": function.shape, "meaning": function.meaning}
                for function in (*FUNCTIONS.values(), COALESCE)
            ],
            "forms": [asdict(form) for form in FORMS],
        },
        "schemas": {"keywords": _SCHEMA_KEYWORD.findall(grammar), "types": [scalar.value for scalar in Scalar]},
    }
