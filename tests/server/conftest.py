"""A server in this process, over one small graph for each module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from serving import Fixed, make_people, people_client
from starlette.testclient import TestClient


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of people and cities."""
    return make_people(tmp_path_factory.mktemp("people") / "people")


@pytest.fixture(scope="module")
def client(people: Path) -> Iterator[TestClient]:
    """A client of an open server, which asks for nobody's name."""
    with people_client(Fixed({"people": people})) as client:
        yield client


@pytest.fixture
def start(people: Path) -> Iterator[Callable[..., TestClient]]:
    """Clients of servers with tokens, gates and settings of their own, over the module's graph."""
    with ExitStack() as stack:

        def started(*, settings: Any = None, log: StringIO | None = None, **source: Any) -> TestClient:
            return stack.enter_context(people_client(Fixed({"people": people}, **source), settings, log))

        yield started
