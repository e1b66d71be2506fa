"""Schemas and fixture files of the query language's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.language.catalog import Catalog
from omnigraph.language.schema.compiler import compile_schema

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture(scope="session")
def people() -> Catalog:
    """The small schema of people and cities."""
    return compile_schema((FIXTURES / "people.pg").read_text())


@pytest.fixture(scope="session")
def library() -> Catalog:
    """One of everything: every scalar type, interfaces, soft keywords as property names, defaults."""
    return compile_schema((FIXTURES / "library.pg").read_text())
