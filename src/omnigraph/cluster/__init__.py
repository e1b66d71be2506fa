"""Clusters: a folder declares the graphs, schemas, stored queries and policies that there should be; a ledger records those that
were applied."""
