"""Checks of arguments where they enter the library: one of the wrong type is a UsageError that names it.

The types are read from the annotations. One that is not in `_KINDS`, such as an engine, is checked where it is used, and so is
the value of a load mode, a format or a strategy.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from omnigraph.errors import UsageError
from omnigraph.history.history import History
from omnigraph.history.values import Entry
from omnigraph.storage.os_errors import raise_out_of_files

# How far apart two revisions are, in commits.


@dataclass(frozen=True)
class Distance:
    """How many commits one revision has that another does not have, and the reverse.

    >>> assert g.distance("main", "main~1") == og.types.Distance(ahead=1, behind=0)
    """

    ahead: int
    behind: int


def distance_between(history: History, a: Entry, b: Entry) -> Distance:
    """The commits that only the head of `a` reaches, and those that only the head of `b` does."""
    lineage = history.lineage
    return Distance(
        lineage.missed(a, [lineage.reached(b.ancestry)]),
        lineage.missed(b, [lineage.reached(a.ancestry)]),
    )


F = TypeVar("F", bound=Callable[..., Any])
ArgumentCheck = Callable[[Any], Any]
MAX_INTEGER = 2**63 - 1
_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "None": ("None", lambda value: value is None),
    "str": ("text", lambda value: isinstance(value, str)),
    "Path": ("a path", lambda value: isinstance(value, Path)),
    "int": ("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "float": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "dt.timedelta": ("a time span", lambda value: isinstance(value, dt.timedelta)),
    "dt.datetime": ("a datetime", lambda value: isinstance(value, dt.datetime)),
    "IO[bytes]": ("a binary stream", lambda value: callable(getattr(value, "write", None))),
    "Mapping[str, str]": ("a mapping by names", lambda value: _has_names(value)),
    "Mapping[str, object]": ("a mapping by names", lambda value: _has_names(value)),
    "Iterable[str]": ("a list of texts", lambda value: isinstance(value, Iterable) and not isinstance(value, str)),
    "Sequence[str]": ("a list of texts", lambda value: isinstance(value, Iterable) and not isinstance(value, str)),
}


def _has_names(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


_KINDS.update(
    dict.fromkeys(
        [
            "LoadMode",
            "Missing",
            "FileFormat",
            "StreamFormat",
            "Durability",
            "Verify",
            "Lost",
            "Strategy",
            "By",
            "Which",
        ],
        _KINDS["str"],
    )
)
_LISTS = frozenset(["Iterable[str]", "Sequence[str]"])


def checked(function: F) -> F:
    """The function, with its arguments checked before it is called."""
    check = argument_checks(function)

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*check(arguments, options), **options)
        except BaseException as error:
            raise_out_of_files(error)
            raise

    return cast(F, call)


def argument_checks(
    function: Callable[..., Any], *, is_method: bool = False
) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]:
    """A function that checks the arguments of a call (of a method: without `self`). It returns the positional ones and replaces
    keyword arguments in place."""

    @functools.cache
    def checks() -> tuple[list[ArgumentCheck | None], dict[str, ArgumentCheck | None]]:
        parameters = list(inspect.signature(function).parameters.values())[is_method:]
        # A keyword may have the name of a positional-only parameter: a property called `id`.
        named = {p.name: _check_of(p) for p in parameters if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
        return [_check_of(parameter) for parameter in parameters], named

    def check(arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        positional, named = checks()
        for name, value in options.items():
            if (check := named.get(name)) is not None:
                options[name] = check(value)
        if not arguments or len(arguments) > len(positional):
            return arguments
        return tuple(
            [value if check is None else check(value) for check, value in zip(positional, arguments, strict=False)]
        )

    return check


def _check_of(parameter: inspect.Parameter) -> ArgumentCheck | None:
    kinds = str(parameter.annotation).split(" | ")
    if any(kind not in _KINDS for kind in kinds):
        return None
    is_list = not _LISTS.isdisjoint(kinds)
    takes_text = any(_KINDS[kind][1]("") for kind in kinds)
    # A query or a schema may be given as text, in which any character is allowed.
    is_path = "Path" in kinds and parameter.name not in ("gq", "schema")

    def check(value: Any) -> Any:
        if takes_text and type(value) is str and not is_path and value.isascii():
            return value
        if not any(_KINDS[kind][1](value) for kind in kinds):
            raise _unfit(parameter.name, kinds, value)
        if isinstance(value, str | Path):
            check_text(parameter.name, str(value), is_path=is_path)
        elif isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise UsageError(f"{_shown(parameter.name)} is beyond 64 bits")
        elif is_list and value is not None:
            return _texts(parameter.name, kinds, value)
        return value

    return check


def _texts(name: str, kinds: list[str], values: Iterable[object]) -> list[str]:
    texts: list[str] = []
    for value in values:
        if not isinstance(value, str):
            raise UsageError(f"{_shown(name)} must be {_wanted(kinds)}, got {type(value).__name__} in it")
        texts.append(check_text(name, value))
    return texts


def check_text(name: str, text: str, *, is_path: bool = False) -> str:
    """UsageError if the text cannot be encoded in UTF-8, or is a path that contains a NUL character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"{_shown(name)} cannot be encoded in UTF-8: character {error.start + 1} is half of a surrogate pair"
        raise UsageError(message) from None
    if is_path and "\0" in text:
        raise UsageError(f"{_shown(name)} contains a NUL character")
    return text


def _unfit(name: str, kinds: list[str], value: object) -> UsageError:
    return UsageError(f"{_shown(name)} must be {_wanted(kinds)}, got {type(value).__name__}")


def _wanted(kinds: list[str]) -> str:
    return " or ".join(dict.fromkeys(_KINDS[kind][0] for kind in kinds if kind != "None"))


def _shown(name: str) -> str:
    return f"the {name}" if name in ("actor", "message") else f"'{name}'"
