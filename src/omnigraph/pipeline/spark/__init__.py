"""Spark itself: Java and the session, its tasks, types of a graph as DataFrames, queries, and the data source."""
