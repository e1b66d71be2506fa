"""The words of both languages for editors: what to highlight, what to complete, and descriptions."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

from omnigraph.language.query.forms import FORMS
from omnigraph.language.query.functions import COALESCE, FUNCTIONS
from omnigraph.language.query.keywords import KEYWORDS
from omnigraph.language.schema.parser import KEYWORDS as SCHEMA_KEYWORDS
from omnigraph.values.types import Scalar


@cache
def editor_tables() -> dict[str, Any]:
    """{queries: {keywords, functions: [{name, shape, meaning}], forms: [{title, shape, example}]},
    schemas: {keywords, types}}, from the tables that the languages are parsed and checked with."""
    return {
        "queries": {
            "keywords": list(KEYWORDS),
            "functions": [
                {"name": function.name, "shape": function.shape, "meaning": function.meaning}
                for function in (*FUNCTIONS.values(), COALESCE)
            ],
            "forms": [asdict(form) for form in FORMS],
        },
        "schemas": {"keywords": list(SCHEMA_KEYWORDS), "types": [scalar.value for scalar in Scalar]},
    }
