"""What can be set about the tasks of a load, under names that Spark's configuration takes.

In a session they may stand wherever its other settings do; without Spark they are given to the load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.omnigraph."
SPLIT_BYTES = f"{PREFIX}splitBytes"
PARALLELISM = f"{PREFIX}parallelism"
TASK_MEMORY = f"{PREFIX}taskMemory"
NAMES = (SPLIT_BYTES, PARALLELISM, TASK_MEMORY)

MIN_TASK_MEMORY_BYTES = 64 * 1024 * 1024
HELD_SHARE = 4
"""Of its memory a task fills this part with rows before it writes them: while it sorts and encodes them it holds them twice more."""
CHECKED_VALUE_BYTES = 128
"""What a value takes that a rule compares, with the tables in which it is looked up."""

_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_AMOUNT = re.compile(r"(\d+)\s*([bkmgt]?)b?", re.IGNORECASE)


@dataclass(frozen=True)
class TaskSettings:
    """None: as was found to be good."""

    split_bytes: int | None = None
    """Input that one task reads."""
    parallelism: int | None = None
    """How many tasks run at once."""
    task_memory_bytes: int | None = None
    """What a task may take for the rows it works on."""

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> TaskSettings:
        """UsageError for a name that is not one of ours below our prefix, and for what is not an amount."""
        for name in conf:
            if not name.startswith("spark."):
                raise UsageError(
                    f"'{name}' is not a setting", hint=f"settings of Spark begin with spark.; ours are {_listed()}"
                )
            if name.startswith(PREFIX) and name not in NAMES:
                raise UsageError(f"there is no setting '{name}'", hint=f"the settings are {_listed()}")
        memory = _amount(conf, TASK_MEMORY)
        if memory is not None and memory < MIN_TASK_MEMORY_BYTES:
            raise UsageError(f"{TASK_MEMORY} is {conf[TASK_MEMORY]}, which is too little", hint="64m is the least")
        return cls(_amount(conf, SPLIT_BYTES), _amount(conf, PARALLELISM), memory)

    def held_bytes(self, otherwise: int) -> int:
        """Typed rows that a task holds before it writes some."""
        return otherwise if self.task_memory_bytes is None else self.task_memory_bytes // HELD_SHARE

    def checked_values(self, otherwise: int) -> int:
        """Values that a task compares at once."""
        return otherwise if self.task_memory_bytes is None else self.task_memory_bytes // CHECKED_VALUE_BYTES


AS_FOUND_GOOD = TaskSettings()


def settings_of_session(session: SparkSession, conf: Mapping[str, str]) -> TaskSettings:
    """What was given to the load, and otherwise what the session says."""
    settings = {name: value for name in NAMES if (value := session.conf.get(name, None)) is not None}
    return TaskSettings.of({**settings, **conf})


def _amount(conf: Mapping[str, str], name: str) -> int | None:
    text = conf.get(name)
    if text is None:
        return None
    match = _AMOUNT.fullmatch(text.strip())
    amount = 0 if match is None else int(match[1]) * _UNITS[match[2].lower()]
    if amount < 1:
        raise UsageError(f"{name} cannot be '{text}'", hint="give a whole number, of bytes also like 64m or 1g")
    return amount


def _listed() -> str:
    return ", ".join(NAMES)
