"""Where calls enter and leave the library: arguments are checked, the policy is asked, and a call that fails because of a damaged
file raises Damaged with the file's name. Where no more files may be open, the error says so.

Lance, Arrow and DuckDB report damage in many ways. So when one of them fails, the files of the tables that were opened last are
checked.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any, TypeVar

from omnigraph.errors import OmnigraphError, PipelineFailed, StoragePermanent
from omnigraph.graph.access import asking, asking_property
from omnigraph.graph.arguments import argument_checks
from omnigraph.storage.os_errors import raise_out_of_files
from omnigraph.views import Repository

C = TypeVar("C", bound=type)


def names_damage(public: C) -> C:
    """Decorates a class whose objects have `_repository`, `_caller` and `_asks`: its public methods and properties, and the
    streams that they return."""
    for name, member in list(vars(public).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(public, name, _guarded(member))
        elif isinstance(member, property) and not name.startswith("_"):
            setattr(public, name, asking_property(name, member))
    return public


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    check, admitted = argument_checks(method, is_method=True), asking(method)

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            if arguments or options:
                arguments = check(arguments, options)
            if self._caller is not None:
                arguments, options = admitted(self, *arguments, **options)
            result = method(self, *arguments, **options)
        except BaseException as error:
            _raise_damage(self._repository, error)
            raise
        return _watched(self._repository, result) if type(result) is GeneratorType else result

    return call


def _watched(repository: Repository, stream: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from stream
    except BaseException as error:
        _raise_damage(repository, error)
        raise


def _raise_damage(repository: Repository, error: BaseException) -> None:
    """Raise Damaged if a file is the cause of an error that is not one of ours, HistoryGap if cleanup has removed it."""
    raise_out_of_files(error)
    ours = isinstance(error, OmnigraphError) and not isinstance(error, StoragePermanent | PipelineFailed)
    # A panic in Lance is a BaseException.
    if ours or not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
        return
    damage = repository.damage()
    if damage is not None:
        raise damage from error
