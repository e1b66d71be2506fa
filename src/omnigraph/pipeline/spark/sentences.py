"""Errors of the data source as a user of Spark meets them: one sentence."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from omnigraph.errors import OmnigraphError, RejectedRecords

Method = TypeVar("Method", bound=Callable[..., Any])
Item = TypeVar("Item")


def in_one_sentence(method: Method) -> Method:
    """For methods that Spark calls in a Python worker: an error of ours reaches the user as a sentence, without the
    tracebacks of the worker. The worker ends with it, so nobody else's tracebacks are lost."""

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except OmnigraphError as error:
            raise _as_sentence(error) from None

    return call  # type: ignore[return-value]


def items_in_one_sentence(items: Iterator[Item]) -> Iterator[Item]:
    """The same for what a worker takes item by item."""
    try:
        yield from items
    except OmnigraphError as error:
        raise _as_sentence(error) from None


def _as_sentence(error: OmnigraphError) -> OmnigraphError:
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    if isinstance(error, RejectedRecords):  # whose hint is about another way to load
        error.hint = None
    return error
