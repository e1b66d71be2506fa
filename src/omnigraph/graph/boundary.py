"""Where calls enter and leave the library: arguments are checked, the policy is asked, and what failed because a stored file is damaged fails as
Damaged, with the file's name.

Lance, Arrow and DuckDB say of a damaged table whatever they stumbled over. So when one of them fails, the files that this graph
has read are looked at.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from omnigraph.errors import OmnigraphError, PipelineFailed, StoragePermanent
from omnigraph.graph.access import asking, asking_property
from omnigraph.graph.arguments import checked
from omnigraph.views import Repository

C = TypeVar("C", bound=type)


def names_damage(public: C) -> C:
    """Of a class whose objects have a `_repository`, a `_caller` and `_asks`: every public method, and every stream that it gives."""
    for name, member in list(vars(public).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(public, name, _guarded(member))
        elif isinstance(member, property) and not name.startswith("_"):
            setattr(public, name, asking_property(name, member))
    return public


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    run = checked(asking(method))

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            result = run(self, *arguments, **options)
        except BaseException as error:
            _raise_damage(self._repository, error)
            raise
        return _watched(self._repository, result) if inspect.isgenerator(result) else result

    return call


def _watched(repository: Repository, stream: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from stream
    except BaseException as error:
        _raise_damage(repository, error)
        raise


def _raise_damage(repository: Repository, error: BaseException) -> None:
    """Raise Damaged when a file is to blame for an error that nobody raised on purpose, HistoryGap when cleanup took it."""
    ours = isinstance(error, OmnigraphError) and not isinstance(error, StoragePermanent | PipelineFailed)
    # A panic in Lance is no Exception.
    if ours or not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
        return
    damage = repository.damage()
    if damage is not None:
        raise damage from error
