"""Bulk work: load, export, and Spark. Tasks do column work on Arrow; Spark distributes and retries them.

The only package that imports PySpark. Every step also runs in process (`engine="local"`), by the same functions.
"""
