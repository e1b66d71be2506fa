"""A real server in a thread of this process, over copies of a small graph."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
import uvicorn
from serving import Fixed, make_people, tokens

from omnigraph.client.graph import RemoteGraph
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog

TOKEN = "token-of-ada"


@pytest.fixture(scope="session")
def people_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_people(tmp_path_factory.mktemp("people") / "people")


@pytest.fixture
def people(tmp_path: Path, people_template: Path) -> Path:
    """A graph of people and cities of the test's own."""
    return Path(shutil.copytree(people_template, tmp_path / "people"))


@contextmanager
def serving(application: Application) -> Iterator[str]:
    """The address of a server that listens while the block runs."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application, log_config=None, lifespan="off"))
    started = threading.Event()
    finish = server.startup

    async def startup(sockets: list[socket.socket] | None = None) -> None:
        await finish(sockets)
        started.set()

    server.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    assert started.wait(60)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


Connect = Callable[..., RemoteGraph]


@pytest.fixture
def url(people: Path) -> Iterator[str]:
    """A server of the graph `people`, for whoever has the token of Ada."""
    source = Fixed({"people": people}, (tokens(ada=TOKEN),))
    with serving(Application(source, source.load(), log=RequestLog("json", StringIO()))) as address:
        yield address


@pytest.fixture
def remote(url: str) -> Iterator[RemoteGraph]:
    """The graph through its server."""
    import omnigraph as og

    with og.connect(url, graph="people", token=TOKEN) as graph:
        yield graph
