"""Rows: Lance tables at pinned versions. Every write is staged as a version that is invisible until a commit names it.

The only package that imports Lance. A table's own latest version stays empty for ever; nothing here moves it.
"""
