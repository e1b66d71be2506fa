"""Waiting for work that Ctrl-C may cancel, without ending the shell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from omnigraph.cli.interruption import Terminated

Answer = TypeVar("Answer")


class Abandoned(Exception):
    """The user did not want to wait any longer. The work continues until it ends, and its result is discarded."""


def wait_for(work: Callable[[], Answer], on_interrupt: Callable[[], None]) -> Answer:
    """The result of `work`, which runs in a separate thread, so that an interrupt does not hit it in the middle.

    The first Ctrl-C calls `on_interrupt`, which asks the work to end; a second one, or a KeyboardInterrupt from `on_interrupt`,
    raises Abandoned.
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
    """Wait for the end without raising the error of the work: a KeyboardInterrupt here is one of this thread."""
    ended = threading.Event()
    outcome.add_done_callback(lambda _: ended.set())
    ended.wait()
