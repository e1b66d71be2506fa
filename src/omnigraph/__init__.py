"""OmniGraph: a typed property-graph database that works like Git, with its data pipeline on Spark.

    import omnigraph as og

    g = og.init("./people", schema="node Person { name: String @key }")
    g.mutate("query add($n: String) { insert Person { name: $n } }", {"n": "Ada"})
    g.query("query all() { match { $p: Person } return { $p.name } }").rows

Importing the package is cheap: the engines load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph import errors
    from omnigraph.graph import Graph, Transaction, init, open
    from omnigraph.write import Receipt

_HOMES = {
    "Graph": "omnigraph.graph",
    "Receipt": "omnigraph.write",
    "Transaction": "omnigraph.graph",
    "errors": "omnigraph.errors",
    "init": "omnigraph.graph",
    "open": "omnigraph.graph",
}

__all__ = ["Graph", "Receipt", "Transaction", "errors", "init", "open"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'omnigraph' has no attribute '{name}'")
    module = import_module(_HOMES[name])
    return module if name == "errors" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
