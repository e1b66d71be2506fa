"""The data pipeline on Spark: load, export, the data source. Tasks do column work on Arrow; Spark spreads and retries them.

The only room that imports PySpark. Every step also runs in process (`engine="local"`), by the same functions.
"""
