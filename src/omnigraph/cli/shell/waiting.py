"""Waiting for work that Ctrl-C may end: the work, never the shell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from omnigraph.cli.interruption import Terminated

Answer = TypeVar("Answer")


class Abandoned(Exception):
    """Somebody did not want to wait any longer. The work goes on until it ends by itself, and its answer is thrown away."""


def wait_for(work: Callable[[], Answer], on_interrupt: Callable[[], None]) -> Answer:
    """The answer of some work, which is done in a thread of its own: an interrupt must not fall into the middle of it.

    The first Ctrl-C calls `on_interrupt`, which asks the work to end; the second, or one that it raises itself, is Abandoned.
    """
    outcome: Future[Answer] = Future()

    def run() -> None:
        try:
            answer = work()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(answer)

    threading.Thread(target=run, daemon=True).start()
    try:
        _ended(outcome)
    except Terminated:
        raise
    except KeyboardInterrupt:
        try:
            on_interrupt()
            _ended(outcome)
        except KeyboardInterrupt:
            raise Abandoned from None
    return outcome.result()


def _ended(outcome: Future[Answer]) -> None:
    """Waits for the end, whatever it is: an interrupt of this thread is not to be taken for one of the work."""
    ended = threading.Event()
    outcome.add_done_callback(lambda _: ended.set())
    ended.wait()
