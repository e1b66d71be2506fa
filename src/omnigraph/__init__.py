"""OmniGraph: a typed property-graph database that works like Git, with its data pipeline on Spark.

import omnigraph as og

g = og.init("./people", schema="node Person { name: String @key }")
g.mutate('query add($n: String) { insert Person { name: $n } }', {"n": "Ada"})
"""

from omnigraph import errors
from omnigraph.graph import Graph, init, open

__all__ = ["Graph", "errors", "init", "open"]
