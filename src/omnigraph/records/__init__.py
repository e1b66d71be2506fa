"""Records: data from outside (JSON values, Python values) as typed rows of a table. Pure; shared by every way in."""

from omnigraph.records.rows import SYSTEM_FIELDS, edge_row, node_row, property_value

__all__ = ["SYSTEM_FIELDS", "edge_row", "node_row", "property_value"]
