"""The memory of a Python worker of Spark between two tasks."""

from __future__ import annotations

import gc
import sys

_modules_frozen = 0


def freeze_loaded_modules() -> None:
    """Called in a worker at the end of a task. Spark collects garbage after every task, and a collection that looks at Lance, DuckDB,
    pandas and us takes longer than a small task: what is loaded for good is looked at no more."""
    global _modules_frozen
    if len(sys.modules) != _modules_frozen:
        _modules_frozen = len(sys.modules)
        gc.collect()
        gc.freeze()
