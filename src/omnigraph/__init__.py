"""OmniGraph: a typed property-graph database that works like Git, with its data pipeline on Spark."""
