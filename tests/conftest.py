"""Fixtures that every room uses."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

sys.path.insert(0, str(Path(__file__).parent))

from azure_server import MAIN as AZURITE, MISSING, AzureServer
from s3_server import S3Server

from omnigraph.storage.options import open_store
from omnigraph.storage.store import Store
from omnigraph.testing import failpoints
from omnigraph.write.inlining import ENVIRONMENT as INLINE_BOUND

# `make test` tries the same examples every time, so that what it says of a change is about the change; `make soak` explores.
settings.register_profile("steady", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("exploring", database=None, deadline=None, print_blob=True)
EXPLORING = bool(os.environ.get("OMNIGRAPH_EXPLORE"))
settings.load_profile("exploring" if EXPLORING else "steady")
if not EXPLORING:
    # Hypothesis also tries the constants of the modules loaded so far, and those are not the same in every worker.
    providers._get_local_constants = lambda: providers._local_constants

MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 4 * 2**30
if not EXPLORING and "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MIN_FREE_BYTES:
    # Graphs of tests are small and short-lived, and a disk that syncs each of their files is what the tests would wait for.
    # `make soak` takes the disk.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run that was started in the background is deaf to Ctrl-C, and so would be every program it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # Until the tests are collected: nothing of what that makes is garbage.


STUDIO = "tests/studio"
"""One browser serves all tests of the studio."""

LONG = (
    "spark",
    STUDIO,
    "tests/simulation/test_simulation.py",
    "tests/logic/test_logic.py",
    "tests/read/test_random.py",
    "tests/test_damage.py",
    "tests/health/test_verify.py",
    "tests/write/test_state_machine.py",
    "tests/merge/test_crossed_merges.py",
    "tests/write/test_write_matrix.py",
    "tests/write/test_inline_rows.py",
    "tests/docs/test_docs.py",
    "tests/processes/test_cleanup_crowd.py",
    "tests/processes/test_write_keys.py",
    "tests/processes/test_kill_matrix.py",
    "tests/server/test_schemathesis.py",
    "tests/write/test_schema_races.py",
    "tests/read/test_search.py",
    "tests/rules/test_random_writes.py",
    "tests/evolve/test_steps.py",
    "tests/expressions/test_agreement.py",
    "tests/maintenance/test_copies.py",
    "tests/write/test_races.py",
    "tests/server/test_process.py",
    "tests/merge/test_random_histories.py",
    "tests/history/test_cost_s3.py",
    "tests/merge/test_resolutions.py",
    "tests/merge/test_truth_table.py",
    "tests/surface/test_hostile_arguments.py",
    "tests/cli/test_executable.py",
    "tests/evolve/test_random_evolution.py",
    "tests/values/test_whole_range.py",
    "tests/processes/test_many_processes.py",
)
"""Groups that take about ten seconds and more, the longest first: whoever gets one last would work alone at the end."""


def group_of(item: pytest.Item) -> str:
    """Files stay together in one worker, and so do all tests that use Spark: one session serves the whole run."""
    uses_spark = "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("spark")
    file = item.nodeid.partition("::")[0]
    return "spark" if uses_spark else STUDIO if file.startswith(STUDIO) else file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    groups = {item: group_of(item) for item in items}
    for item, group in groups.items():
        if group == "spark":
            item.add_marker("spark")  # Not every test that takes the session says so: `make check` goes by the mark.
    items.sort(key=lambda item: LONG.index(groups[item]) if groups[item] in LONG else len(LONG))
    if getattr(config.option, "loadgroup", False):
        for item, group in groups.items():
            # What xdist does for the mark `xdist_group`, but it sets a name that this pytest no longer looks at.
            item._id = type(item.id).parse(f"{item.nodeid}@{group}")


def pytest_collection_finish() -> None:
    gc.freeze()  # Thousands of tests: each full collection would take half a second to look at them again.
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # Or libraries report all that is still there as leaked.


# ---------------------------------------------------------------- where the time of the suite goes

SPENT = "processor seconds"
SHOWN = 40
_spent_before = sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A report says what this process and its children that have ended took since the one before. Clocks lie on a busy machine."""
    global _spent_before
    report = yield
    spent = sum(os.times()[:4])
    report.user_properties = [*report.user_properties, (SPENT, spent - _spent_before)]
    _spent_before = spent
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("numprocesses", None):
        return
    spent: Counter[str] = Counter()
    for report in itertools.chain(*terminalreporter.stats.values()):
        for name, value in getattr(report, "user_properties", ()):
            spent[report.nodeid.partition("::")[0]] += value if name == SPENT else 0
    terminalreporter.write_line(f"{spent.total():8.0f} {SPENT} of the tests, without Spark's JVM, of which")
    for file, seconds in spent.most_common(SHOWN):
        terminalreporter.write_line(f"{seconds:8.0f} {file}")


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """One S3 server for the whole run; take a bucket of your own with `s3.new_bucket()`."""
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def azure() -> Iterator[AzureServer]:
    """One Azure server for the whole run; take a container of your own with `azure.new_container()`."""
    if not AZURITE.exists():
        pytest.skip(MISSING)
    with AzureServer() as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Spark session for the whole run. Its JVM compiles quickly rather than well, collects with one thread, and Spark interprets
    its plans: nothing here runs long enough for more. It stands in a folder of its own, where it writes whatever has no absolute path."""
    from omnigraph.spark import start_cache
    from omnigraph.spark.sessions import TASK_ATTEMPTS, start

    cache = start_cache.find()
    options = (*(cache.options() if cache else ()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    with pytest.MonkeyPatch.context() as place:
        place.chdir(tmp_path_factory.mktemp("spark"))
        session = start(f"local[{os.cpu_count() or 1},{TASK_ATTEMPTS}]", "1g", "tests", options)
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _on_the_one_session(request: pytest.FixtureRequest) -> None:
    """Also for a test that only names Spark as its engine: the first of them would start a session that is set for long work."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("spark")


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.s3), "azure"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store, on each kind of backend."""
    if request.param == "memory":
        return open_store("memory://")
    if request.param == "local":
        return open_store(str(tmp_path / "graph"))
    if request.param == "azure":
        azure: AzureServer = request.getfixturevalue("azure")
        return open_store(f"az://{azure.new_container()}/some/graph", storage_options=azure.options)
    server: S3Server = request.getfixturevalue("s3")
    return open_store(f"s3://{server.new_bucket()}/some/graph", storage_options=server.options)


BOUNDS = (None, "1", "3")
ANY_BOUND = ("changes", "evolve", "health", "merge", "processes", "test_state_machine.py", "test_write_matrix.py")
"""Folders and files whose tests hold however many rows of a table may stand in commits."""


@pytest.fixture(autouse=True, scope="module")
def _rows_in_commits(request: pytest.FixtureRequest) -> Iterator[None]:
    """These files take turns: one is run with the usual bound, the next with 1 row, the next with 3. With OMNIGRAPH_INLINE_ROWS in
    the environment, everything is run with that."""
    path = Path(request.path)
    if INLINE_BOUND in os.environ or not {path.name, path.parent.name} & {*ANY_BOUND}:
        yield
        return
    with pytest.MonkeyPatch.context() as environment:
        if (bound := BOUNDS[zlib.crc32(path.name.encode()) % len(BOUNDS)]) is not None:
            environment.setenv(INLINE_BOUND, bound)
        yield


@pytest.fixture
def stores_every_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row stands in a commit: each write stages versions of its tables, as large ones do."""
    monkeypatch.setenv(INLINE_BOUND, "0")


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """A point armed by one test never fires in another."""
    yield
    failpoints.disarm_all()
