"""OmniGraph: a typed property-graph database that works like Git, with its data pipeline on Spark.

    import omnigraph as og

    g = og.init("./people", schema="node Person { name: String @key }")
    g.mutate("query add($n: String) { insert Person { name: $n } }", {"n": "Ada"})
    g.query("query all() { match { $p: Person } return { $p.name } }").rows

Importing the package is cheap: the engines load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes
from omnigraph.version import VERSION as __version__

if TYPE_CHECKING:
    from omnigraph import errors, spark, types
    from omnigraph._internal.deadlines import Cancellation
    from omnigraph._internal.runtime import Runtime
    from omnigraph.client.graph import RemoteGraph, connect
    from omnigraph.graph import (
        Graph,
        GraphSnapshot,
        Transaction,
        clone,
        import_data,
        infer_schema,
        init,
        lint,
        lint_schema,
        open,
    )
    from omnigraph.merge import NO_VALUE, Resolution
    from omnigraph.policy import AccessRequest, Authorizer, Decision, Policy, load_policy

_EXPORTS = {
    "omnigraph": (
        "errors",
        "spark",
        "types",
    ),
    "omnigraph._internal.deadlines": ("Cancellation",),
    "omnigraph._internal.runtime": ("Runtime",),
    "omnigraph.client.graph": (
        "RemoteGraph",
        "connect",
    ),
    "omnigraph.graph": (
        "Graph",
        "GraphSnapshot",
        "Transaction",
        "clone",
        "import_data",
        "infer_schema",
        "init",
        "lint",
        "lint_schema",
        "open",
    ),
    "omnigraph.merge": (
        "NO_VALUE",
        "Resolution",
    ),
    "omnigraph.policy": (
        "AccessRequest",
        "Authorizer",
        "Decision",
        "Policy",
        "load_policy",
    ),
}

__all__ = [
    "NO_VALUE",
    "AccessRequest",
    "Authorizer",
    "Cancellation",
    "Decision",
    "Graph",
    "GraphSnapshot",
    "Policy",
    "RemoteGraph",
    "Resolution",
    "Runtime",
    "Transaction",
    "__version__",
    "clone",
    "connect",
    "errors",
    "import_data",
    "infer_schema",
    "init",
    "lint",
    "lint_schema",
    "load_policy",
    "open",
    "spark",
    "types",
]


__getattr__ = lazy_attributes("omnigraph", _EXPORTS)


def __dir__() -> list[str]:
    return sorted(__all__)
