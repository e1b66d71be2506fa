"""The times of retention, shortened: hours pass in seconds. Every process of a graph must use the same."""

from __future__ import annotations

import importlib

WINDOW_S = 1.5
TIMES = {
    "PROBE_WINDOW_S": WINDOW_S,
    "GRACE_S": 6 * WINDOW_S,
    "RENEWAL_S": WINDOW_S / 2,
    "CLOCK_MARGIN_S": WINDOW_S / 10,
}
MODULES = (
    "omnigraph.history.chain",
    "omnigraph.history.branches",
    "omnigraph.history.retention",
    "omnigraph.history.retention",
    "omnigraph.maintenance.cleanup",
    "omnigraph.load.explaining",
)


def shorten() -> None:
    for name in MODULES:
        module = importlib.import_module(name)
        for constant, value in TIMES.items():
            if hasattr(module, constant):
                setattr(module, constant, value)
