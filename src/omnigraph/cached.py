"""Properties of immutable values that are computed once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # named like the original
        """As in Python 3.12. The one of Python 3.11 computes every value under a lock shared by all objects of a class; here, two
        threads may compute the same value, and one of the results stays."""

        def __init__(self, compute: Any) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self._compute(instance)
            object.__setattr__(
                instance, self._name, value
            )  # `instance.__dict__` would create a dictionary for each instance.
            return value


__all__ = ["cached_property"]
