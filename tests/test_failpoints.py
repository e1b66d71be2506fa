"""Failpoints: a closed list, armed by tests only, that can raise, kill and park."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import UsageError
from omnigraph.testing import failpoints
from omnigraph.testing.failpoints import Failpoint, FilePark, Park, arm, arm_from_environment, raising, reach

SOURCE = Path(omnigraph.__file__).parent
POINT = Failpoint.PUBLISH_BEFORE_CREATE


def reach_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name == "reach":
                yield node


def named_point(call: ast.Call) -> str | None:
    """The member that a `reach(...)` names, or nothing when its argument is anything else than `Failpoint.X`."""
    match call:
        case ast.Call(args=[ast.Attribute(value=ast.Name(id="Failpoint"), attr=name)], keywords=[]):
            return name if name in Failpoint.__members__ else None
    return None


def source_points() -> Iterator[tuple[str, str | None]]:
    """(place, member) of every `reach` in the source."""
    for file in sorted(SOURCE.rglob("*.py")):
        for call in reach_calls(ast.parse(file.read_text())):
            yield f"{file.relative_to(SOURCE)}:{call.lineno}", named_point(call)


def test_every_point_in_the_source_is_on_the_list() -> None:
    assert [place for place, point in source_points() if point is None] == []


def test_every_point_on_the_list_is_in_the_source() -> None:
    assert set(Failpoint.__members__) - {point for _, point in source_points()} == set()


@pytest.mark.parametrize(
    ("code", "point"),
    [
        ("reach(Failpoint.PUBLISH_BEFORE_CREATE)", "PUBLISH_BEFORE_CREATE"),
        ("failpoints.reach(Failpoint.PUBLISH_BEFORE_ACK)", "PUBLISH_BEFORE_ACK"),
        ("reach('publish.before_create')", None),
        ("reach(Failpoint.NEVER_HEARD_OF)", None),
        ("reach(point)", None),
        ("reach()", None),
    ],
)
def test_the_walk_tells_a_named_point_from_anything_else(code: str, point: str | None) -> None:
    (call,) = reach_calls(ast.parse(code))
    assert named_point(call) == point


def test_names_are_room_and_place() -> None:
    for point in Failpoint:
        assert point.value == point.name.lower().replace("_", ".", 1)


def test_nothing_happens_at_a_point_that_is_not_armed() -> None:
    for point in Failpoint:
        reach(point)
    arm(POINT, raising(RuntimeError("here")))
    reach(Failpoint.PUBLISH_AFTER_CREATE)
    failpoints.disarm_all()
    reach(POINT)


def test_raise_at_the_nth_time_and_only_then() -> None:
    arm(POINT, raising(RuntimeError("here")), nth=3)
    reach(POINT)
    reach(POINT)
    with pytest.raises(RuntimeError, match="here"):
        reach(POINT)
    reach(POINT)


def test_park_holds_the_thread_until_it_is_released() -> None:
    park = Park()
    arm(POINT, park)
    done = threading.Event()

    def program() -> None:
        reach(POINT)
        done.set()

    thread = threading.Thread(target=program)
    thread.start()
    park.wait_until_reached()
    assert not done.is_set()
    park.release()
    thread.join(timeout=120)
    assert done.is_set()


def test_waiting_for_a_point_that_is_not_reached_ends() -> None:
    with pytest.raises(TimeoutError):
        Park().wait_until_reached(timeout_seconds=0.01)


PROGRAM = """
from omnigraph.testing.failpoints import Failpoint, reach
print("before", flush=True)
reach(Failpoint.PUBLISH_BEFORE_CREATE)
print("between", flush=True)
reach(Failpoint.PUBLISH_BEFORE_CREATE)
print("after", flush=True)
"""


def child(armed: str) -> subprocess.Popen[str]:
    environment = os.environ | {failpoints.ENVIRONMENT: armed}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("armed", "printed"),
    [
        ("publish.before_create=kill", "before\n"),
        ("publish.before_create=kill@2", "before\nbetween\n"),
        ("table.staged_data=raise; publish.before_create=kill", "before\n"),
    ],
)
def test_a_child_process_is_killed_where_the_environment_says(armed: str, printed: str) -> None:
    process = child(armed)
    assert process.communicate(timeout=120)[0] == printed
    assert process.returncode == -signal.SIGKILL


def test_a_child_process_raises_where_the_environment_says() -> None:
    process = child("publish.before_create=raise")
    printed, errors = process.communicate(timeout=120)
    assert printed == "before\n"
    assert "FailpointReached" in errors


def test_a_child_process_parks_until_the_file_says_go(tmp_path: Path) -> None:
    process = child(f"publish.before_create=park:{tmp_path}/p")
    park = FilePark(tmp_path / "p")
    park.wait_until_reached()
    assert process.poll() is None
    park.release()
    assert process.communicate(timeout=120)[0] == "before\nbetween\nafter\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    "text", ["publish.never=kill", "publish.before_create", "publish.before_create=explode", "publish.before_create=park",
             "publish.before_create=kill@soon"]
)  # fmt: skip
def test_an_unknown_point_or_action_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        arm_from_environment(text)


def test_an_unknown_point_cannot_be_armed() -> None:
    with pytest.raises(ValueError, match="never"):
        arm("publish.never", raising(RuntimeError()))  # type: ignore[arg-type] # what is tested
